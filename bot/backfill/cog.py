"""Cog: catches up with Discord. In: a guild that appears (start, join, reconnect). Out: a memory in line with it.

Only the gap is fetched: from the first message heard in this session (or the newest there is) down to the newest
that was stored before, newest first so that it is useful at once, within a budget per channel. All gaps of a guild are
noted in the memory before its first page, since soon nobody could tell them from what is heard, and shrink with every
page: an interrupted one is closed later.

Every page is also compared with what was stored before (`reconcile`). A channel without a gap, but with stored
messages, is asked for its newest page to that end: one request, and no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp
import discord
import structlog
from discord.ext import commands

from bot.backfill.pages import PAGE, Page, fetch, values
from bot.backfill.reconcile import Known, Reconcile
from bot.messages.permissions import Room, may_read, remembered, rooms
from channelmem.errors import ChannelmemError, RedisUnavailableError

if TYPE_CHECKING:
    from bot.client import Bot

AT_ONCE = 2
"""Channels fetched at the same time, over all guilds: live answers come first on Discord's rate limits."""
RETRIES_S = (0.0, 30.0, 120.0, 600.0)
"""Waits before each attempt at a guild: Discord may be away for a while."""
AWAY_S = 15.0
"""Between two looks whether Redis is back."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Ids that lie strictly between `oldest` and `newest` are missing; None is "up to the newest there is"."""

    newest: int | None
    oldest: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done for a channel."""

    room: Room
    stretches: list[Stretch]
    from_the_top: bool
    """The pages of the stretches begin with the channel's newest message, or the first one heard."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run over a guild has done: channels that are finished, and those whose gap is noted."""

    done: set[int] = field(default_factory=set)
    noted: set[int] = field(default_factory=set)


def _apart(fresh: Stretch | None, left: Stretch | None) -> list[Stretch]:
    """Both stretches, the newer first; as one where they overlap."""
    if fresh and left and (left.newest is None or left.newest > fresh.oldest):
        return [Stretch(fresh.newest, min(fresh.oldest, left.oldest))]
    return [stretch for stretch in (fresh, left) if stretch]


def _complain(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("backfill failed", exc_info=error)


class Backfill(commands.Cog):
    def __init__(self, bot: Bot) -> None:
        self.bot = bot
        self.memory = bot.memory
        self.settings = bot.settings
        self._fills = bot.settings.backfill and bot.settings.backfill_messages > 0
        """Without, nothing new is fetched; what is stored has to follow edits and deletes all the same."""
        self._reconcile = Reconcile(bot)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._running: dict[int, asyncio.Task[None]] = {}

    @commands.Cog.listener()
    async def on_guild_available(self, guild: discord.Guild) -> None:
        self.start(guild)

    @commands.Cog.listener()
    async def on_guild_join(self, guild: discord.Guild) -> None:
        self.start(guild)

    def start(self, guild: discord.Guild) -> None:
        """One run per guild: a newer session knows more than the one before, so it takes over."""
        self.stop(guild)
        task = self._running[guild.id] = asyncio.create_task(self.fill(guild), name=f"backfill {guild.id}")
        task.add_done_callback(_complain)

    @commands.Cog.listener()
    async def on_guild_remove(self, guild: discord.Guild) -> None:
        self.stop(guild)

    def stop(self, guild: discord.Guild) -> None:
        if (running := self._running.pop(guild.id, None)) is not None:
            running.cancel()

    async def cog_unload(self) -> None:
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def fill(self, guild: discord.Guild) -> None:
        """All gaps of a guild: first the fresh ones, then those that an earlier run left open."""
        run = Run()
        for wait_s in RETRIES_S:
            await asyncio.sleep(wait_s)
            await self._redis(guild.id)
            if await self._once(guild, run):
                return
        log.warning("backfill given up until the next start or reconnect", guild_id=guild.id)

    async def _redis(self, guild_id: int) -> None:
        """Waits until it answers and has taken what was queued. To give up before would lose the gap: once Redis is
        back, what was heard meanwhile hides what was missed."""
        for look in itertools.count():
            with contextlib.suppress(RedisUnavailableError):
                await self.memory.gaps(guild_id)
                if self.memory.available:
                    return
            if not look:
                log.warning("backfill postponed", guild_id=guild_id, problem=RedisUnavailableError.__name__)
            await asyncio.sleep(AWAY_S)

    async def _once(self, guild: discord.Guild, run: Run) -> bool:
        """True if no channel is left to fill or to compare."""
        wanted = [room for room in rooms(guild) if self._wanted(room) and room.id not in run.done]
        try:
            gaps = await self.memory.gaps(guild.id)
            left = {gap.channel_id: Stretch(gap.newest_id, gap.oldest_id) for gap in gaps if self._fills}
            plans = [await self._plan(room, left.get(room.id), run) for room in wanted]
        except ChannelmemError as error:
            log.warning("backfill postponed", guild_id=guild.id, problem=type(error).__name__)
            return False
        return all(await asyncio.gather(*(self._guarded(plan, run) for plan in plans)))

    def _wanted(self, room: Room) -> bool:
        return remembered(room, self.settings) and may_read(room, room.guild.me)

    async def _plan(self, room: Room, left: Stretch | None, run: Run) -> Plan:
        """What was missed just now, then what an earlier run left open."""
        fresh = await self._fresh(room) if self._fills and room.id not in run.noted else None
        stretches = _apart(fresh, left)
        if fresh is not None:
            lowest = min(stretch.oldest for stretch in stretches)
            await self.memory.note_gap(room.guild.id, room.id, fresh.newest, lowest)
            run.noted.add(room.id)
        return Plan(room, stretches, fresh is not None or any(stretch.newest is None for stretch in stretches))

    async def _guarded(self, plan: Plan, run: Run) -> bool:
        """A channel that fails keeps its gap noted and does not stop the others."""
        async with self._slots:
            try:
                await self.fill_room(plan, run)
            except (discord.HTTPException, aiohttp.ClientError, OSError, ChannelmemError) as error:
                log.warning("backfill interrupted", problem=type(error).__name__)
                return False
            return True

    async def fill_room(self, plan: Plan, run: Run) -> None:
        """Fetches what is missing; what changed is noticed on the way."""
        room = plan.room
        known = await self._reconcile.known(room)
        if plan.stretches:
            await self._fill(room, await self._unheard(room, plan.stretches), known)
        if known and not plan.from_the_top:
            await self._reconcile.compare(room, known, await fetch(room, None))
        run.done.add(room.id)

    async def _unheard(self, room: Room, stretches: list[Stretch]) -> list[Stretch]:
        """The same without what was heard while the channel waited for its turn."""
        _, first = await self.bot.sessions.gap(room.guild.id, room.id)
        return [Stretch(first if one.newest is None else one.newest, one.oldest) for one in stretches]

    async def _fill(self, room: Room, stretches: list[Stretch], known: Known) -> None:
        guild_id, lowest = room.guild.id, min(stretch.oldest for stretch in stretches)
        count, budget = 0, self.settings.backfill_messages
        for stretch in stretches:
            async for page, missing in self.pages(room, stretch, budget - count):
                await self._reconcile.compare(room, known, page)
                if missing:
                    found = await values(self.bot, room, missing)
                    await self.memory.remember_many([value for value in found if value.content])
                    await self.memory.note_gap(guild_id, room.id, missing[-1].id, lowest)
                count += len(missing)
        await self.memory.close_gap(guild_id, room.id)
        self.bot.metrics.backfilled.inc(count)
        log.info("backfilled", guild_id=guild_id, channel_id=room.id, count=count)

    async def _fresh(self, room: Room) -> Stretch | None:
        stored, first = await self.bot.sessions.gap(room.guild.id, room.id)
        last = room.last_message_id
        if first is None and (last is None or last <= (stored or 0)):
            return None  # nothing was said since: no request needed
        return Stretch(first, stored or 0)

    async def pages(
        self, room: Room, stretch: Stretch, budget: int
    ) -> AsyncIterator[tuple[Page, list[discord.Message]]]:
        """Pages, newest first, each with what it has of a stretch: until the stretch's lower end, the budget, or
        what is too old to be kept."""
        before, too_old = stretch.newest, time.time() - self.settings.lifetime_s
        while budget > 0:
            page = await fetch(room, before)
            inside = [m for m in page.messages if m.id > stretch.oldest and m.created_at.timestamp() > too_old]
            missing = inside[:budget]
            yield page, missing
            if len(missing) < PAGE:
                return
            before, budget = missing[-1].id, budget - PAGE
