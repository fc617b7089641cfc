"""Candidates from the archive: the best by meaning and by words, once from everybody and once within speaker and
window; then their neighbours, whose words may raise a candidate's rank or be the answer."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from channelmem.recalling.ranking.line import stem
from channelmem.recalling.ranking.rank import SHIPPED, Pool, Weights, order, rank
from channelmem.recalling.sources.pool import (
    CANDIDATES,
    Cosines,
    Gathered,
    Lookup,
    Topic,
    asked_for,
    flagged,
    indexed_pool,
    newest_stored,
    pool_of,
    stored_query,
    vector_of,
)
from channelmem.store.search import Query, Search, SearchResult
from channelmem.types import Hit, Message, Source, SourceReport

NEIGHBOURS = 4
WITH_NEIGHBOURS = 120
"""How many of the best candidates get their neighbours read."""


class Archive:
    def __init__(self, search: Search, cosines: Cosines, weights: Weights = SHIPPED) -> None:
        self._search, self._cosines, self._weights = search, cosines, weights

    async def newest(self, lookup: Lookup, limit: int) -> tuple[list[Message], SourceReport]:
        return await newest_stored(self._search, lookup, limit, Source.ARCHIVE)

    async def about(self, lookup: Lookup, topic: Topic) -> Gathered:
        asked, vector = asked_for(lookup.query.topic), await vector_of(topic)
        wide = replace(stored_query(lookup, Source.ARCHIVE), words=asked, vector=vector, limit=CANDIDATES, counts=True)
        found, *more = await asyncio.gather(*map(self._search.nearest, _queries(wide, lookup)))
        hits = _merged(hit for one in (found, *more) for hit in one.hits)
        counts = dict(zip(map(stem, asked), found.counts, strict=False))
        alone = await indexed_pool(hits, found.pending, vector, self._cosines)
        alone = replace(alone, counts=counts, total=found.total)
        best = [alone.messages[i] for i in order(alone, rank(alone, lookup.query, self._weights))[:WITH_NEIGHBOURS]]
        near = await self._near(lookup, best, alone.messages)
        near = [one for one in near if lookup.route.to_bot or not flagged(one)]
        report = SourceReport(Source.ARCHIVE, found.total, found.oldest_ts)
        return Gathered(_widened(alone, near, _floor(found)), report)

    async def _near(self, lookup: Lookup, messages: Iterable[Message], known: Iterable[Message]) -> list[Message]:
        """What lies around these messages in their channels, without what is known."""
        wanted, had = _ids_by_channel(messages), _ids_by_channel(known)
        guild_id, limits = lookup.question.guild_id, lookup.policy.limits
        near = [
            self._search.around(guild_id, channel, ids, NEIGHBOURS, known=had[channel], limits=limits)
            for channel, ids in wanted.items()
        ]
        return [message for some in await asyncio.gather(*near) for message in some]


def _queries(wide: Query, lookup: Lookup) -> list[Query]:
    speakers = tuple(person.id for person in lookup.route.speakers)
    narrow = replace(wide, author_ids=speakers, window=lookup.route.window, counts=False)
    return [wide] if narrow == replace(wide, counts=False) else [wide, narrow]


def _ids_by_channel(messages: Iterable[Message]) -> dict[int, list[int]]:
    ids: dict[int, list[int]] = defaultdict(list)
    for message in messages:
        ids[message.channel_id].append(message.id)
    return ids


def _merged(hits: Iterable[Hit]) -> list[Hit]:
    """Each message once, with its similarity if any query had one."""
    best: dict[int, Hit] = {}
    for hit in hits:
        known = best.get(hit.message.id)
        if known is None or known.similarity is None:
            best[hit.message.id] = hit
    return list(best.values())


def _widened(pool: Pool, near: Iterable[Message], floor: float) -> Pool:
    """The pool with neighbours. A message that the vector search left out gets the lowest cosine it returned, the most
    it can have."""
    cosine = {one.id: value for one, value in zip(pool.messages, pool.cosines.tolist(), strict=True)}
    wide = pool_of({one.id: one for one in (*near, *pool.messages)}, cosine)
    return Pool(wide.messages, np.nan_to_num(wide.cosines, nan=floor), pool.counts, pool.total)


def _floor(found: SearchResult) -> float:
    nearest = [hit.similarity for hit in found.hits if hit.similarity is not None]
    return max(0.0, min(nearest)) if len(nearest) >= CANDIDATES else 0.0
