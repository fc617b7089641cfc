"""Writes what is missing in a channel's pyramid of summaries, and removes what no longer fits. The default summariser
quotes, and takes its processor time from a thread: an answer never waits for it.

The worker keeps summaries up to date in the background. Messages make their channel due a while after their window
closes, removals at once. Any number of processes share the work: a channel is updated under a lock, which expires if
its process dies, and one that fails is tried again, later each time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Protocol

from cachetools import LRUCache

from channelmem.errors import ChannelmemError, RedisUnavailableError, SummariesBusyError
from channelmem.ids import ChannelId
from channelmem.policy.policy import Policy
from channelmem.settings import Settings
from channelmem.store.derived import LOCK_MS, Committed, Outline, SummaryRow, SummaryStore
from channelmem.store.search import Query, Search
from channelmem.summaries.extractive import combine, summarise
from channelmem.summaries.pyramid import (
    ClosedWindow,
    SmartSizes,
    Summary,
    closed_windows,
    from_document,
    from_id,
    missing,
    pairs,
    reaching,
    to_document,
    window_start,
)
from channelmem.tasks import cancel_all
from channelmem.types import Message, Source, Window

BATCH_MESSAGES = 600  # messages whose summaries are committed together: about 10 ms of Redis
BATCH_SUMMARIES = 64
READ = 2_000  # messages read at once
TRIES = 3  # how often an update is planned again because people deleted or edited something meanwhile
BUSY = "This channel's summaries are being updated, or its messages are changing. Try again in a minute."

TOGETHER = 4  # channels that one process updates at a time
POLL_S = 5.0  # between two looks for channels that are due
FIRST_RETRY_S = 30.0
LAST_RETRY_S = 3600.0
LOCK_POLL_S = 0.2

log = logging.getLogger(__name__)


class Summariser(Protocol):
    """Never raises for what people wrote. What it writes is made from what it is given and nothing else: a summary is
    removed with any of its messages (`pyramid.base` notes them)."""

    async def of_window(self, window: ClosedWindow, *, created: float) -> Summary: ...

    async def of_pair(self, older: Summary, newer: Summary, *, created: float, channel: ChannelId) -> Summary:
        """Its cost is charged to `channel`."""


class Extractive:
    """The default: what people wrote, chosen sentence by sentence (extractive.py)."""

    async def of_window(self, window: ClosedWindow, *, created: float) -> Summary:
        return await asyncio.to_thread(summarise, window, created=created)

    async def of_pair(self, older: Summary, newer: Summary, *, created: float, channel: ChannelId) -> Summary:
        return await asyncio.to_thread(combine, older, newer, created=created)


@dataclass(frozen=True, slots=True)
class Held:
    """A channel whose lock is held."""

    guild_id: int
    channel_id: int
    policy: Policy
    token: str

    @property
    def place(self) -> ChannelId:
        return ChannelId(self.guild_id, self.channel_id)


@dataclass(frozen=True, slots=True)
class Updated:
    made: int
    due: float | None  # when to look again; None: not before its next message


Work = Callable[[Held], Awaitable[Updated]]


@dataclass(slots=True)
class _Draft:
    """What one commit will store."""

    removed: tuple[str, ...] = ()
    rows: list[SummaryRow] = field(default_factory=list)
    known: dict[str, Summary] = field(default_factory=dict)
    """Everything that will be there, by id; what is stored and was not read is known by its place only."""

    def drop(self, summaries: Iterable[Summary]) -> None:
        self.removed = tuple(one.id for one in summaries)
        for one in self.removed:
            self.known.pop(one, None)

    def add(self, summary: Summary, *, passing: tuple[Message, ...] = ()) -> None:
        self.known[summary.id] = summary
        origins = () if passing else summary.origins
        row = SummaryRow(summary.id, summary.start, to_document(summary), origins, passing, summary.parts)
        self.rows.append(row)


class Updater:
    def __init__(self, store: SummaryStore, search: Search, summariser: Summariser, settings: Settings) -> None:
        self._store, self._search, self._summariser = store, search, summariser
        self._minutes, self._debounce_s = settings.summary_window_minutes, settings.summary_debounce_s
        self._smart = SmartSizes() if settings.summary_smart_windows else None
        self._slot_s = settings.summary_slot_s

    # --- what is stored ---

    async def update(self, held: Held) -> Updated:
        made = tries = 0
        while True:
            outline, now = await self._store.outline(*held.place, held.policy), self._store.now()
            draft = await self._draft(held, outline, now)
            if not draft.rows:
                return Updated(made, self._due(outline, now))
            if await self._commit(held, draft):
                made += len(draft.rows)
            elif (tries := tries + 1) == TRIES:
                raise SummariesBusyError(BUSY)

    async def rebuild(self, held: Held) -> Updated:
        """Forgets every summary that can be made again, and all pairs, then makes them."""
        documents = await self._store.since(*held.place, None, held.policy)
        stored = {one.origin for one in await self._messages(held, Window())}
        again = [one for one in map(from_document, documents) if one.level > 1 or stored.issuperset(one.origins)]
        draft = _Draft()
        draft.drop(again)
        if again and not await self._commit(held, draft):
            raise SummariesBusyError(BUSY)
        return await self.update(held)

    async def _draft(self, held: Held, outline: Outline, now: float) -> _Draft:
        known = {one: from_id(one) for one in outline.ids}
        windows: list[ClosedWindow] = []
        for start, end in self._spans(outline, now):
            within = [one for one in await self._messages(held, Window(start, end)) if one.ts < end]
            windows += closed_windows(within, now, self._minutes, self._smart)
            if sum(len(one.messages) for one in windows) >= BATCH_MESSAGES:
                break  # the rest is for the next commit
        return await self._drafted(held, known, windows)

    def _spans(self, outline: Outline, now: float) -> list[tuple[float, float]]:
        """Slots with messages that no summary has, oldest first; with the slots of summaries that reach into them."""
        slots = {ts // self._slot_s for ts in outline.left if ts // self._slot_s * self._slot_s < now}
        lowest = [one for one in map(from_id, outline.ids) if one.level == 1]
        while True:
            reaching = [one for one in lowest if self._slots(one) & slots]
            grown = slots.union(*map(self._slots, reaching))
            if grown == slots:
                return [(slot * self._slot_s, (slot + 1) * self._slot_s) for slot in sorted(slots)]
            slots = grown

    def _slots(self, summary: Summary) -> set[float]:
        first, last = summary.start // self._slot_s, summary.end // self._slot_s
        return {first + at for at in range(int(last - first) + 1)}

    async def _messages(self, held: Held, window: Window) -> list[Message]:
        """What people said in a window, however much that is."""
        found: dict[int, Message] = {}
        while True:
            query = Query(
                held.guild_id,
                (held.channel_id,),
                window,
                limit=READ,
                source=Source.ARCHIVE,
                limits=held.policy.limits,
            )
            page = await self._search.newest(query)
            new = {one.id: one for one in page if one.id not in found}
            found |= new
            if len(page) < READ or not new:
                return list(found.values())
            window = replace(window, end=page[-1].ts)

    # --- what is not stored ---

    async def absorb(self, held: Held, messages: Sequence[Message], now: float) -> int:
        """Summarises messages that are too old to be stored, window by window."""
        limits = held.policy.limits
        closed = closed_windows(messages, now - limits.archive_s, self._minutes, self._smart)
        windows = [one for one in closed if one.messages[0].ts > now - limits.summary_s]
        made = 0
        while windows:
            known = {one: from_id(one) for one in await self._store.ids(*held.place, held.policy)}
            batch = _batch(windows)
            windows = windows[len(batch) :]
            draft = await self._drafted(held, known, batch, passing=True)
            if draft.rows and not await self._commit(held, draft):
                raise SummariesBusyError(BUSY)
            made += len(draft.rows)
        return made

    # --- both ---

    async def _drafted(
        self, held: Held, known: dict[str, Summary], windows: Sequence[ClosedWindow], *, passing: bool = False
    ) -> _Draft:
        lowest = [one.id for one in reaching(known.values(), windows) if one.level == 1]
        known |= await self._read(held, lowest)
        todo = missing(known.values(), windows)
        if passing:  # what is stored no longer can't be read again: a window is replaced by one that has all of it
            todo = tuple(one for one in todo if _has_all(one, known.values()))
        batch = _batch(todo)
        draft = _Draft(known=known)
        draft.drop(reaching(known.values(), batch))
        created = self._store.now()
        for window in batch:
            summary = await self._summariser.of_window(window, created=created)
            draft.add(summary, passing=window.messages if passing else ())
        left = todo[len(batch) :]
        await self._pair(held, draft, left[0].start if left else float("inf"), created)
        return draft

    async def _pair(self, held: Held, draft: _Draft, before: float, created: float) -> None:
        """Combines neighbours that end before the next window to be summarised: that one belongs behind them."""

        while len(draft.rows) < BATCH_SUMMARIES:
            some = pairs([one for one in draft.known.values() if one.end < before])
            if not some:
                return
            unread = [one.id for pair in some for one in pair if not one.message_count]
            draft.known |= await self._read(held, unread)
            for older, newer in some:
                both = draft.known[older.id], draft.known[newer.id]
                if not all(one.message_count for one in both):
                    raise SummariesBusyError(BUSY)
                draft.add(await self._summariser.of_pair(*both, created=created, channel=held.place))

    async def _read(self, held: Held, ids: Sequence[str]) -> dict[str, Summary]:
        documents = await self._store.some(*held.place, ids, held.policy)
        return {one.id: one for one in map(from_document, documents)}

    async def _commit(self, held: Held, draft: _Draft) -> bool:
        """False if a source went meanwhile."""
        result = await self._store.commit(*held.place, held.token, draft.removed, draft.rows, held.policy)
        if result is Committed.LOST:
            raise SummariesBusyError(BUSY)
        return result is Committed.DONE

    def _due(self, outline: Outline, now: float) -> float | None:
        """When the first window that is still open will be summarised."""
        if not outline.left:
            return None
        closes = window_start(min(outline.left), self._minutes) + 60 * self._minutes
        return (closes if closes > now else now + 60 * self._minutes) + self._debounce_s


def _batch(windows: Sequence[ClosedWindow]) -> list[ClosedWindow]:
    """The first ones, with as many messages as one commit takes; at least one window."""
    sizes = accumulate(len(one.messages) for one in windows)
    return [one for one, size in zip(windows, sizes, strict=True) if one is windows[0] or size <= BATCH_MESSAGES]


def _has_all(window: ClosedWindow, summaries: Iterable[Summary]) -> bool:
    """Whether it has every message of the summaries that it would replace."""
    mine = {one.origin for one in window.messages}
    return all(mine.issuperset(one.origins) for one in reaching(summaries, [window]) if one.level == 1)


# --- the worker ---


class SummaryWorker:
    def __init__(self, store: SummaryStore, updater: Updater, policy_of: Callable[[int, int], Policy]) -> None:
        self._store, self._updater, self._policy_of = store, updater, policy_of
        self._failures: LRUCache[tuple[int, int], int] = LRUCache(10_000)  # how often in a row a channel failed

    # --- in the background ---

    async def run(self) -> None:
        """Works until it is cancelled, and survives outages of Redis."""
        while True:
            try:
                busy = await self.run_due()
            except ChannelmemError as error:
                log.warning("Summaries wait: %s", error)
                busy = 0
            if busy < TOGETHER:
                await asyncio.sleep(POLL_S)

    async def finish(self) -> None:
        """Updates whatever is due, then returns."""
        while await self.run_due():
            pass

    async def run_due(self) -> int:
        """Updates a few channels that are due; returns how many."""
        token = secrets.token_hex(8)
        taken: list[tuple[int, int]] = []
        for bucket in await self._store.buckets():
            if len(taken) < TOGETHER:
                taken += await self._store.claim(bucket, token, TOGETHER - len(taken))
        await asyncio.gather(*(self._one(*place, token) for place in taken))
        return len(taken)

    async def _one(self, guild_id: int, channel_id: int, token: str) -> None:
        held = Held(guild_id, channel_id, self._policy_of(guild_id, channel_id), token)
        try:
            await self._work(held, self._updater.update)
        except (RedisUnavailableError, SummariesBusyError) as error:
            log.warning("Summaries of channel %d are tried again later: %s", channel_id, error)
        except Exception:  # one channel's texts must not end the summaries of all others
            log.exception("Summaries of channel %d failed; trying again later", channel_id)

    # --- on request ---

    async def now(self, guild_id: int, channel_id: int, work: Work, wait_s: float = 0.0) -> Updated:
        """Does something to a channel's summaries under its lock; SummariesBusyError if somebody else holds that for
        longer than `wait_s`."""
        token, loop = secrets.token_hex(8), asyncio.get_running_loop()
        end = loop.time() + wait_s
        while not await self._store.lock(guild_id, channel_id, token):
            if loop.time() >= end:
                raise SummariesBusyError(BUSY)
            await asyncio.sleep(LOCK_POLL_S)
        return await self._work(Held(guild_id, channel_id, self._policy_of(guild_id, channel_id), token), work)

    async def _work(self, held: Held, work: Work) -> Updated:
        done, policy = Updated(0, None), held.policy
        failed = self._failures.pop(held.place, 0) + 1
        due: float | None = self._store.now() + min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** (failed - 1))
        try:
            if policy.enabled and policy.summaries and policy.limits.archive:
                async with self._kept(held):
                    done = await work(held)
            failed, due = 0, done.due
        finally:
            if failed:
                self._failures[held.place] = failed
            # If that fails too, the lock expires, and the channel is due again.
            with contextlib.suppress(RedisUnavailableError):
                await self._store.free(*held.place, held.token, due)
        return done

    @asynccontextmanager
    async def _kept(self, held: Held) -> AsyncIterator[None]:
        """Prolongs the lock for as long as the block takes: a language model may need minutes."""

        async def keep() -> None:
            while True:
                await asyncio.sleep(LOCK_MS / 3000)
                with contextlib.suppress(RedisUnavailableError):
                    await self._store.keep(*held.place, held.token)

        task = asyncio.create_task(keep(), name="channelmem keeping a lock")
        try:
            yield
        finally:
            await cancel_all([task])
