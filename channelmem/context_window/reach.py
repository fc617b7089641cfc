"""How far back a person wants context. In: "24h", "2h 30m", "yesterday", "last monday". Out: seconds back from now.

Amounts are read by `durations` and named times by the grammar that also reads questions, so a word means the same in
a command as in a question; only dates with a year are left to dateutil. The window slides: "yesterday" becomes as many
hours as have passed since yesterday began.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from enum import StrEnum
from typing import Final

from dateutil import parser as dates

from channelmem import durations
from channelmem.durations import HOUR_S, MINUTE_S
from channelmem.times.spans import Clue, Moment, Span, zone
from channelmem.times.when import TimeMatch, find

LEAST_S: Final = HOUR_S
MOST_S: Final = 168 * HOUR_S

EXAMPLES: Final = ("24h", "2 days", "2h 30m", "yesterday", "last monday", "this morning")
TOO_LITTLE: Final = "That is less than the minimum, so I used 1h."
TOO_MUCH: Final = "That is more than the maximum, so I used 168h (7 days)."
UNREADABLE: Final = "I can't read that as a time. Try `24h`, `2 days`, `2h 30m`, `yesterday` or `last monday`."
NO_AMOUNT: Final = "I can't read that as an amount of time. Try `4h`, `2h 30m` or `1 day`."
FUTURE: Final = "That is in the future. Say how far back I should look, such as `24h` or `yesterday`."
UNLIMITED: Final = "`/context` goes up to 168h (7 days). To remove the limit, set the character's Max Age to `off`."

_DEFAULT: Final = frozenset({"default", "reset", "auto"})
_NO_LIMIT: Final = frozenset({"off", "none", "no limit", "unlimited", "forever", "infinite", "all", "everything"})
_LONGEST_TEXT: Final = 64
_EDGES: Final = " \t\r\n.,;:!?\"'`"
_YEAR: Final = re.compile(r"\b\d{4}\b")
_HOURS: Final = (1, 2, 4, 8, 12, 24, 48, 72, 168)


class Step(StrEnum):
    """What a command does with the window."""

    SET = "set"
    ADD = "add"
    SUB = "sub"


class ReachError(ValueError):
    """The text is no time, or none to look back to; the sentence is for the person who typed it."""


def means_default(text: str) -> bool:
    return _plain(text) in _DEFAULT


def reach_s(text: str, now: float, tz: str) -> float:
    """Seconds from now back to what the text names, not yet limited; ReachError if it names nothing in the past."""
    plain = _plain(text)
    if plain in _NO_LIMIT:
        raise ReachError(UNLIMITED)
    if not plain or len(plain) > _LONGEST_TEXT:
        raise ReachError(UNREADABLE)
    moment = Moment(now, tz)
    found = _named(plain, moment) or _amount(plain)
    # "noon" and "a couple of days" are times only with the word that people leave out in a command.
    found = found or _named(f"since {plain}", moment) or _named(f"the last {plain}", moment) or _dated(plain, moment)
    if not found:
        raise ReachError(UNREADABLE)
    return found


def amount_s(text: str) -> float:
    """Seconds of an amount to add or subtract; a named time such as "yesterday" is none."""
    plain = _plain(text)
    found = None if plain[:1].isalpha() and _whole(plain, Moment(0.0)) else _amount(plain)
    if found is None:
        raise ReachError(NO_AMOUNT)
    return found


def stepped(step: Step, now_s: float, by_s: float) -> float:
    """The new window, not yet limited."""
    return {Step.SET: by_s, Step.ADD: now_s + by_s, Step.SUB: now_s - by_s}[step]


def limited(seconds: float) -> tuple[float, str]:
    """The window within 1 h and 168 h, and a warning if it had to change."""
    if seconds < LEAST_S:
        return LEAST_S, TOO_LITTLE
    return (MOST_S, TOO_MUCH) if seconds > MOST_S else (seconds, "")


def in_hours(seconds: float) -> str:
    """ "24h", "2h 30m", "45m": days stay hours, since that is what people set."""
    hours, rest = divmod(round(seconds), int(HOUR_S))
    minutes, left = divmod(rest, int(MINUTE_S))
    parts = [f"{count}{unit}" for count, unit in ((hours, "h"), (minutes, "m"), (left, "s")) if count]
    return " ".join(parts) or "0s"


def suggestions(typed: str) -> list[str]:
    """What autocomplete offers for a half-typed duration, at most 25."""
    plain = _plain(typed)
    if plain.isascii() and plain.isdigit() and len(plain) <= 3:
        return [f"{plain}h", f"{plain} days", f"{plain} weeks"] if int(plain) else []
    offered = (*(f"{hours}h" for hours in _HOURS), *EXAMPLES[1:])
    return [one for one in dict.fromkeys(offered) if one.startswith(plain)]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(_EDGES)


def _amount(plain: str) -> float | None:
    try:
        return durations.parse(plain)
    except ValueError:
        return None


def _named(plain: str, moment: Moment) -> float | None:
    """Seconds back to a named time; None if the text is no such time."""
    found = find(plain.split(), moment)
    if any(one.span.clue is Clue.FUTURE for one in found):
        raise ReachError(FUTURE)
    whole = _only(found, plain)
    start = _beginning(whole.span) if whole and whole.span.clue is Clue.EXPLICIT else None
    return None if start is None else _full_hours(moment.now - start)


def _dated(plain: str, moment: Moment) -> float | None:
    """Seconds back to a date in one of the many ways to write one. Without a year, dateutil would take any number."""
    if not _YEAR.search(plain):
        return None
    try:
        at = dates.parse(plain, default=datetime(moment.today.year, 1, 1, tzinfo=zone(moment.tz))).timestamp()
    except (ValueError, OverflowError):
        return None
    if at > moment.now:
        raise ReachError(FUTURE)
    return _full_hours(moment.now - at)


def _full_hours(seconds: float) -> float:
    """Rounded up, so that what was said at the beginning is inside."""
    return math.ceil(seconds / HOUR_S) * HOUR_S


def _whole(plain: str, moment: Moment) -> TimeMatch | None:
    return _only(find(plain.split(), moment), plain)


def _only(found: list[TimeMatch], plain: str) -> TimeMatch | None:
    """The time expression that is the whole text; with more words around it, it may mean something else."""
    match found:
        case [TimeMatch(first=0, last=last) as one] if last == len(plain.split()):
            return one
    return None


def _beginning(span: Span) -> float | None:
    """The moment that is named, or else where the span begins: "yesterday" is all of it."""
    return span.start if span.nominal is None else span.nominal
