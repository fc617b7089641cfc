"""Messages for tests of summaries: a channel's talk at given times."""

from __future__ import annotations

from collections.abc import Iterable

from channelmem.types import Message

DAY = 1_800_057_600.0
"""A midnight, UTC: 16 January 2027."""
PEOPLE = ("Ann", "Bob", "Carol")


def say(id_: int, ts: float, text: str, author: str = "") -> Message:
    who = author or PEOPLE[id_ % len(PEOPLE)]
    return Message(1, 2, id_, PEOPLE.index(who) + 1 if who in PEOPLE else 9, who, text, ts)


def chat(times: Iterable[float], text: str = "the {n}th crate of pears goes to Bristol") -> list[Message]:
    """A message at each time, each about something else."""
    return [say(n, ts, text.format(n=n)) for n, ts in enumerate(times, 1)]
