"""What was edited or deleted while nobody listened. In: what is stored, a page of Discord's. Out: edits and deletes.

What is stored is read before the page is asked for, so that nothing said since is taken for deleted. What happens
while the page is on its way wins: the memory refuses an edit that is older than its own revision, and any edit of
what was deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import discord
import structlog

from bot.backfill.pages import Page, values
from bot.messages.permissions import Room, may_read
from channelmem.types import Message

if TYPE_CHECKING:
    from bot.client import Bot

MOST = 1_000
"""Stored messages compared per channel: more than a page, since a page reaches far back where much was deleted."""

Known = dict[int, float]
"""Stored messages with their revisions."""

log = structlog.get_logger(__name__)


class Reconcile:
    def __init__(self, bot: Bot) -> None:
        self._bot = bot

    async def known(self, room: Room) -> Known:
        """To be called before the first page of a channel is asked for."""
        return await self._bot.memory.known(room.guild.id, room.id, MOST)

    async def compare(self, room: Room, known: Known, page: Page) -> None:
        """Brings the memory in line with a page."""
        if not may_read(room, room.guild.me):
            return  # closed to us meanwhile; Discord then shows an empty page instead of an error
        if known and not page.messages and not await _is_gone(room, max(known)):
            log.warning("an empty page is not believed", guild_id=room.guild.id, channel_id=room.id)
            return
        here = {message.id for message in page.messages}
        gone = [id_ for id_ in known if page.covers(id_) and id_ not in here]
        edited = [message for message in page.messages if _is_newer(message, known)]
        if gone:
            await self._delete(room, gone)
        if edited:
            await self._edit(await values(self._bot, room, edited))
        if gone or edited:
            counts = {"deleted": len(gone), "edited": len(edited)}
            log.info("changed while away", guild_id=room.guild.id, channel_id=room.id, **counts)

    async def _delete(self, room: Room, ids: list[int]) -> None:
        self._bot.history.drop(room.id, ids)
        await self._bot.memory.delete(room.guild.id, room.id, ids)

    async def _edit(self, messages: list[Message]) -> None:
        for message in messages:
            if message.content:
                self._bot.history.note(message)
            else:
                self._bot.history.drop(message.channel_id, [message.id])
            await self._bot.memory.edit(message)


async def _is_gone(room: Room, message_id: int) -> bool:
    """Whether Discord says so of this one message: of a closed channel it says that we may not ask."""
    try:
        await room.fetch_message(message_id)
    except discord.NotFound:
        return True
    except discord.HTTPException:
        return False
    return False


def _is_newer(message: discord.Message, known: Known) -> bool:
    stored = known.get(message.id)
    return stored is not None and message.edited_at is not None and message.edited_at.timestamp() > stored
