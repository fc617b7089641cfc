"""How people say a time: one rule per kind of expression, each with the span it means.

Leaves: `RULES`, patterns over folded words with their handlers, and the names of days and months. The common
expressions are plain arithmetic on `spans`; only a written date goes to a library, see `dates`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from channelmem.routing import spans
from channelmem.routing.dates import MONTHS, WEEKDAYS, WRITTEN_DATE, written_date
from channelmem.routing.spans import DAY, HOUR, MINUTE, MONTH, WEEK, YEAR, Clue, Moment, Span

_PARTS = {
    "morning": (4.0, 12.0), "afternoon": (12.0, 18.0), "evening": (17.0, 24.0), "night": (18.0, 30.0),
    "noon": (11.0, 13.5), "lunch": (11.5, 14.0), "lunchtime": (11.5, 14.0), "breakfast": (6.0, 10.0),
    "dinner": (17.5, 21.0), "midnight": (23.0, 25.0),
}  # fmt: skip
# Where "since lunch" begins and "before lunch" ends.
_POINTS = {
    "lunch": 12.0, "lunchtime": 12.0, "noon": 12.0, "midday": 12.0, "breakfast": 7.0, "dinner": 18.0, "midnight": 0.0,
}  # fmt: skip
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_UNITS = {
    "second": 1.0, "minute": MINUTE, "hour": HOUR, "day": DAY, "night": DAY, "week": WEEK, "fortnight": 2 * WEEK,
    "month": MONTH, "year": YEAR, "decade": 10 * YEAR, "s": 1.0, "m": MINUTE, "h": HOUR, "d": DAY, "w": WEEK,
}  # fmt: skip
_LOOSE = {
    "couple": 2.0,
    "a couple": 2.0,
    "a couple of": 2.0,
    "couple of": 2.0,
    "few": 3.0,
    "a few": 3.0,
    "several": 5.0,
    "some": 3.0,
}
_NUMBERS = _LOOSE | {
    "a": 1.0, "an": 1.0, "one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "seven": 7.0,
    "eight": 8.0, "nine": 9.0, "ten": 10.0, "eleven": 11.0, "twelve": 12.0, "fifteen": 15.0, "twenty": 20.0,
    "thirty": 30.0, "forty": 40.0, "forty-five": 45.0, "fifty": 50.0, "sixty": 60.0, "ninety": 90.0,
    "half a": 0.5, "half an": 0.5, "half": 0.5, "quarter of an": 0.25, "a quarter of an": 0.25, "quarter": 0.25,
    "three quarters of an": 0.75,
}  # fmt: skip
_NUM = rf"(\d{{1,4}}(?:\.\d)?|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
_UNIT = "(second|minute|hour|day|night|week|fortnight|month|year|decade)s?"
_SHORT_UNIT = "(s|m|h|d|w|min|mins|hr|hrs|sec|secs|days?|hours?|minutes?)"
_PART = "(morning|afternoon|evening|night)"
_MONTH_NAMES = "|".join(sorted(MONTHS, key=len, reverse=True))
_ABOUT = "(?:about |around |like |roughly |almost |over |just |maybe |at least |approximately )?"
_DURING = "(?:in |over |during |within |for |from |throughout )"

Handler = Callable[["re.Match[str]", Moment], Span | None]


def _number(text: str) -> float:
    return _NUMBERS[text] if text in _NUMBERS else float(text)


def _ago(match: re.Match[str], moment: Moment) -> Span:
    count, unit_s = _number(match[1]), _UNITS[match[2]]
    if unit_s <= MINUTE and (match[1] in {"a", "an", "one"} or match[1] in _LOOSE):
        return Span(moment.now - max(moment.horizon_s / 2, 5 * count * unit_s), moment.now, Clue.RECENT)
    return spans.ago(moment, count, unit_s, loose=match[1] in _LOOSE)


def _half_ago(match: re.Match[str], moment: Moment) -> Span:
    return spans.ago(moment, _number(match[1]) + 0.5, _UNITS[match[2] or match[3]])


def _short_ago(match: re.Match[str], moment: Moment) -> Span:
    return spans.ago(moment, float(match[1]), _UNITS[match[2][0]])


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


def _past_unit(match: re.Match[str], moment: Moment) -> Span:
    return spans.rolling(moment, _UNITS[match[1]])


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


def _night_before_last(_match: re.Match[str], moment: Moment) -> Span:
    return Span(moment.at(moment.today, -31), moment.at(moment.today, -18))


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
    month = MONTHS[match[2]]
    if match[3]:
        return spans.whole_month(moment, int(match[3]), month)
    return spans.named_month(moment, month, previous=(match[1] or "").startswith("last"))


def _season(match: re.Match[str], moment: Moment) -> Span:
    return spans.season(moment, _SEASONS[match[2]], previous=match[1] in {"last", "previous"})


def _year(match: re.Match[str], moment: Moment) -> Span:
    return spans.whole_year(moment, int(match[1]))


def _date(match: re.Match[str], moment: Moment) -> Span | None:
    day = written_date(match["date"], moment.today)
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


def _clock(match: re.Match[str], moment: Moment) -> Span | None:
    hour, minute, half = int(match["hour"]), int(match["minute"] or 0), match["half"]
    if hour > 24 or minute > 59:
        return None
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    exact = (hour + minute / 60) % 24
    ts = spans.clock(moment, exact, either_half=not half and 0 < hour <= 12 and match["hour"][0] != "0")
    return Span(ts - 45 * MINUTE, ts + 45 * MINUTE, nominal=ts, hours=(exact, exact))


def _clocks(match: re.Match[str], moment: Moment) -> Span | None:
    """Between nine and ten, today or, if that is still to come, yesterday."""
    first, last, half = int(match[1]), int(match[3]), match[4] or match[2]
    if first >= last or last > 24:
        return None
    if half:
        first, last = (hour % 12 + (12 if half == "pm" else 0) for hour in (first, last))
    begin = spans.clock(moment, float(first), either_half=not half and last <= 12)
    return Span(begin, begin + (last - first) * HOUR, nominal=begin, hours=(float(first), float(last)))


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


def _rule(handler: Handler, *forms: str) -> tuple[re.Pattern[str], Handler]:
    return re.compile(rf"(?<!\S)(?:{'|'.join(forms)})(?!\S)"), handler


# The first rule that fits a stretch of words takes it, so longer and surer forms stand first.
RULES: tuple[tuple[re.Pattern[str], Handler], ...] = (
    _rule(
        _future,
        rf"(?:in|within) (?:the next )?{_NUM} {_UNIT}",
        rf"(?:the )?next (?:few |couple |\d+ )?(?:{_UNIT}|weekend|time|spring|summer)",
        rf"tomorrow(?: {_PART})?|day after tomorrow|later(?: today| tonight| this \w+)?|soon|upcoming|from now",
    ),
    _rule(
        _before_joining,
        r"(?:before|prior to|until) (?:i|we) (?:\w+ )?(?:joined|came|got here|arrived|was here|showed up|join)",
    ),
    _rule(_since_joining, r"since (?:i|we) (?:\w+ )?(?:joined|arrived)"),
    _rule(
        _away,
        r"(?:while|when) (?:i|i am|i was|we were|i have|me) (?:\w+ ){0,2}(?:away|gone|asleep|sleeping|afk|out|offline"
        r"|busy|working|eating|in class|at work|driving|off|not here|cooking)(?: for lunch)?",
        r"since i (?:\w+ )?(?:left|went|logged off|spoke|posted|wrote|checked|looked)"
        r"(?: (?:away|last|afk|offline|to \w+))?",
        r"since i was (?:last )?(?:here|on|online|around)(?: last)?|since my last (?:message|post|visit)",
    ),
    _rule(_half_ago, rf"{_ABOUT}(an?|one|two|three|\d+) (?:and a half {_UNIT}|{_UNIT} and a half) (?:ago|back)"),
    _rule(_ago, rf"{_ABOUT}{_NUM} {_UNIT} (?:ago|back|earlier|prior)"),
    _rule(_short_ago, rf"{_ABOUT}(\d{{1,4}}) ?{_SHORT_UNIT} (?:ago|back|earlier)"),
    _rule(
        _recent,
        r"(?:a )?(?:(?:few|couple) )?(?:moments?|bit|tick|hot second|second|minute) (?:ago|back|earlier)",
        r"just now|right now|at the moment|this (?:very )?(?:moment|minute|second)|at present|this instant",
        r"(?:a )?little (?:bit )?(?:while )?ago",
    ),
    _rule(_some_ago, rf"{_UNIT} (?:ago|back)"),
    _rule(
        _while_back,
        r"(?:(?:quite |for )?a (?:long |good |little )?)?while (?:ago|back)",
        r"some ?time (?:ago|back)|(?:a |some )?time ago",
    ),
    _rule(
        _long_ago,
        r"(?:ages|forever|(?<!how )long|a long time|eons|centuries|way) (?:ago|back)",
        r"back then|back in the day|back when",
        rf"in the past(?! (?:several|{_NUM}|{_UNIT})(?!\S))",
        r"(?:the )?(?:last|first) time|(?:one|that|another) time|at some point",
    ),
    _rule(_other_day, r"(?:the )?other (day|night|week|morning|evening)"),
    _rule(_rolling, rf"{_DURING}?(?:the |these |this )?(?:last|past|previous) {_NUM} {_UNIT}"),
    _rule(_short_rolling, rf"{_DURING}?(?:the )?(?:last|past) (\d{{1,4}}) ?{_SHORT_UNIT}"),
    _rule(_past_unit, rf"(?:{_DURING}(?:the |this )(?:last|past)|(?:the |this )?past) {_UNIT}"),
    _rule(
        _last_unit,
        r"(?:(?:from |during )?the |during |back )?(?:last|previous) (second|minute|hour|day|week|month|year)",
    ),
    _rule(_this_unit, r"(?:earlier |at the (?:start|beginning) of |sometime |during )?this (week|month|year)"),
    _rule(
        _day_word,
        r"(?:earlier |sometime |late |early |at some point )?(?:the )?(day before yesterday|today|yesterday)"
        rf"(?: {_PART})?(?: earlier)?",
    ),
    _rule(_night_before_last, r"(?:the )?night before last"),
    _rule(_this_part, rf"(?:earlier |first thing |early |late |in )?(?:this|the) {_PART}|tonight"),
    _rule(_last_night, r"(?:late |earlier )?(?:last|yester) (?:night|evening)|the night before"),
    _rule(_overnight, r"overnight|during the night|through the night"),
    _rule(
        _weekday,
        r"(?:(?:back )?on |the |earlier )?(?:(last|past|previous|this|next|coming) )?"
        rf"({'|'.join(WEEKDAYS)})(?: {_PART})?",
    ),
    _rule(_weekend, r"(?:over |on |during |at )?(?:the |(?:this )?(last|past|previous|this) )?weekend"),
    _rule(_date, rf"(?:on )?(?:the )?(?P<date>{WRITTEN_DATE})"),
    _rule(
        _month,
        r"((?:back |early |late |mid |sometime |earlier )?(?:in|during|since|of|last|this past|around))"
        rf"(?: early| late| mid)? ({_MONTH_NAMES})(?: (?:of )?(\d{{4}}))?",
    ),
    _rule(
        _season,
        r"(?:back )?(?:(last|previous|this past|past)|(?:in|during|over) the) "
        rf"({'|'.join(_SEASONS)})",
    ),
    _rule(_day_of_month, r"(?:on )?the (\d{1,2})(?:st|nd|rd|th)"),
    _rule(_year, r"(?:back )?in (20\d{2}|19\d{2})"),
    _rule(_clock, r"(?:(?:at|around|by|about) )?(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))? ?(?P<half>am|pm)"),
    _rule(_clock, r"(?:(?:at|around|by|about) )?(?P<hour>\d{1,2}):(?P<minute>\d{2})(?P<half>)"),
    _rule(_clocks, r"(?:between|from) (\d{1,2})(?::00)? ?(am|pm)? (?:and|to|till|until|-) (\d{1,2})(?::00)? ?(am|pm)?"),
    _rule(_clock, r"(?:at|around|since|after|before|until|by) (?P<hour>\d{1,2})(?P<minute>)(?P<half>)(?: o'clock)?"),
    _rule(
        _point,
        r"(?:at|around|by|over|during|since|after|before|until|till) "
        r"(lunch|lunchtime|noon|midday|midnight|breakfast|dinner)",
    ),
    _rule(_lately, r"lately|these days|of late"),
    _rule(_earlier, r"earlier(?: on)?|recently|now|currently|a moment"),
    _rule(
        _long_ago,
        r"previously|formerly|in the old days|(?:once|before)(?= [,.!?;]|$| before| what| when| who)",
        r"once(?= (?:said|told|wrote|had|gave|got|made|\w+ed)(?!\S))",
    ),
)
