"""Hours of a day as people say them: "at 3pm", "half past two", "between 9 and 10", "since lunch", "in the morning".

Leaves: handlers and patterns for `expressions`. A span that has hours but no day may still move to the day next to it
("yesterday at four").
"""

from __future__ import annotations

import re
from datetime import timedelta

from channelmem.times import spans
from channelmem.times.spans import HOUR, MINUTE, Clue, Moment, Span

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
    """Lunch, noon, midnight."""
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
    day = moment.today if moment.hour >= hours[0] else moment.today - timedelta(days=1)
    return Span(moment.at(day, hours[0]), moment.at(day, hours[1]), hours=hours)


def last_night(_match: re.Match[str], moment: Moment) -> Span:
    return spans.part_of_day(moment, moment.today - timedelta(days=1), (17.0, 30.0))


def night_before_last(_match: re.Match[str], moment: Moment) -> Span:
    return spans.part_of_day(moment, moment.today - timedelta(days=2), (17.0, 30.0))


def overnight(_match: re.Match[str], moment: Moment) -> Span:
    return Span(moment.at(moment.today, -4), moment.at(moment.today, 9))


def small_hours(_match: re.Match[str], moment: Moment) -> Span:
    return spans.part_of_day(moment, moment.today, (0.0, 6.0))
