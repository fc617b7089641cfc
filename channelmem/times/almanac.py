"""Named days, weeks, months and holidays: "on Monday", "last week", "in May", "at Christmas".

Leaves: handlers and patterns for `expressions`; the arithmetic is in `spans`, written dates in `dates`.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

from dateutil.easter import easter

from channelmem.times import spans
from channelmem.times.amounts import NUMBERS
from channelmem.times.clocks import PARTS
from channelmem.times.dates import MONTHS, WEEKDAYS, written_date
from channelmem.times.spans import DAY, WEEK, Clue, Moment, Span

_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_DAY_NAMES = "|".join(WEEKDAYS)
_MONTH_NAMES = "|".join(sorted(MONTHS, key=len, reverse=True))
_PART = "(?P<part>morning|afternoon|evening|night)"
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
    rf"(?P<name>{_DAY_NAMES})(?: (?:in the |at )?{_PART})?"
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
    rf"|start|beginning|end|middle) of (?P<name>{_MONTH_NAMES})"
)
MONTH = (
    r"(?P<which>(?:back |early |late |mid |sometime |earlier )?"
    r"(?:in|during|since|of|last|this past|around|early|mid|late|until|till|before|after|throughout|all of))"
    rf"(?: early| late| mid)? (?P<name>{_MONTH_NAMES})(?: (?:of )?(?P<year>\d{{4}}))?"
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
    if which == "last" and day == moment.today - timedelta(days=1):
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
    """The week before last."""
    unit, today = match["unit"], moment.today
    if unit == "year":
        return spans.whole_year(moment, today.year - 2)
    if unit == "month":
        return spans.whole_month(moment, today.year, today.month - 2)
    found = spans.weekend(moment, previous=True) if unit == "weekend" else spans.last_week(moment)
    start = (found.start or 0.0) - WEEK
    return Span(start, start + (WEEK if unit == "week" else 54 * 3_600.0))


def edge(match: re.Match[str], moment: Moment) -> Span:
    """The start, the middle or the end of a week, a month or a year."""
    unit, side = match["unit"] or match["of"], match["edge"] or match["early"]
    begin, end = _whole(moment, unit, back=match["which"] == "last")
    if side in _LATE and begin + (end - begin) * 0.6 > moment.now:
        begin, end = _whole(moment, unit, back=True)
    return _share(begin, end, side)


_LATE = frozenset({"end", "late", "later", "last week", "second half"})


def _share(begin: float, end: float, side: str) -> Span:
    length = end - begin
    if side in {"middle", "mid"}:
        return Span(begin + length * 0.25, begin + length * 0.75)
    return Span(begin + length * 0.6, end) if side in _LATE else Span(begin, begin + length * 0.4)


def _whole(moment: Moment, unit: str, *, back: bool) -> tuple[float, float]:
    today = moment.today
    if unit == "week":
        monday = today - timedelta(days=today.weekday() + 7 * back)
        return moment.at(monday), moment.at(monday + timedelta(days=7))
    if unit == "month":
        return moment.at(spans.month_start(today.year, today.month - back)), moment.at(
            spans.month_start(today.year, today.month + 1 - back)
        )
    return moment.at(date(today.year - back, 1, 1)), moment.at(date(today.year + 1 - back, 1, 1))


def month_part(match: re.Match[str], moment: Moment) -> Span:
    found = spans.named_month(moment, MONTHS[match["name"]])
    return _share(found.start or 0.0, found.end or 0.0, match["edge"])


def month(match: re.Match[str], moment: Moment) -> Span:
    number = MONTHS[match["name"]]
    if match["year"]:
        return spans.whole_month(moment, int(match["year"]), number)
    return spans.named_month(moment, number, previous=match["which"].startswith("last"))


def season(match: re.Match[str], moment: Moment) -> Span:
    if match["year"]:
        first = date(int(match["year"]), _SEASONS[match["name"]], 1)
        return Span(moment.at(first), moment.at(spans.month_start(first.year, first.month + 3)))
    return spans.season(moment, _SEASONS[match["name"]], previous=match["which"] in {"last", "previous"})


def quarter(match: re.Match[str], moment: Moment) -> Span:
    this = (moment.today.month - 1) // 3
    number = this - 1 if match["last"] else int(match["number"]) - 1
    year = moment.today.year - (number > this)
    first = spans.month_start(year, 3 * number + 1)
    return Span(moment.at(first), moment.at(spans.month_start(first.year, first.month + 3)))


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
    if not number:  # the fourth Thursday
        first = date(year, month_number, 1)
        return first + timedelta(days=(3 - first.weekday()) % 7 + 21)
    return date(year, month_number, number)


def year_named(match: re.Match[str], moment: Moment) -> Span:
    return spans.whole_year(moment, int(match[1]))


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
    today = moment.today
    if match["unit"] == "week":
        return spans.this_week(moment)
    first = today.replace(day=1) if match["unit"] == "month" else today.replace(month=1, day=1)
    return Span(moment.at(first), moment.now)


def all_of(match: re.Match[str], moment: Moment) -> Span:
    unit = match["unit"]
    if unit in {"week", "month", "year"}:
        return this_unit(match, moment)
    hours = (0.0, 24.0) if unit == "day" else PARTS[unit]
    back = moment.hour < hours[0]
    return spans.part_of_day(moment, moment.today - timedelta(days=back), hours)


def last_unit(match: re.Match[str], moment: Moment) -> Span:
    by_name = {"week": spans.last_week, "month": spans.last_month, "year": spans.last_year}
    return by_name[match["unit"]](moment)


def day_word(match: re.Match[str], moment: Moment) -> Span:
    back = {"today": 0, "yesterday": 1, "previous day": 1}.get(match["word"], 2)
    day = moment.today - timedelta(days=back)
    return spans.part_of_day(moment, day, PARTS[match["part"]]) if match["part"] else spans.whole_day(moment, day)


def two_days(_match: re.Match[str], moment: Moment) -> Span:
    return Span(moment.at(moment.today - timedelta(days=2)), moment.at(moment.today))


def other_day(match: re.Match[str], moment: Moment) -> Span:
    reach = 5 * WEEK if match["unit"] == "week" else 10 * DAY
    return Span(moment.now - reach, moment.at(moment.today), Clue.PAST)
