"""Newest: what a channel's next message may answer. In: a channel. Out: its newest messages, for the linker."""

from __future__ import annotations

from collections.abc import Callable

from channelmem.errors import RedisUnavailableError
from channelmem.policy import Policy
from channelmem.store.search import Query, Search
from channelmem.types import Message, Source

LINKED = 50
"""How many of a channel's newest messages a new one may answer."""


class Newest:
    def __init__(self, search: Search, policy_of: Callable[[int, int], Policy]) -> None:
        self._search, self._policy_of = search, policy_of

    async def __call__(self, guild_id: int, channel_id: int) -> list[Message]:
        """Nothing while Redis is unreachable."""
        limits = self._policy_of(guild_id, channel_id).limits
        query = Query(guild_id, (channel_id,), limit=LINKED, flagged=True, source=Source.ARCHIVE, limits=limits)
        try:
            return await self._search.newest(query)
        except RedisUnavailableError:
            return []
