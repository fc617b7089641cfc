"""Catches up with Discord when a guild becomes available: after a start, a join, a reconnect.

Only the gap is fetched: from the first message heard in this session (or the channel's newest) down to the newest one
stored before, newest first so that it is useful at once, within a budget per channel. The gaps of a guild are recorded
in Memory before its first page is fetched, because live messages soon hide them, and shrink with every page: an
interrupted gap is closed later.

The newest message stored before must be read before the first one heard is stored, so a channel's first message waits
for that one lookup; messages behind it keep their order, and all later ones pass straight through.

Every page is compared with what was stored before. A channel without a gap but with stored messages costs one request
for its newest page.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

import aiohttp
import discord
import structlog
from discord.ext import commands

from channelmem.durations import DAY_S
from channelmem.errors import ChannelmemError, RedisUnavailableError
from channelmem.interface import ChannelMemory
from channelmem.types import Message

from .context import BotContext
from .messages import MessageChannel, can_read, fetch_members, is_for_a_bot, is_remembered, message_channels, to_message

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _SessionStart:
    """What is known about a channel at the start of a session."""

    newest_stored: asyncio.Task[int | None]
    """None if nothing is stored or Redis did not answer; then the backfill budget is the only bound."""
    first_heard: int | None = None
    order: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A lock wakes waiting messages in order and lets no newcomer overtake them; awaiting the task would not."""


class SessionGaps:
    def __init__(self, memory: ChannelMemory) -> None:
        self._memory = memory
        self._starts: dict[tuple[int, int], _SessionStart] = {}

    def begin_session(self, shard_id: int, shard_count: int) -> None:
        """A shard identified again: what it heard in its last session says nothing about this one."""
        for guild_id, channel_id in list(self._starts):
            if (guild_id >> 22) % shard_count == shard_id:
                del self._starts[guild_id, channel_id]

    def reset(self, guild_id: int, channel_id: int | None = None) -> None:
        """A guild or a channel went away; if it comes back, it starts afresh."""
        for key in [key for key in self._starts if key[0] == guild_id and channel_id in (None, key[1])]:
            del self._starts[key]

    async def heard(self, guild_id: int, channel_id: int, message_id: int) -> None:
        """Called before a live message is stored; returns in the order of the calls."""
        start = self._start(guild_id, channel_id)
        start.first_heard = start.first_heard or message_id
        async with start.order:
            if not start.newest_stored.done():
                await asyncio.shield(start.newest_stored)

    async def gap(self, guild_id: int, channel_id: int) -> tuple[int | None, int | None]:
        """(newest stored before the session, first heard in it); None for whichever is missing."""
        start = self._start(guild_id, channel_id)
        return await asyncio.shield(start.newest_stored), start.first_heard

    def _start(self, guild_id: int, channel_id: int) -> _SessionStart:
        key = (guild_id, channel_id)
        if key not in self._starts:
            self._starts[key] = _SessionStart(asyncio.create_task(self._last_seen(guild_id, channel_id)))
        return self._starts[key]

    async def _last_seen(self, guild_id: int, channel_id: int) -> int | None:
        try:
            return await self._memory.last_seen(guild_id, channel_id)
        except ChannelmemError:
            return None


# --- pages ---


PAGE_SIZE = 100
"""The most Discord returns for one request."""


@dataclass(frozen=True, slots=True)
class DiscordPage:
    """Discord's reply to one request: every message that still exists in a stretch of the channel."""

    messages: Sequence[discord.Message]
    """Newest first, whoever wrote them."""
    before: int | None
    """Only messages older than this were requested; None for the channel's newest."""

    def covers(self, message_id: int) -> bool:
        """Whether a message that existed at the time of the request must be on the page."""
        oldest = self.messages[-1].id if len(self.messages) >= PAGE_SIZE else 0
        return oldest <= message_id and (self.before is None or message_id < self.before)


async def fetch_page(channel: MessageChannel, before: int | None) -> DiscordPage:
    """Makes one request."""
    start = discord.Object(before) if before else None
    return DiscordPage([m async for m in channel.history(limit=PAGE_SIZE, before=start, oldest_first=False)], before)


async def fetch_after(channel: MessageChannel, after: int) -> list[discord.Message]:
    """The next messages after an id, newest first; makes one request."""
    found = [m async for m in channel.history(limit=PAGE_SIZE, after=discord.Object(after), oldest_first=True)]
    return found[::-1]


async def convert(context: BotContext, channel: MessageChannel, messages: Sequence[discord.Message]) -> list[Message]:
    """Messages of people and of the bot, oldest first, of a page that is newest first; a command comes without its
    text."""
    members = await fetch_members(channel.guild, (m.author.id for m in messages if not m.author.bot))
    converted = (to_message(message, context.me, members) for message in reversed(messages))
    return [
        replace(one, content="") if not one.own and is_for_a_bot(one.content, context.settings) else one
        for one in converted
        if one
    ]


MAX_COMPARED = 1_000
"""Stored messages compared per channel: more than a page, because a page reaches far back if much was deleted."""

StoredRevisions = dict[int, float]
"""Revision by message id."""


async def _is_deleted(channel: MessageChannel, message_id: int) -> bool:
    """Asks for this one message; for a closed channel Discord answers "forbidden", not "not found"."""
    try:
        await channel.fetch_message(message_id)
    except discord.NotFound:
        return True
    except discord.HTTPException:
        return False
    return False


def _is_newer(message: discord.Message, stored: StoredRevisions) -> bool:
    revision = stored.get(message.id)
    return revision is not None and message.edited_at is not None and message.edited_at.timestamp() > revision


# --- cog ---


FIRST_LOAD_S = 7 * DAY_S
"""How far back a channel of which nothing is known is fetched; `/history load` goes further."""
PARALLEL_CHANNELS = 2
"""Over all guilds: live answers come first within Discord's rate limits."""
ATTEMPTS_AFTER_S = (0.0, 30.0, 120.0, 600.0)
"""Wait before each attempt at a guild: a Discord outage may last a while."""
REDIS_RETRY_S = 15.0
"""Between two checks for Redis."""


@dataclass(frozen=True, slots=True)
class IdRange:
    """Ids strictly between `oldest` and `newest` are missing; `newest` None means up to the channel's newest."""

    newest: int | None
    oldest: int


@dataclass(frozen=True, slots=True)
class ChannelPlan:
    """What to fetch for a channel."""

    channel: MessageChannel
    missing: list[IdRange]
    includes_newest: bool
    """The pages of `missing` start at the channel's newest message, or at the first one heard."""


@dataclass(frozen=True, slots=True)
class BackfillProgress:
    """Channel ids that one run over a guild has finished, and those whose gap it recorded."""

    done: set[int] = field(default_factory=set)
    recorded: set[int] = field(default_factory=set)


def _merge(fresh: IdRange | None, left: IdRange | None) -> list[IdRange]:
    """Both ranges, newer first; as one if they overlap."""
    if fresh and left and (left.newest is None or left.newest > fresh.oldest):
        return [IdRange(fresh.newest, min(fresh.oldest, left.oldest))]
    return [one for one in (fresh, left) if one]


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("backfill failed", exc_info=error)


class Backfill(commands.Cog):
    def __init__(self, context: BotContext, gaps: SessionGaps) -> None:
        self.context, self.gaps = context, gaps
        self.memory, self.settings = context.memory, context.settings
        self._fetches_new = self.settings.backfill and self.settings.backfill_messages > 0
        """If not, stored messages are still reconciled with edits and deletes."""
        self._slots = asyncio.Semaphore(PARALLEL_CHANNELS)
        self._running: dict[int, asyncio.Task[None]] = {}

    @commands.Cog.listener("on_guild_available")
    @commands.Cog.listener("on_guild_join")
    async def start(self, guild: discord.Guild) -> None:
        """One run per guild: a newer session knows more than the last one, so its run takes over."""
        await self.stop(guild)
        task = self._running[guild.id] = asyncio.create_task(self.run(guild), name=f"backfill {guild.id}")
        task.add_done_callback(_log_failure)

    @commands.Cog.listener("on_guild_remove")
    async def stop(self, guild: discord.Guild) -> None:
        if (running := self._running.pop(guild.id, None)) is not None:
            running.cancel()

    async def cog_unload(self) -> None:
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def run(self, guild: discord.Guild) -> None:
        """Closes all gaps of a guild: first the fresh ones, then those an earlier run left open."""
        progress = BackfillProgress()
        for wait_s in ATTEMPTS_AFTER_S:
            await asyncio.sleep(wait_s)
            await self._until_redis_is_up(guild.id)
            if await self._attempt(guild, progress):
                return
        log.warning("giving up on backfill until the next start or reconnect", guild_id=guild.id)

    async def _until_redis_is_up(self, guild_id: int) -> None:
        """Returns once Redis has taken everything queued. Giving up earlier would lose the gap: once Redis is back,
        the messages heard meanwhile hide what was missed."""
        for attempt in itertools.count():
            with contextlib.suppress(RedisUnavailableError):
                await self.memory.gaps(guild_id)
                if self.memory.available:
                    return
            if not attempt:
                log.warning("backfill postponed", guild_id=guild_id, problem=RedisUnavailableError.__name__)
            await asyncio.sleep(REDIS_RETRY_S)

    async def _attempt(self, guild: discord.Guild, progress: BackfillProgress) -> bool:
        """True if no channel is left to fetch or to compare."""
        wanted = [c for c in message_channels(guild) if self._is_wanted(c) and c.id not in progress.done]
        try:
            gaps = await self.memory.gaps(guild.id)
            left = {gap.channel_id: IdRange(gap.newest_id, gap.oldest_id) for gap in gaps if self._fetches_new}
            plans = [await self._plan(channel, left.get(channel.id), progress) for channel in wanted]
        except ChannelmemError as error:
            log.warning("backfill postponed", guild_id=guild.id, problem=type(error).__name__)
            return False
        return all(await asyncio.gather(*(self._carry_out(plan, progress) for plan in plans)))

    def _is_wanted(self, channel: MessageChannel) -> bool:
        return is_remembered(channel, self.settings, self.memory.policies) and can_read(channel, channel.guild.me)

    async def _plan(self, channel: MessageChannel, left: IdRange | None, progress: BackfillProgress) -> ChannelPlan:
        """What was missed just now, then what an earlier run left open."""
        fresh = await self._fresh(channel) if self._fetches_new and channel.id not in progress.recorded else None
        missing = _merge(fresh, left)
        if fresh is not None:
            lowest = min(one.oldest for one in missing)
            await self.memory.note_gap(channel.guild.id, channel.id, fresh.newest, lowest)
            progress.recorded.add(channel.id)
        return ChannelPlan(channel, missing, fresh is not None or any(one.newest is None for one in missing))

    async def _fresh(self, channel: MessageChannel) -> IdRange | None:
        stored, first_heard = await self.gaps.gap(channel.guild.id, channel.id)
        last = channel.last_message_id
        if first_heard is None and (last is None or last <= (stored or 0)):
            return None  # nothing was said since: no request needed
        return IdRange(first_heard, stored or 0)

    async def _carry_out(self, plan: ChannelPlan, progress: BackfillProgress) -> bool:
        """A channel that fails keeps its recorded gap and does not stop the others."""
        async with self._slots:
            try:
                await self.catch_up(plan, progress)
            except (discord.HTTPException, aiohttp.ClientError, OSError, ChannelmemError) as error:
                log.warning("backfill interrupted", problem=type(error).__name__)
                return False
            return True

    async def catch_up(self, plan: ChannelPlan, progress: BackfillProgress) -> None:
        """Fetches what is missing and applies missed edits and deletes on the way."""
        channel = plan.channel
        stored = await self.memory.known(channel.guild.id, channel.id, MAX_COMPARED)  # before the first page
        if plan.missing:
            await self._fill(channel, await self._unheard(channel, plan.missing), stored)
        if stored and not plan.includes_newest:
            await self._compare(channel, stored, await fetch_page(channel, None))
        progress.done.add(channel.id)

    async def _unheard(self, channel: MessageChannel, missing: list[IdRange]) -> list[IdRange]:
        """The ranges without what was heard while the channel waited for its turn."""
        _, first_heard = await self.gaps.gap(channel.guild.id, channel.id)
        return [IdRange(first_heard if one.newest is None else one.newest, one.oldest) for one in missing]

    async def _fill(self, channel: MessageChannel, missing: list[IdRange], stored: StoredRevisions) -> None:
        guild_id, lowest = channel.guild.id, min(one.oldest for one in missing)
        count, budget = 0, self.settings.backfill_messages
        for ids in missing:
            async for page, found in self.pages(channel, ids, budget - count):
                await self._compare(channel, stored, page)
                if found:
                    messages = await convert(self.context, channel, found)
                    # Not the bot's own answers: they may quote what is gone, and their sources are known only live.
                    await self.memory.remember_many([one for one in messages if one.content and not one.own])
                    await self.memory.note_gap(guild_id, channel.id, found[-1].id, lowest)
                count += len(found)
        await self.memory.close_gap(guild_id, channel.id)
        self.context.metrics.backfilled.inc(count)
        log.info("backfilled", guild_id=guild_id, channel_id=channel.id, count=count)

    async def _compare(self, channel: MessageChannel, stored: StoredRevisions, page: DiscordPage) -> None:
        """Brings Memory in line with a page."""
        guild_id = channel.guild.id
        if not can_read(channel, channel.guild.me):
            return  # closed to the bot meanwhile; then Discord returns an empty page instead of an error
        if stored and not page.messages and not await _is_deleted(channel, max(stored)):
            log.warning("ignoring an unexpectedly empty page", guild_id=guild_id, channel_id=channel.id)
            return
        on_page = {message.id for message in page.messages}
        deleted = [id_ for id_ in stored if page.covers(id_) and id_ not in on_page]
        edited = [message for message in page.messages if _is_newer(message, stored)]
        if deleted:
            self.context.history.delete(channel.id, deleted)
            await self.memory.delete(guild_id, channel.id, deleted)
        for message in await convert(self.context, channel, edited) if edited else ():
            if message.content:
                self.context.history.update(message)
            else:
                self.context.history.delete(message.channel_id, [message.id])
            await self.memory.edit(message)
        if deleted or edited:
            counts = {"deleted": len(deleted), "edited": len(edited)}
            log.info("applied missed changes", guild_id=guild_id, channel_id=channel.id, **counts)

    async def pages(
        self, channel: MessageChannel, ids: IdRange, budget: int
    ) -> AsyncIterator[tuple[DiscordPage, list[discord.Message]]]:
        """Pages, newest first, each with its messages in the range; ends at the range's lower end, at the budget, or
        at messages too old to keep, or for a first load."""
        kept_s = self.memory.policy(channel.guild.id, channel.id).limits.lifetime_s
        before, too_old = ids.newest, time.time() - (kept_s if ids.oldest else min(kept_s, FIRST_LOAD_S))
        while budget > 0:
            page = await fetch_page(channel, before)
            inside = [m for m in page.messages if m.id > ids.oldest and m.created_at.timestamp() > too_old]
            found = inside[:budget]
            yield page, found
            if len(found) < PAGE_SIZE:
                return
            before, budget = found[-1].id, budget - PAGE_SIZE
