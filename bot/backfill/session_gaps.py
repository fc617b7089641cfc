"""Gaps between gateway sessions. In: session starts and live messages. Out: both ends of each channel's gap.

After a start or a lost session, what was said meanwhile lies between the newest message stored before and the first
one heard since. The former must be read before the latter is stored, so a channel's first message waits for that one
lookup; messages behind it keep their order, and all later ones pass straight through.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from channelmem.errors import ChannelmemError
from channelmem.memory import Memory


@dataclass(slots=True)
class _SessionStart:
    """What is known about a channel at the start of a session."""

    newest_stored: asyncio.Task[int | None]
    """None if nothing is stored or Redis did not answer; then the backfill budget is the only bound."""
    first_heard: int | None = None
    order: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A lock wakes waiting messages in order and lets no newcomer overtake them; awaiting the task would not."""


class SessionGaps:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._starts: dict[tuple[int, int], _SessionStart] = {}

    def begin_session(self, shard_id: int, shard_count: int) -> None:
        """A shard identified again: what it heard in its last session says nothing about this one."""
        for guild_id, channel_id in list(self._starts):
            if (guild_id >> 22) % shard_count == shard_id:
                del self._starts[guild_id, channel_id]

    def reset(self, guild_id: int, channel_id: int | None = None) -> None:
        """A guild or a channel went away; if it comes back, it starts afresh."""
        for key in [key for key in self._starts if key[0] == guild_id and channel_id in (None, key[1])]:
            del self._starts[key]

    async def heard(self, guild_id: int, channel_id: int, message_id: int) -> None:
        """Called before a live message is stored; returns in the order of the calls."""
        start = self._start(guild_id, channel_id)
        start.first_heard = start.first_heard or message_id
        async with start.order:
            if not start.newest_stored.done():
                await asyncio.shield(start.newest_stored)

    async def gap(self, guild_id: int, channel_id: int) -> tuple[int | None, int | None]:
        """(newest stored before the session, first heard in it); None for whichever is missing."""
        start = self._start(guild_id, channel_id)
        return await asyncio.shield(start.newest_stored), start.first_heard

    def _start(self, guild_id: int, channel_id: int) -> _SessionStart:
        key = (guild_id, channel_id)
        if key not in self._starts:
            self._starts[key] = _SessionStart(asyncio.create_task(self._last_seen(guild_id, channel_id)))
        return self._starts[key]

    async def _last_seen(self, guild_id: int, channel_id: int) -> int | None:
        try:
            return await self._memory.last_seen(guild_id, channel_id)
        except ChannelmemError:
            return None
