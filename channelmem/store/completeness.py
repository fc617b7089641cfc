"""Completeness: whether an index has read all documents that it is about. In: a bucket. Out: yes, or not yet.

An index reads existing documents in the background after it was made: by a process that missed it, or by a server that
starts. FT.INFO knows how far it is, but blocks a large Redis for long. It is therefore asked rarely while an index
reads, and never again for the same making of it.
"""

from __future__ import annotations

import time
from typing import Any

from redis.asyncio import Redis

from channelmem.store.cluster import Cluster
from channelmem.store.connection import answered, command
from channelmem.store.keys import Keys

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
