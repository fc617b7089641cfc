"""The honest no: what was searched, and that nothing in it answers the question.

Enters: a phrasing and the sources' reports. Leaves: one sentence that claims nothing beyond them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from channelmem.telling.media_notes import not_read
from channelmem.telling.quote import Phrasing, counted, during, listed, name
from channelmem.types import MEMORY_OFF, Source, SourceReport

MOST_COUNTED = 100
"""Counting reads no more messages than this."""


def nothing_found(phrasing: Phrasing, reports: Sequence[SourceReport]) -> str:
    asked = [source for source in reports if not source.problem]
    if reports and not asked:
        return MEMORY_OFF if reports[0].problem == MEMORY_OFF else "I couldn't look it up."
    if phrasing.route.stranger:
        return _no_such_person(phrasing, asked)
    seen = [_seen(source, phrasing) for source in _distinct(asked)]
    if not seen:
        # A search by person or time that found nothing says nothing about other people or times.
        narrowed = [phrasing.by()] if phrasing.route.speakers else []
        narrowed += [_from_then(phrasing)] if phrasing.route.window.start is not None else []
        return f"I found no messages {' '.join(narrowed)}." if narrowed else "I have no messages here yet."
    missing = not_read(max(source.unread for source in asked))
    return f"I have {', and '.join(seen)}; {_nobody(phrasing)}{missing and f' ({missing})'}."


def counted_messages(phrasing: Phrasing, reports: Sequence[SourceReport]) -> str:
    """How many messages there are; reading stops at a limit, and the sentence says so."""
    count = max((report.count for report in reports), default=0)
    by = f" {phrasing.by()}" if phrasing.route.speakers else ""
    when = f" {_from_then(phrasing)}" if phrasing.route.window.start is not None else ""
    least = "at least " if count > MOST_COUNTED else ""
    return f"I count {least}{counted(min(count, MOST_COUNTED), 'message')}{by}{when}."


def _no_such_person(phrasing: Phrasing, reports: Sequence[SourceReport]) -> str:
    oldest = min((one.oldest_ts for one in reports if one.oldest_ts is not None), default=None)
    since = "" if oldest is None else f" (since {clock_time(oldest, phrasing)})"
    return f"Nobody called {name(phrasing.route.stranger)} has written here{since}."


def _from_then(phrasing: Phrasing) -> str:
    words = phrasing.route.time_words
    return f"from {during(words).removeprefix('on ')}" if words else "from that time"


def clock_time(ts: float, phrasing: Phrasing) -> str:
    """The time of day, with the day unless it is today."""
    then, today = datetime.fromtimestamp(ts, phrasing.tz), datetime.fromtimestamp(phrasing.now, phrasing.tz).date()
    if then.date() == today:
        return f"{then:%H:%M}"
    if then.date() == today - timedelta(days=1):
        return f"yesterday {then:%H:%M}"
    return f"{then.day} {then:%B %H:%M}" if then.year == today.year else f"{then.day} {then:%B %Y}"


def _distinct(reports: Sequence[SourceReport]) -> list[SourceReport]:
    """Near to far; an archive that reaches no further back than the buffer is not worth mentioning."""
    kept: list[SourceReport] = []
    for source in sorted((one for one in reports if one.count), key=lambda one: list(Source).index(one.source)):
        if all(source.count > other.count for other in kept):
            kept.append(source)
    return kept


def _seen(report: SourceReport, phrasing: Phrasing) -> str:
    back = f", back to {clock_time(report.oldest_ts, phrasing)}" if report.oldest_ts is not None else ""
    count = f"{report.count:,}"
    if report.source is Source.BUFFER:
        return f"the last {count} messages{back}" if report.count > 1 else f"the last message{back}"
    if report.source is Source.ARCHIVE:
        return f"{counted(report.count, 'message')} in the archive{back}"
    return f"{counted(report.count, 'message')} of the channel's history{back}"


def _nobody(phrasing: Phrasing) -> str:
    route = phrasing.route
    speakers = [phrasing.speaker(person) for person in route.speakers]
    narrowed = route.binds and route.window.start is not None
    then = f" {during(route.time_words)}" if narrowed and route.time_words else " in that time" if narrowed else ""
    if not route.binds:
        return "nothing in them answers that"
    if not route.topic:
        return f"{f'{listed(speakers)} said nothing' if speakers else 'nobody said anything'}{then}"
    who = f"{listed(speakers)} did not mention" if speakers else "nobody mentioned"
    return f"{who} {phrasing.topic()}{then}"
