"""/history: loads more of a channel's past, in the background and across restarts, or exports it."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime

import aiohttp
import discord
import structlog
from discord import app_commands
from discord.ext import commands
from discord.utils import format_dt

from channelmem.context.window import ReachError
from channelmem.display import counted
from channelmem.durations import DAY_S
from channelmem.errors import ChannelmemError
from channelmem.export import between, export
from channelmem.types import Load, Message

from .backfill import PAGE_SIZE, convert, fetch_after
from .commands import channel_id_of, server_group, tell
from .context import BotContext, UntilStored
from .contexts import moderates_and_reads, offer_durations
from .messages import MESSAGE_CHANNELS, MessageChannel, can_read, is_remembered, thread_of
from .privacy import fit

NO_CHANNEL = "I can't see this channel."
NOT_REMEMBERED = (
    "I don't remember this channel, so I can't load its past. My settings or `/channel settings` exclude it."
)
PAUSED = "I'm paused in this channel. Use `/memory-channel resume` before you load its past."
UNREADABLE = "I can't read this channel's history: I'm missing the Read Message History permission here."
INTERRUPTED = "This goes on after I restart. `/history load` shows how far it is."
NOTHING = "There was nothing to load: I know everything of that time that I may keep."

NOTHING_THERE = "I have nothing of this channel from that time."


def loading(load: Load) -> str:
    since = format_dt(_time(load.start_id), "D")
    upto = "" if load.done_id <= load.start_id else f", up to {format_dt(_time(load.done_id), 'f')}"
    return f"Loading this channel since {since}: {load.share:.0%} done{upto}. {_counts(load)}\n{INTERRUPTED}"


def loaded(load: Load) -> str:
    if not load.stored + load.summarised:
        return NOTHING
    return f"I loaded this channel since {format_dt(_time(load.start_id), 'D')}. {_counts(load)}"


def less(days: float, reach_s: float) -> str:
    """Why less is loaded than somebody wants; empty if it is not."""
    if days * DAY_S <= reach_s:
        return ""
    return f"I keep nothing of this channel for longer than {reach_s / DAY_S:g} days, so I go back no further.\n"


def _counts(load: Load) -> str:
    kept = f"{counted(load.stored, 'message')} that I didn't know {'is' if load.stored == 1 else 'are'} stored"
    return f"{kept}, {counted(load.summarised, 'older one')} went into summaries."


def _time(id_: int) -> datetime:
    return discord.utils.snowflake_time(id_).astimezone(UTC)


# --- loader ---


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
            if (listener := self._listeners.get(channel.id)) is not None:
                await listener(load)
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


def _id_at(ts: float) -> int:
    """The smallest id of that moment."""
    return discord.utils.time_snowflake(datetime.fromtimestamp(ts, UTC))


# --- cog ---


MOST_DAYS = 30
FILE_NAME = "channel-history.md"
TOLD_EVERY_S = 5.0
"""Between two edits of a progress message."""
TOKEN_S = 14 * 60.0
"""How long an answer to a command can be edited; Discord allows 15 minutes."""

Time = app_commands.Range[str, 1, 100]


class HistoryCommands(commands.Cog, name="History"):
    history_ = server_group("history", "Load or export this channel's past", manage_messages=True)

    def __init__(self, context: BotContext, until_stored: UntilStored) -> None:
        self.context, self.memory, self._until_stored = context, context.memory, until_stored
        self.loader = Loader(context)

    @commands.Cog.listener()
    async def on_guild_available(self, guild: discord.Guild) -> None:
        await self.loader.resume(guild)

    @commands.Cog.listener()
    async def on_guild_remove(self, guild: discord.Guild) -> None:
        self.loader.stop(guild)

    async def cog_unload(self) -> None:
        await self.loader.close()

    @history_.command(name="load", description="Load more of this channel's past, up to 30 days")
    @app_commands.describe(days="How many days back")
    @app_commands.check(moderates_and_reads)
    async def load(self, interaction: discord.Interaction, days: app_commands.Range[int, 1, MOST_DAYS] = 7) -> None:
        await interaction.response.defer(ephemeral=True)
        channel = interaction.channel
        refusal = await self._refusal(channel)
        if refusal or not isinstance(channel, MESSAGE_CHANNELS):
            await tell(interaction, refusal or NO_CHANNEL)
            return
        lead = less(days, self.loader.reaches_s(channel))
        begun = await self.loader.begin(channel, days, _Progress(interaction, lead))
        await interaction.edit_original_response(content=lead + loading(begun))
        log.info("loading", guild_id=interaction.guild_id, channel_id=channel.id, days=days)

    @history_.command(name="export", description="Get this channel's past as a Markdown file")
    @app_commands.rename(first="from", last="to")
    @app_commands.describe(
        first="Where to begin, such as 3 days or 2027-01-12; a week ago by default",
        last="Where to end; now by default",
    )
    @app_commands.autocomplete(first=offer_durations, last=offer_durations)
    @app_commands.check(moderates_and_reads)
    async def export(
        self, interaction: discord.Interaction, first: Time | None = None, last: Time | None = None
    ) -> None:
        await interaction.response.defer(ephemeral=True)
        guild_id, channel_id = channel_id_of(interaction)
        await self._until_stored(channel_id)
        tz = self.memory.policies.of(guild_id, channel_id, thread_of=thread_of(interaction.channel)).tz.key
        try:
            window = between(interaction.created_at.timestamp(), first or "", last or "", tz)
        except ReachError as refused:
            await tell(interaction, str(refused))
            return
        made = await export(self.memory, guild_id, channel_id, window, _title(interaction))
        if not made.found:
            await tell(interaction, NOTHING_THERE)
            return
        name, data, remark = await asyncio.to_thread(fit, made.lines, interaction.filesize_limit, FILE_NAME)
        file = discord.File(io.BytesIO(data), filename=name)
        found = f"{counted(made.messages, 'message')} and {counted(made.summaries, 'summary', 'summaries')}"
        await interaction.followup.send(f"Here is this channel's past: {found}.{remark}", file=file, ephemeral=True)

    async def _refusal(self, channel: object) -> str:
        """Why nothing can be loaded; empty if it can."""
        if not isinstance(channel, MESSAGE_CHANNELS):
            return NO_CHANNEL
        if not is_remembered(channel, self.context.settings, self.memory.policies):
            return NOT_REMEMBERED
        if not can_read(channel, channel.guild.me):
            return UNREADABLE
        return PAUSED if (await self.memory.status(channel.guild.id, channel.id)).paused else ""


def _title(interaction: discord.Interaction) -> str:
    channel, guild = interaction.channel, interaction.guild
    if isinstance(channel, MESSAGE_CHANNELS) and guild is not None:
        return f"#{channel.name} of {guild.name}"
    return "A channel"


class _Progress:
    """Shows how far a load is in the answer to its command, as long as that can be edited."""

    def __init__(self, interaction: discord.Interaction, lead: str) -> None:
        self._interaction, self._lead = interaction, lead
        self._began = self._told = time.monotonic()

    async def __call__(self, load: Load) -> None:
        now, done = time.monotonic(), load.done_id >= load.end_id
        if now - self._began > TOKEN_S or (now - self._told < TOLD_EVERY_S and not done):
            return
        self._told = now
        text = loaded(load) if done else loading(load)
        try:
            await self._interaction.edit_original_response(content=self._lead + text)
        except discord.HTTPException as error:
            log.debug("could not show progress", status=error.status)
