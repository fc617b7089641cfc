"""The buckets: their keys, index, meta and consumer group; made on first use, checked, healed when lost.

In: a bucket (or guild) and a script to run. Out: its reply. An index or group that is missing (dropped by hand,
FLUSHALL) is made again on the spot; RediSearch then reads the documents that are there in the background, and
heal.py puts those without a vector back on the stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.connection import HiredisRespSerializer

from channelmem.errors import IndexMismatchError, RedisUnavailableError, RedisUnsuitableError
from channelmem.settings import Settings
from channelmem.store.keys import GROUP, Keys, bucket_of, keys_of
from channelmem.store.schema import SCHEMA_VERSION, create_command, make_schema, shape
from channelmem.store.scripts import AWAY, Scripts, answered, command, is_full

log = logging.getLogger(__name__)

REBUILT = (
    "The index was rebuilt for another embedding model while this process ran. "
    "Restart it with that model, or run: channelmem reindex"
)

VERSION = object()
"""Among a script's arguments: the version of the bucket's vector field, put in when it runs."""

_RESHAPED = "The vector index is %s, the settings say %s. It works as it is; to build it anew run: channelmem reindex"


def connect(url: str, settings: Settings) -> Redis:
    """The client that the store modules expect: raw replies, a limit on every wait, no hidden retries."""
    client: Redis = Redis.from_url(
        url,
        protocol=2,
        decode_responses=False,
        socket_timeout=settings.redis_timeout_s,
        socket_connect_timeout=settings.redis_timeout_s,
        retry=Retry(NoBackoff(), 0),
    )
    pool = client.connection_pool
    pool.connection_class = type("PackingConnection", (_PacksInC, pool.connection_class), {})
    return client


class _PacksInC:
    """redis-py's asyncio connections pack commands in Python, its others with hiredis: a sixth of the time, and a
    batch of messages has hundreds of arguments."""

    _serializer = HiredisRespSerializer()

    def pack_command(self, *args: Any) -> list[bytes]:
        packed: list[bytes] = self._serializer.pack(*args)
        return packed


def index_lost(error: Exception) -> bool:
    """RediSearch says it in several ways."""
    text = str(error).lower()
    return "no such index" in text or "unknown index name" in text


async def indexed(redis: Redis, name: str) -> float:
    """How much of the documents that were there before it an index has read; 1 for all."""
    facts = await _facts(redis, name)
    return min(float(facts[b"percent_indexed"]), 0.99) if int(facts[b"indexing"]) else 1.0


async def serving(redis: Redis, alias: str) -> str:
    """The name of the index behind an alias."""
    name: bytes = (await _facts(redis, alias))[b"index_name"]
    return name.decode()


async def _facts(redis: Redis, name: str) -> dict[bytes, Any]:
    info = await command(redis, "FT.INFO", name)
    return dict(zip(info[::2], info[1::2], strict=False))


class Buckets:
    """All buckets of one Redis, for one model."""

    def __init__(
        self, redis: Redis, settings: Settings, *, dims: int, identity: str, clock: Callable[[], float]
    ) -> None:
        self.redis = redis
        self.settings = settings
        self.dims = dims
        self.identity = identity
        self.clock = clock
        self.healed = 0
        """How often something lost was made again."""
        self._scripts = Scripts(redis, settings, clock)
        self._ready: dict[int, int] = {}
        """Buckets made and checked, with the version of their vector field."""
        self._making = asyncio.Lock()
        self._failures = 0

    @property
    def all(self) -> range:
        return range(self.settings.buckets)

    def bucket(self, guild_id: int) -> int:
        return bucket_of(guild_id, self.settings.buckets)

    def keys(self, bucket: int) -> Keys:
        return keys_of(self.settings.key_prefix, bucket)

    async def version(self, bucket: int) -> int:
        """Which vector field of the bucket is current; raised by a reindex. Makes the bucket before its first use."""
        if bucket not in self._ready:
            await self._make(bucket)
        return self._ready[bucket]

    async def open(self) -> None:
        """Checks what is there against the settings; raises IndexMismatchError with the fix."""
        await self._make(0)

    async def run(self, name: str, bucket: int, arguments: Sequence[Any] = ()) -> Any:
        """Runs a script; makes the bucket before its first use, and again where its index was lost."""
        try:
            return await self._call(name, bucket, arguments)
        except redis_errors.ResponseError as error:
            if "CMVERSION" in str(error):
                await self.renew(bucket)
            elif index_lost(error):
                await self.heal(bucket)
            else:
                raise
        return await self._call(name, bucket, arguments)

    async def _call(self, name: str, bucket: int, arguments: Sequence[Any]) -> Any:
        version = await self.version(bucket)
        values = [version if one is VERSION else one for one in arguments]
        return await self._scripts.run(name, self.keys(bucket), values)

    async def renew(self, bucket: int) -> None:
        """The vector field has another version than this process knew: all was lost (FLUSHALL), or a reindex came."""
        model = await answered(self.redis.hmget(self.keys(bucket).one("meta"), ["model", "dims"]))
        if any(model) and model != [self.identity.encode(), b"%d" % self.dims]:
            raise IndexMismatchError(REBUILT)
        await self.heal(bucket)

    async def heal(self, bucket: int) -> None:
        """Makes index, meta and group of a bucket again; what is still there is left as it is."""
        self.healed += 1
        log.warning("Bucket %d lost its index or stream group; making it again", bucket)
        self._ready.pop(bucket, None)
        await self._make(bucket)

    async def indexed(self, bucket: int) -> bool:
        """Whether the index has read all documents; False for a while after it was made anew."""
        return await indexed(self.redis, self.keys(bucket).one("idx")) == 1

    async def _make(self, bucket: int) -> None:
        failures = self._failures
        async with self._making:
            if bucket in self._ready:
                return
            if self._failures > failures:  # while this one waited; one after the other, all would wait for long
                raise RedisUnavailableError("Redis does not answer")
            try:
                version = await self._write_meta(bucket)
                await self._create(bucket, version)
            except (RedisUnavailableError, *AWAY) as error:
                self._failures += 1
                if isinstance(error, RedisUnavailableError):
                    raise
                raise RedisUnavailableError(f"Redis does not answer: {error}") from error
            self._ready[bucket] = version

    async def _write_meta(self, bucket: int) -> int:
        key = self.keys(bucket).one("meta")
        mine: dict[str, str | int] = {
            "schema": SCHEMA_VERSION,
            "buckets": self.settings.buckets,
            "model": self.identity,
            "dims": self.dims,
        }
        meta: Any = await answered(self.redis.hgetall(key))
        if b"version" not in meta:  # a full Redis refuses even a write that would change nothing
            async with self.redis.pipeline(transaction=True) as pipe:
                for name, value in {**mine, "version": 1}.items():
                    pipe.hsetnx(key, name, value)
                pipe.hgetall(key)
                meta = (await answered(pipe.execute()))[-1]
        found = {name.decode(): value.decode() for name, value in meta.items()}
        self._check(found, {name: str(value) for name, value in mine.items()})
        if (built := found.get("shape")) is not None and built != shape(self.settings):
            log.warning(_RESHAPED, built, shape(self.settings))
        return int(found["version"])

    def _check(self, found: dict[str, str], mine: dict[str, str]) -> None:
        if found["buckets"] != mine["buckets"]:
            raise IndexMismatchError(
                f"This Redis holds memory in {found['buckets']} bucket(s), the settings say {mine['buckets']}. "
                f"Set CHANNELMEM_BUCKETS={found['buckets']}, or another CHANNELMEM_KEY_PREFIX to start anew."
            )
        if found["schema"] != mine["schema"]:
            raise IndexMismatchError(
                f"This Redis holds memory in layout {found['schema']}, this version writes {mine['schema']}. "
                "Use the version that wrote it, or another CHANNELMEM_KEY_PREFIX to start anew."
            )
        if (found["model"], found["dims"]) != (mine["model"], mine["dims"]):
            raise IndexMismatchError(
                f"The index was made with {found['model']} ({found['dims']} dimensions), "
                f"the settings say {mine['model']} ({mine['dims']}). Run: channelmem reindex"
            )

    async def _create(self, bucket: int, version: int) -> None:
        try:
            await self._create_index(bucket, version)
            await self._create_group(bucket)
        except (RedisUnavailableError, redis_errors.ResponseError) as error:
            if not is_full(error):
                raise
            # It refuses to make even what is there. What it holds can be asked; what it lacks is missed, then healed.
            log.warning("Redis is full: it can be asked, but nothing is added to it")

    async def _create_index(self, bucket: int, version: int) -> None:
        keys = self.keys(bucket)
        schema = make_schema(self.settings, keys, dims=self.dims, version=version)
        try:
            made = False
            with already_there():
                await command(self.redis, *create_command(schema))
                made = True
            with already_there():
                await command(self.redis, "FT.ALIASADD", keys.one("idx"), schema.index.name)
            # A reindex that was interrupted may have left another one serving.
            if made and await serving(self.redis, keys.one("idx")) == schema.index.name:
                await answered(self.redis.hset(keys.one("meta"), "shape", shape(self.settings)))
        except redis_errors.ResponseError as error:
            if "unknown command" not in str(error).lower():
                raise
            raise RedisUnsuitableError(
                "This Redis has no search module. Use Redis Stack or Redis 8, or unset REDIS_URL "
                "for the embedded server."
            ) from error

    async def _create_group(self, bucket: int) -> None:
        # From the beginning: acknowledged entries are deleted, so whatever is there still waits.
        with already_there():
            await self.redis.xgroup_create(self.keys(bucket).one("ingest"), GROUP, id="0", mkstream=True)


@contextlib.contextmanager
def already_there() -> Any:
    """Two processes may make the same thing at once; the second one is told so."""
    try:
        yield
    except redis_errors.ResponseError as error:
        text = str(error).lower()
        if "already exists" not in text and "busygroup" not in text:
            raise
