"""How people say a time: one rule per kind of expression, each with the span it means.

Leaves: `RULES`, patterns over folded words with their handlers. Hours of a day are in `clocks`, named days, months
and feasts in `almanac`, amounts in `amounts`; here stand the distances from now and the order of all.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from channelmem.routing import almanac, clocks, spans
from channelmem.routing.amounts import ABOUT, AMOUNT, NUM, UNIT, Amount, amount
from channelmem.routing.dates import SHORT_DATE, WRITTEN_DATE
from channelmem.routing.spans import DAY, HOUR, MINUTE, YEAR, Clue, Moment, Span

_DURING = "(?:in |over |during |within |for |from |throughout |since )"
_PART = "(?P<part>morning|afternoon|evening|night)"
_LONG_ABSENCE_S = 3 * HOUR

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


def _last_minutes(match: re.Match[str], moment: Moment) -> Span:
    """The last 15: what else is counted so."""
    return spans.rolling(moment, float(match["count"]) * MINUTE)


def _reach_s(said: Amount) -> float:
    return said.most * said.unit_s * (2 if said.loose else 1)


def _absence(match: re.Match[str], moment: Moment) -> Span:
    """Away for that long: all that was said since; of a short absence that is the running conversation."""
    reach_s = _reach_s(amount(match))
    clue = Clue.RECENT if reach_s <= _LONG_ABSENCE_S else Clue.EXPLICIT
    return Span(moment.now - reach_s, moment.now, clue, nominal=moment.now - reach_s)


def _recent(_match: re.Match[str], moment: Moment) -> Span:
    return Span(moment.now - moment.horizon_s, moment.now, Clue.RECENT)


def _earlier(_match: re.Match[str], moment: Moment) -> Span:
    # The word asks for the running conversation, but that may have begun some hours ago.
    return Span(moment.now - max(6 * HOUR, moment.horizon_s), moment.now, Clue.RECENT)


def _lately(_match: re.Match[str], moment: Moment) -> Span:
    return Span(moment.now - 14 * DAY, moment.now)


def _while_back(_match: re.Match[str], moment: Moment) -> Span:
    return Span(moment.now - YEAR, moment.now - max(moment.horizon_s, HOUR), Clue.PAST)


def _long_ago(_match: re.Match[str], moment: Moment) -> Span:
    return Span(None, moment.now - moment.horizon_s, Clue.PAST)


def _before_joining(_match: re.Match[str], moment: Moment) -> Span:
    return Span(None, moment.joined_ts, Clue.PAST)


def _since_joining(_match: re.Match[str], moment: Moment) -> Span:
    return Span(moment.joined_ts, moment.now)


def _away(_match: re.Match[str], moment: Moment) -> Span:
    return Span(moment.last_spoke_ts, moment.now, Clue.RECENT)


def _future(_match: re.Match[str], moment: Moment) -> Span:
    return Span(moment.now, moment.now, Clue.FUTURE)


def _rule(handler: Handler, *forms: str) -> tuple[re.Pattern[str], Handler]:
    return re.compile(rf"(?<!\S)(?:{'|'.join(forms)})(?!\S)"), handler


# The first rule that fits a stretch of words takes it, so longer and surer forms stand first.
RULES: tuple[tuple[re.Pattern[str], Handler], ...] = (
    _rule(
        _future,
        rf"(?:in|within) (?:the next )?{NUM} {UNIT}s?",
        rf"(?:the )?next (?:few |couple |\d+ )?(?:{UNIT}s?|weekend|time|spring|summer)",
        rf"tomorrow(?: {_PART})?|day after tomorrow|later(?: today| tonight| this \w+)?(?! in the)|soon|upcoming"
        r"|from now",
    ),
    _rule(
        _before_joining,
        r"(?:before|prior to|until) (?:i|we) (?:\w+ )?(?:joined|came|got here|arrived|was here|showed up|join)",
        r"before my time",
    ),
    _rule(_since_joining, r"since (?:i|we) (?:\w+ )?(?:joined|arrived)"),
    _rule(
        _away,
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
        r"(?:i (?:have |had |just )?|^(?:just )?)(?:was|been|stepped|went|left|am|dozed)(?: \w+){0,4}?"
        rf" (?P<at>for (?:the (?:last|past) )?{ABOUT}{AMOUNT})",
    ),
    _rule(_absence, rf"have been (?:here|on|around|online|active|in) (?P<at>(?:for|in) {ABOUT}{AMOUNT})"),
    _rule(_absence, rf"(?:away|afk|gone|offline|asleep|out) (?P<at>(?:for )?{ABOUT}{AMOUNT})"),
    _rule(_ago, rf"{ABOUT}{AMOUNT} (?:ago|back|earlier|prior|before now)"),
    _rule(
        _recent,
        r"(?:a )?(?:(?:few|couple) )?(?:moments?|bit|tick|hot second|second|minute) (?:ago|back|earlier)",
        r"just now|right now|at the moment|this (?:very )?(?:moment|minute|second)|at present|this instant",
        r"(?:a )?little (?:bit )?(?:while )?ago|the last (?:little )?(?:bit|while)",
    ),
    _rule(_recent, r"not (?:too |so |that |very )?long ago"),
    _rule(
        _while_back,
        r"(?:(?:quite |for )?a (?:long |good |little )?)?while (?:ago|back)",
        r"some ?time (?:ago|back)|(?:a |some )?time ago",
    ),
    _rule(
        _long_ago,
        r"(?:ages|forever|(?<!how )long|a long time|eons|centuries|way) (?:ago|back)",
        r"back then|back in the day|back when",
        rf"in the past(?! (?:several|{NUM}|{UNIT}s?)(?!\S))",
        r"(?:the )?(?:last|first) time|(?:one|that|another) time|at some point",
    ),
    _rule(almanac.other_day, r"(?:the )?other (?P<unit>day|night|week|morning|evening)"),
    _rule(almanac.before_last, almanac.BEFORE_LAST),
    _rule(clocks.night_before_last, r"(?:the )?night before last"),
    _rule(almanac.weekday_range, almanac.WEEKDAY_RANGE),
    _rule(almanac.two_days, r"yesterday (?:or|and) the day before(?: that| yesterday)?"),
    _rule(almanac.of_last_week, almanac.OF_LAST_WEEK),
    _rule(almanac.weekdays_ago, almanac.WEEKDAYS_AGO),
    _rule(almanac.edge, almanac.EDGE),
    _rule(almanac.month_part, almanac.MONTH_PART),
    _rule(_last_minutes, r"(?:in|over|for|from|of) the last (?P<count>\d{1,3})(?=$| [,.?!])"),
    _rule(_rolling, rf"(?:in |over |during )these {AMOUNT}"),
    _rule(_rolling, rf"{_DURING}(?:the |these |this )(?:last|past|previous) {ABOUT}{AMOUNT}(?<!night)"),
    _rule(
        almanac.last_unit,
        r"(?:(?:from |during )?the |during |back |early |late |earlier )?(?:last|previous) (?P<unit>week|month|year)"
        r"(?! (?:or|and) )",
    ),
    _rule(_rolling, rf"{_DURING}?(?:the |these |this )?(?:last|past|previous) {ABOUT}{AMOUNT}(?<!night)"),
    _rule(
        almanac.this_unit,
        r"(?:earlier |at the (?:start|beginning) of |sometime |during )?this (?P<unit>week|month|year)",
    ),
    _rule(
        almanac.day_word,
        r"(?:earlier |sometime |late |early |at some point |first thing |all )?(?:the )?"
        rf"(?P<word>day before yesterday|previous day|today|yesterday)(?: (?:in the )?{_PART})?(?: earlier)?",
    ),
    _rule(clocks.this_part, rf"(?:earlier |first thing |early |late |in |all )?this {_PART}|tonight"),
    _rule(
        clocks.last_night,
        r"(?:late |earlier |all )?(?:last|yester) (?:night|evening)|the (?:night before|previous (?:night|evening))",
    ),
    _rule(clocks.overnight, r"overnight|during the night|through the night"),
    _rule(clocks.small_hours, r"in the (?:wee|small|early) hours(?: of the morning)?"),
    _rule(almanac.weekday, almanac.WEEKDAY),
    _rule(almanac.weekend, almanac.WEEKEND),
    _rule(almanac.written, rf"(?:on )?(?:the )?(?P<date>{WRITTEN_DATE})|on (?P<short>{SHORT_DATE})"),
    _rule(almanac.month, almanac.MONTH),
    _rule(almanac.season, almanac.SEASON),
    _rule(almanac.quarter, almanac.QUARTER),
    _rule(almanac.feast, almanac.FEAST),
    _rule(almanac.day_of_month, almanac.DAY_OF_MONTH),
    _rule(almanac.year_named, r"(?:back )?in (20\d{2}|19\d{2})"),
    _rule(clocks.clocks, clocks.CLOCKS),
    _rule(clocks.spoken_clock, clocks.CLOCK_SPOKEN),
    _rule(clocks.clock, clocks.CLOCK),
    _rule(clocks.clock, clocks.CLOCK_MINUTES),
    _rule(clocks.clock, clocks.CLOCK_BARE),
    _rule(clocks.the_part, rf"(?:earlier |early |late )?(?:in |during )the {_PART}"),
    _rule(clocks.point, clocks.POINT),
    _rule(almanac.all_of, almanac.ALL_OF),
    _rule(_lately, r"lately|these days|of late|in recent (?:days|weeks)"),
    _rule(_earlier, r"earlier(?: on)?|recently|now|currently|a moment"),
    _rule(
        _long_ago,
        r"previously|formerly|in the old days",
        r"(?:once|before)(?= [,.!?;]|$| (?:before|what|when|who|where|that|how|about)(?!\S))",
        r"(?:before|after|during|over|since) (?:the )?(?:\w+ )?(?:holidays|vacation|break)",
        r"once(?= (?:said|told|wrote|had|gave|got|made|\w+ed)(?!\S))",
    ),
)
