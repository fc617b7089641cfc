"""Recall: from a routed question to the messages it asks for, source by source, or honestly to none.

Enters: a question, its route and its policy. Leaves: a `Recalled`: hits (`latest`, `topic`) or the window's messages
(`recap`), and a report per source. Sources are tried in the route's order until one has something; if Redis is
unreachable, a named branch goes on to the platform's history. `latest` and `recap` never touch the model: a question
without a topic has nothing to compare.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from channelmem.embedding.embed import Embedder
from channelmem.errors import IndexMismatchError, RedisUnavailableError
from channelmem.policy import Policy
from channelmem.recalling.ranking.line import emoji_of
from channelmem.recalling.ranking.rank import (
    SHIPPED,
    Floats,
    Pool,
    RankingQuery,
    Reading,
    Weights,
    distinct,
    order,
    read_pool,
)
from channelmem.recalling.sources.archive import Archive
from channelmem.recalling.sources.buffer import Buffer
from channelmem.recalling.sources.history import PlatformHistory
from channelmem.recalling.sources.pool import CandidateSource, Cosines, Lookup, Topic, wanted
from channelmem.store.search import Search
from channelmem.types import History, Hit, Message, Mode, Question, Route, Source, SourceReport, Wants

RECAP_MESSAGES: Final = 100
"""A recap looks at no more than this many messages of a window, the newest ones."""
BEFORE: Final = 50
SOON: Final = 8
AFTER: Final = 2
"""A hit comes with the message it answers, up to BEFORE messages back, and with the first AFTER answers to it within
the next SOON messages."""
LINK_MIN: Final = 0.5
"""From this probability on, a message counts as the answer to another."""

CROWD_COSINE: Final = 0.03
"""The best of many cosines is high by chance: the threshold rises by this much per e-fold of messages compared."""

UNREACHABLE: Final = "Redis does not answer."
MEMORY_OFF: Final = "My memory is off in this channel."
OUTDATED: Final = "The index belongs to another model; the operator has to restart or reindex."

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was found for a question."""

    hits: tuple[Hit, ...] = ()
    """Best first."""
    messages: tuple[Message, ...] = ()
    """For a recap: the window's messages, oldest first."""
    reports: tuple[SourceReport, ...] = ()
    """What was searched: one report per source, in order."""
    embed_ms: float = 0.0
    search_ms: float = 0.0


@dataclass(slots=True)
class _Trip:
    """One question on its way through the sources, and what it has learned so far."""

    lookup: Lookup
    topic: Topic | None = None
    """The topic's embedding, started before the first source is read."""
    unreachable: bool = False
    """Whether Redis is known to be unreachable."""
    reports: list[SourceReport] = field(default_factory=list)
    embed_ms: float = 0.0


_Result = tuple[tuple[Hit, ...], tuple[Message, ...]]
_NOTHING: Final[_Result] = ((), ())


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
        self._cosines = Cosines(embedder, pending_wait_s)
        self._sources: dict[Source, CandidateSource] = {
            Source.BUFFER: Buffer(search, self._cosines),
            Source.ARCHIVE: Archive(search, self._cosines, weights),
        }
        if history is not None:
            self._sources[Source.HISTORY] = PlatformHistory(history, self._cosines)

    async def __call__(self, question: Question, route: Route, policy: Policy) -> Recalled:
        if not policy.enabled:
            return _off(route)
        started = time.perf_counter()
        trip = _Trip(Lookup(question, route, policy, ranking_query(question, route)))
        if route.mode is Mode.TOPIC and route.sources:
            trip.topic = self._begin(trip)
        try:
            hits, messages = await self._first_with_something(trip)
        finally:
            if trip.topic is not None:
                trip.topic.cancel()  # nobody is waiting for it any more; no effect if it is done
        search_ms = (time.perf_counter() - started) * 1000 - trip.embed_ms
        return Recalled(hits, messages, tuple(trip.reports), trip.embed_ms, max(0.0, search_ms))

    def _begin(self, trip: _Trip) -> Topic:
        """Starts embedding the topic, and notes how long that takes."""
        started = time.perf_counter()

        def done(topic: Topic) -> None:
            del topic
            trip.embed_ms = (time.perf_counter() - started) * 1000

        topic = self._embedder.begin_question(trip.lookup.query.topic)
        topic.add_done_callback(done)
        return topic

    async def _first_with_something(self, trip: _Trip) -> _Result:
        for name in trip.lookup.route.sources:
            if (source := self._sources.get(name)) is None:
                continue
            found = await self._from(name, source, trip)
            if found != _NOTHING:
                return found
        return _NOTHING

    async def _from(self, name: Source, source: CandidateSource, trip: _Trip) -> _Result:
        if name is not Source.HISTORY and trip.unreachable:
            trip.reports.append(SourceReport(name, problem=UNREACHABLE))
            return _NOTHING
        try:
            found, report = await self._look(name, source, trip)
        except (RedisUnavailableError, IndexMismatchError) as error:
            # Members read the report, so the address of Redis stays in the log.
            log.warning("Answering without memory: %s", error)
            trip.unreachable = isinstance(error, RedisUnavailableError)
            trip.reports.append(SourceReport(name, problem=UNREACHABLE if trip.unreachable else OUTDATED))
            return _NOTHING
        trip.reports.append(_without_the_question(report, trip.lookup.question))
        return found

    async def _look(self, name: Source, source: CandidateSource, trip: _Trip) -> tuple[_Result, SourceReport]:
        lookup = trip.lookup
        if trip.topic is not None:
            return await self._about(name, source, lookup, trip.topic)
        recap = lookup.route.mode is Mode.RECAP
        newest, report = await source.newest(lookup, RECAP_MESSAGES if recap else lookup.policy.recall_limit)
        if recap:
            return ((), tuple(reversed(newest))), report
        return (self._latest(newest, name), ()), report

    def _latest(self, newest: Sequence[Message], source: Source) -> tuple[Hit, ...]:
        now = self._clock()
        return tuple(
            Hit(message, 1.0 / place, age_s=max(0.0, now - message.ts), source=source)
            for place, message in enumerate(newest, start=1)
        )

    async def _about(
        self, name: Source, source: CandidateSource, lookup: Lookup, topic: Topic
    ) -> tuple[_Result, SourceReport]:
        gathered = await source.about(lookup, topic)
        if not gathered.pool.messages:
            return _NOTHING, gathered.report
        # Compute everything that does not need the cosines before waiting for them: the model takes longer.
        ranking = self._ranking(gathered.pool, lookup)
        cosines = await self._cosines.gathered(gathered, topic)
        if emoji_of(lookup.query.topic):
            cosines = np.full_like(cosines, np.nan)  # the model sees every emoji as the same unknown word
        return (self._ranked(ranking, cosines, name, lookup.policy.recall_limit), ()), gathered.report

    def _ranking(self, pool: Pool, lookup: Lookup) -> _Ranking:
        allowed = wanted(pool.messages, lookup)
        enough = needed(lookup.policy.semantic_threshold, sum(allowed))
        # Hits after the best may be weaker. A fact can hide in a line that shares no word with the question.
        least = enough / 2 if lookup.route.binds else 0.0
        reading = read_pool(pool, lookup.query, self._weights)
        return _Ranking(pool, reading, allowed, Beside(pool.messages), enough, least)

    def _ranked(self, ranking: _Ranking, cosines: Floats, source: Source, limit: int) -> tuple[Hit, ...]:
        pool, scores = ranking.pool, ranking.reading.scores(cosines)
        evidence = scores.evidence.tolist()
        best = [i for i in order(pool, scores) if ranking.allowed[i]]
        if not best or max([evidence[i] for i in best]) < ranking.enough:
            return ()
        kept = distinct(pool.messages, [i for i in best if evidence[i] >= ranking.least], limit)
        now, similarities = self._clock(), cosines[kept].tolist()
        ranks, coverage = scores.rank[kept].round(4).tolist(), scores.coverage[kept].tolist()
        return tuple(
            Hit(
                message := pool.messages[place],
                rank,
                None if math.isnan(similarity) else similarity,
                covered,
                max(0.0, now - message.ts),
                source,
                ranking.beside.of(place),
            )
            for place, rank, similarity, covered in zip(kept, ranks, similarities, coverage, strict=True)
        )


def _off(route: Route) -> Recalled:
    """For a channel whose memory is off: nothing is searched, and the answer says so."""
    return Recalled(reports=tuple(SourceReport(name, problem=MEMORY_OFF) for name in route.sources[:1]))


def ranking_query(question: Question, route: Route) -> RankingQuery:
    """What ranking needs to know about a question."""
    return RankingQuery(
        route.topic if route.binds else without_names(question.text, route) or route.topic,
        frozenset(person.id for person in route.speakers),
        route.window,
        wants_fact=not route.binds,
        wants_time=route.wants is Wants.WHEN,
        wants_amount=route.wants is Wants.AMOUNT,
        wants_link=route.wants is Wants.LINK,
    )


def without_names(text: str, route: Route) -> str:
    """A question for a fact compares best as it is ("When did ... go to the museum?"), but without names: a name is
    close to every message by that person, and messages do not say their author's name."""
    names = [name for person in route.speakers for name in (person.name, *person.aliases) if name.strip()]
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<!\w)@?{re.escape(name)}(?:['’]s)?(?!\w)", " ", text, flags=re.IGNORECASE)  # noqa: RUF001
    return " ".join(text.split())


def _without_the_question(report: SourceReport, question: Question) -> SourceReport:
    """The report without the question, which may be stored as a message to the bot; alone, it counts as nothing."""
    alone = report.count == 1 and report.oldest_ts is not None and report.oldest_ts >= question.ts
    return replace(report, count=0, oldest_ts=None) if alone else report


def needed(threshold: float, compared: int) -> float:
    """The evidence needed to say that something was found: half the cosine that a message with no shared word needs.
    The threshold is meant for 50 messages; scripts/calibrate.py shows its errors."""
    return (threshold + CROWD_COSINE * math.log(max(1, compared) / 50)) / 2


@dataclass(frozen=True, slots=True)
class _Ranking:
    """Everything the ranking of a pool needs except the cosines."""

    pool: Pool
    reading: Reading
    allowed: Sequence[bool]
    beside: Beside
    enough: float
    """The evidence that the best hit must have."""
    least: float


class Beside:
    """The messages around each message of a pool: built once, queried for every hit."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._at = {message.id: place for place, message in enumerate(messages)}
        self._answers: dict[int, list[int]] = {}
        for place, message in enumerate(messages):
            for parent, chance in message.parents:
                if chance >= LINK_MIN:
                    self._answers.setdefault(parent, []).append(place)

    def of(self, place: int) -> tuple[Message, ...]:
        """The message this one answers, and the next ones that answer it, oldest first."""
        message = self._messages[place]
        answered = [self._at.get(parent, -1) for parent, chance in message.parents if chance >= LINK_MIN]
        before = [at for at in answered if max(0, place - BEFORE) <= at < place]
        after = [at for at in self._answers.get(message.id, ()) if place < at <= place + SOON]
        return tuple(self._messages[at] for at in (*sorted(before), *after[:AFTER]))
