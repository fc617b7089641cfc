"""The buckets: which one holds a guild, scripts and searches in it, and what changed there.

A bucket is a slot of keys with an index, a stream of messages that wait for their vector, and a stream of changes. It
is created before its first use, and again if something of it was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from redis.asyncio import Redis

from channelmem.errors import (
    CommandRefusedError,
    DamagedDataError,
    IndexMismatchError,
    RedisUnavailableError,
    RedisUnsuitableError,
)
from channelmem.policy.policy import Policy
from channelmem.settings import Settings
from channelmem.store.cluster import Cluster
from channelmem.store.index import (
    SCHEMA_VERSION,
    Completeness,
    as_built,
    check_meta,
    create_command,
    index_lost,
    make_schema,
    noted,
    serving,
    shape,
    vector_field,
)
from channelmem.store.keys import GROUP, Keys, keys_of
from channelmem.store.outbox import Undelivered
from channelmem.store.redis import command, is_full, pipelined, reads
from channelmem.store.scripts import Everywhere, run_in_all, run_script

log = logging.getLogger(__name__)

REBUILT = (
    "The index was rebuilt for another embedding model while this process was running. "
    "Restart it with that model, or run: channelmem reindex"
)

T = TypeVar("T")
POLL_S = 0.02
VERSION = object()
"""Among a script's arguments: stands for the version of the bucket's vector field when the script runs."""

_FEEDING = {"apply", "enrich", "describe", "requeue"}
"""Scripts that put messages on the stream. `renew` does, too, but a reindex runs it, and tells no worker."""

_RESHAPED = (
    "The vector index was built as %s, the settings say %s. It keeps working; to rebuild it run: channelmem reindex"
)


class Bucket(NamedTuple):
    """A bucket that was created and checked."""

    number: int
    keys: Keys
    version: int
    """Of the vector field; a reindex raises it."""
    vector_field: str
    optout: str
    """The keys that every view reads."""
    changes: str
    owner: object
    """The node of a cluster that served it then."""


def bucket_of(guild_id: int, count: int) -> int:
    """The low 22 bits of a snowflake are worker and sequence numbers; the time above them spreads evenly."""
    return (guild_id >> 22) % count


# --- changes ---


KEPT = 1_000
"""As in lib/common.lua. A process that missed more than these lets go of all its copies."""
EVERYTHING = "everything"
MESSAGES = "messages"
SETTINGS = "settings"
UNKNOWN = b"?"
"""In place of the newest change where the stream is damaged: anything may have changed (so says lib/common.lua, too).
The next change that a script notes replaces the stream."""


class Changes:
    """What this process must follow in the copies that it keeps.

    The scripts note removals, decisions and settings in a stream per bucket, and announce that. Announcements can get
    lost, so nothing depends on them: whoever answers from a copy reads messages too, every such read brings the newest
    change along, and that says whether the copy is old."""

    def __init__(self, redis: Redis, keys_of: Callable[[int], Keys]) -> None:
        self._redis, self._keys_of = redis, keys_of
        self.on_removal: Callable[[str, str], None] = lambda _kind, _what: None
        """Told of a person, room, guild or messages; or of everything, if it is unknown what was removed."""
        self.on_setting: Callable[[int, str], Awaitable[None]] | None = None
        self._followed: dict[int, bytes] = {}
        """By bucket, the last change that the copies have followed."""
        self._newest: dict[int, bytes] = {}
        """By bucket, the newest one that was seen."""
        self._looks: Counter[int] = Counter()
        """By bucket, how often messages or people were read. Of others this process keeps nothing."""

    def saw(self, bucket: int, newest: bytes) -> None:
        """What a read came with; empty if there was never a change."""
        self._newest[bucket] = newest
        self._looks[bucket] += 1

    def saw_all(self, newest: Iterable[bytes]) -> None:
        """The newest change of every bucket, without a read."""
        self._newest = dict(enumerate(newest))

    def begin(self) -> None:
        """Before this process keeps anything: there is nothing to follow of what was seen so far."""
        self._followed |= self._newest

    async def heard(self, bucket: int, kind: str) -> None:
        """An announcement. Somebody who opts out everywhere is announced in every bucket of a cluster."""
        if kind == SETTINGS or self.looks(bucket):
            await self.follow(bucket)

    def looks(self, bucket: int) -> int:
        return self._looks[bucket]

    async def look(self, bucket: int) -> None:
        key = self._keys_of(bucket).one("changes")
        (reply,) = await pipelined(self._redis, [("XREVRANGE", key, "+", "-", "COUNT", 1)], raise_first=False)
        self.saw(bucket, newest_of(reply))

    async def catch_up_all(self) -> None:
        """In every bucket of which this process keeps something."""
        for bucket in list(self._looks):
            await self.catch_up(bucket)

    async def catch_up(self, bucket: int) -> bool:
        """Follows what was seen of a bucket; whether that changed more than single messages."""
        newest = self._newest.get(bucket, b"")
        return self._followed.get(bucket, b"") != newest and await self.follow(bucket)

    async def follow(self, bucket: int) -> bool:
        """The same for whatever is new. If it can't be read, all copies go."""
        try:
            newest, changes = await self._since(self._followed.get(bucket, b""), bucket)
            for kind, what in changes:
                if kind in {SETTINGS, EVERYTHING} and self.on_setting is not None:
                    await self.on_setting(bucket, what)
                if kind != SETTINGS:
                    self.on_removal(kind, what)
        except (ValueError, LookupError):  # an entry that none of ours wrote
            self.on_removal(EVERYTHING, "")
        except RedisUnavailableError:
            self._followed.pop(bucket, None)
            self.on_removal(EVERYTHING, "")
            return True
        self._followed[bucket] = newest
        return any(kind != MESSAGES for kind, _ in changes)

    @reads
    async def _since(self, last: bytes, bucket: int) -> tuple[bytes, list[tuple[str, str]]]:
        """The newest change, and kind and object of those to follow, oldest first."""
        start = b"-" if last in {b"", UNKNOWN} else last
        try:
            entries: Any = await self._redis.xrange(self._keys_of(bucket).one("changes"), start, b"+")
        except DamagedDataError:
            return UNKNOWN, [(EVERYTHING, "")]
        newest = entries[-1][0] if entries else b""
        if len(entries) >= KEPT or (last and (not entries or entries[0][0] != last)):  # some are no longer there
            return newest, [(EVERYTHING, "")]
        new = entries[1:] if last else entries
        return newest, [(kind.decode(), what.decode()) for _, entry in new for kind, what in entry.items()]


def newest_of(reply: Any) -> bytes:
    """What XREVRANGE with COUNT 1 replied; also an error, if the stream is damaged."""
    if isinstance(reply, DamagedDataError):
        return UNKNOWN
    if isinstance(reply, Exception):
        raise reply
    newest: bytes = reply[0][0] if reply else b""
    return newest


# --- buckets ---


class Buckets:
    """All buckets of one Redis, for one model."""

    def __init__(
        self, redis: Redis, settings: Settings, *, dims: int, identity: str, clock: Callable[[], float]
    ) -> None:
        self.redis = redis
        self.settings = settings
        self.policy = Policy.of_settings(settings)
        """The default, for calls that name no policy."""
        self.dims = dims
        self.identity = identity
        self.clock = clock
        self.all = range(settings.buckets)
        self.healed = 0
        """How often something lost was recreated."""
        self.undelivered = Undelivered()
        self._keys = [keys_of(settings.key_prefix, bucket) for bucket in self.all]
        self.changes = Changes(redis, self.keys)
        self.everywhere = Everywhere(redis, settings.key_prefix, settings.buckets)
        self.fed: set[int] = set()
        """Buckets on whose stream this process put something, until a worker of this process has seen it."""
        self.feeding = asyncio.Event()
        self._ready: dict[int, Bucket] = {}
        self._completeness = Completeness(redis)
        self._arrived: set[int] = set()
        """Buckets of a cluster whose index may not have read all documents: another node serves them now, or this
        process has just met them and cannot know when they moved."""
        self._creating = asyncio.Lock()
        self._failures = 0

    def bucket(self, guild_id: int) -> int:
        return bucket_of(guild_id, len(self.all))

    def keys(self, bucket: int) -> Keys:
        return self._keys[bucket]

    def guild_keys(self, guild_id: int) -> Keys:
        """The keys of the guild's bucket."""
        return self._keys[self.bucket(guild_id)]

    def moment(self) -> list[str]:
        """The time of a decision, and how long its refused window is kept: nothing reaches further back."""
        return [repr(self.clock()), repr(self.settings.longest_s)]

    async def of(self, guild_id: int) -> Bucket:
        return await self.ready(self.bucket(guild_id))

    async def ready(self, bucket: int) -> Bucket:
        """The bucket, created before its first use; on a cluster again when another node serves it, because an index
        does not move with its documents."""
        if not self._is_ready(bucket):
            await self._create(bucket)
        return self._ready[bucket]

    def _is_ready(self, bucket: int) -> bool:
        return bucket in self._ready and self._ready[bucket].owner == self._owner(bucket)

    def _owner(self, bucket: int) -> object:
        """The node that serves a bucket of a cluster."""
        return self.redis.owner(self.keys(bucket).base) if isinstance(self.redis, Cluster) else None

    async def used(self) -> list[int]:
        """Buckets that were ever created: the others hold nothing."""
        return await self.where("EXISTS", "meta")

    async def where(self, name: str, *keys: str, partly: bool = False) -> list[int]:
        """Buckets where a command about one of these keys replies something else than 0. `partly` leaves out those of
        nodes that do not answer; otherwise they are an error."""
        if len(self.all) == 1:
            return [0]
        return sorted({bucket for key in keys for bucket in await self.everywhere.ask(name, key, partly=partly)})

    async def open(self) -> None:
        """Checks the first bucket against the settings; raises IndexMismatchError, which names the fix."""
        await self._create(0)

    async def run(self, name: str, bucket: int, arguments: Sequence[Any] = ()) -> Any:
        """Runs a script; recreates the bucket if its index was lost."""
        return await self.healing(bucket, lambda: self._call(name, bucket, arguments))

    async def run_for(self, guild_id: int, name: str, arguments: Sequence[Any] = ()) -> Any:
        """Runs a script in the guild's bucket."""
        return await self.run(name, self.bucket(guild_id), arguments)

    async def healing(self, bucket: int, attempt: Callable[[], Awaitable[T]]) -> T:
        """What an attempt returns; if it fails because the bucket's index was lost, that is recreated first."""
        try:
            return await attempt()
        except CommandRefusedError as error:
            if "CMVERSION" in str(error):
                await self.renew(bucket)
            elif index_lost(error):
                await self.heal(bucket)
            else:
                raise
        return await attempt()

    async def search(self, bucket: int, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """The replies to searches of a bucket's index, in one round trip."""
        return await self.healing(bucket, lambda: self._search(bucket, commands))

    async def _search(self, bucket: int, commands: Sequence[Sequence[Any]]) -> list[Any]:
        await self.ready(bucket)
        if bucket in self._arrived:
            await self._await_index(bucket)
        if not isinstance(self.redis, Cluster):
            return await pipelined(self.redis, commands)
        # An index stays behind when its documents move, and would find nothing. Not every build of the module redirects
        # searches, so a key that never exists is asked for after them: Redis answers with ASK or the new owner.
        owner = self._owner(bucket)
        *replies, _ = await pipelined(self.redis, [*commands, ("EXISTS", self.keys(bucket).base)])
        if self._owner(bucket) != owner:
            raise RedisUnavailableError("Another node has taken over during the search")
        return replies

    async def visit(self, name: str, bucket: int, arguments: Sequence[Any] = ()) -> Any:
        """Runs a script that asks for no version, in a bucket that may never have been created: it stays as it is."""
        (reply,) = await self.visit_all(name, [bucket], arguments)
        return reply

    async def visit_all(self, name: str, buckets: Sequence[int], arguments: Sequence[Any] = ()) -> list[Any]:
        """The same in many buckets, in one round trip per node."""
        replies = await run_in_all(self.redis, name, map(self.keys, buckets), arguments)
        for at, reply in enumerate(replies):
            if isinstance(reply, CommandRefusedError) and index_lost(reply):
                replies[at] = await self.run(name, buckets[at], arguments)
            elif isinstance(reply, Exception):
                raise reply
        return replies

    async def _call(self, name: str, bucket: int, arguments: Sequence[Any]) -> Any:
        ready = await self.ready(bucket)
        if bucket in self._arrived and name == "scope":  # a search of the index follows
            await self._await_index(bucket)
        values = [ready.version if one is VERSION else one for one in arguments]
        reply = await run_script(self.redis, name, ready.keys, values)
        if name in _FEEDING:
            self.fed.add(bucket)
            self.feeding.set()
        return reply

    async def renew(self, bucket: int) -> None:
        """For a vector field whose version this process does not know: a reindex ran, or everything was lost."""
        model = await self.redis.hmget(self.keys(bucket).one("meta"), ["model", "dims"])
        if any(model) and model != [self.identity.encode(), b"%d" % self.dims]:
            raise IndexMismatchError(REBUILT)
        await self.heal(bucket)

    async def heal(self, bucket: int) -> None:
        """Recreates what a bucket lacks of index, meta key and consumer group; keeps what is there."""
        self.healed += 1
        log.warning("Bucket %d lost its index or consumer group; recreating it", bucket)
        self._ready.pop(bucket, None)
        await self._create(bucket)

    async def indexed(self, bucket: int) -> bool:
        """Whether the index has read all documents; False for a while after it was recreated."""
        try:
            return await self._completeness.of(bucket, self.keys(bucket))
        except CommandRefusedError as error:
            if not index_lost(error):
                raise
        await self.heal(bucket)
        return False

    async def _await_index(self, bucket: int) -> None:
        """A search would find only a part, and "nobody said so" would be wrong. Few messages are read in a moment."""
        deadline = time.monotonic() + self.settings.redis_timeout_s / 4
        while not await self.indexed(bucket):
            if time.monotonic() > deadline:
                raise RedisUnavailableError("The index is being built on another node")
            await asyncio.sleep(POLL_S)
        self._arrived.discard(bucket)

    async def _create(self, bucket: int) -> None:
        failures = self._failures
        async with self._creating:
            if self._is_ready(bucket):
                return
            if self._failures > failures:  # while this one waited; one after the other, all would wait for long
                raise RedisUnavailableError("Redis does not answer")
            try:
                meta, is_new = await self._write_meta(bucket)
                version, owner = int(meta["version"]), self._owner(bucket)
                await self._create_missing(bucket, version, as_built(self.settings, meta))
            except RedisUnavailableError as error:
                self._failures += not isinstance(error, CommandRefusedError)
                raise
            keys, before = self.keys(bucket), self._ready.get(bucket)
            if isinstance(self.redis, Cluster) and not is_new and (before.owner if before else None) != owner:
                self._arrived.add(bucket)
            names = vector_field(version), keys.one("optout"), keys.one("changes")
            self._ready[bucket] = Bucket(bucket, keys, version, *names, owner)

    async def _write_meta(self, bucket: int) -> tuple[dict[str, str], bool]:
        """What is noted about the bucket, and whether nobody has used it before."""
        key = self.keys(bucket).one("meta")
        mine: dict[str, str | int] = {"schema": SCHEMA_VERSION, "buckets": self.settings.buckets}
        mine |= {"model": self.identity, "dims": self.dims}
        meta: Any = await self.redis.hgetall(key)
        is_new = b"version" not in meta
        if is_new:  # a full Redis rejects even a write that would change nothing
            async with self.redis.pipeline(transaction=True) as pipe:
                for name, value in {**mine, "version": 1}.items():
                    pipe.hsetnx(key, name, value)
                pipe.hgetall(key)
                meta = (await pipe.execute())[-1]
        found = {name.decode(): value.decode() for name, value in meta.items()}
        check_meta(found, {name: str(value) for name, value in mine.items()})
        wanted = shape(as_built(self.settings, found))
        if found.get("shape", wanted) != wanted:
            log.warning(_RESHAPED, found["shape"], wanted)
        return found, is_new

    async def _create_missing(self, bucket: int, version: int, settings: Settings) -> None:
        try:
            await self._create_index(bucket, version, settings)
            with already_there():
                # From the beginning: acknowledged entries are deleted, so whatever is on the stream still waits.
                await self.redis.xgroup_create(self.keys(bucket).one("ingest"), GROUP, id="0", mkstream=True)
        except RedisUnavailableError as error:
            if not is_full(error):
                raise
            # A full Redis rejects this even where everything exists. Whatever is really missing is healed when missed.
            log.warning("Redis is full: reads work, but nothing can be added")

    async def _create_index(self, bucket: int, version: int, settings: Settings) -> None:
        keys = self.keys(bucket)
        schema = make_schema(settings, keys, dims=self.dims, version=version)
        try:
            created = False
            with already_there():
                await command(self.redis, *create_command(schema))
                created = True
                await self.redis.hset(keys.one("meta"), "made", secrets.token_hex(8))
            with already_there():
                await command(self.redis, "FT.ALIASADD", keys.one("idx"), schema.index.name)
            # An interrupted reindex may have left another index serving.
            if created and await serving(self.redis, keys.one("idx")) == schema.index.name:
                await self.redis.hset(keys.one("meta"), mapping=noted(settings))
        except CommandRefusedError as error:
            if "unknown command" not in str(error).lower():
                raise
            raise RedisUnsuitableError(
                "This Redis has no search module. Use Redis Stack or Redis 8, or unset REDIS_URL "
                "to use the embedded server."
            ) from error


class InBuckets:
    """What reads and changes one kind of data in the buckets."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets


@contextlib.contextmanager
def already_there() -> Iterator[None]:
    """Two processes may create the same thing at once; the second one gets an error that does not matter."""
    try:
        yield
    except CommandRefusedError as error:
        text = str(error).lower()
        if "already exists" not in text and "busygroup" not in text:
            raise
