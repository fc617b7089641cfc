"""Listens to Discord's events and tells Memory, in their order; also what channels are called."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

import discord
import structlog
from cachetools import TTLCache
from discord.ext import commands

from channelmem.durations import DAY_S
from channelmem.errors import ChannelmemError, RedisUnavailableError
from channelmem.types import Message, Outcome

from .answers import OwnAnswers
from .backfill import SessionGaps
from .context import BotContext
from .messages import MESSAGE_CHANNELS, is_for_a_bot, is_remembered, to_message

UNTIL_STORED_S = 1.0
"""A question waits no longer than this: Redis may be unreachable."""

log = structlog.get_logger(__name__)


class Listening(commands.Cog):
    def __init__(self, context: BotContext, gaps: SessionGaps, own_answers: OwnAnswers) -> None:
        self.context, self.gaps, self._own_answers = context, gaps, own_answers
        self.memory, self.settings = context.memory, context.settings
        self._being_stored: dict[int, set[asyncio.Event]] = {}
        """By channel: messages, edits and deletes on their way to Memory."""

    def memorable(self, message: discord.Message) -> Message | None:
        """The message to remember; None for bots, commands, DMs and excluded channels."""
        if not is_remembered(message.channel, self.settings, self.memory.policies):
            return None
        converted = to_message(message, self.context.me)
        if converted is None or (not converted.own and is_for_a_bot(converted.content, self.settings)):
            return None
        return converted if converted.content else None

    @commands.Cog.listener()
    async def on_shard_connect(self, shard_id: int) -> None:
        self.gaps.begin_session(shard_id, self.context.shard_count)

    @commands.Cog.listener()
    async def on_message(self, message: discord.Message) -> None:
        # discord.py starts one task per event, in order; only what preserves that order may be awaited before
        # `remember`.
        memorable = self.memorable(message)
        if memorable is None:
            return
        self.context.history.update(memorable)
        with self._storing(memorable.channel_id):
            if self.settings.backfill:
                await self.gaps.heard(memorable.guild_id, memorable.channel_id, memorable.id)
            outcome = await self._remember(memorable)
        self.context.metrics.messages.labels(outcome=outcome.value).inc()

    async def _remember(self, message: Message) -> Outcome:
        sourced = await self._with_sources(message)
        return await self.memory.remember(sourced) if sourced else Outcome.IGNORED

    async def _with_sources(self, message: Message) -> Message | None:
        """An answer of the bot with what it was made of; None if that is unknown, for then it must not be stored."""
        if not message.own:
            return message
        origins = await self._own_answers.origins(message.channel_id, message.id)
        return None if origins is None else replace(message, derived_from=origins)

    @contextlib.contextmanager
    def _storing(self, channel_id: int) -> Iterator[None]:
        stored, others = asyncio.Event(), self._being_stored.setdefault(channel_id, set())
        others.add(stored)
        try:
            yield
        finally:
            stored.set()
            others.discard(stored)
            if not others:
                del self._being_stored[channel_id]

    async def until_stored(self, channel_id: int) -> None:
        """Waits until everything said, edited or deleted in the channel so far is stored: a question must see it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(UNTIL_STORED_S):
                for stored in list(self._being_stored.get(channel_id, ())):
                    await stored.wait()

    @commands.Cog.listener()
    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        if payload.guild_id is None:
            return
        memorable = self.memorable(payload.message)
        if payload.message.edited_at is None:
            # Discord sends this for unfurled links and pins, too: nothing new was said. But the bot's own answer to a
            # slash command starts as "is thinking" and gets its text this way.
            if memorable is not None and memorable.own:
                with self._storing(memorable.channel_id):
                    await self._remember(memorable)
            elif memorable is not None and any(one.embed for one in memorable.attachments):
                await self.until_stored(memorable.channel_id)  # the preview may overtake its message
                await self.memory.media.attach(memorable)
        elif memorable is not None:
            self.context.history.update(memorable)
            await self._edit(memorable)
        elif (converted := to_message(payload.message, self.context.me)) is not None:
            # Now empty, or a command: the old text must go. The message stays and may get new text.
            self.context.history.delete(payload.channel_id, (payload.message_id,))
            await self._edit(replace(converted, content=""))

    async def _edit(self, message: Message) -> None:
        with self._storing(message.channel_id):
            if sourced := await self._with_sources(message):
                await self.memory.edit(sourced)

    @commands.Cog.listener()
    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        if payload.guild_id is not None:
            await self._delete(payload.guild_id, payload.channel_id, (payload.message_id,))

    @commands.Cog.listener()
    async def on_raw_bulk_message_delete(self, payload: discord.RawBulkMessageDeleteEvent) -> None:
        if payload.guild_id is not None:
            await self._delete(payload.guild_id, payload.channel_id, tuple(sorted(payload.message_ids)))

    async def _delete(self, guild_id: int, channel_id: int, ids: tuple[int, ...]) -> None:
        self.context.history.delete(channel_id, ids)
        with self._storing(channel_id):
            await self.memory.delete(guild_id, channel_id, ids)
        log.info("messages deleted", guild_id=guild_id, channel_id=channel_id, count=len(ids))

    @commands.Cog.listener()
    async def on_guild_channel_delete(self, channel: discord.abc.GuildChannel) -> None:
        self.gaps.reset(channel.guild.id, channel.id)
        await self.memory.delete_channel(channel.guild.id, channel.id)
        log.info("channel removed", guild_id=channel.guild.id, channel_id=channel.id)

    @commands.Cog.listener()
    async def on_raw_thread_delete(self, payload: discord.RawThreadDeleteEvent) -> None:
        self.gaps.reset(payload.guild_id, payload.thread_id)
        await self.memory.delete_channel(payload.guild_id, payload.thread_id)
        log.info("thread removed", guild_id=payload.guild_id, channel_id=payload.thread_id)

    @commands.Cog.listener()
    async def on_raw_thread_update(self, payload: discord.RawThreadUpdateEvent) -> None:
        if payload.data["thread_metadata"]["archived"]:  # otherwise years of forum posts would pile up
            self.gaps.reset(payload.guild_id, payload.thread_id)

    @commands.Cog.listener()
    async def on_guild_unavailable(self, guild: discord.Guild) -> None:
        # The session continues without this guild; Discord never sends what is said there meanwhile.
        self.gaps.reset(guild.id)

    @commands.Cog.listener()
    async def on_guild_remove(self, guild: discord.Guild) -> None:
        self.gaps.reset(guild.id)
        await self.memory.delete_guild(guild.id)
        log.info("guild removed", guild_id=guild.id)


CHANNELS = 20_000


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
