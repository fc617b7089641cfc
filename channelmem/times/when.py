"""Which time is meant: time expressions in a question's words, as windows in UTC. One check against a set of trigger
words decides whether there is anything to do, so a question without a time costs nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import compress, islice
from typing import NamedTuple

from channelmem.times.calendar import FEAST_WORDS, MONTHS, WEEKDAYS
from channelmem.times.expressions import FIGURE, RULES, words
from channelmem.times.spans import HOUR, Clue, Moment, Span

_TRIGGERS = words(
    """ago back earlier last past previous today yesterday tomorrow tonight overnight weekend since before after
    until till other recently lately previously once now moment minute minutes second seconds hour hours day
    days week weeks month months year years morning afternoon evening night lunch lunchtime noon midday midnight
    breakfast dinner while joined next later soon formerly time currently ages forever instant present upcoming
    decade some fortnight prior days spring summer autumn fall winter meantime quarter q1 q2 q3 q4 o'clock half
    when late holidays vacation break semester season term exams evenings mornings afternoons nights
    mondays tuesdays wednesdays thursdays fridays saturdays sundays"""
) | {FIGURE, *WEEKDAYS, *MONTHS, *FEAST_WORDS}
_NEEDS = tuple(rule.needs for rule in RULES)
# A question names one time or two; a text with more than this is not a question.
_MOST = 6


class TimeMatch(NamedTuple):
    """A time expression: words[first:last] say it."""

    first: int
    last: int
    span: Span
    phrase: str


_Hours = tuple[float, float]
_SINCE = frozenset({"since", "after", "starting", "from"})
_SINCE_THEN = re.compile(r"(?<!\S)(?:after (?:that|this)|since then|since(?= [.,?!]|$)|ever since|afterwards)(?!\S)")
_UNTIL = frozenset({"before", "until", "till"})


def may_tell(words: Sequence[str]) -> bool:
    """Whether there is anything to look for."""
    return not _TRIGGERS.isdisjoint(map(_needed, words))


@lru_cache(maxsize=16_384)
def _needed(word: str) -> str:
    """A word as it appears in a rule's `needs`."""
    return FIGURE if word[:1].isdecimal() else word


def find(words: Sequence[str], moment: Moment) -> list[TimeMatch]:
    """Every time expression in the words, in order, without overlaps."""
    if not may_tell(words):
        return []
    text = " ".join(words)
    said = frozenset(map(_needed, words))
    found: list[TimeMatch] = []
    taken: list[tuple[int, int]] = []
    for _needs, pattern, handler in compress(RULES, map(said.intersection, _NEEDS)):
        if len(found) >= _MOST:
            break
        for match in islice(pattern.finditer(text), _MOST):
            # In "I was out for an hour", only the hour is the time.
            begin, end = match.span("at" if "at" in pattern.groupindex else 0)
            if any(begin < t_end and t_begin < end for t_begin, t_end in taken):
                continue
            span = handler(match, moment)
            if span is not None:
                taken.append((begin, end))
                first, phrase = text.count(" ", 0, begin), text[begin:end]
                found.append(TimeMatch(first, first + phrase.count(" ") + 1, span, phrase))
    found.sort(key=lambda each: each.first)
    return [each._replace(span=moment.clip(each.span)) for each in _combine(found, words, moment)]


def _combine(found: list[TimeMatch], words: Sequence[str], moment: Moment) -> list[TimeMatch]:
    """Narrows a day by an hour next to it, applies "since" and "before", and joins "from A to B"."""
    joined: list[TimeMatch] = []
    for each in found:
        if joined and joined[-1].last >= each.first - 1 and (both := _narrowed(joined[-1], each, moment)):
            joined[-1] = both
        else:
            joined.append(each)
    bounded = [_bounded(each, words, moment) for each in joined]
    if bounded and _SINCE_THEN.search(" ".join(words[bounded[-1].last :])):
        bounded[-1] = bounded[-1]._replace(span=bounded[-1].span._replace(end=None))
    if len(bounded) == 2 and bounded[0].first and words[bounded[0].first - 1] in {"between", "from"}:
        return [_hull(*bounded)]
    return bounded


def _narrowed(one: TimeMatch, other: TimeMatch, moment: Moment) -> TimeMatch | None:
    day = one.span.day or other.span.day
    if day is None or (one.span.day and other.span.day):
        return None
    hours = _narrower(one.span, other.span, latest=moment.hour if day == moment.today else 24.0)
    if hours is None:
        return None
    margin = 0.75 if hours[0] == hours[1] else 0.0
    exact = moment.at(day) + hours[0] * HOUR
    begin, end = exact - margin * HOUR, moment.at(day) + (hours[1] + margin) * HOUR
    span = Span(begin, end, nominal=exact, day=day, hours=hours)
    return TimeMatch(one.first, other.last, span, f"{one.phrase} {other.phrase}")


def _narrower(one: Span, other: Span, latest: float) -> _Hours | None:
    """The narrower of two stretches of a day: "this morning between 9 and 10"; nine in the evening is 21."""
    if one.hours is None or other.hours is None:
        said = one if one.hours else other
        return _waking(said.hours, latest) if said.hours and said.either_half else said.hours
    narrow, wide = sorted((one, other), key=lambda span: _length(span.hours))
    first, last = narrow.hours or (0.0, 0.0)
    reach = wide.hours or (0.0, 24.0)
    halves = range(0, 25, 12) if narrow.either_half else (0, 24)
    return next(
        ((first + by, last + by) for by in halves if reach[0] <= first + by and last + by <= reach[1]), (first, last)
    )


def _length(hours: _Hours | None) -> float:
    return hours[1] - hours[0] if hours else 24.0


def _waking(hours: _Hours, latest: float) -> _Hours:
    """ "At three" on some day is the afternoon; "at nine" may be either."""
    first, last = hours
    if last + 12 > latest or first >= 12:
        return hours
    return (first + 12, last + 12) if first < 7 else (first, last + 12)


def _bounded(each: TimeMatch, words: Sequence[str], moment: Moment) -> TimeMatch:
    """ "since Monday" runs until now, "before Monday" from the beginning, "before lunch" from that morning."""
    span, first = each.span, each.first
    if span.clue is not Clue.EXPLICIT:
        return each
    words_before = (words[first], words[first - 1] if first else "")
    if list(words[max(0, first - 2) : first]) == ["up", "to"]:
        words_before = ("until", "")
    begin = first - 1 if words_before[1] in _SINCE | _UNTIL else first
    edge = span.start if span.nominal is None or (span.day and not span.hours) else span.nominal
    if not _SINCE.isdisjoint(words_before) and "from" not in words_before:
        return each._replace(first=begin, span=Span(edge, None))
    if not _UNTIL.isdisjoint(words_before):
        if span.day and not span.hours and "before" not in words_before:
            edge = span.end  # "until yesterday" includes that day
        bound = Span(moment.midnight(edge), edge) if span.hours and edge else Span(None, edge, Clue.PAST)
        return each._replace(first=begin, span=bound)
    return each


def _hull(one: TimeMatch, other: TimeMatch) -> TimeMatch:
    starts = [s for s in (one.span.start, other.span.start) if s is not None]
    ends = [e for e in (one.span.end, other.span.end) if e is not None]
    span = Span(min(starts, default=None), max(ends, default=None), one.span.clue)
    return TimeMatch(one.first - 1, other.last, span, f"{one.phrase} to {other.phrase}")
