"""Candidates for a question from the buffer, the archive or the platform's history, in channel order.

Neighbours are among them, since a message may be found by the words of another, so nothing is narrowed to the speaker
here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from channelmem.display import JumpUrl
from channelmem.embedding.embed import FAILURES, Embedder
from channelmem.linking.linker import Linker, Networks, guess
from channelmem.media.kinds import unread
from channelmem.policy.policy import Policy
from channelmem.recalling.rank import Floats, Pool, RankingQuery, ranking_query
from channelmem.store.documents import AnyMessage, StoredMessage, whole
from channelmem.store.search import BufferView, Matches, Query, Search
from channelmem.text import emoji_of, stem, text_of
from channelmem.text import words as words_of
from channelmem.types import History, Hit, Message, Question, Route, Source, SourceReport, Unread

CANDIDATES = 120
"""How many candidates to request from the index by meaning, and again by words; more do not improve LoCoMo's recall."""
CUT_SHORT = "The search took too long and was cut short; try again, or ask about less."
EMBED_PENDING = 64
"""The most messages without a vector that one question embeds itself."""

Vector = NDArray[np.float32]
Topic = asyncio.Future[Vector]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and how it was understood."""

    question: Question
    route: Route
    policy: Policy
    query: RankingQuery
    pointed: tuple[Message, ...] = ()
    """Messages with pictures or recordings that it points at, read."""
    jump_url: JumpUrl | None = None

    @classmethod
    def of(
        cls,
        question: Question,
        route: Route,
        policy: Policy,
        pointed: tuple[Message, ...] = (),
        jump_url: JumpUrl | None = None,
    ) -> Asked:
        return cls(question, route, policy, ranking_query(question, route), pointed, jump_url)

    def along(self, route: Route) -> Asked:
        """The same question, understood otherwise."""
        return replace(self, route=route, query=ranking_query(self.question, route))

    @property
    def channels(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys((self.question.channel_id, *self.question.readable_channel_ids)))


@dataclass(frozen=True, slots=True)
class Gathered:
    pool: Pool
    report: SourceReport
    view: BufferView | None = None
    """Set if the pool is a view: it was read without waiting for the model, so its cosines are not computed yet."""


class CandidateSource(Protocol):
    """The buffer, the archive or the platform's history."""

    async def newest(self, asked: Asked, limit: int) -> tuple[list[Message], SourceReport]:
        """Newest first, within speaker and window."""

    async def about(self, asked: Asked, topic: Topic) -> Gathered:
        """Candidates for a topic. Awaits the topic as late as possible, to read the channel while the model runs."""


class Cosines:
    """The cosines of messages to a topic."""

    def __init__(self, embedder: Embedder, wait_s: float) -> None:
        self._embedder, self._wait_s = embedder, wait_s

    async def of(self, messages: Sequence[AnyMessage], vector: Vector | None) -> Floats:
        """For messages not indexed yet: newest first, bounded in number and time; NaN for the rest."""
        cosines = np.full(len(messages), np.nan)
        if not messages or vector is None:
            return cosines
        newest = sorted(range(len(messages)), key=lambda i: messages[i].ts, reverse=True)[:EMBED_PENDING]
        try:
            async with asyncio.timeout(self._wait_s):
                texts = [text_of(messages[i]) for i in newest]
                cosines[newest] = await self._embedder.embed_messages(texts) @ vector
        except (TimeoutError, *FAILURES):
            # Their words still count; waiting longer would slow down everybody's questions. A text that the model
            # fails on never gets a vector (the worker logs which one), and must not fail every question near it.
            pass
        return cosines

    async def gathered(self, gathered: Gathered, topic: Topic) -> Floats:
        """For what a source gathered; this is the last point that waits for the model."""
        if gathered.view is None:
            return gathered.pool.cosines
        messages, vector = gathered.view.messages, await vector_of(topic)
        if vector is None:
            return gathered.pool.cosines
        cosines: Floats = (gathered.view.vectors @ vector).astype(float)
        if late := np.flatnonzero(np.isnan(cosines)).tolist():
            cosines[late] = await self.of([messages[place] for place in late], vector)
        return cosines


def stored_query(asked: Asked, source: Source) -> Query:
    """What every question asks of the store: its channels, and whether what was said to the bot counts."""
    limits = asked.policy.limits
    return Query(asked.question.guild_id, asked.channels, flagged=asked.route.to_bot, source=source, limits=limits)


async def newest_stored(search: Search, asked: Asked, limit: int, source: Source) -> tuple[list[Message], SourceReport]:
    """Newest first, within speaker and window, with a report on the source."""
    query = replace(
        stored_query(asked, source),
        window=asked.route.window,
        author_ids=tuple(person.id for person in asked.route.speakers),
        limit=limit + 2,  # one for the question itself, and one to see whether there are more
    )
    newest = [message for message in await search.newest(query) if message.id != asked.question.id]
    return newest[:limit], SourceReport(source, len(newest), min((one.ts for one in newest), default=None))


async def indexed_pool(
    hits: Sequence[Hit], pending: Sequence[Message], vector: Vector | None, cosines: Cosines
) -> Pool:
    """The index's hits, and messages that are visible but still waiting for their vector."""
    cosine = {hit.message.id: hit.similarity for hit in hits if hit.similarity is not None}
    late = [one for one in pending if one.id not in cosine]
    cosine |= dict(zip((one.id for one in late), (await cosines.of(late, vector)).tolist(), strict=True))
    return pool_of({one.id: one for one in (*(hit.message for hit in hits), *late)}, cosine)


async def vector_of(topic: Topic) -> Vector | None:
    """None if the model fails on the question: its words still count. Models' errors share no base class."""
    if not topic.done():
        await asyncio.wait((topic,))
    error = topic.exception()
    if isinstance(error, Exception):
        log.warning("The embedding model failed; answering from words alone: %s", error)
        return None
    return topic.result()


def searched_for(topic: str) -> tuple[str, ...]:
    """What to search the full-text index for."""
    return words_of(topic) or emoji_of(topic)


def _unread(messages: Iterable[AnyMessage]) -> Unread:
    attached = [whole(one) for one in messages if one.attachments]
    return unread(attached) if attached else Unread()


def flagged(message: Message) -> bool:
    """Said to or by the bot: left out unless the question is about that."""
    return message.own or message.addressed


def linked(messages: Iterable[Message], networks: Networks | None = None) -> list[Message]:
    """Messages that have no links yet, with what they probably answer."""
    linker = Linker(networks=networks)
    in_order = sorted(messages, key=lambda one: (one.ts, one.id))
    found = guess([linker.hear(message) for message in in_order], networks)
    return [replace(message, parents=parents) for message, parents in zip(in_order, found, strict=True)]


def pool_of(known: Mapping[int, Message], cosine: Mapping[int, float]) -> Pool:
    """A pool in channel order; NaN where no cosine is known."""
    messages = sorted(known.values(), key=lambda one: (one.channel_id, one.ts, one.id))
    return Pool(messages, np.array([cosine.get(one.id, np.nan) for one in messages]))


# --- buffer ---


class Buffer:
    def __init__(self, search: Search, cosines: Cosines) -> None:
        self._search, self._cosines = search, cosines

    async def newest(self, asked: Asked, limit: int) -> tuple[list[Message], SourceReport]:
        return await newest_stored(self._search, asked, limit, Source.BUFFER)

    async def about(self, asked: Asked, topic: Topic) -> Gathered:
        query = stored_query(asked, Source.BUFFER)
        view = await self._search.view(query)
        if view is not None:
            unknown = np.full(len(view.messages), np.nan)
            report = SourceReport(Source.BUFFER, view.total, view.oldest_ts, unread=_unread(view.messages))
            return Gathered(Pool(view.messages, unknown), report, view)
        vector = await vector_of(topic)
        words = searched_for(asked.query.topic)
        found = await self._search.nearest(replace(query, vector=vector, words=words, limit=CANDIDATES))
        pool = await indexed_pool(found.hits, found.pending, vector, self._cosines)
        problem = CUT_SHORT if found.cut_short else ""
        report = SourceReport(Source.BUFFER, found.total, found.oldest_ts, problem, unread=_unread(pool.messages))
        return Gathered(pool, report)


# --- archive ---


NEIGHBOURS = 4
WITH_NEIGHBOURS = 40
"""How many of the best candidates come with their neighbours."""
BELOW_FLOOR = 0.75
"""What the vector search left out has at most the lowest cosine it returned, and mostly less."""


class Archive:
    def __init__(self, search: Search, cosines: Cosines) -> None:
        self._search, self._cosines = search, cosines

    async def newest(self, asked: Asked, limit: int) -> tuple[list[Message], SourceReport]:
        return await newest_stored(self._search, asked, limit, Source.ARCHIVE)

    async def about(self, asked: Asked, topic: Topic) -> Gathered:
        words, vector = searched_for(asked.query.topic), await vector_of(topic)
        wide = replace(
            stored_query(asked, Source.ARCHIVE),
            words=words,
            vector=vector,
            limit=CANDIDATES,
            counts=True,
            beside=WITH_NEIGHBOURS,
            radius=NEIGHBOURS,
        )
        every = await asyncio.gather(*map(self._search.matches, _queries(wide, asked)))
        found, cosine = every[0], _cosines(every)
        late = [one for one in found.pending if one.id not in cosine]
        cosine |= dict(zip((one.id for one in late), (await self._cosines.of(late, vector)).tolist(), strict=True))
        messages = _in_order(every, late, flagged=asked.route.to_bot)
        cosines = np.array([cosine.get(one.id, np.nan) for one in messages])
        counts = dict(zip(map(stem, words), found.counts, strict=False))
        pool = Pool(messages, np.nan_to_num(cosines, nan=_floor(found)), counts, found.total)
        problem = CUT_SHORT if any(one.cut_short for one in every) else ""
        report = SourceReport(Source.ARCHIVE, found.total, found.oldest_ts, problem, _unread(messages))
        return Gathered(pool, report)


def _queries(wide: Query, asked: Asked) -> list[Query]:
    speakers = tuple(person.id for person in asked.route.speakers)
    # Not compared as a whole: since Python 3.13, values with the same vector are compared element by element.
    if (speakers, asked.route.window) == (wide.author_ids, wide.window):
        return [wide]
    return [wide, replace(wide, author_ids=speakers, window=asked.route.window, counts=False)]


def _cosines(every: Iterable[Matches]) -> dict[int, float]:
    """By message, if any query had one."""
    return {one.message.id: one.similarity for matches in every for one in matches.found if one.similarity is not None}


def _in_order(every: Iterable[Matches], late: Iterable[StoredMessage], *, flagged: bool) -> list[StoredMessage]:
    """Each message once, in channel order. Neighbours lie in the order of their channel, whatever a query wants."""
    near = {one.id: one for matches in every for one in matches.neighbours if flagged or not (one.own or one.addressed)}
    found = {one.message.id: one.message for matches in every for one in matches.found}
    return sorted((near | found | {one.id: one for one in late}).values())


def _floor(found: Matches) -> float:
    """The cosine of a message that the vector search left out."""
    nearest = [one.similarity for one in found.found if one.similarity is not None]
    return BELOW_FLOOR * max(0.0, min(nearest)) if len(nearest) >= CANDIDATES else 0.0


# --- history ---


class PlatformHistory:
    def __init__(self, history: History, cosines: Cosines) -> None:
        self._history, self._cosines = history, cosines

    async def newest(self, asked: Asked, limit: int) -> tuple[list[Message], SourceReport]:
        messages, report = await self._fetch(asked)
        speakers, window = {person.id for person in asked.route.speakers}, asked.route.window
        kept = [one for one in messages if (not speakers or one.author_id in speakers) and window.contains(one.ts)]
        newest = [one for one in reversed(kept) if one.id != asked.question.id]
        return newest[:limit], report

    async def about(self, asked: Asked, topic: Topic) -> Gathered:
        messages, report = await self._fetch(asked)
        return Gathered(Pool(messages, await self._cosines.of(messages, await vector_of(topic))), report)

    async def _fetch(self, asked: Asked) -> tuple[list[Message], SourceReport]:
        policy = asked.policy
        past = await self._history.fetch(asked.question, policy.history_limit, policy.history_max_age_s)
        oldest = min((one.ts for one in past.messages), default=None)
        unread = _unread(past.messages)
        report = SourceReport(Source.HISTORY, len(past.messages), oldest, past.problem, unread, past.unsearched)
        return [one for one in linked(past.messages) if asked.route.to_bot or not flagged(one)], report
