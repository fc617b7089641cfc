"""The platform's history: the newest messages of a channel, fetched from Discord and kept for a few seconds.

Meanwhile the copy follows new messages, edits and deletes, so it is never staler than the channel itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import aiohttp
import discord

from channelmem.settings import Settings
from channelmem.types import Message, Past, Person, Question

from .messages import MESSAGE_CHANNELS, MemberSearch, MessageChannel, can_read, fetch_members, is_for_a_bot, to_message


@dataclass(slots=True)
class RecentMessages:
    messages: dict[int, Message] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    problem: str = ""
    """Why Discord returned nothing, as a sentence for people."""
    expires_at: float = float("inf")
    """Infinite while the fetch is running."""
    fetch: asyncio.Task[None] | None = None


PAGE_SIZE = 100
CACHE_S = 5.0
TIMEOUT_S = 6.0

UNKNOWN_CHANNEL = "I can't see this channel on Discord."
FORBIDDEN = "I can't read this channel's history: I'm missing the Read Message History permission here."
DELETED_CHANNEL = "Discord says this channel no longer exists."
RATE_LIMITED = "Discord asked me to slow down, so I couldn't check the channel's history just now."
DISCORD_DOWN = "Discord is having trouble, so I couldn't check the channel's history."
TIMED_OUT = "Discord took too long to answer, so I couldn't check the channel's history."


class DiscordHistory:
    """Implements channelmem.types.History with a discord.py client."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._client: discord.Client | None = None
        self._cache: dict[int, RecentMessages] = {}
        self.members = MemberSearch()

    def attach(self, client: discord.Client) -> None:
        """Memory needs its history before the client exists, so the client arrives later."""
        self._client = client

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        recent = await self._recent(question.channel_id)
        if recent.problem:
            return Past(problem=recent.problem)
        oldest = question.ts - max_age_s
        current = (message for id_, message in recent.messages.items() if id_ not in recent.deleted)
        kept = sorted((m for m in current if m.id < question.id and m.ts >= oldest), key=lambda m: m.id)
        return Past(tuple(kept[-limit:]))

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        channel = self._channel(channel_id)
        if channel is None or not can_read(channel, channel.guild.me):
            return None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                found = await channel.fetch_message(message_id)
        except (discord.HTTPException, aiohttp.ClientError, OSError):
            return None
        return to_message(found, self._me())

    async def find_members(self, guild_id: int, prefix: str) -> tuple[Person, ...]:
        guild = self._client.get_guild(guild_id) if self._client else None
        return await self.members.find(guild, prefix) if guild else ()

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return f"https://discord.com/channels/{guild_id or '@me'}/{channel_id}/{message_id}"

    def update(self, message: Message) -> None:
        """Somebody wrote or edited a message."""
        recent = self._cache.get(message.channel_id)
        if recent is None or not self._is_relevant(message):
            return
        held = recent.messages.get(message.id)
        if held is None or held.revision <= message.revision:
            recent.messages[message.id] = message

    def delete(self, channel_id: int, ids: Iterable[int]) -> None:
        recent = self._cache.get(channel_id)
        if recent is not None:
            recent.deleted.update(ids)

    def delete_author(self, author_id: int) -> None:
        """Somebody asked to be forgotten."""
        self.members.clear()
        for recent in self._cache.values():
            recent.deleted.update(m.id for m in recent.messages.values() if m.author_id == author_id)

    async def _recent(self, channel_id: int) -> RecentMessages:
        now = self._clock()
        self._cache = {id_: kept for id_, kept in self._cache.items() if kept.expires_at > now}
        recent = self._cache.get(channel_id)
        if recent is None:
            recent = self._cache[channel_id] = RecentMessages()
            recent.fetch = asyncio.create_task(self._fill(channel_id, recent))
        if recent.fetch is not None:
            await asyncio.shield(recent.fetch)  # a cancelled question must not cancel the fetch for the others
        return recent

    async def _fill(self, channel_id: int, recent: RecentMessages) -> None:
        channel = self._channel(channel_id)
        try:
            if channel is None:
                recent.problem = UNKNOWN_CHANNEL
            elif not can_read(channel, channel.guild.me):
                recent.problem = FORBIDDEN  # Discord would return an empty page instead of an error
            else:
                recent.problem = await self._request(channel, recent)
        finally:
            recent.expires_at = self._clock() + CACHE_S
            # Drop it even if nobody asks again: otherwise it would hold people's words indefinitely.
            asyncio.get_running_loop().call_later(CACHE_S, self._expire, channel_id, recent)

    def _expire(self, channel_id: int, recent: RecentMessages) -> None:
        if self._cache.get(channel_id) is recent:
            del self._cache[channel_id]

    async def _request(self, channel: MessageChannel, recent: RecentMessages) -> str:
        """Fills the cache with one page; returns the problem, if any."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                page = [message async for message in channel.history(limit=PAGE_SIZE)]
        except discord.HTTPException as error:
            return problem_sentence(error)
        except discord.RateLimited:
            return RATE_LIMITED
        except TimeoutError:
            return TIMED_OUT
        except (aiohttp.ClientError, OSError):
            return DISCORD_DOWN
        members = await fetch_members(channel.guild, (m.author.id for m in page if not m.author.bot))
        for found in page:
            message = to_message(found, self._me(), members)
            if message is not None and self._is_relevant(message):
                recent.messages.setdefault(message.id, message)  # an edit during the fetch is newer than the page
        return ""

    def _is_relevant(self, message: Message) -> bool:
        return not message.own and not is_for_a_bot(message.content, self._settings)

    def _channel(self, channel_id: int) -> MessageChannel | None:
        found = self._client.get_channel(channel_id) if self._client else None
        return found if isinstance(found, MESSAGE_CHANNELS) else None

    def _me(self) -> discord.ClientUser:
        if self._client is None or self._client.user is None:
            raise RuntimeError("channels are known only after login")
        return self._client.user


def problem_sentence(error: discord.HTTPException) -> str:
    """What people are told when Discord refuses."""
    if isinstance(error, discord.Forbidden):
        return FORBIDDEN
    if isinstance(error, discord.NotFound):
        return DELETED_CHANNEL
    return RATE_LIMITED if error.status == 429 else DISCORD_DOWN
