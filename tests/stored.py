"""How the tests of the store look at a channel: what questions would see of it, and what Redis really holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from conftest import CHANNEL, GUILD
from numpy.typing import NDArray
from redis.asyncio import Redis

from channelmem.settings import Settings
from channelmem.store.documents import to_revision
from channelmem.store.keys import padded, room
from channelmem.store.redis import command
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.types import Message, Source

BUFFER = Query(GUILD, (CHANNEL,), limit=100)
ARCHIVE = Query(GUILD, (CHANNEL,), limit=100, source=Source.ARCHIVE)


async def contents(search: Search, query: Query = BUFFER) -> list[str]:
    return [one.content for one in await search.newest(query)]


async def ids(search: Search, query: Query = BUFFER) -> list[int]:
    return [one.id for one in await search.newest(query)]


async def documents(redis: Redis, settings: Settings) -> int:
    # A set: SCAN may name a key twice while the table of keys is resized.
    return len({key async for key in redis.scan_iter(f"{settings.key_prefix}:*msg:*", count=1000)})


READ: dict[bytes, Callable[[bytes], tuple[object, ...]]] = {
    b"hash": lambda key: ("HGETALL", key),
    b"string": lambda key: ("GET", key),
    b"set": lambda key: ("SMEMBERS", key),
    b"zset": lambda key: ("ZRANGE", key, 0, -1),
    b"ReJSON-RL": lambda key: ("JSON.GET", key),
    b"stream": lambda key: ("XRANGE", key, "-", "+"),
}


async def mentions_of(redis: Redis, settings: Settings, word: str) -> list[str]:
    """Keys whose values contain a word, whatever their type."""
    found = []
    async for key in redis.scan_iter(f"{settings.key_prefix}:*", count=1000):
        kind: Any = await redis.type(key)
        # Another process may remove it meanwhile.
        if kind in READ and word in str(await command(redis, *READ[kind](key))):
            found.append(key.decode())
    return found


async def commit(store: Store, vectors: Sequence[tuple[Message, NDArray[np.float32]]]) -> int:
    """Adds vectors without a worker and its stream; returns how many were still wanted."""
    written = 0
    for message, vector in vectors:
        name = f"{room(message.guild_id, message.channel_id)}:{padded(message.id)}"
        row = ("", name, to_revision(message), vector.astype(np.float16).tobytes())
        written += await store.commit_rows(store.buckets.bucket(message.guild_id), [row])
    return written
