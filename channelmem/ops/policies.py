"""Opens what people set (policies) for `channelmem settings`. In: the process's settings. Out: `Policies` on Redis.

Needs no model: an existing index is opened with the model it was built for, and none is created where there is none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis.asyncio import Redis

from channelmem.errors import RedisUnavailableError
from channelmem.policies import Policies
from channelmem.server.lease import check_server, connect_url
from channelmem.settings import Settings
from channelmem.store.buckets import Buckets
from channelmem.store.connection import answered, connect
from channelmem.store.keys import keys_of
from channelmem.store.store import Store

REMOVE_S = 60.0
"""How long a command waits for removals that a change causes; the next process with a memory resumes them."""


@asynccontextmanager
async def open_policies(settings: Settings) -> AsyncIterator[Policies]:
    with connect_url(settings) as url:
        check_server(url, timeout_s=settings.redis_timeout_s)
        redis = connect(url, settings)
        try:
            store = Store(await _buckets(redis, settings))
            policies = Policies(settings, store)
            await store.levels.load()
            if not policies.known:
                raise RedisUnavailableError("Redis does not answer, so the settings can't be read; try again.")
            try:
                yield policies
                await _removed(policies, store)
            finally:
                await store.close()
        finally:
            await redis.aclose()


async def _buckets(redis: Redis, settings: Settings) -> Buckets:
    meta: Any = await answered(redis.hgetall(keys_of(settings.key_prefix, 0).one("meta")))
    if not meta:  # nothing was ever stored; whoever stores first decides on the model
        return Buckets(redis, settings, dims=0, identity="", clock=time.time)
    buckets = Buckets(redis, settings, dims=int(meta[b"dims"]), identity=meta[b"model"].decode(), clock=time.time)
    await buckets.open()
    return buckets


async def _removed(policies: Policies, store: Store) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(REMOVE_S):
            await policies.fitted()
            await store.swept()
