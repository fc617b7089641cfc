"""Candidates from the platform's own history, fetched, linked and embedded for one answer; never stored."""

from __future__ import annotations

from channelmem.media_kinds import unread
from channelmem.recalling.ranking.rank import Pool
from channelmem.recalling.sources.pool import Cosines, Gathered, Lookup, Topic, flagged, linked, vector_of
from channelmem.types import History, Message, Source, SourceReport


class PlatformHistory:
    def __init__(self, history: History, cosines: Cosines) -> None:
        self._history, self._cosines = history, cosines

    async def newest(self, lookup: Lookup, limit: int) -> tuple[list[Message], SourceReport]:
        messages, report = await self._fetch(lookup)
        speakers, window = {person.id for person in lookup.route.speakers}, lookup.route.window
        kept = [one for one in messages if (not speakers or one.author_id in speakers) and window.contains(one.ts)]
        newest = [one for one in reversed(kept) if one.id != lookup.question.id]
        return newest[:limit], report

    async def about(self, lookup: Lookup, topic: Topic) -> Gathered:
        messages, report = await self._fetch(lookup)
        return Gathered(Pool(messages, await self._cosines.of(messages, await vector_of(topic))), report)

    async def _fetch(self, lookup: Lookup) -> tuple[list[Message], SourceReport]:
        policy = lookup.policy
        past = await self._history.fetch(lookup.question, policy.history_limit, policy.history_max_age_s)
        oldest = min((one.ts for one in past.messages), default=None)
        report = SourceReport(Source.HISTORY, len(past.messages), oldest, past.problem, unread(past.messages))
        return [one for one in linked(past.messages) if lookup.route.to_bot or not flagged(one)], report
