"""Candidates from the archive: the best by meaning and by words, once from everybody and once within speaker and
window; then their neighbours, whose words may raise a candidate's rank or be the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from channelmem.media_kinds import unread
from channelmem.recalling.ranking.line import stem
from channelmem.recalling.ranking.rank import Pool
from channelmem.recalling.sources.pool import (
    CANDIDATES,
    CUT_SHORT,
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
WITH_NEIGHBOURS = 40
"""How many of the best candidates come with their neighbours."""
BELOW_FLOOR = 0.75
"""What the vector search left out has at most the lowest cosine it returned, and mostly less."""


class Archive:
    def __init__(self, search: Search, cosines: Cosines) -> None:
        self._search, self._cosines = search, cosines

    async def newest(self, lookup: Lookup, limit: int) -> tuple[list[Message], SourceReport]:
        return await newest_stored(self._search, lookup, limit, Source.ARCHIVE)

    async def about(self, lookup: Lookup, topic: Topic) -> Gathered:
        asked, vector = asked_for(lookup.query.topic), await vector_of(topic)
        wide = replace(
            stored_query(lookup, Source.ARCHIVE),
            words=asked,
            vector=vector,
            limit=CANDIDATES,
            counts=True,
            beside=WITH_NEIGHBOURS,
            radius=NEIGHBOURS,
        )
        found, *more = await asyncio.gather(*map(self._search.nearest, _queries(wide, lookup)))
        hits = _merged(hit for one in (found, *more) for hit in one.hits)
        near = [message for one in (found, *more) for message in one.neighbours]
        near = [one for one in near if lookup.route.to_bot or not flagged(one)]
        counts = dict(zip(map(stem, asked), found.counts, strict=False))
        alone = await indexed_pool(hits, found.pending, vector, self._cosines)
        alone = replace(alone, counts=counts, total=found.total)
        pool = _widened(alone, near, _floor(found))
        problem = CUT_SHORT if any(one.cut_short for one in (found, *more)) else ""
        report = SourceReport(Source.ARCHIVE, found.total, found.oldest_ts, problem, unread=unread(pool.messages))
        return Gathered(pool, report)


def _queries(wide: Query, lookup: Lookup) -> list[Query]:
    speakers = tuple(person.id for person in lookup.route.speakers)
    narrow = replace(wide, author_ids=speakers, window=lookup.route.window, counts=False)
    return [wide] if narrow == replace(wide, counts=False) else [wide, narrow]


def _merged(hits: Iterable[Hit]) -> list[Hit]:
    """Each message once, with its similarity if any query had one."""
    best: dict[int, Hit] = {}
    for hit in hits:
        known = best.get(hit.message.id)
        if known is None or known.similarity is None:
            best[hit.message.id] = hit
    return list(best.values())


def _widened(pool: Pool, near: Iterable[Message], floor: float) -> Pool:
    """The pool with neighbours. `floor` is the cosine of a message that the vector search left out."""
    cosine = {one.id: value for one, value in zip(pool.messages, pool.cosines.tolist(), strict=True)}
    wide = pool_of({one.id: one for one in (*near, *pool.messages)}, cosine)
    return Pool(wide.messages, np.nan_to_num(wide.cosines, nan=floor), pool.counts, pool.total)


def _floor(found: SearchResult) -> float:
    nearest = [hit.similarity for hit in found.hits if hit.similarity is not None]
    return BELOW_FLOOR * max(0.0, min(nearest)) if len(nearest) >= CANDIDATES else 0.0
