"""What all sources of candidates share: their input and their output.

Enters: a `Lookup` (the question as recall asks it). Leaves: a `Gathered`: a `Pool` in channel order, and what was
searched. The pool includes neighbours, since a message may be found by the words of another, so nothing is narrowed to
the speaker here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from channelmem.embedding.embed import FAILURES, Embedder
from channelmem.linking.linker import Linker, Networks, guess
from channelmem.policy import Policy
from channelmem.recalling.ranking.line import emoji_of, text_of, words
from channelmem.recalling.ranking.rank import Floats, Pool, RankingQuery
from channelmem.store.documents import AnyMessage
from channelmem.store.search import BufferView, Query, Search
from channelmem.types import Hit, Message, Question, Route, Source, SourceReport, Window

CANDIDATES = 120
"""How many candidates to request from the index by meaning, and again by words; more do not improve LoCoMo's recall."""
CUT_SHORT = "The search took too long and was cut short; try again, or ask about less."
EMBED_PENDING = 64
"""The most messages without a vector that one question embeds itself."""

Vector = NDArray[np.float32]
Topic = asyncio.Future[Vector]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lookup:
    """A question on its way through the sources."""

    question: Question
    route: Route
    policy: Policy
    query: RankingQuery

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

    async def newest(self, lookup: Lookup, limit: int) -> tuple[list[Message], SourceReport]:
        """Newest first, within speaker and window."""

    async def about(self, lookup: Lookup, topic: Topic) -> Gathered:
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


def stored_query(lookup: Lookup, source: Source) -> Query:
    """What every question asks of the store: its channels, and whether what was said to the bot counts."""
    limits = lookup.policy.limits
    return Query(lookup.question.guild_id, lookup.channels, flagged=lookup.route.to_bot, source=source, limits=limits)


async def newest_stored(
    search: Search, lookup: Lookup, limit: int, source: Source
) -> tuple[list[Message], SourceReport]:
    """Newest first, within speaker and window, with a report on the source."""
    query = replace(
        stored_query(lookup, source),
        window=lookup.route.window,
        author_ids=tuple(person.id for person in lookup.route.speakers),
        limit=limit + 2,  # one for the question itself, and one to see whether there are more
    )
    newest = [message for message in await search.newest(query) if message.id != lookup.question.id]
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


def asked_for(topic: str) -> tuple[str, ...]:
    """What to search the full-text index for."""
    return words(topic) or emoji_of(topic)


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


def wanted(messages: Sequence[AnyMessage], lookup: Lookup) -> list[bool]:
    """Which messages may be hits: by the speakers (anybody if none is named) and within the window if the route binds;
    never the question itself, and messages to the bot only if the question is about them."""
    route, to_bot, question_id = lookup.route, lookup.route.to_bot, lookup.question.id
    speakers = {person.id for person in route.speakers} if route.binds else ()
    window = route.window if route.binds else Window()
    always = window == Window()
    return [
        (to_bot or not (one.own or one.addressed))
        and one.id != question_id
        and (not speakers or one.author_id in speakers)
        and (always or window.contains(one.ts))
        for one in messages
    ]
