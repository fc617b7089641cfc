"""Amounts of time as people say them: "two hours", "an hour or so", "2 or 3 days", "1h30", "a week and a half".

Leaves: `AMOUNT`, a pattern over folded words with named groups, and `amount`, which says what a match means. Every
expression that counts back from now ("... ago", "the last ...", "away for ...") is built on these two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from channelmem.times.spans import DAY, HOUR, MINUTE, MONTH, WEEK, YEAR

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
    bare: bool
    """No number was said: "hours ago", "the last hour"."""

    @property
    def single(self) -> bool:
        """A minute, a few minutes: there is no count to rely on."""
        return self.loose or self.bare or self.most == 1.0


def amount(match: re.Match[str]) -> Amount:
    """What a match of `AMOUNT` means."""
    if match["short"]:
        return _short(match)
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


def _short(match: re.Match[str]) -> Amount:
    unit_s = UNITS[match["short_unit"][0]]
    count = float(match["short"])
    if match["short_rest"]:
        count += float(match["short_rest"]) / 60
    return Amount(count, count, unit_s, loose=False, bare=False)


def _number(text: str) -> float:
    return NUMBERS[text] if text in NUMBERS else float(text)
