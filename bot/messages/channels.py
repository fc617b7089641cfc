"""Channels where people write. In: a channel as an event names it. Out: one whose permissions are known, or None."""

from __future__ import annotations

import asyncio
from typing import Protocol

import aiohttp
import discord

MessageChannel = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.Thread
MESSAGE_CHANNELS = (discord.TextChannel, discord.VoiceChannel, discord.StageChannel, discord.Thread)
TIMEOUT_S = 4.0

UNRESOLVED = (discord.HTTPException, discord.InvalidData, aiohttp.ClientError, OSError)
"""Discord refuses or does not answer; a TimeoutError is an OSError."""


class Fetcher(Protocol):
    async def fetch_channel(
        self, channel_id: int, /
    ) -> discord.abc.GuildChannel | discord.abc.PrivateChannel | discord.Thread: ...


async def resolve(client: Fetcher, channel: object, channel_id: int) -> MessageChannel | None:
    """The channel itself if it is known. A thread that Discord has not announced yet is fetched, because its
    permissions are those of its parent."""
    if isinstance(channel, MESSAGE_CHANNELS):
        return channel
    try:
        async with asyncio.timeout(TIMEOUT_S):
            found = await client.fetch_channel(channel_id)
    except UNRESOLVED:
        return None
    return found if isinstance(found, MESSAGE_CHANNELS) else None


def thread_of(channel: object) -> int:
    """The channel that a thread belongs to; 0 if it is no thread."""
    return channel.parent_id if isinstance(channel, discord.Thread) else 0


def is_age_restricted(channel: object) -> bool:
    """Also where nobody knows, as for a thread that Discord has not announced yet."""
    if isinstance(channel, discord.DMChannel):
        return False
    return channel.is_nsfw() if isinstance(channel, MESSAGE_CHANNELS) else True


def guild_of(channel: object) -> int:
    """0 for a private conversation, or an unknown place."""
    if isinstance(channel, discord.PartialMessageable):
        return channel.guild_id or 0
    guild = getattr(channel, "guild", None)
    return guild.id if guild is not None else 0
