"""Completeness: whether an index has read all documents that it is about. In: a bucket. Out: yes, or not yet.

An index reads existing documents in the background after it was made: by a process that missed it, or by a server that
starts. FT.INFO knows how far it is, but blocks a large Redis for long. It is therefore asked rarely while an index
reads, and never again for the same making of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from redis import exceptions as redis_errors
from redis.asyncio import Redis

from channelmem.errors import IndexMismatchError, RedisUnavailableError, RedisUnsuitableError
from channelmem.policy.policy import Policy
from channelmem.settings import Settings
from channelmem.store.changes import Changes
from channelmem.store.cluster.everywhere import Everywhere
from channelmem.store.cluster.nodes import Cluster
from channelmem.store.index import (
    SCHEMA_VERSION,
    as_built,
    check_meta,
    create_command,
    make_schema,
    noted,
    shape,
    vector_field,
)
from channelmem.store.keys import GROUP, Keys, bucket_of, keys_of
from channelmem.store.outbox import Event, Undelivered, Withdrawn
from channelmem.store.redis import (
    UNREACHABLE,
    answered,
    check_damage,
    command,
    is_full,
    pipelined,
    run_in_all,
    run_script,
    unavailable,
)

LOOK_SHARE = 20
"""FT.INFO takes at most a twentieth of Redis' time while an index is awaited."""

Making = tuple[str, bytes | None]
"""The run of the server, and what the process that made the index noted."""


def index_lost(error: Exception) -> bool:
    """RediSearch words this in several ways."""
    text = str(error).lower()
    return "no such index" in text or "unknown index name" in text


async def indexed(redis: Redis, name: str) -> float:
    """The share of the existing documents that an index has read; 1 for all of them."""
    facts = await _facts(redis, name)
    return min(float(facts[b"percent_indexed"]), 0.99) if int(facts[b"indexing"]) else 1.0


async def serving(redis: Redis, alias: str) -> str:
    """The name of the index behind an alias."""
    name: bytes = (await _facts(redis, alias))[b"index_name"]
    return name.decode()


async def _facts(redis: Redis, name: str) -> dict[bytes, Any]:
    info = await answered(command(redis, "FT.INFO", name))
    return dict(zip(info[::2], info[1::2], strict=False))


class Completeness:
    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._complete: dict[int, Making] = {}
        """By bucket: which making of its index is known to have read everything."""
        self._next_look_s: dict[int, float] = {}

    async def of(self, bucket: int, keys: Keys) -> bool:
        making = await self._making(keys)
        if self._complete.get(bucket) == making:
            return True
        started = time.monotonic()
        if started < self._next_look_s.get(bucket, 0.0):
            return False
        complete = await indexed(self._redis, keys.one("idx")) == 1
        self._next_look_s[bucket] = started + (time.monotonic() - started) * LOOK_SHARE
        if complete:
            self._complete[bucket] = making
        return complete

    async def _making(self, keys: Keys) -> Making:
        node = self._redis
        if isinstance(node, Cluster):
            ((node, _),) = await answered(node.owned([keys.base])) or ((node, []),)
        server: Any = await answered(node.info("server"))
        made: Any = await answered(self._redis.hget(keys.one("meta"), "made"))
        return server["run_id"], made


# --- buckets ---


log = logging.getLogger(__name__)

REBUILT = (
    "The index was rebuilt for another embedding model while this process was running. "
    "Restart it with that model, or run: channelmem reindex"
)

T = TypeVar("T")
POLL_S = 0.02
VERSION = object()
"""Among a script's arguments: stands for the version of the bucket's vector field when the script runs."""

_SEARCHING = {"scope"}
"""Scripts before a search of the index."""

_FEEDING = {"apply", "enrich"}
"""Scripts that put messages on the stream."""

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
        self.waiting: Callable[[], Iterable[Event]] = tuple
        """What this process still has to deliver; the store's outbox, if there is one."""
        self._keys = [keys_of(settings.key_prefix, bucket) for bucket in self.all]
        self.changes = Changes(redis, self.keys)
        self.everywhere = Everywhere(redis, settings.key_prefix, settings.buckets)
        self.fed: set[int] = set()
        """Buckets on whose stream this process put something, until a worker of this process has seen it."""
        self.feeding = asyncio.Event()
        self._ready: dict[int, Bucket] = {}
        self._completeness = Completeness(redis)
        self._served_by: dict[int, object] = {}
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

    def withdrawn(self) -> Withdrawn:
        """What must not be shown although Redis may still hold it; to be asked for before Redis is read."""
        return Withdrawn(self.waiting(), self.undelivered.people())

    def moment(self) -> list[str]:
        """The time of a decision, and how long its refused window is kept: nothing reaches further back."""
        return [repr(self.clock()), repr(self.settings.longest_s)]

    async def ready(self, bucket: int) -> Bucket:
        """The bucket, created before its first use; on a cluster again when another node serves it, because an index
        does not move with its documents."""
        if not self._is_ready(bucket):
            await self._create(bucket)
        return self._ready[bucket]

    def _is_ready(self, bucket: int) -> bool:
        return bucket in self._ready and self._served_by[bucket] == self._owner(bucket)

    def _owner(self, bucket: int) -> object:
        """The node that serves a bucket of a cluster."""
        return self.redis.owner(self.keys(bucket).base) if isinstance(self.redis, Cluster) else None

    async def used(self) -> list[int]:
        """Buckets that were ever created: the others hold nothing."""
        return await self.where("EXISTS", "meta")

    async def is_used(self, bucket: int) -> bool:
        return bool(await answered(self.redis.exists(self.keys(bucket).one("meta"))))

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

    async def healing(self, bucket: int, attempt: Callable[[], Awaitable[T]]) -> T:
        """What an attempt returns; if it fails because the bucket's index was lost, that is recreated first."""
        try:
            return await attempt()
        except redis_errors.ResponseError as error:
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
            if isinstance(reply, redis_errors.ResponseError) and index_lost(reply):
                replies[at] = await self.run(name, buckets[at], arguments)
            elif isinstance(reply, Exception):
                check_damage(reply)
                raise reply
        return replies

    async def _call(self, name: str, bucket: int, arguments: Sequence[Any]) -> Any:
        ready = await self.ready(bucket)
        if bucket in self._arrived and name in _SEARCHING:
            await self._await_index(bucket)
        values = [ready.version if one is VERSION else one for one in arguments]
        reply = await run_script(self.redis, name, ready.keys, values)
        if name in _FEEDING:
            self.fed.add(bucket)
            self.feeding.set()
        return reply

    async def renew(self, bucket: int) -> None:
        """For a vector field whose version this process does not know: a reindex ran, or everything was lost."""
        model = await answered(self.redis.hmget(self.keys(bucket).one("meta"), ["model", "dims"]))
        if any(model) and model != [self.identity.encode(), b"%d" % self.dims]:
            raise IndexMismatchError(REBUILT)
        await self.heal(bucket)

    async def heal(self, bucket: int) -> None:
        """Recreates what a bucket lacks of index, meta key and consumer group; keeps what is there."""
        self.healed += 1
        log.warning("Bucket %d lost its index or consumer group; recreating it", bucket)
        self._ready.pop(bucket, None)
        self._served_by.pop(bucket, None)
        await self._create(bucket)

    async def indexed(self, bucket: int) -> bool:
        """Whether the index has read all documents; False for a while after it was recreated."""
        try:
            return await self._completeness.of(bucket, self.keys(bucket))
        except redis_errors.ResponseError as error:
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
            except (RedisUnavailableError, *UNREACHABLE) as error:
                self._failures += 1
                if isinstance(error, RedisUnavailableError):
                    raise
                raise unavailable(error) from error
            self._ready[bucket] = Bucket(bucket, self.keys(bucket), version, vector_field(version))
            if isinstance(self.redis, Cluster) and not is_new and self._served_by.get(bucket) != owner:
                self._arrived.add(bucket)
            self._served_by[bucket] = owner

    async def _write_meta(self, bucket: int) -> tuple[dict[str, str], bool]:
        """What is noted about the bucket, and whether nobody has used it before."""
        key = self.keys(bucket).one("meta")
        mine: dict[str, str | int] = {
            "schema": SCHEMA_VERSION,
            "buckets": self.settings.buckets,
            "model": self.identity,
            "dims": self.dims,
        }
        meta: Any = await answered(self.redis.hgetall(key))
        is_new = b"version" not in meta
        if is_new:  # a full Redis rejects even a write that would change nothing
            async with self.redis.pipeline(transaction=True) as pipe:
                for name, value in {**mine, "version": 1}.items():
                    pipe.hsetnx(key, name, value)
                pipe.hgetall(key)
                meta = (await answered(pipe.execute()))[-1]
        found = {name.decode(): value.decode() for name, value in meta.items()}
        check_meta(found, {name: str(value) for name, value in mine.items()})
        wanted = shape(as_built(self.settings, found))
        if found.get("shape", wanted) != wanted:
            log.warning(_RESHAPED, found["shape"], wanted)
        return found, is_new

    async def _create_missing(self, bucket: int, version: int, settings: Settings) -> None:
        try:
            await self._create_index(bucket, version, settings)
            await self._create_group(bucket)
        except (RedisUnavailableError, redis_errors.ResponseError) as error:
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
                await answered(command(self.redis, *create_command(schema)))
                created = True
                await answered(self.redis.hset(keys.one("meta"), "made", secrets.token_hex(8)))
            with already_there():
                await answered(command(self.redis, "FT.ALIASADD", keys.one("idx"), schema.index.name))
            # An interrupted reindex may have left another index serving.
            if created and await serving(self.redis, keys.one("idx")) == schema.index.name:
                await answered(self.redis.hset(keys.one("meta"), mapping=noted(settings)))
        except redis_errors.ResponseError as error:
            if "unknown command" not in str(error).lower():
                raise
            raise RedisUnsuitableError(
                "This Redis has no search module. Use Redis Stack or Redis 8, or unset REDIS_URL "
                "to use the embedded server."
            ) from error

    async def _create_group(self, bucket: int) -> None:
        # From the beginning: acknowledged entries are deleted, so whatever is on the stream still waits.
        with already_there():
            key = self.keys(bucket).one("ingest")
            await answered(self.redis.xgroup_create(key, GROUP, id="0", mkstream=True))


@contextlib.contextmanager
def already_there() -> Iterator[None]:
    """Two processes may create the same thing at once; the second one gets an error that does not matter."""
    try:
        yield
    except redis_errors.ResponseError as error:
        text = str(error).lower()
        if "already exists" not in text and "busygroup" not in text:
            raise
