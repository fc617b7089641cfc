"""/history and /summary: a channel's past, loaded in the background and across restarts, exported, or in few words."""

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

from channelmem.context_window import ReachError, status_of
from channelmem.display import counted
from channelmem.durations import DAY_S
from channelmem.errors import ChannelmemError, SummariesBusyError
from channelmem.export import back_from, between, export
from channelmem.types import Load, Message

from .asking import QuestionBuilder
from .backfill import PAGE_SIZE, convert, fetch_after
from .commands import channel_id_of, report, server_group, tell
from .context import BotContext
from .contexts import moderates, moderates_and_reads, offer_durations
from .messages import MESSAGE_CHANNELS, MessageChannel, can_read, is_remembered, thread_of
from .privacy import fit

log = structlog.get_logger(__name__)

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


def _counts(load: Load) -> str:
    kept = f"{counted(load.stored, 'message')} that I didn't know {'is' if load.stored == 1 else 'are'} stored"
    return f"{kept}, {counted(load.summarised, 'older one')} went into summaries."


def _time(id_: int) -> datetime:
    return discord.utils.snowflake_time(id_).astimezone(UTC)


ATTEMPTS_AFTER_S = (0.0, 30.0, 120.0, 600.0)
"""Wait before each attempt: a Discord outage may last a while."""
KNOWN = 10_000
"""Stored messages of a channel that are recognised, and not stored again."""

OnProgress = Callable[[Load], Awaitable[None]]


def _id_at(ts: float) -> int:
    """The smallest id of that moment."""
    return discord.utils.time_snowflake(datetime.fromtimestamp(ts, UTC))


MOST_DAYS = 30
FILE_NAME = "channel-history.md"
TOLD_EVERY_S = 5.0
"""Between two edits of a progress message."""
TOKEN_S = 14 * 60.0
"""How long an answer to a command can be edited; Discord allows 15 minutes."""

Time = app_commands.Range[str, 1, 100]


class HistoryCommands(commands.Cog, name="History"):
    history_ = server_group("history", "Load or export this channel's past", manage_messages=True)

    def __init__(self, context: BotContext) -> None:
        self.context, self.memory = context, context.memory
        self._turn = asyncio.Lock()
        self._running: dict[int, asyncio.Task[None]] = {}
        self._listeners: dict[int, OnProgress] = {}

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
        kept_days = self._reaches_s(channel) / DAY_S
        less = f"I keep nothing of this channel for longer than {kept_days:g} days, so I go back no further.\n"
        lead = less if days > kept_days else ""
        begun = await self._begin(channel, days, _Progress(interaction, lead))
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
        await self.context.until_stored(channel_id)
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

    def _reaches_s(self, channel: MessageChannel) -> float:
        """How far back anything of the channel is kept."""
        return self.memory.policy(channel.guild.id, channel.id).kept_s

    async def _begin(self, channel: MessageChannel, days: float, on_progress: OnProgress) -> Load:
        """Starts a load; if one is in progress, that one goes on and is returned."""
        now = time.time()
        start = _id_at(now - min(days * DAY_S, self._reaches_s(channel)))
        load = Load(channel.id, start, start, _id_at(now))
        if not await self.memory.loads.begin(channel.guild.id, load):
            left = await self.memory.loads.open(channel.guild.id)
            load = next((one for one in left if one.channel_id == channel.id), load)
        self._listeners[channel.id] = on_progress
        self._start(channel, load)
        return load

    @commands.Cog.listener("on_guild_available")
    async def resume(self, guild: discord.Guild) -> None:
        """Goes on with what an earlier process left."""
        try:
            left = await self.memory.loads.open(guild.id)
        except ChannelmemError as error:
            log.warning("loads postponed", guild_id=guild.id, problem=type(error).__name__)
            return
        for load in left:
            channel = guild.get_channel_or_thread(load.channel_id)
            if isinstance(channel, MESSAGE_CHANNELS):
                self._start(channel, load)

    @commands.Cog.listener("on_guild_remove")
    async def stop(self, guild: discord.Guild) -> None:
        for channel in (*guild.channels, *guild.threads):
            if (running := self._running.pop(channel.id, None)) is not None:
                running.cancel()

    async def cog_unload(self) -> None:
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
        """Stores what the archive keeps and summarises what is older, page by page, until the end or until nothing of
        it may be kept any more."""
        guild_id = channel.guild.id
        held: tuple[Message, ...] = ()
        fetched = load.done_id
        known = await self.memory.known(guild_id, channel.id, KNOWN)
        while load.done_id < load.end_id and self._may_go_on(channel):
            page = await fetch_after(channel, fetched)
            inside = [one for one in page if one.id < load.end_id]
            last = len(inside) < PAGE_SIZE
            fetched = load.end_id if last else inside[0].id
            messages = [one for one in await convert(self.context, channel, inside) if one.content and not one.own]
            edge = time.time() - self.memory.policy(guild_id, channel.id).limits.lifetime_s
            older = (*held, *(one for one in messages if one.ts < edge))
            unknown = [one for one in messages if one.ts >= edge and one.id not in known]
            held = ()
            if older:
                ended = last or bool(messages and messages[-1].ts >= edge)
                held = await self.memory.summaries.absorb(guild_id, channel.id, older, more=not ended)
            await self.memory.remember_many(unknown)
            self.context.metrics.backfilled.inc(len(unknown))
            stored, passed = load.stored + len(unknown), load.summarised + len(older) - len(held)
            # What is held waits for the rest of its window, and is fetched again if this process ends.
            done = held[0].id - 1 if held else fetched
            load = replace(load, done_id=done, stored=stored, summarised=passed)
            if not await self.memory.loads.advance(guild_id, load):
                return
            if (listener := self._listeners.get(channel.id)) is not None:
                await listener(load)
        await self.memory.loads.end(guild_id, channel.id)
        log.info("loaded", guild_id=guild_id, channel_id=channel.id, stored=load.stored, summarised=load.summarised)

    def _may_go_on(self, channel: MessageChannel) -> bool:
        included = is_remembered(channel, self.context.settings, self.memory.policies)
        return included and can_read(channel, channel.guild.me)

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


# --- /summary ---


NOTHING_SAID = "I have nothing from that time in this channel."
ASK = (
    "Rebuild this channel's summaries? Those whose messages I no longer have stay as they are. "
    "With a language model this costs about as much as the first time."
)
CONFIRM, CANCEL = "Rebuild", "Cancel"
CANCELLED = "Nothing was changed."
EXPIRED = "Nothing was changed: nobody confirmed in time."
REBUILDING = "Rebuilding this channel's summaries …"
CONFIRM_S = 60.0


class SummaryCommands(commands.Cog, name="Summaries"):
    summary_ = server_group("summary", "This channel's past in few words", manage_messages=True)

    def __init__(self, context: BotContext) -> None:
        self.context, self.memory = context, context.memory
        self._questions = QuestionBuilder(context)

    @summary_.command(name="now", description="Sum up what was said here")
    @app_commands.describe(span="How far back: for example 24h, 2 days or yesterday")
    @app_commands.autocomplete(span=offer_durations)
    @app_commands.check(moderates_and_reads)
    async def now(self, interaction: discord.Interaction, span: app_commands.Range[str, 1, 100] = "24h") -> None:
        await interaction.response.defer(ephemeral=True)
        await self.context.until_stored(interaction.channel_id or 0)
        question = await self._questions.from_interaction(interaction, "", private=True)
        policy = self.memory.policies.of_question(question)
        try:
            window = back_from(question.ts, span, policy.tz.key)
        except ReachError as refused:
            await tell(interaction, str(refused))
            return
        told = await self.memory.recaps.of_span(question, window, policy) if policy.enabled else None
        await tell(interaction, told.text if told else NOTHING_SAID)

    @summary_.command(name="status", description="Show what a language model is given of this channel's past")
    @app_commands.check(moderates)
    async def status(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        await self.context.until_stored(interaction.channel_id or 0)
        question = await self._questions.from_interaction(interaction, "", private=True)
        await tell(interaction, await status_of(self.memory, question))

    @summary_.command(name="rebuild", description="Rebuild this channel's summaries")
    @app_commands.check(moderates)
    async def rebuild(self, interaction: discord.Interaction) -> None:
        asked = Confirmation(self._rebuilt, interaction)
        await interaction.response.send_message(ASK, view=asked, ephemeral=True)

    async def _rebuilt(self, interaction: discord.Interaction) -> str:
        moderates(interaction)  # it may have been taken away meanwhile
        channel = channel_id_of(interaction)
        try:
            made = await self.memory.summaries.rebuild(*channel)
        except SummariesBusyError as busy:
            return str(busy)
        log.info("summaries rebuilt", guild_id=channel.guild_id, channel_id=channel.channel_id, made=made)
        return f"I rebuilt {counted(made, 'summary', 'summaries')}."


class Confirmation(discord.ui.View):
    """Asks once, then does it; without an answer it goes away after a minute."""

    def __init__(self, act: Callable[[discord.Interaction], Awaitable[str]], asked: discord.Interaction) -> None:
        super().__init__(timeout=CONFIRM_S)
        self._act, self._asked = act, asked

    @discord.ui.button(label=CONFIRM, style=discord.ButtonStyle.danger)
    async def confirm(self, interaction: discord.Interaction, _button: discord.ui.Button[Confirmation]) -> None:
        self.stop()
        await interaction.response.edit_message(content=REBUILDING, view=None)
        text = await self._act(interaction)
        await interaction.edit_original_response(content=text)

    @discord.ui.button(label=CANCEL, style=discord.ButtonStyle.secondary)
    async def cancel(self, interaction: discord.Interaction, _button: discord.ui.Button[Confirmation]) -> None:
        self.stop()
        await interaction.response.edit_message(content=CANCELLED, view=None)

    async def on_timeout(self) -> None:
        try:
            await self._asked.edit_original_response(content=EXPIRED, view=None)
        except discord.HTTPException as error:
            log.debug("could not take the question back", status=error.status)

    async def on_error(
        self, interaction: discord.Interaction, error: Exception, _item: discord.ui.Item[Confirmation]
    ) -> None:
        await report(interaction, error)
