"""Reconciles stored messages with Discord. In: what is stored, and a page of history. Out: missed edits and deletes.

What is stored is read before the page is requested, so a message said since cannot look deleted. Live events that
arrive while the page is in transit win: Memory refuses an edit older than its own revision, and any edit of a deleted
message.
"""

from __future__ import annotations

import discord
import structlog

from channelmem.types import Message

from ..context import BotContext
from ..messages.channels import MessageChannel
from ..messages.permissions import can_read
from .pages import Page, convert

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

    async def compare(self, channel: MessageChannel, stored: StoredRevisions, page: Page) -> None:
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
