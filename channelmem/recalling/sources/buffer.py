"""Candidates from the buffer: everybody's messages in the channel, read in one round trip."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from channelmem.media_kinds import unread
from channelmem.recalling.ranking.rank import Pool
from channelmem.recalling.sources.pool import (
    CANDIDATES,
    CUT_SHORT,
    Cosines,
    Gathered,
    Lookup,
    Topic,
    asked_for,
    indexed_pool,
    newest_stored,
    stored_query,
    vector_of,
)
from channelmem.store.documents import whole
from channelmem.store.search import Search
from channelmem.types import Message, Source, SourceReport


class Buffer:
    def __init__(self, search: Search, cosines: Cosines) -> None:
        self._search, self._cosines = search, cosines

    async def newest(self, lookup: Lookup, limit: int) -> tuple[list[Message], SourceReport]:
        return await newest_stored(self._search, lookup, limit, Source.BUFFER)

    async def about(self, lookup: Lookup, topic: Topic) -> Gathered:
        query = stored_query(lookup, Source.BUFFER)
        view = await self._search.view(query)
        if view is not None:
            unknown = np.full(len(view.messages), np.nan)
            report = SourceReport(Source.BUFFER, view.total, view.oldest_ts, unread=unread(view.messages))
            return Gathered(Pool(view.messages, unknown), report, view)
        vector = await vector_of(topic)
        words = asked_for(lookup.query.topic)
        found = await self._search.nearest(replace(query, vector=vector, words=words, limit=CANDIDATES))
        pool = await indexed_pool(found.hits, found.pending, vector, self._cosines)
        problem = CUT_SHORT if found.cut_short else ""
        report = SourceReport(
            Source.BUFFER, found.total, found.oldest_ts, problem, unread=unread(map(whole, pool.messages))
        )
        return Gathered(pool, report)
