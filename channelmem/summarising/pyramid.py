"""Summaries of windows, and of two summaries each. Enters: what is stored and what was said. Leaves: what to make next.

Level 1 is a window; level n+1 are two neighbours of level n in order of time, whatever the gap between them. The
summaries that no other one contains, the roots, tile the past without overlap, and two neighbouring roots of the same
level are a pair. So a new window pairs with the end only, as in binary counting, and nothing older is paired anew. When
a source goes, every level above it goes, the roots below come to light, and the same rule says how to go on. Where a
window is gone for good, its sibling stays a root of its level: the rest is not paired anew for its sake.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from channelmem.durations import DAY_S, HOUR_S
from channelmem.summarising.windows import ClosedWindow
from channelmem.telling.quote import counted, listed
from channelmem.types import Message, Origin, Person

SILENCE_S: Final = HOUR_S
"""Longer gaps are named."""
_IN_DAYS_S: Final = 2 * DAY_S


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence that a summary keeps: who said it, when, and in which message."""

    message_id: int
    author_id: int
    author: str
    ts: float
    text: str
    weight: float = 1.0
    """How much this kind of sentence counts, from its place in the conversation: higher levels choose again."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What was attached to the messages."""

    images: int = 0
    voice_messages: int = 0
    files: int = 0

    def __add__(self, other: Shared) -> Shared:
        return Shared(
            self.images + other.images,
            self.voice_messages + other.voice_messages,
            self.files + other.files,
        )

    def __str__(self) -> str:
        """ "[3 images shared]"; empty if there is nothing."""
        kinds = (("image", self.images), ("voice message", self.voice_messages), ("file", self.files))
        parts = [counted(count, noun) for noun, count in kinds if count]
        return f"[{listed(parts)} shared]" if parts else ""


@dataclass(frozen=True, slots=True)
class Summary:
    """A stretch of a channel in few words, and what it came from."""

    level: int
    start: float
    """When its first message was sent."""
    end: float
    """When its last message was sent."""
    text: str
    """Without a header. In an extractive summary every line begins with a name, or is ours in square brackets."""
    message_count: int
    authors: tuple[Person, ...]
    """By first appearance, with the name they had last."""
    topics: tuple[str, ...]
    model: str
    created: float
    origins: tuple[Origin, ...] = ()
    """Level 1: the messages of its window."""
    parts: tuple[str, ...] = ()
    """Higher levels: the ids of the two summaries it came from, the older first."""
    lines: tuple[Line, ...] = ()
    """What an extractive summary keeps; empty where a language model wrote the text."""
    shared: Shared = Shared()

    @property
    def id(self) -> str:
        """The same for the same stretch and level, however often it is made: "1-1800000000000-1800001740000"."""
        # Rounded down, so that it never leaves its window.
        return f"{self.level}-{math.floor(self.start * 1000)}-{math.floor(self.end * 1000)}"


def from_id(name: str) -> Summary:
    """A summary of which only its place in the pyramid is known: enough for roots, pairs and plans."""
    level, start, end = name.split("-")
    return Summary(int(level), int(start) / 1000, int(end) / 1000, "", 0, (), (), "", 0.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a cascade has to do before it combines pairs."""

    outdated: tuple[Summary, ...] = ()
    """To be removed: their window has a message, or a revision of one, that they do not know; and all above them."""
    missing: tuple[ClosedWindow, ...] = ()
    """To be summarised, oldest first."""


def roots(summaries: Iterable[Summary]) -> tuple[Summary, ...]:
    """Those that no other one contains, oldest first; they never overlap."""
    tops: list[Summary] = []
    for summary in sorted(summaries, key=lambda one: (one.start, -one.end, -one.level)):
        if not tops or summary.start > tops[-1].end:
            tops.append(summary)
    return tuple(tops)


def pairs(summaries: Iterable[Summary]) -> tuple[tuple[Summary, Summary], ...]:
    """Neighbours to combine next, the older first. After combining them there may be new ones: repeat until none.

    The lowest level comes first: a summary that is being made again must find the neighbour it had before.
    """
    found: list[tuple[Summary, Summary]] = []
    waiting: Summary | None = None
    for root in roots(summaries):
        if waiting is not None and waiting.level == root.level:
            found.append((waiting, root))
            waiting = None
        else:
            waiting = root
    lowest = min((older.level for older, _ in found), default=0)
    return tuple(pair for pair in found if pair[0].level == lowest)


def plan(summaries: Collection[Summary], windows: Sequence[ClosedWindow]) -> Plan:
    """Which windows have no summary yet, and which summaries no longer fit: of such a window, or of more than one level
    across it, because a window that had no messages when its neighbours were paired belongs between them."""
    kept, outdated = list(summaries), dict[str, Summary]()
    while True:
        known = {origin for summary in kept for origin in summary.origins}
        missing = [window for window in windows if any(one.origin not in known for one in window.messages)]
        stale = [one for one in kept if any(_touches(one, window) for window in missing)]
        if not stale:
            return Plan(tuple(outdated.values()), tuple(missing))
        outdated |= {one.id: one for one in with_all_above(kept, {one.id for one in stale})}
        # A summary that reached into another window (the window size was changed) leaves that one without any.
        kept = [one for one in kept if one.id not in outdated]


def affected_by(summaries: Collection[Summary], message_ids: Collection[int]) -> tuple[Summary, ...]:
    """The summaries that came from any of these messages, on every level: what goes when they go."""
    gone = frozenset(message_ids)
    hit = {
        one.id
        for one in summaries
        if any(origin.id in gone for origin in one.origins) or any(line.message_id in gone for line in one.lines)
    }
    return tuple(with_all_above(summaries, hit))


def base(window: ClosedWindow, model: str, created: float) -> Summary:
    """Everything about a window's summary but its text, lines and topics."""
    messages = window.messages
    return Summary(
        level=1,
        start=messages[0].ts,
        end=messages[-1].ts,
        text="",
        message_count=len(messages),
        authors=tuple({one.author_id: Person(one.author_id, one.author) for one in messages}.values()),
        topics=(),
        model=model,
        created=created,
        origins=tuple(one.origin for one in messages),
        shared=sum((_shared(one) for one in messages), Shared()),
    )


def base_of_pair(older: Summary, newer: Summary, model: str, created: float) -> Summary:
    """Everything about the summary of two neighbours but its text, lines and topics."""
    return replace(
        older,
        level=older.level + 1,
        end=newer.end,
        text="",
        message_count=older.message_count + newer.message_count,
        authors=tuple({one.id: one for one in (*older.authors, *newer.authors)}.values()),
        topics=(),
        model=model,
        created=created,
        origins=(),
        parts=(older.id, newer.id),
        lines=(),
        shared=older.shared + newer.shared,
    )


def silence(gap_s: float) -> str:
    """ "[3.5 hours of silence]" for a gap of more than an hour, in days from two days on; else empty."""
    if gap_s <= SILENCE_S:
        return ""
    return (
        f"[{gap_s / DAY_S:.1f} days of silence]" if gap_s >= _IN_DAYS_S else f"[{gap_s / HOUR_S:.1f} hours of silence]"
    )


def _touches(summary: Summary, window: ClosedWindow) -> bool:
    return summary.start < window.end and summary.end >= window.start


def with_all_above(summaries: Iterable[Summary], ids: Collection[str]) -> list[Summary]:
    """These and what was made of them, the lowest level first."""
    gone = set(ids)
    found = []
    for summary in sorted(summaries, key=lambda one: one.level):
        if summary.id in gone or gone.intersection(summary.parts):
            gone.add(summary.id)
            found.append(summary)
    return found


def _shared(message: Message) -> Shared:
    kinds = [one.content_type.partition("/")[0] for one in message.attachments]
    images, voices = kinds.count("image"), sum(one.duration_s is not None for one in message.attachments)
    return Shared(images, voices, len(kinds) - images - voices)
