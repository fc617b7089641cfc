"""Recaps of any span, and what only summaries still have: `memory.recaps`.

A recap of little is told by its conversations, message by message (telling/recap.py). A recap of much, or of what the
archive no longer has, is told by its summaries and what was said since, in a few parts (summaries/digest.py). Where a
question finds nothing among stored messages, sentences that only summaries still have may answer it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from channelmem.browse import FilteredHistory, archived
from channelmem.durations import DAY_S
from channelmem.errors import RedisUnavailableError
from channelmem.policy.policy import Policy
from channelmem.recalling.candidates import Asked
from channelmem.recalling.recall import RECAP_MESSAGES, RECENT_MESSAGES, RECENT_S, SHOWN, Found, left_at
from channelmem.recalling.verdict import QUOTE, Verdict
from channelmem.routing.clause import bare_day, is_day
from channelmem.store.search import Search
from channelmem.summaries.digest import Digest, digest, parts_within, told
from channelmem.summaries.pyramid import Summary, SummaryLine
from channelmem.summaries.reader import SummaryReader
from channelmem.summaries.summaries import lines_about
from channelmem.telling.answer import LONGEST, joined, phrasing_of
from channelmem.types import Answer, Hit, Kind, Message, Mode, Origin, Question, Route, Source, Window

RAW: Final = 500
"""Messages read of a span; those that summaries cover are not needed."""
ABSENCE_S: Final = DAY_S
"""How far back to tell somebody who never wrote here what they missed."""
OWN_WORDS: Final = 50
"""Of the asker, to find out when they were last here."""
MOST_ORIGINS: Final = 200
MOST_TOLD: Final = 300
"""Of fewer messages within a day and a half, a recap is a few lines; of more, it has parts."""
LEAST: Final = 4
"""A window with fewer messages has almost nothing to tell of."""
_TODAY: Final = re.compile(r"\btoday", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Told:
    """A text, and what it is made of."""

    text: str
    summarised: tuple[Origin, ...] = ()
    """Messages whose words come from summaries, also those that have expired."""


@dataclass(frozen=True, slots=True)
class _Sources:
    """What a digest is made from."""

    summaries: tuple[Summary, ...]
    raw: tuple[Message, ...]


class Recaps:
    def __init__(self, search: Search, summaries: SummaryReader, history: FilteredHistory | None) -> None:
        self._search, self._summaries, self._history = search, summaries, history

    async def widened(
        self, asked: Asked, found: Found, recall: Callable[[Asked], Awaitable[Found]]
    ) -> tuple[Asked, Found]:
        """The question and what is found, with a wider window where the one that is asked for holds almost nothing.

        A day of which nobody spoke when it was there is one that was spoken of: "recap of this morning" is about what
        was planned for it. Of any other time, what was said before it belongs to it.
        """
        if _is_recap(asked.route) and len(found.messages) >= RECAP_MESSAGES:
            return asked, await self._whole(asked, found)
        route = asked.route
        within = found.route.window == route.window and found.route.mode is route.mode
        few = len(found.messages) if within else 0
        if route.mode is not Mode.RECAP or route.window == Window() or route.speakers or few >= LEAST:
            return asked, found
        named = (is_day(route.time_words) and not _TODAY.search(route.time_words)) or route.topic
        if not (named or few) or await self._summarised(asked, found):
            return asked, found
        window = Window() if named else Window(0.0, route.window.end)
        sources = (Source.ARCHIVE, Source.BUFFER, Source.HISTORY) if route.sources else ()
        words = bare_day(route.time_words) if named else route.time_words
        wider = asked.along(replace(route, window=window, time_words=words, sources=sources))
        again = await recall(wider)
        if again.verdict not in SHOWN or len(again.messages) <= few:
            return asked, found
        if named:
            return wider, again
        told = again.messages[-RECENT_MESSAGES:]
        window = Window(told[0].ts, route.window.end)
        return (
            wider.along(replace(wider.route, window=window)),
            replace(again, messages=told, route=replace(again.route, window=window)),
        )

    async def _whole(self, asked: Asked, found: Found) -> Found:
        """With all messages of a day or two, unless that is too much for a few lines."""
        window = await self._window(asked, found)
        if window.start is None or window.end is None or window.end - window.start > RECENT_S + 1.0:
            return found
        place = (asked.question.guild_id, asked.question.channel_id)
        try:
            every = await self._search.newest(archived(*place, asked.policy, window, MOST_TOLD, flagged=False))
        except RedisUnavailableError:
            return found
        if not RECAP_MESSAGES <= len(every) < MOST_TOLD:
            return found
        missed = asked.question.asker_id if asked.route.missed else None
        told = [one for one in every[::-1] if not (one.own or one.addressed or one.author_id == missed)]
        return replace(found, messages=tuple(told) or found.messages)

    async def _summarised(self, asked: Asked, found: Found) -> bool:
        """Whether the messages of the window have expired, and summaries still tell of them."""
        question, window = asked.question, asked.route.window
        if found.messages or not asked.policy.enabled:
            return False
        try:
            read = await self._summaries.read(question.guild_id, question.channel_id, asked.policy, window.start)
        except RedisUnavailableError:
            return True
        return any(window.contains(one.start) and window.contains(one.end) for one in read)

    async def by_summaries(self, asked: Asked, found: Found) -> Answer | None:
        """A recap told by summaries; None where nobody asked for one, or messages tell it better."""
        route = asked.route
        if not (_is_recap(route) and asked.policy.enabled):
            return None
        window = await self._window(asked, found)
        try:
            made, sources = await self._digest(asked.question, window, asked.policy, LONGEST)
        except RedisUnavailableError:
            return None
        if not made.parts or _told_by_messages(found, sources):
            return None
        told = self._told(asked.question, made, sources, asked.policy, LONGEST)
        return Answer(
            told.text,
            replace(route, kind=route.if_about),
            found.hits,
            tried=found.reports,
            found=True,
            sure=found.sure,
            evidence=found.evidence,
            summarised=told.summarised,
        )

    async def of_span(self, question: Question, window: Window, policy: Policy, limit: int = LONGEST) -> Told | None:
        """What was said in a channel in a span of time; None if nothing was. May raise RedisUnavailableError."""
        found, sources = await self._digest(question, window, policy, limit)
        return self._told(question, found, sources, policy, limit) if found.parts else None

    async def expired(self, asked: Asked, found: Found) -> Found:
        """With sentences about the topic that only summaries still have: their messages are older than the archive."""
        question, route, policy = asked.question, asked.route, asked.policy
        if not policy.enabled or found.route.kind is Kind.NONE:
            return found
        try:
            read = await self._summaries.read(question.guild_id, question.channel_id, policy, route.window.start)
        except RedisUnavailableError:
            return found
        lines = lines_about(route, read, before=question.ts - policy.limits.lifetime_s)[: policy.recall_limit]
        if not lines:
            return found
        hits = [_hit(question, line, share) for line, share in lines]
        hits[0] = replace(hits[0], answers=True)
        sure = hits[0].score
        verdict = Verdict.QUOTE if sure >= QUOTE else Verdict.GUESS
        route = replace(route, kind=found.route.kind, stranger="")
        return replace(found, route=route, verdict=verdict, hits=tuple(hits), sure=sure)

    async def _window(self, asked: Asked, found: Found) -> Window:
        """What the recap is about: the time it names, everything since the asker was last here, or the recent past."""
        question, route = asked.question, asked.route
        if route.window != Window():
            return Window(route.window.start, question.ts if route.window.end is None else route.window.end)
        if found.messages and len(found.messages) != RECAP_MESSAGES:
            return Window(found.messages[0].ts, question.ts)
        if not route.missed:
            return Window(question.ts - RECENT_S, question.ts)
        place = (question.guild_id, question.channel_id)
        query = archived(*place, asked.policy, Window(), OWN_WORDS, flagged=False)
        try:
            own = [one.ts for one in await self._search.newest(replace(query, author_ids=(question.asker_id,)))][::-1]
        except RedisUnavailableError:
            own = []
        return Window(left_at(own, question.ts) if own else question.ts - ABSENCE_S, question.ts)

    async def _digest(self, question: Question, window: Window, policy: Policy, limit: int) -> tuple[Digest, _Sources]:
        place = (question.guild_id, question.channel_id)
        read = await self._summaries.read(*place, policy, window.start)
        inside = [one for one in read if window.contains(one.start) and window.contains(one.end)]
        found = await self._search.newest(archived(*place, policy, window, RAW, flagged=False))
        raw = [one for one in found if not (one.own or one.addressed)]
        made = digest(inside, raw, now=question.ts, most=parts_within(limit))
        return made, _Sources(tuple(inside), tuple(raw))

    def _told(self, question: Question, made: Digest, sources: _Sources, policy: Policy, limit: int) -> Told:
        route = Route(Kind.CHANNEL, Mode.RECAP)
        people = [line for part in made.parts for line in part.summary.lines]
        phrasing = phrasing_of(question, route, (), policy.tz, {line.author_id: line.author for line in people})

        def link(first: Origin) -> str:
            return self._history.jump_url(question.guild_id, first.channel_id, first.id) if self._history else ""

        text = joined([*told(made, phrasing, limit, link)], limit=limit)
        kept = sorted(_quoted(made, sources), key=lambda one: one.id)
        return Told(text, tuple(kept[:MOST_ORIGINS]))


def _hit(question: Question, line: SummaryLine, share: float) -> Hit:
    """A sentence as the message it was part of."""
    place = (question.guild_id, question.channel_id)
    message = Message(*place, line.message_id, line.author_id, line.author, line.text, line.ts)
    return Hit(message, share, text_score=share, age_s=question.ts - line.ts, source=Source.ARCHIVE)


def _is_recap(route: Route) -> bool:
    """Whether it asks for everything of a time. What somebody said, or what was said about something, is searched; so
    are plans for a day."""
    plans = bool(route.time_words) and route.window == Window()
    return route.mode is Mode.RECAP and not (route.topic or route.speakers or plans)


def _told_by_messages(found: Found, sources: _Sources) -> bool:
    """Whether all messages of the time were read, and none of them has expired."""
    if not found.messages or len(found.messages) == RECAP_MESSAGES:  # reading stopped there
        return False
    return all(one.end >= found.messages[0].ts for one in sources.summaries)


def _quoted(found: Digest, sources: _Sources) -> set[Origin]:
    """The messages behind a digest: those whose sentences it has, and all of a stretch that a language model described.
    An answer made of messages that have expired is not stored, so it can't outlive a "forget me"."""
    windows = [one for one in sources.summaries if one.level == 1]
    origins = {one.id: one for summary in windows for one in summary.origins}
    origins |= {one.id: one.origin for one in sources.raw}
    ids = {line.message_id for part in found.parts for line in part.summary.lines}
    for part in (one.summary for one in found.parts if not one.summary.lines):
        ids |= {one.id for one in sources.raw if part.start <= one.ts <= part.end}
        ids |= {one.id for window in windows if part.start <= window.start <= part.end for one in window.origins}
    return {origins[one] for one in ids & origins.keys()}
