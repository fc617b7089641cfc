"""The Lua scripts: how each is put together, and how it is run, in one bucket or in all of them.

A script starts with `base` (KEYS[1], which routes it to the bucket's node), the key names, and from `lua/lib` what all
need (`common`, `derived`) and what its first line names. Its ARGV is exactly what the caller passes; the scripts that
apply a channel's limits are given them, with the time, by their callers.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from channelmem.errors import RedisUnavailableError
from channelmem.store.cluster import Cluster
from channelmem.store.keys import KEYS, Keys, keys_of, lua_names
from channelmem.store.redis import command, pipelined


@cache
def source(name: str) -> str:
    script = _read(f"{name}.lua")
    return script if name == "each" else assembled(script)  # it is of no bucket, and builds on nothing


def assembled(script: str) -> str:
    """A script with what it builds on: what all need, and what its first line names."""
    uses = re.match(r"-- Uses (.*)\.\n", script)
    parts = [_read(f"lib/{name}.lua") for name in ("common", "derived", *(uses[1].split(", ") if uses else ()))]
    return "\n".join(["local base = KEYS[1]", lua_names(), *parts, script])


def _read(path: str) -> str:
    return (resources.files("channelmem.store") / "lua" / path).read_text("utf-8")


@cache
def digest(name: str) -> str:
    return hashlib.sha1(source(name).encode(), usedforsecurity=False).hexdigest()


async def run_script(redis: Redis, name: str, keys: Keys, arguments: Sequence[Any] = ()) -> Any:
    """One round trip; a second one only after Redis lost its script cache (a restart)."""
    return await evaluated(redis, name, 1, keys.base, *arguments)


async def evaluated(redis: Redis, name: str, *call: Any) -> Any:
    """The same for any number of keys, which comes first in the call."""
    try:
        return await command(redis, "EVALSHA", digest(name), *call)
    except NoScriptError:
        return await command(redis, "EVAL", source(name), *call)


async def run_in_all(redis: Redis, name: str, buckets: Iterable[Keys], arguments: Sequence[Any]) -> list[Any]:
    """The same script in many buckets, in one round trip; replies may be errors that waiting would not cure."""
    calls = [(1, keys.base, *arguments) for keys in buckets]
    replies = await pipelined(redis, [("EVALSHA", digest(name), *call) for call in calls], raise_first=False)
    unknown = [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
    if unknown:
        again = await pipelined(redis, [("EVAL", source(name), *calls[at]) for at in unknown], raise_first=False)
        for at, reply in zip(unknown, again, strict=True):
            replies[at] = reply
    return replies


# --- the same in all buckets ---


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
        passing = all(isinstance(error, RedisUnavailableError) for error in failed)
        if failed and not (partly and len(failed) < len(nodes) and passing):
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
