"""Pages of a channel's history. In: a channel and a starting point. Out: messages ready to remember."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import discord

from channelmem.commands import is_command
from channelmem.settings import Settings
from channelmem.types import Message

from ..context import BotContext
from ..messages.channels import MessageChannel
from ..messages.convert import to_message
from ..messages.members import fetch_members

PAGE_SIZE = 100
"""The most Discord returns for one request."""


@dataclass(frozen=True, slots=True)
class Page:
    """Discord's reply to one request: every message that still exists in a stretch of the channel."""

    messages: Sequence[discord.Message]
    """Newest first, whoever wrote them."""
    before: int | None
    """Only messages older than this were requested; None for the channel's newest."""

    def covers(self, message_id: int) -> bool:
        """Whether a message that existed at the time of the request must be on the page."""
        oldest = self.messages[-1].id if len(self.messages) >= PAGE_SIZE else 0
        return oldest <= message_id and (self.before is None or message_id < self.before)


async def fetch_page(channel: MessageChannel, before: int | None) -> Page:
    """Makes one request."""
    start = discord.Object(before) if before else None
    return Page([m async for m in channel.history(limit=PAGE_SIZE, before=start, oldest_first=False)], before)


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
