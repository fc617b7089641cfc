"""`memory.summaries`: a channel's past in few words, as adapters use it. Everything returned is visible now: nothing of
a message that was deleted or edited, or of somebody who opted out. `RedisUnavailableError` is raised where Redis does
not answer, `SummariesBusyError` where somebody else is at work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from channelmem.context import ContextBuilder
from channelmem.ingest.normalise import normalise
from channelmem.policy.policies import Policies
from channelmem.store.derived import SummaryStore
from channelmem.store.search import Search
from channelmem.store.store import Store
from channelmem.summaries.pyramid import Summary, SummaryLine
from channelmem.summaries.reader import Breakdown, SummaryReader
from channelmem.summaries.update import Extractive, Held, Summariser, SummaryWorker, Updated, Updater
from channelmem.text import stems
from channelmem.types import Answer, Kind, Message, Question, Route, Window

WAIT_S = 30.0  # how long a request waits for an update that is under way

LEAST: Final = 0.5  # of the topic's words, the share that a line must have


class Summaries:
    def __init__(
        self,
        store: Store,
        policies: Policies,
        search: Search,
        reader: SummaryReader,
        context: ContextBuilder,
        summariser: Summariser | None = None,
    ) -> None:
        settings = store.buckets.settings
        self._reader, self._context = reader, context
        self._policies, self._decisions = policies, store.decisions
        self._clock, self._slot_s = store.buckets.clock, settings.summary_slot_s
        summaries = SummaryStore(store.buckets)
        self._updater = Updater(summaries, search, summariser or Extractive(), settings)
        self.worker = SummaryWorker(summaries, self._updater, policies.storing)

    async def of(self, guild_id: int, channel_id: int, window: Window | None = None) -> tuple[Summary, ...]:
        """All visible summaries of a channel, on all levels, oldest first; with a window, those that lie within it.
        `pyramid.roots` of them is the coarsest view, `cover.cover` the finest that fits a number of characters."""
        span = window or Window()
        found = await self._reader.read(guild_id, channel_id, self._policies.of(guild_id, channel_id), span.start)
        return tuple(one for one in found if span.contains(one.start) and span.contains(one.end))

    async def update(self, guild_id: int, channel_id: int) -> int:
        """Brings a channel's summaries up to date now: closed windows without one, then pairs. Returns how many
        summaries were made; none where the policy wants none."""
        return (await self.worker.now(guild_id, channel_id, self._updater.update, WAIT_S)).made

    async def rebuild(self, guild_id: int, channel_id: int) -> int:
        """Rebuilds all summaries whose messages are still stored; the others stay. Returns how many were made."""
        return (await self.worker.now(guild_id, channel_id, self._updater.rebuild, WAIT_S)).made

    async def absorb(
        self, guild_id: int, channel_id: int, messages: Sequence[Message], *, more: bool = False
    ) -> tuple[Message, ...]:
        """Summarises messages that are too old to be stored, without storing them; what was refused at its time (pause,
        opt-out, cleared) stays out. They come oldest first. `more` says that others follow: the last window may be
        incomplete then, so its messages are returned, and belong in front of the next call's."""
        slot_s = self._slot_s
        last = messages[-1].ts // slot_s * slot_s if messages and more else math.inf
        ripe = [one for one in messages if one.ts < last]
        allowed = await self._decisions.allowed(guild_id, channel_id, ripe)
        normal = (normalise(one, self._policies.of_message(one)) for one in allowed if not (one.own or one.addressed))
        told = [one for one in normal if one is not None]

        async def work(held: Held) -> Updated:
            now = self._clock()
            return Updated(await self._updater.absorb(held, told, now), now)

        if told:
            await self.worker.now(guild_id, channel_id, work, WAIT_S)
        return tuple(messages[len(ripe) :])

    async def breakdown(self, question: Question) -> Breakdown:
        """What `Memory.context` would give a language model of the channel's past, in numbers."""
        question = self._policies.reached(question)
        answer, policy = Answer("", Route(Kind.NONE)), self._policies.of_question(question)
        return (await self._context.block(question, answer, policy))[1]


def lines_about(route: Route, summaries: Iterable[Summary], before: float) -> list[tuple[SummaryLine, float]]:
    """Those sent earlier than `before`, within the route's time and by its speakers; each once."""
    wanted = frozenset(stems(route.topic))
    speakers = {person.id for person in route.speakers} if route.binds else set[int]()
    lines = {
        (line.message_id, line.text): line
        for summary in summaries
        for line in summary.lines
        if line.message_id and line.ts < before and route.window.contains(line.ts)
    }
    found = [
        (line, len(wanted & set(stems(line.text))) / len(wanted))
        for line in lines.values()
        # Whoever wrote nothing that is still stored is a stranger to the router, and may be known here.
        if wanted
        and (not speakers or line.author_id in speakers)
        and (not route.stranger or line.author.casefold() == route.stranger.casefold())
    ]
    fitting = [(line, share) for line, share in found if share >= LEAST]
    return sorted(fitting, key=lambda one: (-one[1], -one[0].weight, -one[0].ts))
