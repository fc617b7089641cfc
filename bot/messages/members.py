"""Nick names for fetched messages. In: a guild and user ids. Out: the members that Discord knows.

Messages from history carry no member, so their authors would lose the names that people see here. One gateway
request names up to a hundred of them and needs no privileged intent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import discord

from bot.messages.convert import Names

WAIT_S = 2.0
MOST = 100


async def nick_names(guild: discord.Guild, ids: Iterable[int]) -> Names:
    """Those not found in time are simply missing: their messages then carry their global name."""
    wanted = list(dict.fromkeys(ids))[:MOST]
    known = {id_: member for id_ in wanted if (member := guild.get_member(id_))}
    missing = [id_ for id_ in wanted if id_ not in known]
    if not missing:
        return known
    try:
        async with asyncio.timeout(WAIT_S):
            found = await guild.query_members(user_ids=missing, limit=MOST, cache=False)
    except (TimeoutError, discord.DiscordException, ConnectionError):
        return known
    return known | {member.id: member for member in found}
