"""Candidates of a topic question: from the buffer, the archive or the platform's history to one ranked pool.

Enters: the question, its route and the topic's vector, which is awaited as late as possible: the channel is read
while the model works. Leaves: a `Gathered` (a `Pool` in channel order and what was looked at). The pool holds the
neighbours too, since a message may be found by the words of another: nothing is narrowed to the speaker here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from channelmem.embedding.embed import FAILURES, Embedder
from channelmem.linking.linker import Linker, Networks, guess
from channelmem.recalling.ranking.line import signs, stem, words
from channelmem.recalling.ranking.rank import SHIPPED, Floats, Pool, RankingQuery, Weights, order, rank
from channelmem.settings import Settings
from channelmem.store.search import BufferView, Query, Search, SearchResult
from channelmem.types import History, Hit, Message, Question, Route, Source, SourceReport, Window

CANDIDATES = 250
"""So many by meaning and so many by words from the archive; LoCoMo's recall stops growing there."""
NEIGHBOURS = 4
WITH_NEIGHBOURS = 120
"""Of the candidates, the best by themselves get their neighbours, whose words may raise them or be the answer."""
EMBED_PENDING = 64
"""A question embeds at most so many messages that are still waiting for their vector."""

Vector = NDArray[np.float32]
Topic = asyncio.Future[Vector]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gathered:
    pool: Pool
    looked: SourceReport
    view: BufferView | None = None
    """Where the pool is one: it was read without waiting for the model, so `compared` knows its cosines."""


class Candidates:
    def __init__(self, search: Search, embedder: Embedder, settings: Settings, weights: Weights = SHIPPED) -> None:
        self._search, self._embedder, self._settings, self._weights = search, embedder, settings, weights

    async def of_buffer(self, question: Question, route: Route, ask: RankingQuery, topic: Topic) -> Gathered:
        """The whole view of the channel: one round trip, and everybody's words."""
        query = Query(question.guild_id, channels(question), flagged=route.to_bot)
        view = await self._search.view(query)
        if view is not None:
            unknown = np.full(len(view.messages), np.nan)
            return Gathered(Pool(view.messages, unknown), SourceReport(Source.BUFFER, view.total, view.oldest_ts), view)
        vector = await vector_of(topic)
        found = await self._search.nearest(replace(query, vector=vector, words=asked_for(ask.topic), limit=CANDIDATES))
        return Gathered(await self._pool(found.hits, found, vector), _looked(Source.BUFFER, found))

    async def of_archive(self, question: Question, route: Route, ask: RankingQuery, topic: Topic) -> Gathered:
        """Nearest and best by words, once as they are and once within speaker and window; then their neighbours."""
        asked, vector = asked_for(ask.topic), await vector_of(topic)
        wide = Query(
            question.guild_id,
            channels(question),
            words=asked,
            vector=vector,
            limit=CANDIDATES,
            flagged=route.to_bot,
            source=Source.ARCHIVE,
            counts=True,
        )
        narrow = replace(wide, author_ids=tuple(one.id for one in route.speakers), window=route.window, counts=False)
        queries = [wide] if narrow == replace(wide, counts=False) else [wide, narrow]
        found, *more = await asyncio.gather(*map(self._search.nearest, queries))
        hits = _merged(hit for one in (found, *more) for hit in one.hits)
        counts = dict(zip(map(stem, asked), found.counts, strict=False))
        alone = replace(await self._pool(hits, found, vector), counts=counts, total=found.total)
        best = [alone.messages[i] for i in order(alone, rank(alone, ask, self._weights))[:WITH_NEIGHBOURS]]
        near = await self._near(question.guild_id, best, alone.messages)
        near = [one for one in near if route.to_bot or not flagged(one)]
        return Gathered(_widened(alone, near, _floor(found)), _looked(Source.ARCHIVE, found))

    async def of_history(self, question: Question, route: Route, history: History, topic: Topic) -> Gathered:
        """What the platform gives, linked and embedded here for this one answer."""
        settings = self._settings
        past = await history.fetch(question, settings.history_limit, settings.history_max_age_minutes * 60)
        messages = linked(past.messages)
        looked = SourceReport(
            Source.HISTORY, len(messages), min((one.ts for one in messages), default=None), problem=past.problem
        )
        messages = [one for one in messages if route.to_bot or not flagged(one)]
        cosines = await self._cosines(messages, await vector_of(topic))
        return Gathered(Pool(messages, cosines), looked)

    async def compared(self, gathered: Gathered, topic: Topic) -> Floats:
        """The cosines of what was gathered; here at the latest the model is waited for."""
        if gathered.view is None:
            return gathered.pool.cosines
        messages, vector = gathered.view.messages, await vector_of(topic)
        if vector is None:
            return gathered.pool.cosines
        cosines: Floats = (gathered.view.vectors @ vector).astype(float)
        if late := np.flatnonzero(np.isnan(cosines)).tolist():
            cosines[late] = await self._cosines([messages[place] for place in late], vector)
        return cosines

    async def _near(self, guild_id: int, messages: Iterable[Message], known: Iterable[Message]) -> list[Message]:
        """What lies around these messages in their channels, without what is known."""
        wanted, had = _ids_by_channel(messages), _ids_by_channel(known)
        near = [
            self._search.around(guild_id, channel, ids, NEIGHBOURS, known=had[channel])
            for channel, ids in wanted.items()
        ]
        return [message for some in await asyncio.gather(*near) for message in some]

    async def _pool(self, hits: Sequence[Hit], found: SearchResult, vector: Vector | None) -> Pool:
        cosine = {hit.message.id: hit.similarity for hit in hits if hit.similarity is not None}
        late = [one for one in found.pending if one.id not in cosine]
        cosine |= dict(zip((one.id for one in late), (await self._cosines(late, vector)).tolist(), strict=True))
        known = {one.id: one for one in (*(hit.message for hit in hits), *late)}
        return _in_order(known, cosine)

    async def _cosines(self, messages: Sequence[Message], vector: Vector | None) -> Floats:
        """Cosines of messages that no index has yet: newest first, bounded in number and time; NaN for the rest."""
        cosines = np.full(len(messages), np.nan)
        if not messages or vector is None:
            return cosines
        newest = sorted(range(len(messages)), key=lambda i: messages[i].ts, reverse=True)[:EMBED_PENDING]
        try:
            async with asyncio.timeout(self._settings.pending_wait_ms / 1000):
                cosines[newest] = await self._embedder.embed_messages([messages[i].searchable for i in newest]) @ vector
        except (TimeoutError, *FAILURES):
            # Their words still count; waiting longer would make everybody's question slow. A text that the model
            # fails on never gets its vector (the worker says which), and must not fail every question near it.
            pass
        return cosines


async def vector_of(topic: Topic) -> Vector | None:
    """None where the model fails on the question: its words still count. What models raise has nothing in common."""
    if not topic.done():
        await asyncio.wait((topic,))
    error = topic.exception()
    if isinstance(error, Exception):
        log.warning("A question is answered by its words alone, the embedding model failed: %s", error)
        return None
    return topic.result()


def asked_for(topic: str) -> tuple[str, ...]:
    """What the full-text index is asked for."""
    return words(topic) or signs(topic)


def flagged(message: Message) -> bool:
    """Said to or by the bot: left out unless the question is about that."""
    return message.own or message.addressed


def channels(question: Question) -> tuple[int, ...]:
    return tuple(dict.fromkeys((question.channel_id, *question.readable_channel_ids)))


def linked(messages: Iterable[Message], networks: Networks | None = None) -> list[Message]:
    """Messages that came without links, with what they probably answer."""
    linker = Linker(networks=networks)
    in_order = sorted(messages, key=lambda one: (one.ts, one.id))
    found = guess([linker.hear(message) for message in in_order], networks)
    return [replace(message, parents=parents) for message, parents in zip(in_order, found, strict=True)]


def _ids_by_channel(messages: Iterable[Message]) -> dict[int, list[int]]:
    ids: dict[int, list[int]] = defaultdict(list)
    for message in messages:
        ids[message.channel_id].append(message.id)
    return ids


def _merged(hits: Iterable[Hit]) -> list[Hit]:
    """Each message once, with the similarity that any query knew."""
    best: dict[int, Hit] = {}
    for hit in hits:
        known = best.get(hit.message.id)
        if known is None or known.similarity is None:
            best[hit.message.id] = hit
    return list(best.values())


def _in_order(known: dict[int, Message], cosine: Mapping[int, float]) -> Pool:
    messages = sorted(known.values(), key=lambda one: (one.channel_id, one.ts, one.id))
    return Pool(messages, np.array([cosine.get(one.id, np.nan) for one in messages]))


def _widened(pool: Pool, near: Iterable[Message], floor: float) -> Pool:
    """The pool with neighbours. What the vector search left out has the cosine of the last one it let in, at most."""
    cosine = {one.id: value for one, value in zip(pool.messages, pool.cosines.tolist(), strict=True)}
    known = {one.id: one for one in (*near, *pool.messages)}
    wide = _in_order(known, cosine)
    return Pool(wide.messages, np.nan_to_num(wide.cosines, nan=floor), pool.counts, pool.total)


def _floor(found: SearchResult) -> float:
    nearest = [hit.similarity for hit in found.hits if hit.similarity is not None]
    return max(0.0, min(nearest)) if len(nearest) >= CANDIDATES else 0.0


def _looked(source: Source, found: SearchResult) -> SourceReport:
    return SourceReport(source, found.total, found.oldest_ts)


def narrowed(messages: Sequence[Message], speakers: Iterable[int], window: Window) -> list[bool]:
    """Which messages are by these speakers (anybody if none is named) and within the window."""
    wanted, always = frozenset(speakers), window == Window()
    return [(not wanted or one.author_id in wanted) and (always or window.contains(one.ts)) for one in messages]
