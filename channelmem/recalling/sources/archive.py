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
    newest_stored,
    stored_query,
    vector_of,
)
from channelmem.store.documents import StoredMessage, whole
from channelmem.store.search import Matches, Query, Search
from channelmem.types import Message, Source, SourceReport

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
        every = await asyncio.gather(*map(self._search.matches, _queries(wide, lookup)))
        found, cosine = every[0], _cosines(every)
        late = [one for one in found.pending if one.id not in cosine]
        cosine |= dict(zip((one.id for one in late), (await self._cosines.of(late, vector)).tolist(), strict=True))
        messages = _in_order(every, late, flagged=lookup.route.to_bot)
        cosines = np.array([cosine.get(one.id, np.nan) for one in messages])
        counts = dict(zip(map(stem, asked), found.counts, strict=False))
        pool = Pool(messages, np.nan_to_num(cosines, nan=_floor(found)), counts, found.total)
        problem = CUT_SHORT if any(one.cut_short for one in every) else ""
        attached = [whole(one) for one in messages if one.attachments]
        report = SourceReport(Source.ARCHIVE, found.total, found.oldest_ts, problem, unread(attached))
        return Gathered(pool, report)


def _queries(wide: Query, lookup: Lookup) -> list[Query]:
    speakers = tuple(person.id for person in lookup.route.speakers)
    # Not compared as a whole: since Python 3.13, values with the same vector are compared element by element.
    if (speakers, lookup.route.window) == (wide.author_ids, wide.window):
        return [wide]
    return [wide, replace(wide, author_ids=speakers, window=lookup.route.window, counts=False)]


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
