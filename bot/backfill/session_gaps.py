"""Where the memory of each channel stood when a gateway session began. In: events. Out: lower and upper ends of a gap.

After a start or a lost session nobody knows what was said meanwhile. It lies between the newest message that was
stored before and the first one heard since. The first must be read before the second is stored: so the first
message of a channel waits for that one look-up, those behind it keep their places, and all later ones pass.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from channelmem.errors import ChannelmemError

if TYPE_CHECKING:
    from channelmem.memory import Memory


@dataclass(slots=True)
class _Start:
    """What is known about a channel at the beginning of a session."""

    stored: asyncio.Task[int | None]
    """Its newest stored message; None if there is none, or if Redis could not tell (then the budget is the bound)."""
    first: int | None = None
    """The first message heard in the session."""
    queue: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A lock wakes those who wait in their order and lets no newcomer pass them; waiting for a task would not."""


class Sessions:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._starts: dict[tuple[int, int], _Start] = {}

    def begin(self, shard_id: int, shard_count: int) -> None:
        """A shard identified anew: what it heard before says nothing about what comes next."""
        for guild_id, channel_id in list(self._starts):
            if (guild_id >> 22) % shard_count == shard_id:
                del self._starts[guild_id, channel_id]

    def lose(self, guild_id: int, channel_id: int | None = None) -> None:
        """What is heard of a guild, or of one channel, has a new beginning: it went away and may come back."""
        for place in [place for place in self._starts if place[0] == guild_id and channel_id in (None, place[1])]:
            del self._starts[place]

    async def heard(self, guild_id: int, channel_id: int, message_id: int) -> None:
        """Called before a live message is stored; returns in the order of the calls."""
        start = self._start(guild_id, channel_id)
        start.first = start.first or message_id
        async with start.queue:
            if not start.stored.done():
                await asyncio.shield(start.stored)

    async def gap(self, guild_id: int, channel_id: int) -> tuple[int | None, int | None]:
        """(newest stored before the session, first heard in it); None where there is none."""
        start = self._start(guild_id, channel_id)
        return await asyncio.shield(start.stored), start.first

    def _start(self, guild_id: int, channel_id: int) -> _Start:
        key = (guild_id, channel_id)
        if key not in self._starts:
            self._starts[key] = _Start(asyncio.create_task(self._look(guild_id, channel_id)))
        return self._starts[key]

    async def _look(self, guild_id: int, channel_id: int) -> int | None:
        try:
            return await self._memory.last_seen(guild_id, channel_id)
        except ChannelmemError:
            return None
