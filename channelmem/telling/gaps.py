"""Pauses between messages, in words. Enters a span in seconds, leaves "--- 2 hours later ---" or nothing.

A marker where people paused says as much about time as a stamp on every line, for a fraction of the tokens.
"""

from __future__ import annotations

import math
from typing import Final

from channelmem.durations import DAY_S, HOUR_S, MINUTE_S, WEEK_S

MINOR_S: Final = 15 * MINUTE_S
MAJOR_S: Final = 2 * HOUR_S
HUGE_S: Final = DAY_S

_JUST_NOW_S: Final = 10
_UNITS: Final = (("week", WEEK_S, 2 * WEEK_S), ("day", DAY_S, DAY_S), ("hour", HOUR_S, HOUR_S))


def marker(seconds: float) -> str | None:
    """The line between two messages, None for a pause that needs none (or a clock that ran backwards)."""
    words = gap_words(seconds)
    return f"--- {words} later ---" if words else None


def gap_words(seconds: float) -> str | None:
    """A pause of 15 minutes or more: in minutes below 2 hours, in hours below 24, then in days."""
    if not math.isfinite(seconds) or seconds < MINOR_S:
        return None
    if seconds >= HUGE_S:
        return counted(int(seconds // DAY_S), "day")
    if seconds >= MAJOR_S:
        return counted(int(seconds // HOUR_S), "hour")
    return counted(int(seconds // MINUTE_S), "minute")


def ago(seconds: float) -> str:
    """How long ago, as a sentence has it: "just now", "2 minutes ago", "1 hour ago", "3 days ago"."""
    return "just now" if _is_now(seconds) else f"{span_words(seconds)} ago"


def span_words(seconds: float) -> str:
    """A span in its largest whole unit, rounded down; weeks begin at two."""
    if _is_now(seconds):
        return counted(int(max(seconds, 0)) if math.isfinite(seconds) else 0, "second")
    for unit, size_s, from_s in _UNITS:
        if seconds >= from_s:
            return counted(int(seconds // size_s), unit)
    return counted(int(seconds // MINUTE_S), "minute") if seconds >= MINUTE_S else counted(int(seconds), "second")


def counted(count: int, noun: str) -> str:
    """ "1 message", "12 messages", "1,204 messages"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _is_now(seconds: float) -> bool:
    return not math.isfinite(seconds) or seconds < _JUST_NOW_S
