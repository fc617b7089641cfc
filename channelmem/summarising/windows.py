"""When a stretch of conversation is over. Enters: a channel's messages and the time. Leaves: its closed windows.

A window is 30 minutes on the UTC wall clock: 14:00 to 14:29, 14:30 to 14:59. The current one stays raw, closed ones are
summarised, and empty ones do not exist. With smart sizes a busy window is cut into quarters of an hour, and an hour
with little in it is one window. A window that is closed never changes its bounds, whatever comes later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from channelmem.durations import DAY_S, MINUTE_S
from channelmem.types import Message

WINDOW_MINUTES: Final = 30
_DAY_MINUTES: Final = round(DAY_S / MINUTE_S)


@dataclass(frozen=True, slots=True)
class SmartSizes:
    """Half of a window where much is said, twice its size where little is."""

    busy: int = 60
    """A window with more messages than this is cut in two."""
    quiet: int = 5
    """Two windows with at most this many messages together are one."""


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """A stretch of time that is over, with its messages, oldest first; never empty."""

    start: float
    end: float
    """Excluded."""
    messages: tuple[Message, ...]


def window_start(ts: float, minutes: int = WINDOW_MINUTES) -> float:
    """When the window around this moment begins. `minutes` must divide a day, or windows would leave the wall clock."""
    if minutes < 1 or _DAY_MINUTES % minutes:
        raise ValueError(f"A window of {minutes} minutes does not divide a day; use 15, 30 or 60.")
    size_s = minutes * MINUTE_S
    return ts // size_s * size_s


def closed_windows(
    messages: Iterable[Message], now: float, minutes: int = WINDOW_MINUTES, smart: SmartSizes | None = None
) -> tuple[ClosedWindow, ...]:
    """The windows that ended by `now`, oldest first. Messages may come in any order."""
    slots: dict[float, list[Message]] = defaultdict(list)
    for message in sorted(messages, key=lambda one: (one.ts, one.id)):
        slots[window_start(message.ts, minutes)].append(message)
    size_s = minutes * MINUTE_S
    windows = [ClosedWindow(start, start + size_s, tuple(slots[start])) for start in sorted(slots)]
    if smart is not None:
        windows = _resized(windows, now, size_s, smart)
    return tuple(window for window in windows if window.end <= now)


def _resized(windows: Sequence[ClosedWindow], now: float, size_s: float, smart: SmartSizes) -> list[ClosedWindow]:
    doubles: dict[float, list[ClosedWindow]] = defaultdict(list)
    for window in windows:
        doubles[window.start // (2 * size_s) * 2 * size_s].append(window)
    return [each for start, some in doubles.items() for each in _double(start, some, now, size_s, smart)]


def _double(
    start: float, some: Sequence[ClosedWindow], now: float, size_s: float, smart: SmartSizes
) -> list[ClosedWindow]:
    """One or two windows that begin in the same double slot, resized."""
    together = tuple(message for window in some for message in window.messages)
    if len(together) <= smart.quiet:
        return [ClosedWindow(start, start + 2 * size_s, together)]
    first = some[0]
    # Until the second half is over, nobody knows whether a quiet first half will be part of a quiet whole.
    if first.start == start and len(first.messages) <= smart.quiet and now < start + 2 * size_s:
        return [ClosedWindow(first.start, start + 2 * size_s, first.messages), *some[1:]]
    return [each for window in some for each in _halves(window, size_s, smart)]


def _halves(window: ClosedWindow, size_s: float, smart: SmartSizes) -> list[ClosedWindow]:
    if len(window.messages) <= smart.busy:
        return [window]
    middle = window.start + size_s / 2
    parts = (
        ClosedWindow(window.start, middle, tuple(one for one in window.messages if one.ts < middle)),
        ClosedWindow(middle, window.end, tuple(one for one in window.messages if one.ts >= middle)),
    )
    return [part for part in parts if part.messages]
