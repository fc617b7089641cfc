"""Written dates: the names of days and months, and what "march 3rd" or "10.03.2026" means.

Enters: a phrase from a question. Leaves: a date that is not in the future. dateutil parses it in 0.1 ms; dateparser
knows more languages, but takes up to 0.8 s for the first date in a process and then 1-15 ms.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from functools import lru_cache

from dateutil import parser as dateutil_parser

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
    for day_first in (not _MONTH_FIRST.search(plain), True):
        try:
            day: date = dateutil_parser.parse(plain, default=_first(today), dayfirst=day_first).date()
        except (ValueError, OverflowError):
            continue
        if day > today and str(day.year) not in plain:
            day = _year_before(day)
        if day <= today:
            return day
    return None


_MONTH_FIRST = re.compile(r"\d/\d|^\d{4}")


def _first(day: date) -> datetime:
    """What dateutil fills in for missing parts."""
    return datetime(day.year, day.month, 1)  # noqa: DTZ001  (only its date is used)


def _year_before(day: date) -> date:
    return day.replace(year=day.year - 1, day=min(day.day, 28) if day.month == 2 else day.day)
