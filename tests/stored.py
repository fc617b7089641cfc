"""How the tests of the store look at a channel: what questions would see of it, and what Redis really holds."""

from __future__ import annotations

from conftest import CHANNEL, GUILD
from redis.asyncio import Redis

from channelmem.settings import Settings
from channelmem.store.search import Query, Search
from channelmem.types import Source

BUFFER = Query(GUILD, (CHANNEL,), limit=100)
ARCHIVE = Query(GUILD, (CHANNEL,), limit=100, source=Source.ARCHIVE)


async def contents(search: Search, query: Query = BUFFER) -> list[str]:
    return [one.content for one in await search.newest(query)]


async def ids(search: Search, query: Query = BUFFER) -> list[int]:
    return [one.id for one in await search.newest(query)]


async def documents(redis: Redis, settings: Settings) -> int:
    # A set: SCAN may name a key twice while the table of keys is resized.
    return len({key async for key in redis.scan_iter(f"{settings.key_prefix}:*msg:*", count=1000)})
