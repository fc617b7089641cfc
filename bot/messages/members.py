"""Members for fetched messages. In: a guild and user ids. Out: the members Discord returns in time.

Messages from history carry no member, so their authors would lose their nicknames. One gateway request returns up to
a hundred members and needs no privileged intent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import discord

from bot.messages.convert import Members

TIMEOUT_S = 2.0
MAX_MEMBERS = 100


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
    except (TimeoutError, discord.DiscordException, ConnectionError):
        return known
    return known | {member.id: member for member in found}
