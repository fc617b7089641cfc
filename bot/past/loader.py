"""Loads a channel's past from Discord. In: a channel and how many days. Out: a Memory that knows them.

Pages are read oldest first, because windows of conversation are summarised as they end. What the archive keeps is
stored; what is older is summarised in passing and never stored. Progress is noted in Memory after every page, so a load
goes on where it was after a restart. One channel at a time: live answers come first within Discord's rate limits, which
discord.py waits for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime

import aiohttp
import discord
import structlog

from channelmem.durations import DAY_S
from channelmem.errors import ChannelmemError
from channelmem.types import Load, Message

from ..backfill.pages import PAGE_SIZE, convert, fetch_after
from ..context import BotContext
from ..messages.channels import MESSAGE_CHANNELS, MessageChannel
from ..messages.permissions import can_read, is_remembered

ATTEMPTS_AFTER_S = (0.0, 30.0, 120.0, 600.0)
"""Wait before each attempt: a Discord outage may last a while."""
KNOWN = 10_000
"""Stored messages of a channel that are recognised, and not stored again."""

OnProgress = Callable[[Load], Awaitable[None]]

log = structlog.get_logger(__name__)


class Loader:
    def __init__(self, context: BotContext) -> None:
        self._context, self._memory = context, context.memory
        self._turn = asyncio.Lock()
        self._running: dict[int, asyncio.Task[None]] = {}
        self._listeners: dict[int, OnProgress] = {}

    def reaches_s(self, channel: MessageChannel) -> float:
        """How far back anything of the channel is kept."""
        return self._memory.policy(channel.guild.id, channel.id).kept_s

    async def begin(self, channel: MessageChannel, days: float, on_progress: OnProgress) -> Load:
        """Starts a load; if one is in progress, that one goes on and is returned."""
        now = time.time()
        start = _id_at(now - min(days * DAY_S, self.reaches_s(channel)))
        load = Load(channel.id, start, start, _id_at(now))
        if not await self._memory.loads.begin(channel.guild.id, load):
            left = await self._memory.loads.open(channel.guild.id)
            load = next((one for one in left if one.channel_id == channel.id), load)
        self._listeners[channel.id] = on_progress
        self._start(channel, load)
        return load

    async def resume(self, guild: discord.Guild) -> None:
        """Goes on with what an earlier process left."""
        try:
            left = await self._memory.loads.open(guild.id)
        except ChannelmemError as error:
            log.warning("loads postponed", guild_id=guild.id, problem=type(error).__name__)
            return
        for load in left:
            channel = guild.get_channel_or_thread(load.channel_id)
            if isinstance(channel, MESSAGE_CHANNELS):
                self._start(channel, load)

    def stop(self, guild: discord.Guild) -> None:
        for channel in (*guild.channels, *guild.threads):
            if (running := self._running.pop(channel.id, None)) is not None:
                running.cancel()

    async def close(self) -> None:
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _start(self, channel: MessageChannel, load: Load) -> None:
        running = self._running.get(channel.id)
        if running is None or running.done():
            self._running[channel.id] = asyncio.create_task(self._run(channel, load), name=f"load {channel.id}")

    async def _run(self, channel: MessageChannel, load: Load) -> None:
        try:
            for wait_s in ATTEMPTS_AFTER_S:
                await asyncio.sleep(wait_s)
                try:
                    async with self._turn:
                        await self._load(channel, load)
                except (discord.HTTPException, aiohttp.ClientError, OSError, ChannelmemError) as error:
                    log.warning("load interrupted", channel_id=channel.id, problem=type(error).__name__)
                    continue
                return
            log.warning("giving up on a load until the next start or reconnect", channel_id=channel.id)
        finally:
            self._listeners.pop(channel.id, None)

    async def _load(self, channel: MessageChannel, load: Load) -> None:
        """Page by page until the end, or until nothing of it may be kept any more."""
        guild_id = channel.guild.id
        held: tuple[Message, ...] = ()
        fetched = load.done_id
        known = await self._memory.known(guild_id, channel.id, KNOWN)
        while load.done_id < load.end_id and self._may_go_on(channel):
            page = await fetch_after(channel, fetched)
            inside = [one for one in page if one.id < load.end_id]
            last = len(inside) < PAGE_SIZE
            fetched = load.end_id if last else inside[0].id
            messages = [one for one in await convert(self._context, channel, inside) if one.content and not one.own]
            held, load = await self._take(channel, load, messages, held, known, last=last)
            # What is held waits for the rest of its window, and is fetched again if this process ends.
            load = replace(load, done_id=held[0].id - 1 if held else fetched)
            if not await self._memory.loads.advance(guild_id, load):
                return
            await self._tell(load)
        await self._memory.loads.end(guild_id, channel.id)
        log.info("loaded", guild_id=guild_id, channel_id=channel.id, stored=load.stored, summarised=load.summarised)

    async def _take(
        self,
        channel: MessageChannel,
        load: Load,
        messages: list[Message],
        held: tuple[Message, ...],
        known: dict[int, float],
        *,
        last: bool,
    ) -> tuple[tuple[Message, ...], Load]:
        """Stores what the archive keeps, and summarises what is older."""
        edge = time.time() - self._memory.policy(channel.guild.id, channel.id).limits.lifetime_s
        older = (*held, *(one for one in messages if one.ts < edge))
        unknown = [one for one in messages if one.ts >= edge and one.id not in known]
        ended = last or bool(messages and messages[-1].ts >= edge)
        if older:
            held = await self._memory.summaries.absorb(channel.guild.id, channel.id, older, more=not ended)
        await self._memory.remember_many(unknown)
        self._context.metrics.backfilled.inc(len(unknown))
        stored, passed = load.stored + len(unknown), load.summarised + len(older) - len(held)
        return held, replace(load, stored=stored, summarised=passed)

    def _may_go_on(self, channel: MessageChannel) -> bool:
        included = is_remembered(channel, self._context.settings, self._memory.policies)
        return included and can_read(channel, channel.guild.me)

    async def _tell(self, load: Load) -> None:
        if (listener := self._listeners.get(load.channel_id)) is not None:
            await listener(load)


def _id_at(ts: float) -> int:
    """The smallest id of that moment."""
    return discord.utils.time_snowflake(datetime.fromtimestamp(ts, UTC))
