"""Which time is meant: time expressions in a question's words, as windows in UTC.

`RULES` say how people say a time, one per kind of expression, each with the span it means: here the distances from now,
and the order of all rules. One check against a set of trigger words decides whether there is anything to do, so a
question without a time costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import compress, islice
from typing import NamedTuple

from channelmem.times import calendar, spans
from channelmem.times.calendar import (
    ABOUT,
    AMOUNT,
    FEAST_WORDS,
    MONTHS,
    NUM,
    PART,
    SHORT_DATE,
    UNIT,
    WEEKDAYS,
    WRITTEN_DATE,
    Amount,
    amount,
)
from channelmem.times.spans import DAY, HOUR, MINUTE, YEAR, Clue, Moment, Span, zone

_DURING = "(?:in |over |during |within |for |from |throughout |since )"

_LONG_ABSENCE_S = 3 * HOUR
# "Last night" and "last evening" have their own rule.
_NOT_A_PART = "(?<!night)(?<!evening)(?<!morning)(?<!afternoon)"

Handler = Callable[["re.Match[str]", Moment], Span | None]


def _ago(match: re.Match[str], moment: Moment) -> Span:
    said = amount(match)
    if said.unit_s <= MINUTE and said.single:
        return Span(moment.now - max(moment.horizon_s / 2, 5 * said.most * said.unit_s), moment.now, Clue.RECENT)
    if said.bare and not match["so"]:
        return Span(moment.now - 14 * said.unit_s, moment.now - said.unit_s)
    far, near = (spans.ago(moment, count, said.unit_s, loose=said.loose) for count in (said.most, said.least))
    return far if said.least == said.most else Span(far.start, near.end, nominal=far.nominal)


def _rolling(match: re.Match[str], moment: Moment) -> Span:
    return spans.rolling(moment, _reach_s(amount(match)))


def _reach_s(said: Amount) -> float:
    return said.most * said.unit_s * (2 if said.loose else 1)


def _absence(match: re.Match[str], moment: Moment) -> Span:
    """Away for that long: everything said since; after a short absence, that is the current conversation."""
    reach_s = _reach_s(amount(match))
    clue = Clue.RECENT if reach_s <= _LONG_ABSENCE_S else Clue.EXPLICIT
    return spans.rolling(moment, reach_s)._replace(clue=clue)


def _recent(_match: re.Match[str], moment: Moment) -> Span:
    return Span(moment.now - moment.horizon_s, moment.now, Clue.RECENT)


def _long_ago(_match: re.Match[str], moment: Moment) -> Span:
    return Span(None, moment.now - moment.horizon_s, Clue.PAST)


class Rule(NamedTuple):
    """A way to say a time. The pattern is tried only if at least one of the words in `needs` is there."""

    needs: frozenset[str]
    pattern: re.Pattern[str]
    handler: Handler


def _rule(handler: Handler, needs: str, *forms: str) -> Rule:
    return Rule(frozenset(needs.split()), re.compile(rf"(?<!\S)(?:{'|'.join(forms)})(?!\S)"), handler)


# In `needs`, means every word that begins with a digit.
FIGURE = "#"
_UNITS = " ".join(f"{unit} {unit}s" for unit in UNIT.strip("(?:)").split("|"))
_DAY_NAMES, _MONTH_NAMES, _FEASTS = " ".join(WEEKDAYS), " ".join(MONTHS), " ".join((*calendar.FEAST_WORDS, "new"))
_HOURS = " ".join(f"{hour}{half}" for hour in calendar.HOURS.split() for half in ("", "am", "pm", "a.m", "p.m"))
_DAY_PARTS = "morning afternoon evening night"
_TERMS = "holidays vacation break semester season term exams"

# The first rule that matches a stretch of words takes it, so longer and surer forms come first.
RULES: tuple[Rule, ...] = (
    _rule(
        lambda _, at: Span(at.now, at.now, Clue.FUTURE),
        f"next tomorrow later soon upcoming now {_UNITS}",
        rf"(?:in|within) (?:the next )?{NUM} {UNIT}s?",
        rf"(?:the )?next (?:few |couple |\d+ )?(?:{UNIT}s?|weekend|time|spring|summer)",
        rf"tomorrow(?: {PART})?|day after tomorrow|later(?: today| tonight| this \w+)?(?! in the)|soon|upcoming"
        r"|from now",
    ),
    _rule(
        lambda _, at: Span(None, at.joined_ts, Clue.PAST),
        "before prior until",
        r"(?:before|prior to|until) (?:i|we) (?:\w+ )?(?:joined|came|got here|arrived|was here|showed up|join"
        r"|(?:was|were) (?:in|on|a member|part))",
        r"before my time",
    ),
    _rule(lambda _, at: Span(at.joined_ts, at.now), "since", r"since (?:i|we) (?:\w+ )?(?:joined|arrived)"),
    _rule(
        lambda _, at: Span(at.last_spoke_ts, at.now, Clue.RECENT),
        "while when since meantime",
        r"(?:while|when) (?:i|i am|i was|we were|i have|me) (?:\w+ ){0,2}(?:away|gone|asleep|sleeping|afk|out|offline"
        r"|busy|working|eating|in class|at work|driving|off|not here|cooking|slept|worked|ate|drove|showered)"
        r"(?: for lunch)?",
        r"since i (?:\w+ )?(?:left|went|logged off|spoke|posted|wrote|checked|looked)"
        r"(?: (?:away|last|afk|offline|to \w+))?",
        r"since i was (?:last )?(?:here|on|online|around)(?: last)?|since my last (?:message|post|visit)",
        r"in the meantime",
    ),
    _rule(
        _absence,
        "for",
        r"(?:i (?:have |had |just )?|^(?:just )?)(?:was|been|stepped|went|left|am|dozed)(?: \w+){0,4}?"
        rf" (?P<at>for (?:the (?:last|past) )?{ABOUT}{AMOUNT})",
    ),
    _rule(_absence, "been", rf"have been (?:here|on|around|online|active|in) (?P<at>(?:for|in) {ABOUT}{AMOUNT})"),
    _rule(
        _absence,
        "away afk gone offline asleep out",
        rf"(?:away|afk|gone|offline|asleep|out) (?P<at>(?:for )?{ABOUT}{AMOUNT})",
    ),
    _rule(
        _absence,
        "for",
        r"my (?:\w+ ){1,2}(?:died|crashed|froze|dropped|failed|cut out|was (?:down|dead))"
        rf" (?P<at>for {ABOUT}{AMOUNT})",
    ),
    _rule(_ago, "ago back earlier prior before", rf"{ABOUT}{AMOUNT} (?:ago|back|earlier|prior|before now)"),
    _rule(
        _recent,
        "ago back earlier now moment minute second present instant last",
        r"(?:a )?(?:(?:few|couple) )?(?:moments?|bit|tick|hot second|second|minute) (?:ago|back|earlier)",
        r"just now|right now|at the moment|this (?:very )?(?:moment|minute|second)|at present|this instant",
        r"(?:a )?little (?:bit )?(?:while )?ago|the last (?:little )?(?:bit|while)",
        r"not (?:too |so |that |very )?long ago",
    ),
    _rule(
        lambda _, at: Span(at.now - YEAR, at.now - max(at.horizon_s, HOUR), Clue.PAST),
        "ago back",
        r"(?:(?:quite |for )?a (?:long |good |little )?)?while (?:ago|back)",
        r"some ?time (?:ago|back)|(?:a |some )?time ago",
    ),
    _rule(
        _long_ago,
        "ago back past time point",
        r"(?:ages|forever|(?<!how )long|a long time|eons|centuries|way) (?:ago|back)",
        r"back then|back in the day|back when",
        rf"in the past(?! (?:several|{NUM}|{UNIT}s?)(?!\S))",
        r"(?:the )?(?:last|first) time|(?:one|that|another) time|at some point",
    ),
    _rule(calendar.other_day, "other", r"(?:the )?other (?P<unit>day|night|week|morning|evening)"),
    _rule(calendar.before_last, "before", calendar.BEFORE_LAST),
    _rule(lambda _, at: spans.night(at, 2), "before", r"(?:the )?night before last"),
    _rule(calendar.weekday_range, _DAY_NAMES, calendar.WEEKDAY_RANGE),
    _rule(
        lambda _, at: Span(at.at(at.day(2)), at.at(at.today)),
        "yesterday",
        r"yesterday (?:or|and) the day before(?: that| yesterday)?",
    ),
    _rule(calendar.of_last_week, "week", calendar.OF_LAST_WEEK),
    _rule(calendar.weekdays_ago, "ago", calendar.WEEKDAYS_AGO),
    _rule(calendar.edge, "week month year", calendar.EDGE),
    _rule(calendar.month_part, _MONTH_NAMES, calendar.MONTH_PART),
    _rule(  # people who leave out the unit mean minutes
        lambda match, at: spans.rolling(at, float(match["count"]) * MINUTE),
        "last",
        r"(?:in|over|for|from|of) the last (?P<count>\d{1,3})(?=$| [,.?!])",
    ),
    _rule(_rolling, "these", rf"(?:in |over |during )these {AMOUNT}"),
    _rule(
        _rolling,
        "last past previous",
        rf"{_DURING}(?:the |these |this )(?:last|past|previous) {ABOUT}{AMOUNT}{_NOT_A_PART}",
    ),
    _rule(
        calendar.last_unit,
        "last previous",
        r"(?:(?:from |during )?the |during |back |early |late |earlier )?(?:last|previous) (?P<unit>week|month|year)"
        r"(?! (?:or (?:so|two|three)|and (?:a half|the)) ?)",
    ),
    _rule(
        _rolling,
        "last past previous",
        rf"{_DURING}?(?:the |these |this )?(?:last|past|previous) {ABOUT}{AMOUNT}{_NOT_A_PART}",
    ),
    _rule(
        calendar.this_unit,
        "week month year",
        r"(?:earlier |at the (?:start|beginning) of |sometime |during )?this (?P<unit>week|month|year)",
    ),
    _rule(
        calendar.day_word,
        "today yesterday day",
        r"(?:earlier |sometime |late |early |at some point |first thing |all )?(?:the )?"
        rf"(?P<word>day before yesterday|previous day|today|yesterday)(?: (?:in the )?{PART})?(?: earlier)?",
    ),
    _rule(
        calendar.this_part,
        f"{_DAY_PARTS} mornings afternoons evenings nights tonight",
        rf"(?:earlier |first thing |early |late |in |all )?this {PART}s?|tonight",
    ),
    _rule(
        lambda _, at: spans.night(at, 1),
        "night evening",
        r"(?:late |earlier |all )?(?:last|yester) (?:night|evening)|the (?:night before|previous (?:night|evening))",
    ),
    _rule(
        lambda _, at: Span(at.at(at.today, -4), at.at(at.today, 9)),
        "overnight night",
        r"overnight|during the night|through the night",
    ),
    _rule(
        lambda _, at: spans.part_of_day(at, at.today, (0.0, 6.0)),
        "hours",
        r"in the (?:wee|small|early) hours(?: of the morning)?",
    ),
    _rule(calendar.weekday, _DAY_NAMES, calendar.WEEKDAY),
    _rule(calendar.weekend, "weekend", calendar.WEEKEND),
    _rule(
        calendar.written,
        f"{FIGURE} {_MONTH_NAMES}",
        rf"(?:on )?(?:the )?(?P<date>{WRITTEN_DATE})|on (?P<short>{SHORT_DATE})",
    ),
    _rule(calendar.month, _MONTH_NAMES, calendar.MONTH_PATTERN),
    _rule(calendar.season, "spring summer autumn fall winter", calendar.SEASON),
    _rule(calendar.quarter, "q1 q2 q3 q4 quarter", calendar.QUARTER),
    _rule(calendar.feast, _FEASTS, calendar.FEAST),
    _rule(calendar.day_of_month, FIGURE, calendar.DAY_OF_MONTH),
    _rule(lambda match, at: spans.months(at, int(match[1]), 1, 12), FIGURE, r"(?:back )?in (20\d{2}|19\d{2})"),
    _rule(calendar.clocks, "between from", calendar.CLOCKS),
    _rule(calendar.spoken_clock, "half quarter ten twenty five", calendar.CLOCK_SPOKEN),
    _rule(calendar.clock, f"{FIGURE} {_HOURS}", calendar.CLOCK),
    _rule(calendar.clock, FIGURE, calendar.CLOCK_MINUTES),
    _rule(calendar.clock, f"{FIGURE} {_HOURS}", calendar.CLOCK_BARE),
    _rule(calendar.the_part, _DAY_PARTS, rf"(?:earlier |early |late )?(?:in |during )the {PART}"),
    _rule(calendar.point, "lunch lunchtime noon midday midnight breakfast dinner", calendar.POINT),
    _rule(calendar.all_of, "all", calendar.ALL_OF),
    _rule(
        lambda _, at: Span(at.now - 14 * DAY, at.now),
        "lately these late recent",
        r"lately|these days|of late|in recent (?:days|weeks)",
    ),
    _rule(  # the words ask for the current conversation, but that may have begun hours ago
        lambda _, at: Span(at.now - max(6 * HOUR, at.horizon_s), at.now, Clue.RECENT),
        "earlier recently now currently moment",
        r"earlier(?: on)?|recently|now|currently|a moment",
    ),
    _rule(
        _long_ago,
        f"previously formerly days once before last previous {_TERMS}",
        r"previously|formerly|in the old days",
        r"(?:(?<!at )once|before)(?= [,.!?;]|$| (?:before|what|when|who|where|that|how|about)(?!\S))",
        rf"(?:before|after|during|over|since|last|previous) (?:the )?(?:\w+ )?(?:{_TERMS.replace(' ', '|')})",
        r"once(?= (?:said|told|wrote|had|gave|got|made|in here|in this|\w+ed)(?!\S))",
    ),
)


_WORDS = """
    ago back earlier last past previous today yesterday tomorrow tonight overnight weekend since before after
    until till other recently lately previously once now moment minute minutes second seconds hour hours day
    days week weeks month months year years morning afternoon evening night lunch lunchtime noon midday midnight
    breakfast dinner while joined next later soon formerly time currently ages forever instant present upcoming
    decade some fortnight prior days spring summer autumn fall winter meantime quarter q1 q2 q3 q4 o'clock half
    when late holidays vacation break semester season term exams evenings mornings afternoons nights
    mondays tuesdays wednesdays thursdays fridays saturdays sundays
"""
_TRIGGERS = {FIGURE, *_WORDS.split(), *WEEKDAYS, *MONTHS, *FEAST_WORDS}
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
_BOUNDS = (_SINCE | _UNTIL) - {"from"}


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
        if joined and joined[-1].last >= each.first - 1 and (both := _narrowed(joined[-1], each, words, moment)):
            joined[-1] = both
        else:
            joined.append(each)
    bounded = [_bounded(each, words, moment) for each in joined]
    if bounded and _SINCE_THEN.search(" ".join(words[bounded[-1].last :])):
        bounded[-1] = bounded[-1]._replace(span=bounded[-1].span._replace(end=None))
    if len(bounded) == 2 and bounded[0].first and words[bounded[0].first - 1] in {"between", "from"}:
        return [_hull(*bounded)]
    return bounded


def _narrowed(one: TimeMatch, other: TimeMatch, words: Sequence[str], moment: Moment) -> TimeMatch | None:
    day = one.span.day or other.span.day
    if day is None or (one.span.day and other.span.day):
        return None
    bound = next((word for word in words[one.last : other.first + 1] if word in _BOUNDS), "")
    if bound and one.span.day and other.span.nominal is not None:
        # "Today before lunch" begins with that day, "today after lunch" ends with it.
        hour = datetime.fromtimestamp(other.span.nominal, zone(moment.tz)).hour
        reach = (0.0, float(hour)) if bound in _UNTIL else (float(hour), 24.0)
        span = Span(moment.at(day, reach[0]), moment.at(day, reach[1]), day=day, hours=reach)
        return TimeMatch(one.first, other.last, span, " ".join(words[one.first : other.last]))
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
    narrow, wide = sorted((one, other), key=lambda span: span.hours[1] - span.hours[0] if span.hours else 24.0)
    first, last = narrow.hours or (0.0, 0.0)
    reach = wide.hours or (0.0, 24.0)
    halves = range(0, 25, 12) if narrow.either_half else (0, 24)
    return next(
        ((first + by, last + by) for by in halves if reach[0] <= first + by and last + by <= reach[1]), (first, last)
    )


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
