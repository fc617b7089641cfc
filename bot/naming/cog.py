"""Cog: tells names. In: messages of remembered channels. Out: what their server and channel are called, to Memory.

A channel that is not remembered stays nameless: its name may say what nobody should know.
"""

from __future__ import annotations

import time

import discord
import structlog
from cachetools import TTLCache
from discord.ext import commands

from channelmem.durations import DAY_S
from channelmem.errors import ChannelmemError, RedisUnavailableError

from ..context import BotContext
from ..messages.channels import MESSAGE_CHANNELS
from ..messages.permissions import is_remembered

CHANNELS = 20_000

log = structlog.get_logger(__name__)


class Naming(commands.Cog):
    def __init__(self, context: BotContext) -> None:
        self.context = context
        self._told: TTLCache[int, tuple[str, str]] = TTLCache(CHANNELS, DAY_S, time.monotonic)
        """By channel; told again every day, or the memory would let go of it."""

    @commands.Cog.listener()
    async def on_message(self, message: discord.Message) -> None:
        channel, guild = message.channel, message.guild
        if guild is None or not isinstance(channel, MESSAGE_CHANNELS):
            return
        names = (guild.name, channel.name)
        if self._told.get(channel.id) == names:
            return
        if not is_remembered(channel, self.context.settings, self.context.memory.policies):
            return
        self._told[channel.id] = names  # before it is done: of many messages at once, one tells
        try:
            await self.context.memory.overview.tell_names(guild.id, guild.name, {channel.id: channel.name})
        except ChannelmemError as error:
            if isinstance(error, RedisUnavailableError):  # else the service refuses, today and with the next message
                self._told.pop(channel.id, None)
            log.info("names not told", problem=type(error).__name__)

    @commands.Cog.listener()
    async def on_guild_remove(self, guild: discord.Guild) -> None:
        """The memory forgets them with the server; if the bot is invited again, it tells them again."""
        for channel_id in [one.id for one in (*guild.channels, *guild.threads)]:
            self._told.pop(channel_id, None)
