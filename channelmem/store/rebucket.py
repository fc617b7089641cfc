"""Spreads what is stored over another number of buckets.

Nobody else may use the memory meanwhile. Indexes are dropped first and rebuilt at the end, because taking documents
out of a graph one by one takes longer. Each key is written to its new bucket before it goes from the old one, and what
is in its place is left alone, so an interrupted run can be repeated. Until it has finished, the first bucket's meta key
says so, and no process opens this memory.

Streams are not moved: a worker finds messages without a vector by itself (ingest/streams.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from channelmem.errors import CommandRefusedError, ConfigError, RedisUnavailableError
from channelmem.settings import Settings
from channelmem.store.buckets import Buckets, bucket_of
from channelmem.store.cluster import Cluster
from channelmem.store.index import meta_of, vector_field
from channelmem.store.keys import KEYS, MOVING, Keys, keys_of
from channelmem.store.redis import CLIENT, command, pipelined

PAGE = 200
COUNTER = b"*"  # in `levels`: how often anything in that bucket changed
POLL_S = 0.05
NAME = f"{CLIENT}-rebucket"
"""How this command's own connections are called."""


class MoveRule(Enum):
    """How a key shows which bucket it belongs to."""

    NAME = auto()
    """By the guild in its own name."""
    MEMBERS = auto()
    """By the guild in each of its members or fields. One that names just an author belongs to every bucket."""
    ANEW = auto()
    """It is made anew."""


RULES = {
    **dict.fromkeys(("msg", "gone", "chan", "wait", "people", "into", "floor", "drain", "made"), MoveRule.NAME),
    **dict.fromkeys(("guild", "unfetched", "settings", "summary", "summaries", "lock", "names"), MoveRule.NAME),
    **dict.fromkeys(("loading", "reading", "unread"), MoveRule.NAME),
    **dict.fromkeys(("access", "spend"), MoveRule.NAME),  # without a guild: in the first bucket
    **dict.fromkeys(
        ("due", "updating", "quoting", "levels", "threads", "guilds", "epochs", "policy", "drains"), MoveRule.MEMBERS
    ),
    **dict.fromkeys(("optout", "refused", "redact", "forgetting", "returning"), MoveRule.MEMBERS),
    **dict.fromkeys(("changed", "changes", "ingest", "rebuilding", "meta", "idx"), MoveRule.ANEW),
}
"""For every key of keys.py."""

_ROOM = re.compile(r"(\d+)c\d+")
_OWNED = re.compile(r"(?:character:)?(\d+):.*|(\d+)")
"""`<guild>:<author>`, `character:<guild>:<name>`, or a guild alone."""
_ALONE = {"guilds", "guild", "unfetched", "loading", "names", "floor"}
"""Where a number alone is a guild; elsewhere it is an author."""

RebucketProgress = Callable[[str, int, int], None]
"""Called with the step ('move' or 'build'), how much is done, and the total."""


def guild_in(name: str, text: str) -> int | None:
    """The guild that a key's name or member belongs to; None if it belongs to all, or to the whole memory."""
    owned = _OWNED.fullmatch(text)
    if owned is not None and owned[1]:
        return int(owned[1])
    if owned is not None:
        return int(owned[2]) if name in _ALONE else None
    room = _ROOM.search(text)
    return int(room[1]) if room else None


async def others_there(redis: Redis) -> bool | None:
    """Whether another process of ours is connected; None if this user may not look."""
    nodes = await redis.masters() if isinstance(redis, Cluster) else [redis]
    try:
        lists = [await command(node, "CLIENT", "LIST") for node in nodes]
    except RedisUnavailableError as error:
        if isinstance(error.__cause__, ResponseError):
            return None
        raise
    texts = [reply.decode() if isinstance(reply, bytes) else reply for reply in lists]
    return any(f"({CLIENT}" in line and NAME not in line for text in texts for line in text.splitlines())


@dataclass
class Rebucket:
    redis: Redis
    settings: Settings
    count: int
    progress: RebucketProgress
    moved: int = 0
    """Messages."""
    _versions: dict[int, str] = field(default_factory=dict)
    """Of the vector field, by bucket."""
    _meta: dict[str, str] = field(default_factory=dict)
    """Of the first bucket."""
    _shared: set[tuple[str, bytes]] = field(default_factory=set)
    """What belongs to every bucket and was written to all of them."""

    async def run(self) -> int:
        """Moves everything; returns how many messages changed their bucket."""
        self._meta = await meta_of(self.redis, self._keys(0))
        if not self._meta:
            raise ConfigError("There is nothing to move; set CHANNELMEM_BUCKETS and start.")
        await self._begin()
        for name in await command(self.redis, "FT._LIST"):
            if name.startswith(f"{self.settings.key_prefix}:{{".encode()):
                with contextlib.suppress(CommandRefusedError):  # of a slot that another node served once
                    await command(self.redis, "FT.DROPINDEX", name)
        await self._move_all()
        await self._end()
        return self.moved

    async def _begin(self) -> None:
        going_to = self._meta.get(MOVING, str(self.count))
        if going_to != str(self.count):
            raise ConfigError(f"An earlier run was interrupted; finish it first: channelmem rebucket {going_to}")
        for bucket in range(max(self.count, int(self._meta["buckets"]))):
            meta = self._meta if bucket == 0 else await meta_of(self.redis, self._keys(bucket))
            if "next_model" in meta:
                raise ConfigError("A reindex was interrupted; finish it first: channelmem reindex")
            if meta:
                self._versions[bucket] = meta["version"]
        await self._do("HSET", self._keys(0).one("meta"), MOVING, self.count)

    async def _end(self) -> None:
        made = Buckets(
            self.redis,
            self.settings.model_copy(update={"buckets": self.count}),
            dims=int(self._meta["dims"]),
            identity=self._meta["model"],
            clock=time.time,
        )
        # The first one last: until then, nobody opens this memory.
        for done, bucket in enumerate(sorted(self._versions, reverse=True), 1):
            meta = self._keys(bucket).one("meta")
            if bucket >= self.count:
                await self._do("UNLINK", meta)
                continue
            await self._do("HSET", meta, "buckets", self.count)
            if bucket == 0:
                await self._do("HDEL", meta, MOVING)
            await made.ready(bucket)
            while not await made.indexed(bucket):  # noqa: ASYNC110  (Redis sends no event)
                await asyncio.sleep(POLL_S)
            self.progress("build", done, len(self._versions))

    # --- keys ---

    async def _move_all(self) -> None:
        page: list[bytes] = []
        seen, total = 0, await self._size()
        async for key in self.redis.scan_iter(f"{self.settings.key_prefix}:{{*", count=1000):
            page.append(key)
            if len(page) == PAGE:
                await self._move_page(page)
                seen += len(page)
                self.progress("move", min(seen, total), total)
                page = []
        await self._move_page(page)
        self.progress("move", total, total)

    async def _size(self) -> int:
        nodes = await self.redis.masters() if isinstance(self.redis, Cluster) else [self.redis]
        return sum([int(await command(node, "DBSIZE")) for node in nodes])

    async def _move_page(self, page: list[bytes]) -> None:
        names: list[tuple[str, str]] = []
        for raw in page:
            key = raw.decode()
            source = _bucket_in(key)
            name, rest = _parse(key[len(self._keys(source).base) :])
            if RULES[name] is MoveRule.NAME:
                target = bucket_of(guild_in(name, rest) or 0, self.count)
                if target != source:
                    names.append((key, self._keys(target).base + KEYS[name] + rest))
                    await self._adopt(source, target)
            elif RULES[name] is MoveRule.MEMBERS:
                await self._move_members(name, rest, source)
            elif name in {"ingest", "changes"}:
                await self._do("UNLINK", key)
        await self._move_keys(names)

    async def _move_keys(self, names: list[tuple[str, str]]) -> None:
        """Whole keys, as they are."""
        found = await self._all([part for old, _ in names for part in (("DUMP", old), ("PTTL", old))])
        rows = zip(names, found[::2], found[1::2], strict=True)
        there = [(names, data, max(0, left_ms)) for names, data, left_ms in rows if data is not None]
        await self._all([("RESTORE", new, left_ms, data, "REPLACE") for (_, new), data, left_ms in there])
        for (old, new), _, _ in there:
            if f"}}:{KEYS['msg']}" in old:
                self.moved += 1
                await self._rename_vector(old, new)
        await self._all([("UNLINK", old) for (old, _), _, _ in there])

    async def _rename_vector(self, old: str, new: str) -> None:
        """A bucket that was created after a reindex counts its versions from 1 again."""
        before, after = (
            vector_field(int(self._versions.get(_bucket_in(key), self._meta["version"]))) for key in (old, new)
        )
        vector = None if before == after else await self._do("HGET", new, before)
        if vector is not None:
            await self._do("HSET", new, after, vector)
            await self._do("HDEL", new, before)

    async def _adopt(self, source: int, target: int) -> None:
        """The meta key of a bucket that gets its first message."""
        if target in self._versions:
            return
        self._versions[target] = self._versions.get(source, self._meta["version"])
        facts = {**{name: self._meta[name] for name in ("schema", "model", "dims")}, "buckets": str(self.count)}
        flat = [part for pair in {**facts, "version": self._versions[target]}.items() for part in pair]
        await self._do("HSET", self._keys(target).one("meta"), *flat)

    # --- members ---

    async def _move_members(self, name: str, rest: str, source: int) -> None:
        key = self._keys(source).base + KEYS[name] + rest
        kind, left_ms = (await self._do("TYPE", key)).decode(), await self._do("PTTL", key)
        misplaced: list[bytes] = []
        writing: list[tuple[Any, ...]] = []
        for member, value in await self._members(kind, key):
            targets = self._targets(name, member)
            if source not in targets:
                misplaced.append(member)
            if (name + rest, member) in self._shared:
                continue
            if len(targets) > 1:
                self._shared.add((name + rest, member))
            for target in (self._keys(one) for one in targets if one != source):
                writing += _writing(name, kind, target, rest, member, value)
                writing += [("PEXPIRE", target.base + KEYS[name] + rest, left_ms)] * (left_ms > 0)
        await self._all(writing)
        remove = {"hash": "HDEL", "set": "SREM", "zset": "ZREM"}.get(kind)
        if misplaced and remove:
            await self._do(remove, key, *misplaced)
        if source >= self.count:
            await self._do("UNLINK", key)

    def _targets(self, name: str, member: bytes) -> list[int]:
        text = member.decode()
        if name == "levels" and text == "global":
            return [0]
        guild = guild_in(name, text.partition("}:")[2] if name == "drains" else text)
        return list(range(self.count)) if guild is None else [bucket_of(guild, self.count)]

    async def _members(self, kind: str, key: str) -> list[tuple[bytes, Any]]:
        read = {"hash": ("HGETALL", key), "set": ("SMEMBERS", key), "zset": ("ZRANGE", key, 0, -1, "WITHSCORES")}
        if kind not in read:
            return []  # gone since it was seen
        (found,) = await self._all([read[kind]])
        if kind == "set":
            return [(member, b"") for member in found]
        pairs = found.items() if isinstance(found, dict) else zip(found[::2], found[1::2], strict=True)
        return [(member, value) for member, value in pairs if member != COUNTER]

    # --- Redis ---

    def _keys(self, bucket: int) -> Keys:
        return keys_of(self.settings.key_prefix, bucket)

    async def _do(self, *arguments: Any) -> Any:
        return await command(self.redis, *arguments)

    async def _all(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        return await pipelined(self.redis, commands)


def _parse(text: str) -> tuple[str, str]:
    """The name of a key in keys.py, and what follows it."""
    for name, part in KEYS.items():
        if text == part or (part.endswith(":") and text.startswith(part)):
            return name, text[len(part) :]
    raise ConfigError(f"A key of this memory is not known to this version: {text.partition(':')[0]}")


def _bucket_in(key: str) -> int:
    return int(key[key.index("{") + 1 : key.index("}")])


def _writing(name: str, kind: str, keys: Keys, rest: str, member: bytes, value: Any) -> list[tuple[Any, ...]]:
    key = keys.base + KEYS[name] + rest
    if name == "drains":  # its members are names of keys
        return [("SADD", key, keys.base.encode() + member.partition(b"}:")[2])]
    if name == "levels":
        return [("HSET", key, member, value), ("HINCRBY", key, COUNTER, 1)]
    if kind == "hash":
        return [("HSETNX", key, member, value)]
    return [("SADD", key, member) if kind == "set" else ("ZADD", key, value, member)]
