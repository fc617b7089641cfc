"""How people say a time: `RULES`, one per kind of expression, each with the span it means; here the distances from now,
and the order of all rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from channelmem.times import calendar, spans
from channelmem.times.calendar import (
    ABOUT,
    AMOUNT,
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
from channelmem.times.spans import DAY, HOUR, MINUTE, YEAR, Clue, Moment, Span

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
    return Span(moment.now - reach_s, moment.now, clue, nominal=moment.now - reach_s)


def _recent(_match: re.Match[str], moment: Moment) -> Span:
    return Span(moment.now - moment.horizon_s, moment.now, Clue.RECENT)


def _long_ago(_match: re.Match[str], moment: Moment) -> Span:
    return Span(None, moment.now - moment.horizon_s, Clue.PAST)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Rule(NamedTuple):
    """A way to say a time. The pattern is tried only if at least one of the words in `needs` is there."""

    needs: frozenset[str]
    pattern: re.Pattern[str]
    handler: Handler


def _rule(handler: Handler, needs: str, *forms: str) -> Rule:
    return Rule(words(needs), re.compile(rf"(?<!\S)(?:{'|'.join(forms)})(?!\S)"), handler)


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
    ),
    _rule(_recent, "ago", r"not (?:too |so |that |very )?long ago"),
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
        f"{_DAY_PARTS} tonight",
        rf"(?:earlier |first thing |early |late |in |all )?this {PART}|tonight",
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
    _rule(lambda match, at: spans.whole_year(at, int(match[1])), FIGURE, r"(?:back )?in (20\d{2}|19\d{2})"),
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
