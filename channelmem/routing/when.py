"""Which time is meant: time expressions in a question's words, as windows in UTC.

Enters: folded words and the moment of asking. Leaves: `Found` expressions with their place in the words. One
look at a set of trigger words decides whether there is anything to do, so a question without a time pays
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from channelmem.routing.dates import MONTHS, WEEKDAYS
from channelmem.routing.expressions import RULES
from channelmem.routing.lexicon import word_set
from channelmem.routing.spans import HOUR, Clue, Moment, Span

_TRIGGERS = word_set(
    """ago back earlier last past previous today yesterday tomorrow tonight overnight weekend since before after
    until till other recently lately previously once now moment minute minutes second seconds hour hours day
    days week weeks month months year years morning afternoon evening night lunch lunchtime noon midday midnight
    breakfast dinner while joined next later soon formerly time currently ages forever instant present upcoming
    decade some fortnight prior days spring summer autumn fall winter"""
) | {*WEEKDAYS, *MONTHS}
# A question names one time or two; more than this is no question.
_MOST = 6
_NUMBER = re.compile(r"(?:^| )\d")


@dataclass(frozen=True, slots=True)
class Found:
    """A time expression: words[first:last] say it."""

    first: int
    last: int
    span: Span
    phrase: str


_Hours = tuple[float, float]
_SINCE = frozenset({"since", "after", "starting", "from"})
_UNTIL = frozenset({"before", "until", "till"})


def find(words: Sequence[str], moment: Moment) -> list[Found]:
    """Every time expression of the words, in order, none overlapping another."""
    text = " ".join(words)
    if _TRIGGERS.isdisjoint(words) and _NUMBER.search(text) is None:
        return []
    starts = _starts(words)
    found: list[Found] = []
    taken: list[tuple[int, int]] = []
    for pattern, handler in RULES:
        if len(found) >= _MOST:
            break
        for match in islice(pattern.finditer(text), _MOST):
            begin, end = match.span()
            if any(begin < t_end and t_begin < end for t_begin, t_end in taken):
                continue
            span = handler(match, moment)
            if span is not None:
                taken.append((begin, end))
                found.append(_placed(starts, begin, span, match[0]))
    found.sort(key=lambda each: each.first)
    return [replace(each, span=moment.clip(each.span)) for each in _combine(found, words, moment)]


def _starts(words: Sequence[str]) -> dict[int, int]:
    starts, at = {}, 0
    for index, word in enumerate(words):
        starts[at] = index
        at += len(word) + 1
    return starts


def _placed(starts: dict[int, int], begin: int, span: Span, phrase: str) -> Found:
    first = starts[begin]
    return Found(first, first + phrase.count(" ") + 1, span, phrase)


def _combine(found: list[Found], words: Sequence[str], moment: Moment) -> list[Found]:
    """A day narrowed by an hour next to it, "since" and "before" applied, "from A to B" made one."""
    joined: list[Found] = []
    for each in found:
        if joined and joined[-1].last >= each.first - 1 and (both := _narrowed(joined[-1], each, moment)):
            joined[-1] = both
        else:
            joined.append(each)
    bounded = [_bounded(each, words) for each in joined]
    if len(bounded) == 2 and bounded[0].first and words[bounded[0].first - 1] in {"between", "from"}:
        return [_hull(*bounded)]
    return bounded


def _narrowed(one: Found, other: Found, moment: Moment) -> Found | None:
    day, hours = one.span.day or other.span.day, _narrower(one.span.hours, other.span.hours)
    if day is None or hours is None or (one.span.day and other.span.day):
        return None
    margin = 0.75 if hours[0] == hours[1] else 0.0
    begin, end = moment.at(day) + (hours[0] - margin) * HOUR, moment.at(day) + (hours[1] + margin) * HOUR
    return Found(one.first, other.last, Span(begin, end, nominal=begin, day=day), f"{one.phrase} {other.phrase}")


def _narrower(one: _Hours | None, other: _Hours | None) -> _Hours | None:
    """The narrower of two stretches of a day: "this morning between 9 and 10"; eight in the evening is twenty."""
    if one is None or other is None:
        return one or other
    narrow, wide = sorted((one, other), key=lambda hours: hours[1] - hours[0])
    late = (narrow[0] + 12, narrow[1] + 12)
    return late if narrow[0] < wide[0] and late[1] <= wide[1] else narrow


def _bounded(each: Found, words: Sequence[str]) -> Found:
    """ "since Monday" runs to now, "before Monday" from the beginning."""
    span, first = each.span, each.first
    if span.clue is not Clue.EXPLICIT:
        return each
    words_before = (words[first], words[first - 1] if first else "")
    begin = min(first, first - 1) if words_before[1] in _SINCE | _UNTIL else first
    edge = span.start if span.nominal is None or span.day else span.nominal
    if not _SINCE.isdisjoint(words_before) and "from" not in words_before:
        return replace(each, first=begin, span=Span(edge, None))
    if not _UNTIL.isdisjoint(words_before):
        return replace(each, first=begin, span=Span(None, edge, Clue.PAST))
    return each


def _hull(one: Found, other: Found) -> Found:
    starts = [s for s in (one.span.start, other.span.start) if s is not None]
    ends = [e for e in (one.span.end, other.span.end) if e is not None]
    span = Span(min(starts, default=None), max(ends, default=None), one.span.clue)
    return Found(one.first - 1, other.last, span, f"{one.phrase} to {other.phrase}")
