"""Members, from Discord. In: a guild with user ids, or the beginning of a name. Out: the members that arrive in time.

Messages from history carry no member, so their authors would lose their nicknames. One gateway request returns up to
a hundred members by id, or some whose name begins with a few letters; neither needs a privileged intent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import aiohttp
import discord

from channelmem.types import Person

from .convert import Members, to_person

TIMEOUT_S = 2.0
MAX_MEMBERS = 100
MAX_FOUND = 5
MAX_NAME_CHARS = 32
"""Discord has no longer names."""
CACHE_S = 60.0
MAX_HELD = 1_000

UNANSWERED = (TimeoutError, discord.DiscordException, ConnectionError, aiohttp.ClientError, RuntimeError)
"""Discord does not answer, or (RuntimeError) the shard is not connected."""


async def fetch_members(guild: discord.Guild, ids: Iterable[int]) -> Members:
    """Members that do not arrive in time are left out: their messages then show the global name."""
    wanted = list(dict.fromkeys(ids))[:MAX_MEMBERS]
    known = {id_: member for id_ in wanted if (member := guild.get_member(id_))}
    missing = [id_ for id_ in wanted if id_ not in known]
    if not missing:
        return known
    try:
        async with asyncio.timeout(TIMEOUT_S):
            found = await guild.query_members(user_ids=missing, limit=MAX_MEMBERS, cache=False)
    except UNANSWERED:
        return known
    return known | {member.id: member for member in found}


class MemberSearch:
    """Finds members by name and keeps what it found for a minute: a gateway allows two requests per second."""

    def __init__(self) -> None:
        self.held: dict[tuple[int, str], tuple[Person, ...]] = {}

    async def find(self, guild: discord.Guild, beginning: str) -> tuple[Person, ...]:
        """People whose nickname, global name or user name begins like this; none if Discord does not answer."""
        name = beginning.strip()
        if not 0 < len(name) <= MAX_NAME_CHARS:
            return ()
        key = (guild.id, name.casefold())
        if key not in self.held:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    found = await guild.query_members(name, limit=MAX_FOUND, cache=False)
            except UNANSWERED:
                return ()
            self._hold(key, tuple(to_person(member) for member in found if not member.bot)[:MAX_FOUND])
        return self.held[key]

    def _hold(self, key: tuple[int, str], people: tuple[Person, ...]) -> None:
        if len(self.held) >= MAX_HELD:
            self.held.clear()
        self.held[key] = people
        # Dropped even if nobody asks again: otherwise names would be held indefinitely.
        asyncio.get_running_loop().call_later(CACHE_S, self._drop, key, people)

    def _drop(self, key: tuple[int, str], people: tuple[Person, ...]) -> None:
        if self.held.get(key) is people:
            del self.held[key]

    def clear(self) -> None:
        self.held.clear()
