"""Which stretch of time a command means. In: "24h", "yesterday", "2027-01-12", from one to another. Out: a `Window`."""

from __future__ import annotations

from typing import Final

from channelmem.context_window.reach import ReachError, reach_s
from channelmem.durations import WEEK_S
from channelmem.types import Window

EXPORT_S: Final = WEEK_S
BACKWARDS: Final = "`from` is later than `to`. Swap them."


def back_from(now: float, text: str, tz: str) -> Window:
    """From what the text names until now; ReachError with a sentence for whoever typed it."""
    return Window(now - reach_s(text, now, tz), now)


def between(now: float, first: str, last: str, tz: str) -> Window:
    """Both may be empty: a week before the end, and now."""
    end = now - reach_s(last, now, tz) if last else now
    start = now - reach_s(first, now, tz) if first else end - EXPORT_S
    if start >= end:
        raise ReachError(BACKWARDS)
    return Window(start, end)
