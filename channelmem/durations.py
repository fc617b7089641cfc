"""Spans of time as people write and read them; settings, commands and answers share these three functions.

Enters: "24h", "2h 30m", "1 week", "half an hour", "yesterday". Leaves: seconds. `format_duration` is the
inverse, `human_age` the short form behind a quoted message ("2m ago").
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
_UNITS = (("w", WEEK_S), ("d", DAY_S), ("h", HOUR_S), ("m", MINUTE_S), ("s", 1.0))


def parse(text: str) -> float:
    """Seconds of a span. A relative word is the distance back to it: "yesterday" is one day.

    Raises ValueError with a sentence for people when the text is no span between 0 and ten years.
    """
    seconds = _seconds(text)
    if seconds is None or not math.isfinite(seconds) or not 0 < seconds <= LONGEST_S:
        raise ValueError(f"{text[:_LONGEST_TEXT]!r} is no duration such as 24h, 2h 30m or 1 week.")
    return seconds


def _seconds(text: str) -> float | None:
    # Beyond this length it is no duration, and the library's pattern need not see it.
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
    # A bare number has no unit: "30" could mean anything, so it is refused.
    if not any(char.isalpha() or char == ":" for char in plain):
        return None
    found = pytimeparse2.parse(" ".join(words))
    return None if found is None else float(found)


def format_duration(seconds: float) -> str:
    """The inverse of `parse`: "2h 30m", "1w", "45s"; exact to the second."""
    left = round(seconds)
    parts = []
    for unit, size in _UNITS:
        count, left = divmod(left, int(size))
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) or "0s"


def human_age(seconds: float) -> str:
    """How long ago, in one unit: "just now", "2m ago", "1h ago", "3d ago"; rounded down."""
    if seconds < 10:
        return "just now"
    for unit, size in (("w", 2 * WEEK_S), ("d", DAY_S), ("h", HOUR_S), ("m", MINUTE_S)):
        if seconds >= size:
            # Weeks begin at two, so that "8d ago" is not blurred into "1w ago".
            return f"{int(seconds // (WEEK_S if unit == 'w' else size))}{unit} ago"
    return f"{int(seconds)}s ago"
