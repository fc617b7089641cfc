"""Recall: from a routed question to the messages it wants, source by source, or honestly to none.

Enters: a question and its route. Leaves: a `Recalled`: hits (`latest`, `topic`) or the window's messages (`recap`),
and for every source what was looked at. The sources are tried in the route's order until one has something; an absent
Redis is a named branch that goes on to the platform's history. `latest` and `recap` never touch the model:
a question without a topic has nothing to compare.
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
from channelmem.errors import RedisUnavailableError
from channelmem.recalling.candidates import Candidates, Gathered, Topic, channels, flagged, linked, narrowed
from channelmem.recalling.ranking.line import signs
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
from channelmem.settings import Settings
from channelmem.store.search import Query, Search
from channelmem.types import History, Hit, Kind, Message, Mode, Question, Route, Source, SourceReport, Window

RECAP_MESSAGES: Final = 100
"""Most messages of a window that a recap looks at; the newest ones."""
BEFORE: Final = 50
SOON: Final = 8
AFTER: Final = 2
"""A hit comes with what it answers, if that is so near, and with so many of the answers that came so soon."""
LINK_MIN: Final = 0.5
"""From this chance on a message counts as the answer to another."""

CROWD_COSINE: Final = 0.03
"""The best of many cosines is high by chance: so much higher for each e-fold of messages compared."""

_SAYING: Final = re.compile(
    r"\b(?:sa(?:y|id|ys|ying)|mention(?:s|ed|ing)?|t(?:ell|old|elling)|talk(?:s|ed|ing)?|ask(?:s|ed|ing)?|messages?)\b",
    re.IGNORECASE,
)
_WHEN: Final = re.compile(r"\b(?:when|(?:what|which) (?:date|day|month|year|time))\b", re.IGNORECASE)
_AMOUNT: Final = re.compile(r"\bhow (?:many|much|long|often|old)\b", re.IGNORECASE)

AWAY: Final = "Redis does not answer."

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a question brought back."""

    hits: tuple[Hit, ...] = ()
    """Best first."""
    messages: tuple[Message, ...] = ()
    """For a recap: the window's messages, oldest first."""
    looked: tuple[SourceReport, ...] = ()
    """What was looked at, one per source, in order."""
    embed_ms: float = 0.0
    search_ms: float = 0.0


@dataclass(slots=True)
class _Trip:
    """One question on its way through the sources."""

    question: Question
    route: Route
    ask: RankingQuery
    topic: Topic | None = None
    """The topic on its way through the model, begun before the first source is read."""
    away: str = ""
    """Why Redis cannot be asked any more, once that is known."""
    looked: list[SourceReport] = field(default_factory=list)
    embed_ms: float = 0.0


class Recall:
    def __init__(
        self,
        search: Search,
        embedder: Embedder,
        settings: Settings,
        *,
        clock: Callable[[], float],
        history: History | None = None,
        weights: Weights = SHIPPED,
    ) -> None:
        self._search, self._embedder, self._settings = search, embedder, settings
        self._clock, self._history, self._weights = clock, history, weights
        self._candidates = Candidates(search, embedder, settings, weights)

    async def __call__(self, question: Question, route: Route) -> Recalled:
        started = time.perf_counter()
        trip = _Trip(question, route, ask_of(question, route))
        if route.mode is Mode.TOPIC and route.sources:
            trip.topic = self._begin(trip)
        try:
            hits, messages = await self._first_with_something(trip)
        finally:
            if trip.topic is not None:
                trip.topic.cancel()  # nobody waits for it any more; does nothing if it is done
        search_ms = (time.perf_counter() - started) * 1000 - trip.embed_ms
        return Recalled(hits, messages, tuple(trip.looked), trip.embed_ms, max(0.0, search_ms))

    async def _first_with_something(self, trip: _Trip) -> tuple[tuple[Hit, ...], tuple[Message, ...]]:
        for source in trip.route.sources:
            hits, messages = await self._from(source, trip)
            if hits or messages:
                return hits, messages
        return (), ()

    async def _from(self, source: Source, trip: _Trip) -> tuple[tuple[Hit, ...], tuple[Message, ...]]:
        if source is Source.HISTORY and self._history is None:
            return (), ()
        if source is not Source.HISTORY and trip.away:
            trip.looked.append(SourceReport(source, problem=trip.away))
            return (), ()
        try:
            found = await self._look(source, trip)
        except RedisUnavailableError as error:
            # Members read what becomes of it: where Redis is to be found stays in the log.
            log.warning("A question is answered without its memory: %s", error)
            trip.away = AWAY
            trip.looked.append(SourceReport(source, problem=trip.away))
            return (), ()
        trip.looked[-1] = _but_the_question(trip.looked[-1], trip.question)
        return found

    async def _look(self, source: Source, trip: _Trip) -> tuple[tuple[Hit, ...], tuple[Message, ...]]:
        if trip.topic is not None:
            return await self._about(source, trip, trip.topic), ()
        newest = await self._newest(source, trip)
        if trip.route.mode is Mode.RECAP:
            return (), tuple(reversed(newest))
        return self._latest(newest, source), ()

    # --- by time ---

    async def _newest(self, source: Source, trip: _Trip) -> list[Message]:
        """Newest first, within speaker and window, the question left out."""
        question, route = trip.question, trip.route
        limit = RECAP_MESSAGES if route.mode is Mode.RECAP else self._settings.recall_limit
        if source is Source.HISTORY and self._history is not None:
            newest = await self._newest_of_history(self._history, trip)
        else:
            speakers = tuple(person.id for person in route.speakers)
            query = Query(
                question.guild_id,
                channels(question),
                window=route.window,
                author_ids=speakers,
                limit=limit + 2,  # the question may be among them, and one more tells that there are more
                flagged=route.to_bot,
                source=source,
            )
            newest = await self._search.newest(query)
            times = [message.ts for message in newest if message.id != question.id]
            trip.looked.append(SourceReport(source, len(times), min(times, default=None)))
        return [message for message in newest if message.id != question.id][:limit]

    async def _newest_of_history(self, history: History, trip: _Trip) -> list[Message]:
        settings, route = self._settings, trip.route
        past = await history.fetch(trip.question, settings.history_limit, settings.history_max_age_minutes * 60)
        oldest = min((one.ts for one in past.messages), default=None)
        trip.looked.append(SourceReport(Source.HISTORY, len(past.messages), oldest, past.problem))
        messages = linked(past.messages)
        wanted = narrowed(messages, (person.id for person in route.speakers), route.window)
        kept = [
            message
            for message, fits in zip(messages, wanted, strict=True)
            if fits and (route.to_bot or not flagged(message))
        ]
        return kept[::-1]

    def _latest(self, newest: Sequence[Message], source: Source) -> tuple[Hit, ...]:
        now = self._clock()
        return tuple(
            Hit(message, 1.0 / place, age_s=max(0.0, now - message.ts), source=source)
            for place, message in enumerate(newest, start=1)
        )

    # --- by topic ---

    def _begin(self, trip: _Trip) -> Topic:
        """The topic's way through the model, and how long that took."""
        started = time.perf_counter()

        def done(topic: Topic) -> None:
            del topic
            trip.embed_ms = (time.perf_counter() - started) * 1000

        topic = self._embedder.begin_question(trip.ask.topic)
        topic.add_done_callback(done)
        return topic

    async def _about(self, source: Source, trip: _Trip, topic: Topic) -> tuple[Hit, ...]:
        gathered = await self._gather(source, trip, topic)
        trip.looked.append(gathered.looked)
        if not gathered.pool.messages:
            return ()
        # Whatever can be known without the cosines is, before they are waited for: the model takes longer.
        ranking = self._ranking(gathered.pool, trip)
        cosines = await self._candidates.compared(gathered, topic)
        if signs(trip.ask.topic):
            cosines = np.full_like(cosines, np.nan)  # to the model all emoji are one unknown word
        return self._ranked(ranking, cosines, source)

    async def _gather(self, source: Source, trip: _Trip, topic: Topic) -> Gathered:
        if source is Source.HISTORY and self._history is not None:
            return await self._candidates.of_history(trip.question, trip.route, self._history, topic)
        if source is Source.ARCHIVE:
            return await self._candidates.of_archive(trip.question, trip.route, trip.ask, topic)
        return await self._candidates.of_buffer(trip.question, trip.route, trip.ask, topic)

    def _ranking(self, pool: Pool, trip: _Trip) -> _Ranking:
        allowed = _allowed(pool.messages, trip)
        enough = needed(self._settings.semantic_threshold, sum(allowed))
        # What follows the best may be weaker. A fact can hide in a line without any word of the question.
        least = 0.0 if trip.ask.wants_fact else enough / 2
        reading = read_pool(pool, trip.ask, self._weights)
        return _Ranking(pool, reading, allowed, Beside(pool.messages), enough, least)

    def _ranked(self, ranking: _Ranking, cosines: Floats, source: Source) -> tuple[Hit, ...]:
        pool, scores = ranking.pool, ranking.reading.scores(cosines)
        evidence = scores.evidence.tolist()
        best = [i for i in order(pool, scores) if ranking.allowed[i]]
        if not best or max(evidence[i] for i in best) < ranking.enough:
            return ()
        likely = (i for i in best if evidence[i] >= ranking.least)
        kept = distinct(pool.messages, likely, self._settings.recall_limit)
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


def ask_of(question: Question, route: Route) -> RankingQuery:
    """What ranking needs to know of a question."""
    strict = is_strict(question, route)
    return RankingQuery(
        route.topic if strict else without_names(question.text, route) or route.topic,
        frozenset(person.id for person in route.speakers),
        route.window,
        wants_fact=not strict,
        wants_time=bool(_WHEN.search(question.text)),
        wants_amount=bool(_AMOUNT.search(question.text)),
    )


def without_names(text: str, route: Route) -> str:
    """A question for a fact is best compared as it is ("When did ... go to the museum?"), but for the names: every
    message of that person is near them, and none tells its author's name."""
    names = [name for person in route.speakers for name in (person.name, *person.aliases) if name.strip()]
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<!\w)@?{re.escape(name)}(?:['’]s)?(?!\w)", " ", text, flags=re.IGNORECASE)  # noqa: RUF001
    return " ".join(text.split())


def _but_the_question(looked: SourceReport, question: Question) -> SourceReport:
    """The question itself may be stored, as said to the bot; where there is nothing else, there is nothing."""
    alone = looked.count == 1 and looked.oldest_ts is not None and looked.oldest_ts >= question.ts
    return replace(looked, count=0, oldest_ts=None) if alone else looked


def needed(threshold: float, compared: int) -> float:
    """The evidence that says "there is something": half the cosine that a message without a word in common needs.
    The threshold is meant for 50 messages; scripts/calibrate.py shows its errors."""
    return (threshold + CROWD_COSINE * math.log(max(1, compared) / 50)) / 2


def is_strict(question: Question, route: Route) -> bool:
    """Whether speaker and window bind. They do where somebody's words are wanted, or the channel is meant; "When did
    Ann go to Rome?" may be answered by what Bob wrote, at another time."""
    return route.kind is Kind.CHANNEL or bool(_SAYING.search(question.text))


@dataclass(frozen=True, slots=True)
class _Ranking:
    """All that the ranking of a pool needs but the cosines."""

    pool: Pool
    reading: Reading
    allowed: Sequence[bool]
    beside: Beside
    enough: float
    """The evidence that the best must have."""
    least: float


class Beside:
    """What lies around the messages of a pool: built once, asked for every hit."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._at = {message.id: place for place, message in enumerate(messages)}
        self._answers: dict[int, list[int]] = {}
        for place, message in enumerate(messages):
            for parent, chance in message.parents:
                if chance >= LINK_MIN:
                    self._answers.setdefault(parent, []).append(place)

    def of(self, place: int) -> tuple[Message, ...]:
        """The message that this one answers, and the next ones that go on from it, oldest first."""
        message = self._messages[place]
        answered = [self._at.get(parent, -1) for parent, chance in message.parents if chance >= LINK_MIN]
        before = [at for at in answered if max(0, place - BEFORE) <= at < place]
        after = [at for at in self._answers.get(message.id, ()) if place < at <= place + SOON]
        return tuple(self._messages[at] for at in (*sorted(before), *after[:AFTER]))


def _allowed(messages: Sequence[Message], trip: _Trip) -> list[bool]:
    """What may be a hit; the rest of the pool only lends its words."""
    route, question, strict = trip.route, trip.question, not trip.ask.wants_fact
    speakers = [person.id for person in route.speakers] if strict else []
    fits = narrowed(messages, speakers, route.window if strict else Window())
    return [
        fit and one.id != question.id and (route.to_bot or not flagged(one))
        for fit, one in zip(fits, messages, strict=True)
    ]
