"""Durations as people write and read them, for commands, tools and answers.

In: "24h", "2h 30m", "1 week", "half an hour", "yesterday". Out: seconds. `format_duration` is the inverse, and
`human_age` the short form after a quoted message ("2m ago").
"""

from __future__ import annotations

import math
import re

import pytimeparse2

MINUTE_S = 60.0
HOUR_S = 3_600.0
DAY_S = 86_400.0
WEEK_S = 604_800.0
LONGEST_S = 3_650 * DAY_S

_LONGEST_TEXT = 64
_WORDS_S = {
    "yesterday": DAY_S,
    "last night": DAY_S,
    "last week": WEEK_S,
    "last month": 30 * DAY_S,
    "last year": 365 * DAY_S,
    "a fortnight": 14 * DAY_S,
}
_NUMBER_WORDS = {
    "a": "1", "an": "1", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6",
    "seven": "7", "eight": "8", "nine": "9", "ten": "10", "twelve": "12",
    "fifteen": "15", "twenty": "20", "thirty": "30",
}  # fmt: skip
_HALF = re.compile(r"\bhalf an? ")
_FRAME = re.compile(r"^(?:the )?(?:last|past|previous)\s|^for\s|\s(?:ago|back)$")
_UNITS_S = {"w": WEEK_S, "d": DAY_S, "h": HOUR_S, "m": MINUTE_S, "s": 1.0}


def parse(text: str) -> float:
    """Seconds of a duration. A relative word means the time since then: "yesterday" is one day.

    Raises ValueError with a readable sentence unless the duration is between 0 and ten years.
    """
    seconds = _seconds(text)
    if seconds is None or not math.isfinite(seconds) or not 0 < seconds <= LONGEST_S:
        raise ValueError(f"{text[:_LONGEST_TEXT]!r} is not a duration such as 24h, 2h 30m or 1 week.")
    return seconds


def _seconds(text: str) -> float | None:
    # Longer text cannot be a duration; keep it away from the library's regular expression.
    if len(text) > _LONGEST_TEXT:
        return None
    plain = " ".join(text.casefold().replace(".", ". ").split()).replace(". ", ".").rstrip(".")
    if plain in _WORDS_S:
        return _WORDS_S[plain]
    plain = _FRAME.sub("", plain).strip()
    plain = _HALF.sub("0.5 ", plain).replace(" and ", " ")
    words = [_NUMBER_WORDS.get(word, word) for word in plain.split()]
    if words and words[0].isalpha() and len(words) == 1:
        words.insert(0, "1")
    plain = " ".join(words)
    # A bare number such as "30" or "one" has no unit and could mean anything, so reject it.
    if not any(char.isalpha() or char == ":" for char in plain):
        return None
    found = pytimeparse2.parse(plain)
    return None if found is None else float(found)


def format_duration(seconds: float, units: str = "wdhms") -> str:
    """The inverse of `parse`: "2h 30m", "1w", "45s"; exact to the second."""
    left = round(seconds)
    parts = []
    for unit, size in _UNITS_S.items():
        count, left = divmod(left, int(size)) if unit in units else (0, left)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) or "0s"


def human_age(seconds: float) -> str:
    """How long ago, in one unit and rounded down: "just now", "2m ago", "1h ago", "3d ago"."""
    if seconds < 10:
        return "just now"
    # Weeks start at two, since "8d ago" is more precise than "1w ago".
    unit = next(unit for unit, size in _UNITS_S.items() if seconds >= (2 * size if unit == "w" else size))
    return f"{int(seconds // _UNITS_S[unit])}{unit} ago"
