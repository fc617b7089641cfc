"""Asks all buckets for the same, in one round trip per node.

A cluster has hundreds of buckets, most of them quiet or never used. Asking all of them costs little (each.lua), and the
rest of the work is then done only where there is some.
"""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import Redis

from channelmem.errors import RedisUnavailableError
from channelmem.store.cluster.nodes import Cluster
from channelmem.store.keys import KEYS, keys_of
from channelmem.store.scripts import evaluated


class Everywhere:
    def __init__(self, redis: Redis, prefix: str, count: int) -> None:
        self._redis, self._prefix, self._count = redis, prefix, count
        self._nodes: list[tuple[Redis, str]] = []
        """Clients of nodes, each with the buckets that it serves."""
        self._seen = -1

    async def ask(self, name: str, key: str, *arguments: str, partly: bool = False) -> dict[int, Any]:
        """Replies other than 0 and nil to a command about a key, by bucket. Raises RedisUnavailableError if one is
        missing, because its node does not answer or it is just moving to another one; `partly`, if all are."""
        nodes = await self._parts()
        asked = [self._ask(node, name, key, buckets, arguments) for node, buckets in nodes]
        replies = await asyncio.gather(*asked, return_exceptions=True)
        found: dict[int, Any] = {}
        failed = [reply for reply in replies if isinstance(reply, BaseException)]
        if failed and not (partly and len(failed) < len(nodes) and _pass_by_themselves(failed)):
            raise failed[0]
        for reply in replies:
            if not isinstance(reply, BaseException):
                flat, elsewhere = reply
                if elsewhere and not partly:
                    raise RedisUnavailableError("Part of the cluster is moving to another node")
                found |= dict(zip(flat[::2], flat[1::2], strict=True))
        return found

    async def _parts(self) -> list[tuple[Redis, str]]:
        if not isinstance(self._redis, Cluster):
            self._nodes = self._nodes or [(self._redis, " ".join(map(str, range(self._count))))]
        elif not self._nodes or self._seen != self._redis.changes:
            owned = await self._redis.owned([keys_of(self._prefix, one).base for one in range(self._count)])
            self._seen = self._redis.changes
            self._nodes = [(client, " ".join(map(str, buckets))) for client, buckets in owned]
        return self._nodes

    async def _ask(self, node: Redis, name: str, key: str, buckets: str, arguments: tuple[str, ...]) -> Any:
        call = (0, name, self._prefix, KEYS[key], buckets, *arguments)
        try:
            return await evaluated(node, "each", *call)
        except RedisUnavailableError:
            if isinstance(self._redis, Cluster):
                self._redis.look_soon()
            raise


def _pass_by_themselves(errors: list[BaseException]) -> bool:
    return all(isinstance(error, RedisUnavailableError) for error in errors)
