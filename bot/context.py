"""What every feature gets from the bot.

Features depend on this instead of the client, so the client can wire them together without an import cycle.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

import discord

from channelmem.interface import ChannelMemory
from channelmem.llm.prompts import Character
from channelmem.settings import Settings

from .history import DiscordHistory
from .messages import ChannelFetcher
from .metrics import Metrics


class BotContext(ChannelFetcher, Protocol):
    settings: Settings
    memory: ChannelMemory
    history: DiscordHistory
    metrics: Metrics
    shard_count: int
    until_stored: Callable[[int], Awaitable[None]]
    """Waits until everything said, edited or deleted in a channel so far has reached Memory."""
    characters: tuple[Character, ...]
    """Who may answer; the first does unless another is called by name."""

    owner_ids: Collection[int] | None
    """Who owns the application, as discord.py's `is_owner` reads it."""

    @property
    def application(self) -> discord.AppInfo | None:
        """As it was at login."""

    async def application_info(self) -> discord.AppInfo:
        """As it is now."""

    def get_partial_messageable(self, id: int, /) -> discord.PartialMessageable:  # noqa: A002  (discord.py's name)
        """Any channel, known to this process or not."""

    @property
    def me(self) -> discord.ClientUser:
        """The bot's own account; known after login."""
