"""Measures how many bytes a store grows by while it is filled, in Redis' memory or on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from redis.asyncio import Redis

from channelmem.settings import Settings
from channelmem.store.keys import keys_of
from channelmem.store.redis import command

Store = Callable[[], Awaitable[None]]


async def growth_in_redis(redis: Redis, store: Store) -> int:
    before = await _used(redis)
    await store()
    return await _used(redis) - before


async def growth_on_disk(folder: Path, store: Store) -> int:
    before = _size(folder)
    await store()
    return _size(folder) - before


async def parts_in_redis(redis: Redis, settings: Settings) -> dict[str, float]:
    """Of channelmem. The rest is allocator overhead and what neither MEMORY USAGE nor FT.INFO counts."""
    keys = keys_of(settings.key_prefix, 0)
    documents = [await redis.memory_usage(name) or 0 async for name in redis.scan_iter(f"{keys.one('msg')}*")]
    index = await command(redis, "FT.INFO", keys.one("idx"))
    facts = dict(zip(index[::2], index[1::2], strict=False))
    return {
        "document and key": sum(documents),
        "vector and graph in the index": float(facts[b"vector_index_sz_mb"]) * 2**20,
        "full text, tags, times, document table": float(facts[b"total_index_memory_sz_mb"]) * 2**20,
    }


async def _used(redis: Redis) -> int:
    await asyncio.sleep(0.5)  # the index frees and merges a little later
    return int((await redis.info("memory"))["used_memory"])


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
