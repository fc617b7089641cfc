"""Which time is meant: time expressions in a question's words, as windows in UTC.

Enters: folded words and the moment of asking. Leaves: `Found` expressions with their place in the words. One
look at a set of trigger words decides whether there is anything to do; the common expressions are
plain arithmetic, and only a written date goes to dateutil, as exactly the phrase we cut out (dateparser reads more,
but takes up to 0.8 s for its first date and then 1-15 ms; dateutil takes 0.1 ms).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import lru_cache
from itertools import islice

from dateutil import parser as dateutil_parser

from channelmem import spans
from channelmem.spans import DAY, HOUR, MINUTE, MONTH, WEEK, YEAR, Clue, Moment, Span

WEEKDAYS = {
    name: index
    for index, name in enumerate(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"])
}
MONTHS = {
    name: index + 1
    for index, name in enumerate(
        [
            "january",
            "february",
            "march",
            "april",
            "may",
            "june",
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
        ]
    )
}
_SHORT_MONTHS = {name[:3]: number for name, number in MONTHS.items()} | {"sept": 9}
_MONTH_OF = MONTHS | _SHORT_MONTHS
_PARTS = {
    "morning": (4.0, 12.0), "afternoon": (12.0, 18.0), "evening": (17.0, 24.0), "night": (18.0, 30.0), "noon": (11.0, 13.5),
    "lunch": (11.5, 14.0), "lunchtime": (11.5, 14.0), "breakfast": (6.0, 10.0), "dinner": (17.5, 21.0), "midnight": (23.0, 25.0),
    "standup": (8.0, 12.0),
}  # fmt: skip
# Where "since lunch" begins and "before lunch" ends.
_POINTS = {
    "lunch": 12.0,
    "lunchtime": 12.0,
    "noon": 12.0,
    "breakfast": 7.0,
    "dinner": 18.0,
    "midnight": 0.0,
    "midday": 12.0,
}
_UNITS = {"second": 1.0, "minute": MINUTE, "hour": HOUR, "day": DAY, "night": DAY, "week": WEEK, "fortnight": 2 * WEEK,
          "month": MONTH, "year": YEAR, "s": 1.0, "m": MINUTE, "h": HOUR, "d": DAY, "w": WEEK, "decade": 10 * YEAR}  # fmt: skip
_NUMBERS = {
    "a": 1.0, "an": 1.0, "one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "seven": 7.0, "eight": 8.0,
    "nine": 9.0, "ten": 10.0, "eleven": 11.0, "twelve": 12.0, "fifteen": 15.0, "twenty": 20.0, "thirty": 30.0, "forty": 40.0,
    "forty-five": 45.0, "fifty": 50.0, "sixty": 60.0, "ninety": 90.0, "half a": 0.5, "half an": 0.5, "half": 0.5, "the": 1.0,
    "couple": 2.0, "a couple": 2.0, "a couple of": 2.0, "couple of": 2.0, "few": 3.0, "a few": 3.0, "several": 5.0, "some": 3.0,
}  # fmt: skip
_LOOSE = {"couple", "a couple", "a couple of", "couple of", "few", "a few", "several", "some"}
_TRIGGERS = frozenset(
    [
        "ago",
        "back",
        "earlier",
        "last",
        "past",
        "previous",
        "today",
        "yesterday",
        "tomorrow",
        "tonight",
        "overnight",
        "weekend",
        "since",
        "before",
        "after",
        "until",
        "till",
        "other",
        "recently",
        "lately",
        "previously",
        "once",
        "now",
        "moment",
        "minute",
        "minutes",
        "second",
        "seconds",
        "hour",
        "hours",
        "day",
        "days",
        "week",
        "weeks",
        "month",
        "months",
        "year",
        "years",
        "morning",
        "afternoon",
        "evening",
        "night",
        "lunch",
        "lunchtime",
        "noon",
        "midday",
        "midnight",
        "breakfast",
        "dinner",
        "while",
        "joined",
        "next",
        "later",
        "soon",
        "formerly",
        "time",
        "currently",
        "ages",
        "forever",
        "instant",
        "present",
        "upcoming",
        "decade",
        "some",
        "fortnight",
        "prior",
        "days",
    ]
) | {*WEEKDAYS, *_MONTH_OF}
# A question names one time or two; more than this is no question.
_MOST = 6
_DIGIT = re.compile(r"\d")

_NUM = r"(\d{1,4}(?:\.\d)?|half an?|(?:an? )?couple(?: of)?|(?:a )?few|several|some|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty-five|forty|fifty|sixty|ninety|half)"  # noqa: E501
_UNIT = r"(second|minute|hour|day|night|week|fortnight|month|year|decade)s?"
_SHORT_UNIT = r"(s|m|h|d|w|min|mins|hr|hrs|sec|secs|days?|hours?|minutes?)"
_DAY_NAMES = "|".join(WEEKDAYS)
_MONTH_NAMES = "|".join(sorted(_MONTH_OF, key=len, reverse=True))
_ABOUT = r"(?:about |around |like |roughly |almost |over |just |maybe |at least |approximately )?"

Handler = Callable[["re.Match[str]", Moment], Span | None]


@dataclass(frozen=True, slots=True)
class Found:
    """A time expression: words[first:last] say it."""

    first: int
    last: int
    span: Span
    phrase: str


def _number(text: str) -> float:
    return _NUMBERS[text] if text in _NUMBERS else float(text)


def _ago(match: re.Match[str], moment: Moment) -> Span:
    count, unit_s = _number(match[1]), _UNITS[match[2]]
    if unit_s <= MINUTE and (match[1] in {"a", "an", "one", "few", "a few", "couple", "some"} or match[1] in _LOOSE):
        return Span(moment.now - max(moment.horizon_s / 2, 5 * count * unit_s), moment.now, Clue.RECENT)
    return spans.ago(moment, count, unit_s, loose=match[1] in _LOOSE)


def _short_ago(match: re.Match[str], moment: Moment) -> Span:
    return spans.ago(moment, float(match[1]), _UNITS[match[2][0]])


def _and_a_half(match: re.Match[str], moment: Moment) -> Span:
    return spans.ago(moment, _number(match[1]) + 0.5, _UNITS[match[2]])


def _some_ago(match: re.Match[str], moment: Moment) -> Span:
    unit_s = _UNITS[match[1]]
    if unit_s <= MINUTE:
        return Span(moment.now - moment.horizon_s, moment.now, Clue.RECENT)
    return Span(moment.now - 14 * unit_s, moment.now - unit_s)


def _rolling(match: re.Match[str], moment: Moment) -> Span:
    text = match[1] or "1"
    count, unit_s = _number(text), _UNITS[match[2]]
    if text in _LOOSE:
        count *= 2
    return spans.rolling(moment, count * unit_s)


def _short_rolling(match: re.Match[str], moment: Moment) -> Span:
    return spans.rolling(moment, float(match[1]) * _UNITS[match[2][0]])


def _last_unit(match: re.Match[str], moment: Moment) -> Span:
    unit = match[1]
    if unit == "week":
        return spans.last_week(moment)
    if unit == "month":
        return spans.last_month(moment)
    if unit == "year":
        return spans.last_year(moment)
    return spans.rolling(moment, _UNITS[unit])


def _this_unit(match: re.Match[str], moment: Moment) -> Span:
    today = moment.today
    if match[1] == "week":
        return spans.this_week(moment)
    first = today.replace(day=1) if match[1] == "month" else today.replace(month=1, day=1)
    return Span(moment.at(first), moment.now)


def _day_word(match: re.Match[str], moment: Moment) -> Span:
    day = spans.days_back(moment, {"today": 0, "yesterday": 1}.get(match[1], 2))
    part = match[2]
    return spans.part_of_day(moment, day.day or moment.today, _PARTS[part]) if part else day


def _this_part(match: re.Match[str], moment: Moment) -> Span:
    part = "evening" if match[0] == "tonight" else match[1]
    hours = _PARTS[part]
    hour = moment.local.hour + moment.local.minute / 60
    if hour < 4:
        # Small hours belong to the evening before; "this morning" then is what there is of the day.
        return Span(moment.at(moment.today, -7 if part in {"evening", "night"} else 0), moment.now)
    if hour < hours[0]:
        return Span(moment.now, moment.now, Clue.FUTURE)
    return spans.part_of_day(moment, moment.today, hours)


def _last_night(_match: re.Match[str], moment: Moment) -> Span:
    return Span(moment.at(moment.today, -7), moment.at(moment.today, 6))


def _overnight(_match: re.Match[str], moment: Moment) -> Span:
    return Span(moment.at(moment.today, -4), moment.at(moment.today, 9))


def _weekday(match: re.Match[str], moment: Moment) -> Span:
    if match[1] in {"next", "coming"}:
        return Span(moment.now, moment.now, Clue.FUTURE)
    day = spans.weekday(moment, WEEKDAYS[match[2]])
    return spans.part_of_day(moment, day.day or moment.today, _PARTS[match[3]]) if match[3] else day


def _weekend(match: re.Match[str], moment: Moment) -> Span:
    return spans.weekend(moment, previous=match[1] in {"last", "past", "previous"})


def _month(match: re.Match[str], moment: Moment) -> Span:
    month = _MONTH_OF[match[2]]
    if match[3]:
        return spans.whole_month(moment, int(match[3]), month)
    return spans.named_month(moment, month, previous=(match[1] or "").startswith("last"))


def _year(match: re.Match[str], moment: Moment) -> Span:
    return spans.whole_year(moment, int(match[1]))


def _date(match: re.Match[str], moment: Moment) -> Span | None:
    day = _parse_date(match["date"], moment.today)
    return spans.whole_day(moment, day) if day else None


def _day_of_month(match: re.Match[str], moment: Moment) -> Span | None:
    number, today = int(match[1]), moment.today
    for back in range(3):
        first = spans.month_start(today.year, today.month - back)
        try:
            day = first.replace(day=number)
        except ValueError:
            continue
        if day <= today:
            return spans.whole_day(moment, day)
    return None


@lru_cache(maxsize=4096)
def _parse_date(phrase: str, today: date) -> date | None:
    """A written date by dateutil; without a year, or read the other way round, it is the latest one that is not to come."""
    plain = phrase.replace("the ", "").replace(" ,", "")
    # dateutil reads 10.03.2026 as October; people who write dots put the day first.
    for day_first in (not _MONTH_FIRST.search(plain), True):
        try:
            day = dateutil_parser.parse(plain, default=_midnight(today), dayfirst=day_first).date()
        except (ValueError, OverflowError):
            return None
        if day > today and str(day.year) not in plain:
            day = _year_before(day)
        if day <= today:
            return day
    return None


_MONTH_FIRST = re.compile(r"\d/\d|^\d{4}")


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, 1)  # noqa: DTZ001  (only its date is used)


def _year_before(day: date) -> date:
    return day.replace(year=day.year - 1, day=min(day.day, 28) if day.month == 2 else day.day)


def _clock(match: re.Match[str], moment: Moment) -> Span | None:
    hour, minute, half = int(match["hour"]), int(match["minute"] or 0), match["half"]
    if hour > 24 or minute > 59:
        return None
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    exact = (hour + minute / 60) % 24
    ts = spans.clock(moment, exact, either_half=not half and not match["minute"] and 0 < hour <= 12)
    return Span(ts - 45 * MINUTE, ts + 45 * MINUTE, nominal=ts, hours=(exact, exact))


def _point(match: re.Match[str], moment: Moment) -> Span:
    name = match[1]
    ts = spans.clock(moment, _POINTS[name], either_half=False)
    return Span(ts - 0.75 * HOUR, ts + 1.5 * HOUR, nominal=ts, hours=_PARTS.get(name))


def _recent(_match: re.Match[str], moment: Moment) -> Span:
    return Span(moment.now - moment.horizon_s, moment.now, Clue.RECENT)


def _earlier(_match: re.Match[str], moment: Moment) -> Span:
    # The word asks for the running conversation, but that may have begun some hours ago.
    return Span(moment.now - max(6 * HOUR, moment.horizon_s), moment.now, Clue.RECENT)


def _lately(_match: re.Match[str], moment: Moment) -> Span:
    return Span(moment.now - 14 * DAY, moment.now)


def _other_day(match: re.Match[str], moment: Moment) -> Span:
    reach = 5 * WEEK if match[1] == "week" else 10 * DAY
    return Span(moment.now - reach, moment.at(moment.today), Clue.PAST)


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


def _rule(pattern: str, handler: Handler) -> tuple[re.Pattern[str], Handler]:
    return re.compile(rf"(?<!\S)(?:{pattern})(?!\S)"), handler


_PART = "(morning|afternoon|evening|night)"
_RULES: tuple[tuple[re.Pattern[str], Handler], ...] = (
    _rule(rf"(?:in|within) (?:the next )?{_NUM} {_UNIT}|(?:the )?next (?:few |couple |\d+ )?(?:{_UNIT}|weekend|time|spring|summer)|tomorrow(?: {_PART})?|day after tomorrow|later(?: today| tonight| this \w+)?|soon|upcoming|from now", _future),
    _rule(r"(?:before|prior to|until) (?:i|we) (?:\w+ )?(?:joined|came|got here|arrived|was here|showed up|join)", _before_joining),
    _rule(r"since (?:i|we) (?:\w+ )?(?:joined|arrived)", _since_joining),
    _rule(r"(?:while|when) (?:i|i am|i was|we were|i have|me) (?:\w+ ){0,2}(?:away|gone|asleep|sleeping|afk|out|offline|busy|working|eating|in class|at work|driving|off|not here|cooking)(?: for lunch)?|since (?:i (?:\w+ )?(?:left|went|logged off|spoke|posted|wrote|checked|looked)(?: (?:away|last|afk|offline|to \w+))?|i was (?:last )?(?:here|on|online|around)(?: last)?|my last (?:message|post|visit))", _away),
    _rule(rf"{_ABOUT}(an?|one|two|three|\d+) (?:and a half {_UNIT}|{_UNIT} and a half) (?:ago|back)", lambda m, now: spans.ago(now, _number(m[1]) + 0.5, _UNITS[m[2] or m[3]])),
    _rule(rf"{_ABOUT}{_NUM} {_UNIT} (?:ago|back|earlier|prior)", _ago),
    _rule(rf"{_ABOUT}(\d{{1,4}}) ?{_SHORT_UNIT} (?:ago|back|earlier)", _short_ago),
    _rule(r"(?:a )?(?:(?:few|couple) )?(?:moments?|bit|tick|hot second|sec|second|minute) (?:ago|back|earlier)|just now|right now|at the moment|this (?:very )?(?:moment|minute|second)|at present|this instant|(?:a )?little (?:bit )?(?:while )?ago", _recent),
    _rule(rf"{_UNIT} (?:ago|back)", _some_ago),
    _rule(r"(?:(?:quite |for )?a (?:long |good |little )?)?while (?:ago|back)|some ?time (?:ago|back)|(?:a |some )?time ago", _while_back),
    _rule(r"(?:ages|forever|(?<!how )long|a long time|eons|centuries|way) (?:ago|back)|back then|back in the day|in the past(?! (?:\d|few|couple|week|month|day|hour|year|minute|several|two|three|half))|(?:the )?last time|(?:the )?first time|(?:one|that|another) time|at some point|back when", _long_ago),
    _rule(r"(?:the )?other (day|night|week|morning|evening)", _other_day),
    _rule(rf"(?:in |over |during |within |for |from |throughout )?(?:the |these |this )?(?:last|past|previous) {_NUM} {_UNIT}", _rolling),
    _rule(rf"(?:in |over |during |within |for |from )?(?:the )?(?:last|past) (\d{{1,4}}) ?{_SHORT_UNIT}", _short_rolling),
    _rule(rf"(?:(?:in|over|during|within|for|throughout) (?:the |this )(?:last|past)|(?:the |this )?past) {_UNIT}", lambda m, now: spans.rolling(now, _UNITS[m[1]])),
    _rule(r"(?:(?:from |during )?the |during |back )?(?:last|previous) (second|minute|hour|day|week|month|year)", _last_unit),
    _rule(r"(?:earlier |at the (?:start|beginning) of |sometime |during )?this (week|month|year)", _this_unit),
    _rule(rf"(?:earlier |sometime |late |early |at some point )?(?:the )?(day before yesterday|today|yesterday)(?: {_PART})?(?: earlier)?", _day_word),
    _rule(rf"(?:earlier |first thing |early |late |in )?(?:this|the) {_PART}|tonight", _this_part),
    _rule(r"(?:late |earlier )?(?:last|yester) (?:night|evening)|the night before", _last_night),
    _rule(r"overnight|during the night|through the night", _overnight),
    _rule(rf"(?:(?:back )?on |the |earlier )?(?:(last|past|previous|this|next|coming) )?({_DAY_NAMES})(?: {_PART})?", _weekday),
    _rule(r"(?:over |on |during |at )?(?:the |(?:this )?(last|past|previous|this) )?weekend", _weekend),
    _rule(rf"(?:on )?(?:the )?(?P<date>\d{{4}}-\d{{1,2}}-\d{{1,2}}|\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2,4}}|(?:{_MONTH_NAMES}) (?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: ,)?(?: \d{{4}})?|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTH_NAMES})(?: ,)?(?: \d{{4}})?)", _date),
    _rule(rf"((?:back |early |late |mid |sometime |earlier )?(?:in|during|since|of|last|this past|around)(?: early| late| mid)?) ({_MONTH_NAMES})(?: (?:of )?(\d{{4}}))?", _month),
    _rule(r"(?:on )?the (\d{1,2})(?:st|nd|rd|th)", _day_of_month),
    _rule(r"(?:back )?in (20\d{2}|19\d{2})", _year),
    _rule(r"(?:(?:at|around|by|about) )?(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))? ?(?P<half>am|pm)", _clock),
    _rule(r"(?:(?:at|around|by|about) )?(?P<hour>\d{1,2}):(?P<minute>\d{2})(?P<half>)", _clock),
    _rule(r"(?:(?:at|around|since|after|before|until|by) )(?P<hour>\d{1,2})(?P<minute>)(?P<half>)(?: o'clock)?", _clock),
    _rule(r"(?:at|around|by|over|during|since|after|before|until|till) (lunch|lunchtime|noon|midday|midnight|breakfast|dinner)", _point),
    _rule(r"lately|these days|of late", _lately),
    _rule(r"earlier(?: on)?|recently|now|currently|a moment", _earlier),
    _rule(r"previously|formerly|in the old days|(?:once|before)(?= [,.!?;]|$| before| what| when| who)", _long_ago),
)  # fmt: skip

_DATE = re.compile(rf"(?<!\S)(?:{_MONTH_NAMES}|\d{{4}}|\d{{4}}-\d\d?-\d\d?)(?!\S)")


def is_date(phrase: str) -> bool:
    """Whether an expression names a month, a year or a date, and not a distance from now."""
    return _DATE.search(phrase) is not None


_SINCE = frozenset({"since", "after", "starting", "from"})
_UNTIL = frozenset({"before", "until", "till"})


def find(words: Sequence[str], moment: Moment) -> list[Found]:
    """Every time expression of the words, in order, none overlapping another."""
    if _TRIGGERS.isdisjoint(words) and not any(map(_DIGIT.match, words)):
        return []
    text = " ".join(words)
    starts = _starts(words)
    found: list[Found] = []
    taken: list[tuple[int, int]] = []
    for pattern, handler in _RULES:
        if len(found) >= _MOST:
            break
        for match in islice(pattern.finditer(text), _MOST):
            begin, end = match.span()
            if any(begin < t_end and t_begin < end for t_begin, t_end in taken):
                continue
            span = handler(match, moment)
            if span is not None:
                taken.append((begin, end))
                found.append(_placed(starts, begin, end, span, match[0]))
    found.sort(key=lambda each: each.first)
    return [replace(each, span=moment.clip(each.span)) for each in _combine(found, words, moment)]


def _starts(words: Sequence[str]) -> dict[int, int]:
    starts, at = {}, 0
    for index, word in enumerate(words):
        starts[at] = index
        at += len(word) + 1
    return starts


def _placed(starts: dict[int, int], begin: int, end: int, span: Span, phrase: str) -> Found:
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
    day, hours = one.span.day or other.span.day, other.span.hours or one.span.hours
    if day is None or hours is None or (one.span.day and other.span.day):
        return None
    margin = 0.75 if hours[0] == hours[1] else 0.0
    begin, end = moment.at(day) + (hours[0] - margin) * HOUR, moment.at(day) + (hours[1] + margin) * HOUR
    return Found(one.first, other.last, Span(begin, end, nominal=begin, day=day), f"{one.phrase} {other.phrase}")


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
