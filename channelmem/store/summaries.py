"""Summaries in Redis: JSON documents, their order, and who is updating them.

One kind of derived data (derived.py): a summary is committed only while its sources stand, and goes with the first of
them that is deleted, edited, cleared, or by somebody who opts out; every level above it goes in the same step. It
outlives messages that expire. What this process could not tell Redis yet is hidden here (outbox.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from channelmem.policy.policy import Policy
from channelmem.store.buckets import Buckets
from channelmem.store.documents import pack_limits, pack_origins
from channelmem.store.keys import guild_and_channel, padded, room
from channelmem.store.outbox import Withdrawn
from channelmem.store.redis import reads
from channelmem.types import Message, Origin

LOCK_MS = 60_000
"""A process that died holds a channel back for at most this long."""
PAGE = 1_000
"""Messages that one script looks at: about 3 ms of Redis."""


class Committed(StrEnum):
    DONE = "done"
    LOST = "lost"
    """The lock is another's by now."""
    CHANGED = "changed"
    """A source went or changed meanwhile; nothing was stored."""


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A summary as the script takes it."""

    id: str
    start: float
    document: str
    origins: tuple[Origin, ...] = ()
    passing: tuple[Message, ...] = ()
    """Instead of origins: messages that are not stored."""
    parts: tuple[str, ...] = ()
    """Instead of both: the summaries below."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What a channel has of summaries, and what it lacks."""

    ids: tuple[str, ...] = ()
    left: tuple[float, ...] = ()
    """When messages were sent that no summary has, oldest first."""


class SummaryStore:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    def now(self) -> float:
        return self._buckets.clock()

    def withdrawn(self) -> Withdrawn:
        """What Redis could not hear of yet; to be asked for before it is read."""
        return self._buckets.undelivered.withdrawn()

    async def buckets(self) -> list[int]:
        """Those where something may be due, as far as their nodes answer."""
        return await self._buckets.where("EXISTS", "due", "updating", partly=True)

    # --- reading ---

    @reads
    async def since(self, guild_id: int, channel_id: int, start: float | None, policy: Policy) -> list[bytes]:
        """The documents of all summaries that begin at `start` or later, in one round trip."""
        earliest = -math.inf if start is None else start
        return await self._read(guild_id, channel_id, policy, "from", repr(earliest))

    @reads
    async def some(self, guild_id: int, channel_id: int, ids: Iterable[str], policy: Policy) -> list[bytes]:
        """The documents of these summaries, as far as they stand."""
        wanted = list(ids)
        return await self._read(guild_id, channel_id, policy, "ids", *wanted) if wanted else []

    async def _read(self, guild_id: int, channel_id: int, policy: Policy, *which: str) -> list[bytes]:
        head = (repr(self.now()), pack_limits(policy.limits), room(guild_id, channel_id))
        found: list[bytes] = await self._buckets.run("summaries", self._buckets.bucket(guild_id), (*head, *which))
        return found

    @reads
    async def ids(self, guild_id: int, channel_id: int, policy: Policy) -> list[str]:
        key = self._buckets.guild_keys(guild_id).of("summaries", room(guild_id, channel_id))
        oldest = self.now() - policy.limits.summary_s
        found: Any = await self._buckets.redis.zrangebyscore(key, oldest, "+inf")
        return [one.decode() for one in found]

    @reads
    async def outline(self, guild_id: int, channel_id: int, policy: Policy) -> Outline:
        """Looks at every message of the channel, page by page, so that Redis serves others in between."""
        head = (repr(self.now()), pack_limits(policy.limits), guild_id, room(guild_id, channel_id))
        ids, left, seen, looked = list[bytes](), list[float](), 0, PAGE
        while looked == PAGE:
            reply: Any = await self._buckets.run("outline", self._buckets.bucket(guild_id), (*head, seen, PAGE))
            looked, ids, times = reply
            left += map(float, times)
            seen += looked
        return Outline(tuple(one.decode() for one in ids), tuple(left))

    # --- changing ---

    @reads
    async def commit(
        self,
        guild_id: int,
        channel_id: int,
        token: str,
        removed: Sequence[str],
        made: Sequence[SummaryRow],
        policy: Policy,
    ) -> Committed:
        """Replaces summaries in one atomic step, while the token still holds the channel's lock."""
        channel = room(guild_id, channel_id)
        arguments = [repr(self.now()), pack_limits(policy.limits), guild_id, channel, token, len(removed), *removed]
        for one in made:
            arguments += (one.id, repr(one.start), _sources(guild_id, one), one.document)
        reply: bytes = await self._buckets.run("summarise", self._buckets.bucket(guild_id), arguments)
        return Committed(reply.decode())

    # --- who updates what ---

    async def claim(self, bucket: int, token: str, most: int) -> list[tuple[int, int]]:
        """Guild and channel of what is due in a bucket, locked with the token."""
        return await self._claim(bucket, token, "", most)

    async def lock(self, guild_id: int, channel_id: int, token: str) -> bool:
        """Whether the token holds this channel now."""
        return bool(await self._claim(self._buckets.bucket(guild_id), token, room(guild_id, channel_id), 1))

    @reads
    async def _claim(self, bucket: int, token: str, wanted: str, most: int) -> list[tuple[int, int]]:
        debounce_s = self._buckets.settings.summary_debounce_s
        arguments = (repr(self.now()), token, LOCK_MS, debounce_s, wanted, most)
        return [guild_and_channel(one) for one in await self._buckets.run("claim", bucket, arguments)]

    async def keep(self, guild_id: int, channel_id: int, token: str) -> bool:
        """Holds a lock for longer; False if it was lost."""
        return await self._unlock(guild_id, channel_id, token, "keep", LOCK_MS)

    async def free(self, guild_id: int, channel_id: int, token: str, due: float | None) -> bool:
        """Gives a lock back, and says when the channel is due next."""
        return await self._unlock(guild_id, channel_id, token, "free", "" if due is None else repr(due))

    @reads
    async def _unlock(self, guild_id: int, channel_id: int, token: str, *how: str | int) -> bool:
        arguments = (room(guild_id, channel_id), token, *how)
        return bool(await self._buckets.run("unlock", self._buckets.bucket(guild_id), arguments))


def _sources(guild_id: int, row: SummaryRow) -> str:
    if row.parts:
        return " ".join(row.parts)
    if not row.passing:
        return pack_origins(guild_id, row.origins)
    return " ".join(
        f"{room(guild_id, one.channel_id)}:{padded(one.id)}:{one.revision!r}:{one.author_id}:{one.ts!r}"
        for one in row.passing
    )
