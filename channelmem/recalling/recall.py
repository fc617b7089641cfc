"""Recall: from a question to the messages it asks for, source by source, or honestly to none.

Sources are tried in the route's order until one is sure; if Redis is unreachable, a named branch goes on to the
platform's history. Only a topic needs the model: a question without one has nothing to compare. A window in which
nothing is found is dropped, and its words join the topic: "the meeting on Thursday" may be a meeting that was announced
on Monday.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from channelmem.embedding.embed import Embedder
from channelmem.errors import (
    ChannelmemError,
    IndexMismatchError,
    RedisLoadingError,
    RedisUnavailableError,
    SearchCutShortError,
)
from channelmem.recalling.answering import shipped
from channelmem.recalling.candidates import (
    CUT_SHORT,
    Archive,
    Asked,
    Buffer,
    CandidateSource,
    Cosines,
    Gathered,
    PlatformHistory,
    Topic,
    vector_of,
)
from channelmem.recalling.choosing import (
    BEFORE,
    CLOSE,
    LINK_MIN,
    SHOWS,
    Candidates,
    Choice,
    choose,
    read_candidates,
    wanted,
)
from channelmem.recalling.gist import About
from channelmem.recalling.rank import SHIPPED, Floats, Weights
from channelmem.recalling.verdict import ENOUGH, GUESS, Verdict, close, judge, least, sure_of_recap, sure_of_words
from channelmem.store.documents import whole
from channelmem.store.search import Search
from channelmem.types import (
    MEMORY_OFF,
    Evidence,
    History,
    Hit,
    Kind,
    Message,
    Mode,
    Question,
    Route,
    Source,
    SourceReport,
    That,
    Unsearched,
    Wants,
    Window,
)

RECAP_CLOSE: Final = 0.25
"""What is this similar to the topic of a recap may be what is meant: nobody says "the birthday" while they plan it."""
RECENT_S: Final = 36 * 3_600.0
"""How far back a recap goes that names no time, counted from the newest message."""
RECENT_MESSAGES: Final = 30
"""It tells of at least so many messages, however old they are."""
RECAP_MESSAGES: Final = 100
"""A recap looks at no more than this many messages of a window, the newest ones."""
SEVERAL: Final = 3
"""How many messages answer what was said in a time, or which links there are; somebody's last words are one."""
AWAY_S: Final = 1_800.0
"""Who wrote nothing for this long was away; a hello after that does not end it."""
UNREACHABLE: Final = "Redis does not answer."
LOADING: Final = "My memory is still loading after a restart; try again in a few minutes."
OUTDATED: Final = "The index belongs to another model; the operator has to restart or reindex."

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for a question."""

    route: Route
    """The one that led here: without its window, if that had to be dropped."""
    verdict: Verdict = Verdict.NOTHING
    hits: tuple[Hit, ...] = ()
    """Best first."""
    messages: tuple[Message, ...] = ()
    """For a recap: the window's messages, or those that may be about its topic, oldest first."""
    about: tuple[About, ...] = ()
    """For the recap of a topic: how much each of them is about it."""
    reports: tuple[SourceReport, ...] = ()
    """What was searched: one report per source, in order."""
    embed_ms: float = 0.0
    search_ms: float = 0.0
    sure: float = 0.0
    """How likely this answers the question."""
    ours: float | None = None
    """How likely the question is about this conversation; None if nothing was compared."""
    evidence: Evidence | None = None


@dataclass(slots=True)
class _Trip:
    """One question on its way through the sources, and what it has learned so far."""

    asked: Asked
    topic: Topic | None = None
    """The topic's embedding, started before the first source is read."""
    unreachable: bool = False
    """Whether Redis is known to be unreachable."""
    reports: list[SourceReport] = field(default_factory=list)
    embed_ms: float = 0.0
    compared: tuple[frozenset[int], Found] | None = None
    """The messages of the source before, and what was found among them: a young channel's archive has no others."""


SHOWN: Final = frozenset({Verdict.QUOTE, Verdict.GUESS})


class Recall:
    def __init__(
        self,
        search: Search,
        embedder: Embedder,
        *,
        clock: Callable[[], float],
        pending_wait_s: float = 0.25,
        history: History | None = None,
        weights: Weights = SHIPPED,
    ) -> None:
        self._embedder, self._clock, self._weights = embedder, clock, weights
        self._search, self._history = search, history
        self._cosines = Cosines(embedder, pending_wait_s)
        self._sources: dict[Source, CandidateSource] = {
            Source.BUFFER: Buffer(search, self._cosines),
            Source.ARCHIVE: Archive(search, self._cosines),
        }
        if history is not None:
            self._sources[Source.HISTORY] = PlatformHistory(history, self._cosines)

    async def __call__(self, asked: Asked) -> Found:
        route = asked.route
        if not asked.policy.enabled:
            return _off(route)
        if route.stranger and route.sources:
            return Found(route, reports=await self._extent(asked))
        if route.that is not None and (shown := await self._shown(asked, route.that)):
            return shown
        found = await self._travel(asked)
        if found.verdict in SHOWN or not _may_be_topic(route):
            return found
        # Nothing in that window: perhaps its words say when the thing is, not when it was said.
        widened = replace(
            route, window=Window(), topic=f"{route.topic} {route.time_words}".strip(), mode=Mode.TOPIC, time_words="",
            dropped=route.time_words if route.binds else "",
        )  # fmt: skip
        again = await self._travel(asked.along(widened))
        return again if again.verdict in SHOWN and (route.topic or _has_words(again)) else found

    async def _shown(self, asked: Asked, that: That) -> Found | None:
        """The one message that a question asks about, or what answers it; None to look for it as for anything else."""
        near, problem = await self._near(asked, that)
        message = next((one for one in near if one.id == that.id), None)
        source = Source.ARCHIVE
        if message is None and self._history is not None and that.id:
            message, source = await self._history.fetch_message(that.channel_id, that.id), Source.HISTORY
        lines = [] if message is None or message.own else told_of(message, near, that)
        report = SourceReport(source, len(near) or bool(message), min((one.ts for one in near), default=None), problem)
        if not lines:
            return Found(asked.route, reports=(report,)) if that.linked else None
        # Whatever else its words were taken for, this is what it is about.
        route = replace(
            asked.route, mode=Mode.LATEST, window=Window(), speakers=(), topic="", wants=Wants.FACT, binds=False
        )
        return replace(_judged(route, 1.0, self._in_order(lines, source, len(lines))), reports=(report,))

    async def _near(self, asked: Asked, that: That) -> tuple[list[Message], str]:
        if not that.id:
            return [], ""
        place, limits = (asked.question.guild_id, that.channel_id), asked.policy.limits
        try:
            return await self._search.around(*place, [that.id], BEFORE, limits=limits), ""
        except RedisUnavailableError as error:
            return [], _problem(error)

    async def _extent(self, asked: Asked) -> tuple[SourceReport, ...]:
        """How far back the memory reaches, for somebody who never wrote in it."""
        trip = _Trip(replace(asked, route=replace(asked.route, mode=Mode.RECAP, topic="")))
        await self._from(Source.ARCHIVE, self._sources[Source.ARCHIVE], trip)
        return tuple(trip.reports)

    async def _travel(self, asked: Asked) -> Found:
        started = time.perf_counter()
        trip = _Trip(asked)
        if asked.route.sources and _compares(asked.route):
            trip.topic = self._begin(trip)
        try:
            found = await self._surest(trip)
        finally:
            if trip.topic is not None:
                trip.topic.cancel()  # nobody is waiting for it any more; no effect if it is done
        search_ms = max(0.0, (time.perf_counter() - started) * 1000 - trip.embed_ms)
        return replace(found, reports=tuple(trip.reports), embed_ms=trip.embed_ms, search_ms=search_ms)

    def _begin(self, trip: _Trip) -> Topic:
        """Starts embedding the topic, and notes how long that takes."""
        started = time.perf_counter()

        def done(topic: Topic) -> None:
            del topic
            trip.embed_ms = (time.perf_counter() - started) * 1000

        topic = self._embedder.begin_question(trip.asked.query.topic)
        topic.add_done_callback(done)
        return topic

    async def _surest(self, trip: _Trip) -> Found:
        """What the first source that is sure has; if none is, what the surest has. The platform's history costs its
        patience, so it is asked only if nothing stored would do."""
        best = Found(trip.asked.route)
        for name in trip.asked.route.sources:
            source = self._sources.get(name)
            if source is None or (name is Source.HISTORY and best.verdict in SHOWN):
                continue
            if name is Source.BUFFER and any(one.source is Source.ARCHIVE and one.count for one in trip.reports):
                continue  # the archive has the buffer's messages, too
            found = await self._from(name, source, trip)
            likely = [one.ours for one in (best, found) if one.ours is not None]
            if (found.hits or found.messages) and found.sure > best.sure:
                best = found
            best = replace(best, ours=max(likely, default=None))
            if best.sure >= ENOUGH:
                break
        return best

    async def _from(self, name: Source, source: CandidateSource, trip: _Trip) -> Found:
        nothing = Found(trip.asked.route)
        if name is not Source.HISTORY and trip.unreachable:
            trip.reports.append(SourceReport(name, problem=trip.reports[-1].problem))
            return nothing
        try:
            found, report = await self._look(name, source, trip)
        except (RedisUnavailableError, IndexMismatchError) as error:
            # Members read the report, so the address of Redis stays in the log.
            log.warning("Answering without memory: %s", error)
            trip.unreachable = isinstance(error, RedisUnavailableError) and not isinstance(error, SearchCutShortError)
            trip.reports.append(SourceReport(name, problem=_problem(error)))
            return nothing
        trip.reports.append(_without_the_question(report, trip.asked.question))
        return found

    async def _look(self, name: Source, source: CandidateSource, trip: _Trip) -> tuple[Found, SourceReport]:
        asked = trip.asked
        if trip.topic is not None:
            return await self._about(name, source, trip, trip.topic)
        route = asked.route
        if route.mode is Mode.RECAP:
            newest, report = await source.newest(asked, RECAP_MESSAGES)
            return _judged(route, sure_of_recap(route), messages=_missed(newest, asked)), report
        shows = SHOWS.get(route.wants)
        many = route.mode is Mode.FIRST or route.wants is Wants.COUNT or shows is not None
        newest, report = await source.newest(asked, RECAP_MESSAGES if many else asked.policy.recall_limit)
        newest = list(filter(shows, newest)) if shows else newest
        if route.mode is Mode.FIRST:
            newest = newest[::-1]
        several = SEVERAL if shows is not None or route.time_words else 1
        return _judged(route, route.p, self._in_order(newest[: asked.policy.recall_limit], name, several)), report

    def _in_order(self, messages: Sequence[Message], source: Source, several: int) -> tuple[Hit, ...]:
        now = self._clock()
        return tuple(
            Hit(message, 1.0 / place, age_s=max(0.0, now - message.ts), source=source, answers=place <= several)
            for place, message in enumerate(messages, start=1)
        )

    async def _about(
        self, name: Source, source: CandidateSource, trip: _Trip, topic: Topic
    ) -> tuple[Found, SourceReport]:
        gathered = await source.about(trip.asked, topic)
        ids = frozenset([one.id for one in gathered.pool.messages])
        if trip.compared is None or trip.compared[0] != ids:
            trip.compared = ids, await self._compared(name, gathered, trip.asked, topic)
        return trip.compared[1], gathered.report

    async def _compared(self, name: Source, gathered: Gathered, asked: Asked, topic: Topic) -> Found:
        if not gathered.pool.messages:
            return Found(asked.route)
        # Compute everything that does not need the cosines before waiting for them: the model takes longer.
        candidates = read_candidates(gathered.pool, asked, self._weights)
        cosines = await self._cosines.gathered(gathered, topic)
        if candidates.ranking.of_emoji:
            cosines = np.full_like(cosines, np.nan)
        sounds = await _sounds(topic, asked.route)
        choice = choose(candidates, cosines, asked, self._clock(), name, sounds)
        if asked.route.mode is Mode.RECAP:
            return _recapped(candidates, cosines, asked, choice.hits)
        return _chosen(choice, asked)


def decide(found: Found) -> Found:
    """The evidence decides: which memory the question is about after all, and what of it is shown."""
    route = found.route
    if found.verdict in SHOWN:
        return replace(found, route=replace(route, kind=route.if_about))
    verdict = judge(route, 0.0, found.ours)
    kind = Kind.NONE if verdict is Verdict.NOT_OURS or not route.sources else route.if_about
    return replace(found, route=replace(route, kind=kind, dropped=""), verdict=verdict, hits=(), messages=())


def told_of(message: Message, near: Sequence[Message], that: That) -> list[Message]:
    """What to show of a message: itself where it is linked to; of one that the question replies to, and everybody sees,
    what it answers in turn; or what answers it."""
    others = [one for one in near if not (one.own or one.addressed)]
    answers = [one for one in others if one.author_id != message.author_id and _is_answer(one, message)]
    if that.answers:
        return [*([message] if that.linked else []), *answers[:SEVERAL]]
    above = [] if that.linked else [one for one in others if _is_answer(message, one)]
    return [above[-1] if above else message]


def _is_answer(one: Message, other: Message) -> bool:
    if one.reply_to is not None:
        return one.reply_to == other.id
    return any(parent == other.id and chance >= LINK_MIN for parent, chance in one.parents)


def _judged(
    route: Route,
    sure: float,
    hits: tuple[Hit, ...] = (),
    messages: tuple[Message, ...] = (),
    evidence: Evidence | None = None,
) -> Found:
    verdict = judge(route, sure if hits or messages else 0.0)
    return Found(route, verdict, hits, messages, sure=sure, evidence=evidence)


def _problem(error: ChannelmemError) -> str:
    if isinstance(error, SearchCutShortError):
        return CUT_SHORT
    if isinstance(error, RedisLoadingError):
        return LOADING
    return UNREACHABLE if isinstance(error, RedisUnavailableError) else OUTDATED


def _off(route: Route) -> Found:
    """For a channel whose memory is off: nothing is searched, and the answer says so."""
    sources = route.sources[:1]
    reports = tuple(SourceReport(name, problem=MEMORY_OFF, unsearched=Unsearched.OFF) for name in sources)
    return Found(route, reports=reports)


def _chosen(choice: Choice, asked: Asked) -> Found:
    route, seen = asked.route, choice.evidence
    if seen is None:
        return Found(route)
    is_close = close(seen) >= asked.policy.semantic_threshold
    # Any line may be a fragment that answers: "me", "half 9 then".
    least_cosine = asked.policy.semantic_threshold if choice.sure is None else CLOSE
    if not (seen.similarity >= least_cosine or is_close or seen.coverage or seen.thread):
        return Found(route, ours=choice.ours)
    sure = 1.0 if route.literal else choice.sure
    if sure is None:
        sure = sure_of_words(route, seen)
    if route.binds and is_close:
        # "What did I say about reptiles?" may mean the line on turtles: who asks for words need not know them exactly.
        sure = max(sure, least(route))
    return replace(_judged(route, sure, choice.hits, evidence=seen), ours=choice.ours)


def _recapped(candidates: Candidates, cosines: Floats, asked: Asked, hits: tuple[Hit, ...]) -> Found:
    """For the recap of a topic: everything that may be told, with how much it is about it."""
    route, pool = asked.route, candidates.pool.messages
    told = [at for at, may in enumerate(wanted(pool, asked)) if may]
    told.sort(key=lambda at: (pool[at].ts, pool[at].id))
    every = _about(candidates, cosines)
    about = tuple(every[at] for at in told)
    words, thread, cosine = (max((one[field] for one in about), default=0.0) for field in (0, 1, 3))
    seen = Evidence(words, thread, cosine, compared=len(about))
    is_close = close(seen) >= asked.policy.semantic_threshold
    if not thread and close(seen) < min(RECAP_CLOSE, asked.policy.semantic_threshold):
        return Found(route)
    sure = max(route.p, words) if thread or is_close else GUESS
    found = _judged(route, sure, hits, tuple(whole(pool[at]) for at in told), seen)
    return replace(found, about=about)


def _about(candidates: Candidates, cosines: Floats) -> list[About]:
    ranking, cosine = candidates.ranking, np.nan_to_num(np.maximum(cosines, 0.0))
    near = ranking.near.words(ranking.present, ranking.weights) @ ranking.share
    columns = (ranking.present @ ranking.share, ranking.coverage, near, cosine, ranking.near.cosine(cosine))
    return [About(*row) for row in np.stack(columns, axis=1).tolist()]


async def _sounds(topic: Topic, route: Route) -> float:
    """How much a question sounds like one about a conversation, by its vector; 0 where that has only its topic."""
    vector, about = None if route.binds else await vector_of(topic), shipped().about
    # Another model's vectors have another meaning, and mostly another length.
    return 0.0 if vector is None or len(vector) + 1 != len(about) else float(about[:-1] @ vector + about[-1])


def _compares(route: Route) -> bool:
    return route.mode is Mode.TOPIC or (route.mode is Mode.RECAP and bool(route.topic))


def _may_be_topic(route: Route) -> bool:
    return bool(route.time_words) and route.window != Window() and bool(route.sources)


def _has_words(found: Found) -> bool:
    """Whether the evidence has a word of the topic: nothing less speaks for lines about "yesterday" alone."""
    return found.evidence is None or bool(found.evidence.coverage or found.evidence.thread)


def _missed(newest: Sequence[Message], asked: Asked) -> tuple[Message, ...]:
    """The messages of a recap, oldest first: those of its window, else the recent ones, or, if it asks for what the
    asker missed, everybody else's since they were last here."""
    messages = tuple(reversed(newest))
    if not asked.route.missed:
        return messages if asked.route.window != Window() else _recent(messages)
    asker = asked.question.asker_id
    since = left_at([one.ts for one in messages if one.author_id == asker], asked.question.ts)
    missed = tuple(one for one in messages if one.ts > since and one.author_id != asker)
    return missed or _recent(messages)


def _recent(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    start = messages[-1].ts - RECENT_S if messages else 0.0
    first = next((at for at, one in enumerate(messages) if one.ts >= start), 0)
    return messages[min(first, max(0, len(messages) - RECENT_MESSAGES)) :]


def left_at(spoke: Sequence[float], now: float) -> float:
    """When the asker was last here: before their last long silence, whatever they said after it."""
    until = now
    for ts in reversed(spoke):
        if until - ts >= AWAY_S:
            return ts
        until = ts
    return spoke[-1] if spoke else float("-inf")  # here all along: only what came after their last words


def _without_the_question(report: SourceReport, question: Question) -> SourceReport:
    """The report without the question, which may be stored as a message to the bot; alone, it counts as nothing."""
    alone = report.count == 1 and report.oldest_ts is not None and report.oldest_ts >= question.ts
    return replace(report, count=0, oldest_ts=None) if alone else report
