"""What back-fill works with: gaps between gateway sessions, pages of a channel, and comparing these with Memory.

After a start or a lost session, what was said meanwhile lies between the newest message stored before and the first
one heard since. The former must be read before the latter is stored, so a channel's first message waits for that one
lookup; messages behind it keep their order, and all later ones pass straight through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import discord
import structlog

from channelmem.commands import is_command
from channelmem.errors import ChannelmemError
from channelmem.interface import ChannelMemory
from channelmem.settings import Settings
from channelmem.types import Message

from ..context import BotContext
from ..messages.convert import MessageChannel, to_message
from ..messages.people import can_read, fetch_members


@dataclass(slots=True)
class _SessionStart:
    """What is known about a channel at the start of a session."""

    newest_stored: asyncio.Task[int | None]
    """None if nothing is stored or Redis did not answer; then the backfill budget is the only bound."""
    first_heard: int | None = None
    order: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A lock wakes waiting messages in order and lets no newcomer overtake them; awaiting the task would not."""


class SessionGaps:
    def __init__(self, memory: ChannelMemory) -> None:
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


# --- pages ---


PAGE_SIZE = 100
"""The most Discord returns for one request."""


@dataclass(frozen=True, slots=True)
class DiscordPage:
    """Discord's reply to one request: every message that still exists in a stretch of the channel."""

    messages: Sequence[discord.Message]
    """Newest first, whoever wrote them."""
    before: int | None
    """Only messages older than this were requested; None for the channel's newest."""

    def covers(self, message_id: int) -> bool:
        """Whether a message that existed at the time of the request must be on the page."""
        oldest = self.messages[-1].id if len(self.messages) >= PAGE_SIZE else 0
        return oldest <= message_id and (self.before is None or message_id < self.before)


async def fetch_page(channel: MessageChannel, before: int | None) -> DiscordPage:
    """Makes one request."""
    start = discord.Object(before) if before else None
    return DiscordPage([m async for m in channel.history(limit=PAGE_SIZE, before=start, oldest_first=False)], before)


async def fetch_after(channel: MessageChannel, after: int) -> list[discord.Message]:
    """The next messages after an id, newest first; makes one request."""
    found = [m async for m in channel.history(limit=PAGE_SIZE, after=discord.Object(after), oldest_first=True)]
    return found[::-1]


async def convert(context: BotContext, channel: MessageChannel, messages: Sequence[discord.Message]) -> list[Message]:
    """Messages of people and of the bot, oldest first, of a page that is newest first; a command comes without its
    text."""
    members = await fetch_members(channel.guild, (m.author.id for m in messages if not m.author.bot))
    converted = (to_message(message, context.me, members) for message in reversed(messages))
    return [_blank_command(message, context.settings) for message in converted if message]


def _blank_command(message: Message, settings: Settings) -> Message:
    command = is_command(message.content, settings.command_prefixes, settings.command_names)
    return replace(message, content="") if command and not message.own else message


# --- reconcile ---


MAX_COMPARED = 1_000
"""Stored messages compared per channel: more than a page, because a page reaches far back if much was deleted."""

StoredRevisions = dict[int, float]
"""Revision by message id."""

log = structlog.get_logger(__name__)


class Reconciler:
    def __init__(self, context: BotContext) -> None:
        self._context = context

    async def stored(self, channel: MessageChannel) -> StoredRevisions:
        """Call this before requesting the channel's first page."""
        return await self._context.memory.known(channel.guild.id, channel.id, MAX_COMPARED)

    async def compare(self, channel: MessageChannel, stored: StoredRevisions, page: DiscordPage) -> None:
        """Brings Memory in line with a page."""
        if not can_read(channel, channel.guild.me):
            return  # closed to the bot meanwhile; then Discord returns an empty page instead of an error
        if stored and not page.messages and not await _is_deleted(channel, max(stored)):
            log.warning("ignoring an unexpectedly empty page", guild_id=channel.guild.id, channel_id=channel.id)
            return
        on_page = {message.id for message in page.messages}
        deleted = [id_ for id_ in stored if page.covers(id_) and id_ not in on_page]
        edited = [message for message in page.messages if _is_newer(message, stored)]
        if deleted:
            await self._delete(channel, deleted)
        if edited:
            await self._edit(await convert(self._context, channel, edited))
        if deleted or edited:
            counts = {"deleted": len(deleted), "edited": len(edited)}
            log.info("applied missed changes", guild_id=channel.guild.id, channel_id=channel.id, **counts)

    async def _delete(self, channel: MessageChannel, ids: list[int]) -> None:
        self._context.history.delete(channel.id, ids)
        await self._context.memory.delete(channel.guild.id, channel.id, ids)

    async def _edit(self, messages: list[Message]) -> None:
        for message in messages:
            if message.content:
                self._context.history.update(message)
            else:
                self._context.history.delete(message.channel_id, [message.id])
            await self._context.memory.edit(message)


async def _is_deleted(channel: MessageChannel, message_id: int) -> bool:
    """Asks for this one message; for a closed channel Discord answers "forbidden", not "not found"."""
    try:
        await channel.fetch_message(message_id)
    except discord.NotFound:
        return True
    except discord.HTTPException:
        return False
    return False


def _is_newer(message: discord.Message, stored: StoredRevisions) -> bool:
    revision = stored.get(message.id)
    return revision is not None and message.edited_at is not None and message.edited_at.timestamp() > revision
