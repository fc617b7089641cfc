"""Cog: hears the guilds. In: Discord's events. Out: Memory calls, in the order of the events, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import discord
import structlog
from discord.ext import commands

from bot.messages.convert import is_command, to_message
from bot.messages.permissions import remembered
from channelmem.types import Message

if TYPE_CHECKING:
    from bot.client import Bot

CATCH_UP_S = 1.0
"""Longer than this no question waits: Redis may be away."""

log = structlog.get_logger(__name__)


class Listen(commands.Cog):
    def __init__(self, bot: Bot) -> None:
        self.bot = bot
        self.memory = bot.memory
        self.settings = bot.settings
        self._latest: dict[int, asyncio.Event] = {}

    def value(self, message: discord.Message) -> Message | None:
        """What to remember of a message: nothing for bots, commands, DMs and channels that are switched off."""
        if not remembered(message.channel, self.settings):
            return None
        value = to_message(message, self.bot.me)
        if value is None or (not value.own and is_command(value.content, self.settings.command_prefixes)):
            return None
        return value if value.content else None

    @commands.Cog.listener()
    async def on_shard_connect(self, shard_id: int) -> None:
        self.bot.sessions.begin(shard_id, self.bot.shard_count or 1)

    @commands.Cog.listener()
    async def on_message(self, message: discord.Message) -> None:
        # discord.py starts one task per event, in order; nothing may wait between here and `remember`
        # but what keeps that order.
        value = self.value(message)
        if value is None:
            return
        self.bot.history.note(value)
        with self._under_way(value.channel_id):
            if self.settings.backfill:
                await self.bot.sessions.heard(value.guild_id, value.channel_id, value.id)
            outcome = await self.memory.remember(value)
        self.bot.metrics.remembered.labels(outcome=outcome.value).inc()

    @contextlib.contextmanager
    def _under_way(self, channel_id: int) -> Iterator[None]:
        stored = self._latest[channel_id] = asyncio.Event()
        try:
            yield
        finally:
            stored.set()
            if self._latest.get(channel_id) is stored:
                del self._latest[channel_id]

    async def caught_up(self, channel_id: int) -> None:
        """Until what was said in a channel before this moment is stored: a question must see it."""
        if (latest := self._latest.get(channel_id)) is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(latest.wait(), CATCH_UP_S)

    @commands.Cog.listener()
    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        if payload.guild_id is None:
            return
        value = self.value(payload.message)
        if payload.message.edited_at is None:
            # Discord also sends this when it unfurls a link or pins: no edit, nothing new. But our own answer to a
            # slash command begins as "is thinking" and gets its words this way.
            if value is not None and value.own:
                await self.memory.remember(value)
            return
        if value is not None:
            self.bot.history.note(value)
            await self.memory.edit(value)
        elif (said := to_message(payload.message, self.bot.me)) is not None:
            # Emptied, or turned into a command: the old words must not stay. The message does, and may get new ones.
            self.bot.history.drop(payload.channel_id, (payload.message_id,))
            await self.memory.edit(replace(said, content=""))

    @commands.Cog.listener()
    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        if payload.guild_id is not None:
            await self._forget(payload.guild_id, payload.channel_id, (payload.message_id,))

    @commands.Cog.listener()
    async def on_raw_bulk_message_delete(self, payload: discord.RawBulkMessageDeleteEvent) -> None:
        if payload.guild_id is not None:
            await self._forget(payload.guild_id, payload.channel_id, tuple(sorted(payload.message_ids)))

    async def _forget(self, guild_id: int, channel_id: int, ids: tuple[int, ...]) -> None:
        self.bot.history.drop(channel_id, ids)
        await self.memory.delete(guild_id, channel_id, ids)
        log.info("messages deleted", guild_id=guild_id, channel_id=channel_id, count=len(ids))

    @commands.Cog.listener()
    async def on_guild_channel_delete(self, channel: discord.abc.GuildChannel) -> None:
        self.bot.sessions.lose(channel.guild.id, channel.id)
        await self.memory.delete_channel(channel.guild.id, channel.id)
        log.info("channel removed", guild_id=channel.guild.id, channel_id=channel.id)

    @commands.Cog.listener()
    async def on_raw_thread_delete(self, payload: discord.RawThreadDeleteEvent) -> None:
        self.bot.sessions.lose(payload.guild_id, payload.thread_id)
        await self.memory.delete_channel(payload.guild_id, payload.thread_id)
        log.info("thread removed", guild_id=payload.guild_id, channel_id=payload.thread_id)

    @commands.Cog.listener()
    async def on_raw_thread_update(self, payload: discord.RawThreadUpdateEvent) -> None:
        if payload.data["thread_metadata"]["archived"]:  # so that years of forum posts do not add up
            self.bot.sessions.lose(payload.guild_id, payload.thread_id)

    @commands.Cog.listener()
    async def on_guild_unavailable(self, guild: discord.Guild) -> None:
        # The session goes on without this guild; what is said there meanwhile is never sent.
        self.bot.sessions.lose(guild.id)

    @commands.Cog.listener()
    async def on_guild_remove(self, guild: discord.Guild) -> None:
        self.bot.sessions.lose(guild.id)
        await self.memory.delete_guild(guild.id)
        log.info("guild removed", guild_id=guild.id)
