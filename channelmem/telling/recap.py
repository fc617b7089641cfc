"""The honest no: what was searched, and that nothing in it answers the question.

Enters: a phrasing and the sources' reports. Leaves: one sentence that claims nothing beyond them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Final

from channelmem.display import Phrasing, clock_time, counted, cut, during, flatten, listed, name, safe
from channelmem.durations import HOUR_S
from channelmem.policy.policy import Policy
from channelmem.recalling.gist import Highlight, Stretch, points
from channelmem.recalling.recall import Found
from channelmem.recalling.verdict import Verdict
from channelmem.telling.block import Forest, build
from channelmem.telling.references import not_read
from channelmem.types import MEMORY_OFF, Question, Source, SourceReport, Unsearched, Window

MOST_COUNTED = 100
"""Counting reads no more messages than this."""


def nothing_found(phrasing: Phrasing, reports: Sequence[SourceReport]) -> str:
    asked = [source for source in reports if not source.problem]
    if reports and not asked:
        return MEMORY_OFF if reports[0].unsearched is Unsearched.OFF else "I couldn't look it up."
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


# --- recap ---


ROOM: Final = 1_800
"""Characters for the lines of a recap."""
LINE_CHARS: Final = (160, 120, 90, 60)
"""At most so many of each message: the first length with which all lines fit."""
LEAST_MESSAGES: Final = 20
"""A recap shows a language model so many messages, if there are."""


def recap_points(question: Question, found: Found, tz: tzinfo) -> tuple[Highlight, ...]:
    """The lines of a recap. A day without a window is one whose plans are asked for."""
    day = found.route.time_words if found.route.window == Window() else ""
    return points(Stretch(found.messages, found.about, day, question.ts, tz))


def recap_forest(found: Found, told: Sequence[Highlight], policy: Policy) -> Forest:
    """What an answer rests on: its lines, and for a language model what is closest to its topic, or newest. Whoever
    wants little or no ambient context for a model still wants to be caught up."""
    most = max(policy.context_messages, LEAST_MESSAGES)
    worth = [sum(one) for one in found.about] or range(len(found.messages))
    best = sorted(range(len(found.messages)), key=worth.__getitem__)[-most:]
    shown = {one.id: one for one in (*(found.messages[at] for at in best), *(one.message for one in told))}
    return build(tuple(shown.values()), max_threads=len(shown), max_messages=len(shown))


def recap(phrasing: Phrasing, found: Found, told: Sequence[Highlight]) -> Iterator[str]:
    """The lines of a recap, oldest first, behind a line that says of what."""
    yield f"{_of_what(phrasing, found)}:"
    every = ([_point(phrasing, point, chars) for point in told] for chars in LINE_CHARS)
    fitting = next((lines for lines in every if sum(map(len, lines)) + len(lines) <= ROOM), None)
    yield from fitting or [_point(phrasing, point, LINE_CHARS[-1]) for point in told]


def _point(phrasing: Phrasing, point: Highlight, chars: int) -> str:
    return phrasing.bullet(point.message, chars, "Still open: " if point.is_open else "")


def _of_what(phrasing: Phrasing, found: Found) -> str:
    route, count = phrasing.route, counted(len(found.messages), "message")
    if route.topic:
        return f"{'Perhaps about' if found.verdict is Verdict.GUESS else 'About'} {phrasing.topic()}"
    first = clock_time(found.messages[0].ts, phrasing)
    if route.time_words and route.window == Window():
        return f"For {safe(cut(flatten(route.time_words), 40))}, from what was said since {first}"
    # Reading stopped at a limit, so the number of earlier messages is unknown.
    more = any(one.source is not Source.HISTORY and one.count > len(found.messages) for one in found.reports)
    if route.window.end is not None and route.window.end < phrasing.now - HOUR_S and len(found.messages) > 1:
        last = clock_time(found.messages[-1].ts, phrasing)
        return f"{count} from {first} to {last.removeprefix(first[:-5])}"
    return f"The last {count}, since {first}" if more and len(found.messages) > 1 else f"Since {first}, {count}"
