"""What commands read from Redis without a model: access tokens, settings of conversations, what the buffers hold."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from redis.asyncio import Redis

from channelmem.errors import RedisUnavailableError
from channelmem.policy.policies import Policies
from channelmem.server.lease import check_server, connect_url
from channelmem.settings import Settings
from channelmem.store.access import AccessTokens
from channelmem.store.buckets import Buckets
from channelmem.store.keys import guild_and_channel, keys_of
from channelmem.store.redis import connect
from channelmem.store.search import Contents, Query, Search
from channelmem.store.store import Store
from channelmem.types import Hit, Source, Stored

REMOVE_S = 60.0
"""How long a command waits for removals that a change causes; the next process with a memory resumes them."""


@asynccontextmanager
async def _connected(settings: Settings, *, patient: bool = False) -> AsyncIterator[Redis]:
    with connect_url(settings) as url:
        if not patient:
            check_server(url, timeout_s=settings.redis_timeout_s)
        redis = connect(url, settings)
        try:
            yield redis
        finally:
            await redis.aclose()


async def _buckets(redis: Redis, settings: Settings) -> Buckets | None:
    """The existing index with the model it was built for; None if nothing was ever stored."""
    meta: Any = await redis.hgetall(keys_of(settings.key_prefix, 0).one("meta"))
    if not meta:
        return None
    buckets = Buckets(redis, settings, dims=int(meta[b"dims"]), identity=meta[b"model"].decode(), clock=time.time)
    await buckets.open()
    return buckets


@asynccontextmanager
async def open_access(settings: Settings, *, patient: bool = False) -> AsyncIterator[AccessTokens]:
    """The access tokens of the service. `patient` opens while Redis is unreachable, too."""
    async with _connected(settings, patient=patient) as redis:
        yield AccessTokens(redis, settings.key_prefix)


@asynccontextmanager
async def open_policies(settings: Settings) -> AsyncIterator[Policies]:
    async with _connected(settings) as redis:
        # Whoever stores first decides on the model.
        new = Buckets(redis, settings, dims=0, identity="", clock=time.time)
        store = Store(await _buckets(redis, settings) or new)
        policies = Policies(settings, store)
        await store.levels.load()
        if not policies.known:
            raise RedisUnavailableError("Redis does not answer, so the settings can't be read; try again.")
        try:
            yield policies
            with suppress(TimeoutError):
                async with asyncio.timeout(REMOVE_S):
                    await policies.fitted()
                    await store.swept()
        finally:
            await store.close()


@dataclass(frozen=True, slots=True)
class Listed:
    """One channel that has messages."""

    guild_id: int
    channel_id: int
    messages: int
    pending: int


class Inspector:
    """Read-only; needs neither the model nor its name."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._search, self._contents = Search(buckets), Contents(buckets)

    async def channels(self) -> list[Listed]:
        found = []
        for bucket in await self._buckets.used():
            keys = self._buckets.keys(bucket)
            guilds: Any = await self._buckets.redis.smembers(keys.one("guilds"))
            for guild in sorted(map(int, guilds)):
                rooms: Any = await self._buckets.redis.smembers(keys.of("guild", guild))
                for name in sorted(rooms):
                    messages = await self._buckets.redis.zcard(keys.of("chan", name.decode()))
                    pending = await self._buckets.redis.scard(keys.of("wait", name.decode()))
                    found.append(Listed(*guild_and_channel(name), messages, pending))
        return found

    async def guild_of(self, channel_id: int) -> int | None:
        return next((one.guild_id for one in await self.channels() if one.channel_id == channel_id), None)

    async def rows(self, guild_id: int, channel_id: int, limit: int, source: Source) -> list[Stored]:
        """Newest first."""
        query = Query(guild_id, (channel_id,), limit=limit, flagged=True, source=source)
        return await self._contents.states(await self._search.newest(query))

    async def near(self, guild_id: int, channel_id: int, message_id: int, limit: int) -> list[Hit] | None:
        """The channel's nearest messages, the message itself first; None if it has no vector yet."""
        bucket = await self._buckets.ready(self._buckets.bucket(guild_id))
        key = bucket.keys.message(guild_id, channel_id, message_id)
        blob: Any = await self._buckets.redis.hget(key, bucket.vector_field)
        if blob is None:
            return None
        vector = np.frombuffer(blob, dtype=np.float16).astype(np.float32)
        query = Query(guild_id, (channel_id,), vector=vector, limit=limit, flagged=True, source=Source.ARCHIVE)
        return list((await self._search.nearest(query)).hits[:limit])


@asynccontextmanager
async def open_inspector(settings: Settings) -> AsyncIterator[Inspector | None]:
    """None if nothing was ever stored."""
    async with _connected(settings) as redis:
        buckets = await _buckets(redis, settings)
        yield Inspector(buckets) if buckets else None
