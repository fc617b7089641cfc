"""Pages of a channel's past. In: a channel and where to begin. Out: what Discord has there, as messages to remember."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import discord

from bot.messages.convert import is_command, to_message
from bot.messages.members import nick_names
from bot.messages.permissions import Room
from channelmem.types import Message

if TYPE_CHECKING:
    from bot.client import Bot

PAGE = 100
"""The most that Discord gives for one request."""


@dataclass(frozen=True, slots=True)
class Page:
    """The answer to one request: everything that is left of a stretch of the channel."""

    messages: Sequence[discord.Message]
    """Newest first, whoever wrote them."""
    before: int | None
    """Only older ones were asked for; None: the newest there are."""

    def covers(self, message_id: int) -> bool:
        """Whether a message that existed at the request has to be here, unless it was deleted."""
        oldest = self.messages[-1].id if len(self.messages) >= PAGE else 0
        return oldest <= message_id and (self.before is None or message_id < self.before)


async def fetch(room: Room, before: int | None) -> Page:
    """One request."""
    start = discord.Object(before) if before else None
    return Page([m async for m in room.history(limit=PAGE, before=start, oldest_first=False)], before)


async def values(bot: Bot, room: Room, messages: Sequence[discord.Message]) -> list[Message]:
    """People's words and our own, oldest first, as they were said; a command comes without its words."""
    names = await nick_names(room.guild, (m.author.id for m in messages if not m.author.bot))
    found = (to_message(message, bot.me, names) for message in reversed(messages))
    return [_discreet(value, bot.settings.command_prefixes) for value in found if value]


def _discreet(value: Message, prefixes: str) -> Message:
    return replace(value, content="") if not value.own and is_command(value.content, prefixes) else value
