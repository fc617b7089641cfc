"""Summaries as a pyramid over time. In: summaries of all levels. Out: boxes to draw, the finest at the bottom.

Time runs from left to right, but silence takes no room: windows stand beside each other, so that a week with one busy
hour is readable, and a summary is as wide as the windows it covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

from channelmem.summarising.pyramid import Summary
from channelmem.telling.quote import counted, flatten
from channelmem.web.templating import short_day

WIDTH: Final = 960
HEIGHT: Final = 34
GAP: Final = 4
LEVELS: Final = 8
WINDOWS: Final = 48
"""The newest ones; more would be too narrow to point at."""


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    level: int
    span: str
    facts: str
    topics: str
    text: str


@dataclass(frozen=True, slots=True)
class Drawing:
    boxes: tuple[Box, ...]
    width: int
    height: int
    levels: int


def draw(summaries: Sequence[Summary], tz: tzinfo) -> Drawing | None:
    """None if there is nothing to draw."""
    windows = sorted((one for one in summaries if one.level == 1), key=lambda one: one.start)[-WINDOWS:]
    if not windows:
        return None
    covered = {one.id: _covered(one, windows) for one in summaries}
    shown = [one for one in summaries if covered[one.id] and one.start >= windows[0].start and one.level <= LEVELS]
    levels = max(one.level for one in shown)
    step = WIDTH / len(windows)
    boxes = [
        _box(one, covered[one.id], step, levels, tz) for one in sorted(shown, key=lambda one: (-one.level, one.start))
    ]
    return Drawing(tuple(boxes), WIDTH, levels * (HEIGHT + GAP), levels)


def _covered(one: Summary, windows: Sequence[Summary]) -> range:
    """The places of the windows that a summary covers; none if they have expired before it."""
    inside = [at for at, window in enumerate(windows) if one.start <= window.start <= one.end]
    return range(inside[0], inside[-1] + 1) if inside else range(0)


def _box(one: Summary, windows: range, step: float, levels: int, tz: tzinfo) -> Box:
    first, last = windows[0], windows[-1]
    return Box(
        round(first * step + GAP / 2, 1),
        (levels - one.level) * (HEIGHT + GAP),
        round((last - first + 1) * step - GAP, 1),
        HEIGHT,
        one.level,
        f"{short_day(one.start, tz)} to {short_day(one.end, tz)}",
        f"{counted(one.message_count, 'message')} by {', '.join(flatten(person.name) for person in one.authors[:6])}",
        ", ".join(map(flatten, one.topics)),
        one.text,
    )
