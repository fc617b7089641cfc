"""Where the memory of each channel stood when a gateway session began. In: events. Out: lower and upper ends of a gap.

After a start or a lost session nobody knows what was said meanwhile. It lies between the newest message that was
stored before and the first one heard since. The first must be read before the second is stored: so the first
message of a channel waits for that one look-up, and all later ones pass.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from channelmem.errors import ChannelmemError

if TYPE_CHECKING:
    from channelmem.memory import Memory


@dataclass(frozen=True, slots=True)
class Edge:
    """What is known about a channel at the beginning of a session."""

    newest_stored: int | None
    """None: nothing stored, or Redis could not tell; then the fetch is bounded by its budget alone."""


class Sessions:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._edges: dict[tuple[int, int], asyncio.Task[Edge]] = {}
        self._first: dict[int, int] = {}

    def begin(self, shard_id: int, shard_count: int) -> None:
        """A shard identified anew: what it heard before says nothing about what comes next."""
        for guild_id, channel_id in list(self._edges):
            if (guild_id >> 22) % shard_count == shard_id:
                del self._edges[guild_id, channel_id]
                self._first.pop(channel_id, None)

    async def heard(self, guild_id: int, channel_id: int, message_id: int) -> None:
        """Called before a live message is stored. Those that wait are woken in their order."""
        self._first.setdefault(channel_id, message_id)
        edge = self._edge(guild_id, channel_id)
        if not edge.done():
            await asyncio.shield(edge)

    async def gap(self, guild_id: int, channel_id: int) -> tuple[int | None, int | None]:
        """(newest stored before the session, first heard in it); None where there is none."""
        edge = await asyncio.shield(self._edge(guild_id, channel_id))
        return edge.newest_stored, self._first.get(channel_id)

    def _edge(self, guild_id: int, channel_id: int) -> asyncio.Task[Edge]:
        key = (guild_id, channel_id)
        if key not in self._edges:
            self._edges[key] = asyncio.create_task(self._look(guild_id, channel_id))
        return self._edges[key]

    async def _look(self, guild_id: int, channel_id: int) -> Edge:
        try:
            return Edge(await self._memory.last_seen(guild_id, channel_id))
        except ChannelmemError:
            return Edge(None)
