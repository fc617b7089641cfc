"""What commands read from Redis without a model: access tokens, settings of conversations, what is stored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis.asyncio import Redis

from channelmem.errors import RedisUnavailableError
from channelmem.policy.policies import Policies
from channelmem.server.lease import check_server, connect_url
from channelmem.settings import Settings
from channelmem.store.access import AccessTokens
from channelmem.store.buckets import Buckets
from channelmem.store.keys import keys_of
from channelmem.store.redis import connect
from channelmem.store.store import Store

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


@asynccontextmanager
async def open_buckets(settings: Settings) -> AsyncIterator[Buckets | None]:
    """What is stored, to be read without the model or its name; None if nothing was ever stored."""
    async with _connected(settings) as redis:
        yield await _buckets(redis, settings)
