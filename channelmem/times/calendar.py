"""Written dates, clocks, amounts and named days: the patterns of expressions, and the spans they mean. dateutil parses
dates in 0.1 ms; dateparser knows more languages, but takes up to 0.8 s for the first date in a process."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache

from dateutil import parser as dateutil_parser
from dateutil.easter import easter
from dateutil.relativedelta import TH, relativedelta

from channelmem.times import spans
from channelmem.times.spans import DAY, HOUR, MINUTE, MONTH, WEEK, YEAR, Clue, Moment, Span

_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_MONTHS = "january february march april may june july august september october november december"
WEEKDAYS: dict[str, int] = {name: i for i, name in enumerate(_DAYS.split())}
_LONG = {name: i for i, name in enumerate(_MONTHS.split(), 1)}
MONTHS: dict[str, int] = _LONG | {name[:3]: number for name, number in _LONG.items()} | {"sept": 9}

_NAMES = "|".join(sorted(MONTHS, key=len, reverse=True))
_NTH = r"\d{1,2}(?:st|nd|rd|th)?"
_NTHS = """
    first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth
    sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third twenty-fourth
    twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first
"""
_ORDINALS = {word: number for number, word in enumerate(_NTHS.split(), 1)}
_SPELLED = "|".join(sorted(_ORDINALS, key=len, reverse=True))
# A day and a month in figures; only after "on", because 3/10 may be a score.
SHORT_DATE = r"\d{1,2}[/.]\d{1,2}"
WRITTEN_DATE = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}"
    rf"|(?:{_NAMES}) (?:the )?{_NTH}(?:(?: ,)? \d{{4}})?|{_NTH} (?:of )?(?:{_NAMES})(?:(?: ,)? \d{{4}})?"
    rf"|(?:{_SPELLED}) of (?:{_NAMES})|(?:{_NAMES}) the (?:{_SPELLED})"
)
_DATED = re.compile(rf"(?<!\S)(?:{_NAMES}|\d{{4}}|\d{{4}}-\d\d?-\d\d?)(?!\S)")


def is_date(phrase: str) -> bool:
    """Whether an expression names a month, a year or a date, rather than a distance from now."""
    return _DATED.search(phrase) is not None


@lru_cache(maxsize=4096)
def written_date(phrase: str, today: date) -> date | None:
    """The date in a phrase; without a year, or if day and month can be swapped, the latest one not in the future."""
    plain = phrase.replace("the ", "").replace(" ,", "")
    plain = " ".join(str(_ORDINALS.get(word, word)) for word in plain.split() if word != "of")
    # dateutil reads 10.03.2026 as October, but people who write dots put the day first.
    first = datetime(today.year, today.month, 1)  # noqa: DTZ001  (only its date is used, for missing parts)
    for day_first in (not _MONTH_FIRST.search(plain), True):
        try:
            day: date = dateutil_parser.parse(plain, default=first, dayfirst=day_first).date()
        except (ValueError, OverflowError):
            continue
        if day > today and str(day.year) not in plain:
            day = day.replace(year=day.year - 1, day=min(day.day, 28) if day.month == 2 else day.day)
        if day <= today:
            return day
    return None


_MONTH_FIRST = re.compile(r"\d/\d|^\d{4}")


# --- amounts ---


UNITS = {
    "second": 1.0, "minute": MINUTE, "hour": HOUR, "day": DAY, "night": DAY, "evening": DAY, "morning": DAY,
    "afternoon": DAY, "week": WEEK, "fortnight": 2 * WEEK,
    "month": MONTH, "year": YEAR, "decade": 10 * YEAR, "s": 1.0, "m": MINUTE, "h": HOUR, "d": DAY, "w": WEEK,
}  # fmt: skip
_LOOSE = {
    "couple": 2.0, "a couple": 2.0, "a couple of": 2.0, "couple of": 2.0, "few": 3.0, "a few": 3.0, "several": 5.0,
    "some": 3.0, "many": 5.0,
}  # fmt: skip
NUMBERS = _LOOSE | {
    "a": 1.0, "an": 1.0, "one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "seven": 7.0,
    "eight": 8.0, "nine": 9.0, "ten": 10.0, "eleven": 11.0, "twelve": 12.0, "fifteen": 15.0, "twenty": 20.0,
    "thirty": 30.0, "forty": 40.0, "forty-five": 45.0, "fifty": 50.0, "sixty": 60.0, "ninety": 90.0,
    "half a": 0.5, "half an": 0.5, "half": 0.5, "quarter of an": 0.25, "a quarter of an": 0.25, "quarter": 0.25,
    "three quarters of an": 0.75, "a good": 1.0, "a solid": 1.0, "a whole": 1.0,
}  # fmt: skip
NUM = rf"(?:\d{{1,4}}(?:\.\d)?|{'|'.join(sorted(NUMBERS, key=len, reverse=True))})"
UNIT = "(?:second|minute|hour|day|night|evening|morning|afternoon|week|fortnight|month|year|decade)"
_SHORT_UNIT = "(?:s|m|h|d|w|mins?|hrs?|secs?|days?|hours?|minutes?)"
AMOUNT = (
    rf"(?:(?:(?P<n>{NUM})(?: (?:or|to|-) (?P<to>{NUM}))?(?P<half> and a half)? )?(?P<unit>{UNIT})(?P<many>s)?"
    rf"(?P<half_more> and a half)?(?: (?:and )?(?P<rest>{NUM}) (?P<rest_unit>{UNIT})s?)?(?P<so> or (?:so|two|three))?"
    rf"|(?P<short>\d{{1,4}}(?:\.\d)?) ?(?P<short_unit>{_SHORT_UNIT})(?: ?(?P<short_rest>\d{{1,2}}) ?{_SHORT_UNIT}?)?)"
)
ABOUT = "(?:(?:about|around|like|roughly|almost|over|just|maybe|at least|approximately|nearly|some|literally) )?"


@dataclass(frozen=True, slots=True)
class Amount:
    """From `least` to `most` units; `loose` if the words themselves are vague."""

    least: float
    most: float
    unit_s: float
    loose: bool
    bare: bool  # no number was said: "hours ago", "the last hour"

    @property
    def single(self) -> bool:
        """A minute, a few minutes: there is no count to rely on."""
        return self.loose or self.bare or self.most == 1.0


def amount(match: re.Match[str]) -> Amount:
    if match["short"]:
        count = float(match["short"]) + float(match["short_rest"] or 0) / 60
        return Amount(count, count, UNITS[match["short_unit"][0]], loose=False, bare=False)
    said, unit_s = match["n"], UNITS[match["unit"]]
    least = _number(said) if said else 2.0 if match["many"] else 1.0
    if match["half"] or match["half_more"]:
        least += 0.5
    if match["rest"]:
        least += _number(match["rest"]) * UNITS[match["rest_unit"]] / unit_s
    most = _number(match["to"]) if match["to"] else least
    if match["so"] in {" or two", " or three"}:
        most = 3.0 if match["so"].endswith("three") else 2.0
    loose = said in _LOOSE or match["so"] == " or so" or (said is None and match["many"] is not None)
    return Amount(min(least, most), max(least, most), unit_s, loose, said is None)


def _number(text: str) -> float:
    return NUMBERS[text] if text in NUMBERS else float(text)


# --- clocks ---


PARTS = {
    "morning": (4.0, 12.0), "afternoon": (12.0, 18.0), "evening": (17.0, 24.0), "night": (18.0, 30.0),
    "noon": (11.0, 13.5), "lunch": (11.5, 14.0), "lunchtime": (11.5, 14.0), "breakfast": (6.0, 10.0),
    "dinner": (17.5, 21.0), "midnight": (23.0, 25.0),
}  # fmt: skip
# Where "since lunch" begins and "before lunch" ends.
_POINTS = {
    "lunch": 12.0, "lunchtime": 12.0, "noon": 12.0, "midday": 12.0, "breakfast": 7.0, "dinner": 18.0, "midnight": 0.0,
}  # fmt: skip
HOURS = "one two three four five six seven eight nine ten eleven twelve"
_HOUR_WORDS = {word: number for number, word in enumerate(HOURS.split(), 1)}
_BETWEEN = rf"{'|'.join(_HOUR_WORDS)}|noon|midnight|\d{{1,2}}"
_HOUR = rf"\d{{1,2}}|{'|'.join(_HOUR_WORDS)}"
_AT = "(?:at|around|by|about|since|after|before|until|till|like|past)"
_HALF = r"am|pm|a\.m|p\.m"
# What may follow an hour that is just a number: "around 9 people" is not a time.
_ENDS = (
    r"(?=$| [,.?!;:-]| (?:yesterday|today|tonight|last|this|on|in|here|or|and|what|who|when|where|did|was|is|were|has|"
    r"about|local|sharp|\w+day)(?!\S))"
)
CLOCKS = (
    rf"(?:(?:between|from) (?P<first>{_BETWEEN})(?::(?P<first_minute>\d\d))? ?(?P<first_half>{_HALF})?"
    rf" (?:and|to|till|until|-) (?P<last>{_BETWEEN})(?::(?P<last_minute>\d\d))?"
    rf" ?(?P<last_half>{_HALF})?)(?! (?!this )(?:\w+s|people)(?!\S))"
)
CLOCK = (
    rf"(?:{_AT} )?(?P<hour>{_HOUR})(?::(?P<minute>\d\d))?"
    rf"(?: ?(?P<half>{_HALF})| (?:in the (?P<part>morning|afternoon|evening)|at (?P<night>night)|o'clock))"
)
CLOCK_MINUTES = rf"(?:{_AT} )?(?P<hour>\d{{1,2}}):(?P<minute>\d\d)"
CLOCK_BARE = rf"(?:{_AT} )(?P<hour>{_HOUR}){_ENDS}"
CLOCK_SPOKEN = rf"(?:{_AT} )?(?P<share>half|quarter|ten|twenty|five) (?P<side>past|to|after|till) (?P<hour>{_HOUR})"
POINT = (
    r"(?:at|around|by|since|after|before|until|till|over|during|right (?:after|before))"
    r" (lunch|lunchtime|noon|midday|midnight|breakfast|dinner)"
)
_SHARES = {"half": 30.0, "quarter": 15.0, "ten": 10.0, "twenty": 20.0, "five": 5.0}


def clock(match: re.Match[str], moment: Moment) -> Span | None:
    said = match.groupdict()
    hour, minute = _hour(said["hour"]), int(said.get("minute") or 0)
    if hour > 24 or minute > 59:
        return None
    half = _half(said, hour)
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    written = half or hour > 12 or said["hour"].startswith("0")
    return _around(moment, (hour + minute / 60) % 24, either_half=not written)


def _half(said: dict[str, str | None], hour: int) -> str:
    if said.get("half"):
        return (said["half"] or "").replace(".", "")
    if said.get("night"):
        return "pm" if 6 <= hour < 12 else "am"
    part = said.get("part")
    return "" if not part else "am" if part == "morning" else "pm"


def spoken_clock(match: re.Match[str], moment: Moment) -> Span | None:
    """Half past two, quarter to three."""
    hour, minutes = _hour(match["hour"]), _SHARES[match["share"]]
    if hour > 12:
        return None
    exact = hour + minutes / 60 if match["side"] in {"past", "after"} else hour - minutes / 60
    return _around(moment, exact % 12, either_half=True)


def _around(moment: Moment, exact: float, *, either_half: bool) -> Span:
    ts = spans.clock(moment, exact, either_half=either_half)
    margin = 45 * MINUTE
    return Span(ts - margin, ts + margin, nominal=ts, hours=(exact, exact), either_half=either_half)


def clocks(match: re.Match[str], moment: Moment) -> Span | None:
    """Between nine and ten: today or, if that is still in the future, yesterday."""
    first = _hour(match["first"]) + int(match["first_minute"] or 0) / 60
    last = _hour(match["last"]) + int(match["last_minute"] or 0) / 60
    half = (match["last_half"] or match["first_half"] or _NAMED_HALF.get(match["first"]) or "").replace(".", "")
    if max(first, last) > 24 or first == last:
        return None
    if half:
        first, last = (hour % 12 + (12 if half == "pm" else 0) for hour in (first, last))
    either = not half and max(first, last) < 13
    length = (last - first) % (12 if either else 24)
    begin = spans.clock(moment, first % 24, either_half=either)
    return Span(begin, begin + length * HOUR, nominal=begin, hours=(first, first + length), either_half=either)


_NAMED_HALF = {"noon": "pm", "midnight": "am"}


def _hour(text: str) -> int:
    if text in _NAMED_HALF:
        return 12
    return _HOUR_WORDS[text] if text in _HOUR_WORDS else int(text)


def point(match: re.Match[str], moment: Moment) -> Span:
    name = match[1]
    ts = spans.clock(moment, _POINTS[name], either_half=False)
    return Span(ts - 0.75 * HOUR, ts + 1.5 * HOUR, nominal=ts, hours=PARTS.get(name))


def this_part(match: re.Match[str], moment: Moment) -> Span:
    part = "evening" if match["part"] is None else match["part"]
    hours = PARTS[part]
    if moment.hour < 4:
        # The small hours belong to the evening before; "this morning" is then the day so far.
        return Span(moment.at(moment.today, -7 if part in {"evening", "night"} else 0), moment.now)
    if moment.hour < hours[0]:
        return Span(moment.now, moment.now, Clue.FUTURE)
    return spans.part_of_day(moment, moment.today, hours)


def the_part(match: re.Match[str], moment: Moment) -> Span:
    """In the morning: the most recent one, unless there is a day next to it."""
    hours = PARTS[match["part"]]
    day = moment.today if moment.hour >= hours[0] else moment.day(1)
    return Span(moment.at(day, hours[0]), moment.at(day, hours[1]), hours=hours)


# --- almanac ---


_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_DAY_NAMES = "|".join(WEEKDAYS)
PART = "(?P<part>morning|afternoon|evening|night)"
# A holiday by its folded words: month, day, and how many days around it count.
_FEASTS = {
    "christmas": (12, 25, 2), "christmas eve": (12, 24, 0), "xmas": (12, 25, 2), "boxing day": (12, 26, 0),
    "new year": (1, 1, 1), "new years": (1, 1, 1), "new year eve": (12, 31, 0), "new years eve": (12, 31, 0),
    "nye": (12, 31, 0), "new year day": (1, 1, 0), "halloween": (10, 31, 1), "valentine": (2, 14, 0),
    "valentine day": (2, 14, 0), "valentines day": (2, 14, 0), "valentines": (2, 14, 0), "easter": (0, 0, 3),
    "thanksgiving": (11, 0, 2), "st patrick day": (3, 17, 0), "st patricks day": (3, 17, 0), "april fools": (4, 1, 0),
}  # fmt: skip
_PLAIN_WORDS = frozenset({"day", "new", "year", "years", "eve", "st", "april"})
FEAST_WORDS = frozenset(word for name in _FEASTS for word in name.split()) - _PLAIN_WORDS

WEEKDAY = (
    r"(?:(?:back )?on |the |earlier )?(?:(?P<which>last|past|previous|this past|this|next|coming) )?"
    rf"(?P<name>{_DAY_NAMES})(?: (?:in the |at )?{PART})?"
)
WEEKDAYS_AGO = rf"(?P<count>two|three|four|2|3|4) (?P<name>{_DAY_NAMES})s ago"
WEEKDAY_RANGE = (
    rf"(?:between |from )?(?P<first>{_DAY_NAMES}) (?:and|to|till|until|-) (?P<name>{_DAY_NAMES})(?P<back> last week)?"
)
OF_LAST_WEEK = (
    rf"(?:on )?(?P<name>{_DAY_NAMES})(?: of)? (?:last|the previous) week|last week (?:on )?(?P<after>{_DAY_NAMES})"
)
WEEKEND = r"(?:over |on |during |at )?(?:the |(?:this )?(?P<which>last|past|previous|this) )?weekend"
BEFORE_LAST = r"(?:over |in |during )?(?:the )?(?P<unit>weekend|week|month|year) before last"
EDGE = (
    r"(?:at |towards |around |since |by |from )?(?:the )?(?P<edge>start|beginning|end|middle|first (?:half|days))"
    r" of (?P<which>the|this|last) (?P<unit>week|month|year)"
    r"|(?P<early>early|earlier|later|late|mid) (?:on )?in the (?P<of>week|month|year)"
)
MONTH_PART = (
    r"(?:in |at |during |since |around |towards )?(?:the )?(?P<edge>first (?:week|half|days)|last week|second half"
    rf"|start|beginning|end|middle) of (?P<name>{_NAMES})"
)
MONTH_PATTERN = (
    r"(?P<which>(?:back |early |late |mid |sometime |earlier )?"
    r"(?:in|during|since|of|last|this past|around|early|mid|late|until|till|before|after|throughout|all of))"
    rf"(?: early| late| mid)? (?P<name>{_NAMES})(?: (?:of )?(?P<year>\d{{4}}))?"
)
SEASON = (
    r"(?:back )?(?:in |during )?(?:(?P<which>last|previous|this past|past|this)|(?:in|during|over|since)(?: the)?) "
    rf"(?P<name>{'|'.join(_SEASONS)})(?: (?:of )?(?P<year>\d{{4}}))?"
)
QUARTER = r"(?:(?:in|during|back in|since|from|of|over|for) q(?P<number>[1-4])|(?P<last>last quarter(?! of| hour)))"
FEAST = (
    r"(?:on|at|over|during|around|since|before|after|last|this|until) (?:last |this )?"
    rf"(?P<name>{'|'.join(sorted(_FEASTS, key=len, reverse=True))})"
)
DAY_OF_MONTH = (
    r"(?:on the (?P<number>\d{1,2})(?:st|nd|rd|th)|the (?P<alone>\d{1,2})(?:st|nd|rd|th)"
    r"(?=$| [,.?!;]| (?:of|what|who|did|was|were|in|at|about|and|or|to|here)(?!\S)))"
)
ALL_OF = r"all (?P<unit>day|morning|afternoon|evening|night|week|month|year)(?: long)?"


def weekday(match: re.Match[str], moment: Moment) -> Span:
    which, index = match["which"], WEEKDAYS[match["name"]]
    if which in {"next", "coming"}:
        return Span(moment.now, moment.now, Clue.FUTURE)
    found = spans.weekday(moment, index)
    day = found.day or moment.today
    if match["part"]:
        return spans.part_of_day(moment, day, PARTS[match["part"]])
    if which == "last" and day == moment.day(1):
        # People usually call that day "yesterday", but they may still mean it, so the span covers both.
        return Span(moment.at(day - timedelta(days=7)), moment.at(day, 24))
    return found


def weekdays_ago(match: re.Match[str], moment: Moment) -> Span:
    count = int(NUMBERS.get(match["count"], 0) or int(match["count"]))
    day = spans.weekday(moment, WEEKDAYS[match["name"]]).day or moment.today
    return spans.whole_day(moment, day - timedelta(weeks=count - 1))


def of_last_week(match: re.Match[str], moment: Moment) -> Span:
    monday = moment.today - timedelta(days=moment.today.weekday() + 7)
    name = match["name"] or match["after"]
    return spans.whole_day(moment, monday + timedelta(days=WEEKDAYS[name]))


def weekday_range(match: re.Match[str], moment: Moment) -> Span:
    """From one day to the other, both in the same week if possible."""
    last = of_last_week(match, moment) if match["back"] else spans.weekday(moment, WEEKDAYS[match["name"]])
    day = last.day or moment.today
    back = (day.weekday() - WEEKDAYS[match["first"]]) % 7
    return Span(moment.at(day - timedelta(days=back)), last.end)


def weekend(match: re.Match[str], moment: Moment) -> Span:
    return spans.weekend(moment, previous=match["which"] in {"last", "past", "previous"})


def before_last(match: re.Match[str], moment: Moment) -> Span:
    if match["unit"] != "weekend":
        return spans.whole(moment, match["unit"], 2)
    start = (spans.weekend(moment, previous=True).start or 0.0) - WEEK
    return Span(start, start + 54 * HOUR)


def edge(match: re.Match[str], moment: Moment) -> Span:
    """The start, the middle or the end of a week, a month or a year."""
    unit, side = match["unit"] or match["of"], match["edge"] or match["early"]
    found = _share(spans.whole(moment, unit, match["which"] == "last"), side)
    is_ahead = side in _LATE and (found.start or 0.0) > moment.now
    return _share(spans.whole(moment, unit, 1), side) if is_ahead else found


_LATE = frozenset({"end", "late", "later", "last week", "second half"})


def _share(whole: Span, side: str) -> Span:
    begin, end = whole.start or 0.0, whole.end or 0.0
    length = end - begin
    if side in {"middle", "mid"}:
        return Span(begin + length * 0.25, begin + length * 0.75)
    return Span(begin + length * 0.6, end) if side in _LATE else Span(begin, begin + length * 0.4)


def month_part(match: re.Match[str], moment: Moment) -> Span:
    return _share(spans.named_month(moment, MONTHS[match["name"]]), match["edge"])


def month(match: re.Match[str], moment: Moment) -> Span:
    number = MONTHS[match["name"]]
    if match["year"]:
        return spans.months(moment, int(match["year"]), number)
    return spans.named_month(moment, number, previous=match["which"].startswith("last"))


def season(match: re.Match[str], moment: Moment) -> Span:
    """Of a year, or the current one unless the words are "last" or "previous"."""
    first, today = _SEASONS[match["name"]], moment.today
    year = int(match["year"] or today.year - (today.month < first))
    is_previous = not match["year"] and match["which"] in {"last", "previous"}
    return spans.months(moment, year - (is_previous and today < spans.month_start(year, first + 3)), first, 3)


def quarter(match: re.Match[str], moment: Moment) -> Span:
    this = (moment.today.month - 1) // 3
    number = this - 1 if match["last"] else int(match["number"]) - 1
    return spans.months(moment, moment.today.year - (number > this), 3 * number + 1, 3)


def feast(match: re.Match[str], moment: Moment) -> Span:
    month_number, number, around = _FEASTS[match["name"]]
    year = moment.today.year
    day = next(
        each for each in (_feast_day(year - back, month_number, number) for back in range(2)) if each <= moment.today
    )
    reach = timedelta(days=around)
    return Span(moment.at(day - reach), moment.at(day + reach, 24))


def _feast_day(year: int, month_number: int, number: int) -> date:
    if not month_number:
        sunday: date = easter(year)
        return sunday
    if not number:
        thursday: date = date(year, month_number, 1) + relativedelta(weekday=TH(4))
        return thursday
    return date(year, month_number, number)


def written(match: re.Match[str], moment: Moment) -> Span | None:
    day = written_date(match["date"] or match["short"], moment.today)
    return spans.whole_day(moment, day) if day else None


def day_of_month(match: re.Match[str], moment: Moment) -> Span | None:
    number, today = int(match["number"] or match["alone"]), moment.today
    for back in range(3):
        first = spans.month_start(today.year, today.month - back)
        try:
            day = first.replace(day=number)
        except ValueError:
            continue
        if day <= today:
            return spans.whole_day(moment, day)
    return None


def this_unit(match: re.Match[str], moment: Moment) -> Span:
    return spans.whole(moment, match["unit"])._replace(end=moment.now)


def all_of(match: re.Match[str], moment: Moment) -> Span:
    unit = match["unit"]
    if unit in {"week", "month", "year"}:
        return this_unit(match, moment)
    hours = (0.0, 24.0) if unit == "day" else PARTS[unit]
    back = moment.hour < hours[0]
    return spans.part_of_day(moment, moment.day(back), hours)


# Late in a week "last week" may also mean the past seven days, so it reaches up to three days ago.
_LAST_UNTIL = {"week": 3 * DAY, "month": 25 * DAY, "year": 300 * DAY}


def last_unit(match: re.Match[str], moment: Moment) -> Span:
    found = spans.whole(moment, match["unit"], 1)
    return found._replace(end=max(found.end or 0.0, moment.now - _LAST_UNTIL[match["unit"]]))


def day_word(match: re.Match[str], moment: Moment) -> Span:
    back = {"today": 0, "yesterday": 1, "previous day": 1}.get(match["word"], 2)
    day = moment.day(back)
    return spans.part_of_day(moment, day, PARTS[match["part"]]) if match["part"] else spans.whole_day(moment, day)


def other_day(match: re.Match[str], moment: Moment) -> Span:
    reach = 5 * WEEK if match["unit"] == "week" else 10 * DAY
    return Span(moment.now - reach, moment.at(moment.today), Clue.PAST)
