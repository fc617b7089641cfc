"""A channel's messages as rows, with threads as rails beside them, and its summaries as a pyramid.

A thread has one lane from its first to its last message, like a branch in a drawing of a repository's history. Threads
that are over make room for others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import tzinfo
from typing import Any, Final

from channelmem.display import counted, cut, flatten, named
from channelmem.policy.policy import Policy
from channelmem.summaries.pyramid import Summary
from channelmem.telling.block import build
from channelmem.types import Attachment, Message, Stored
from channelmem.web.templating import clock, day, left, short_day, size

LANES: Final = 6
"""More threads at the same time share the last lane."""
COLOURS: Final = 8


@dataclass(frozen=True, slots=True)
class Rail:
    """`newer` and `older` say whether the thread goes on upwards or downwards from this message."""

    lane: int = 0
    colour: int = 0
    newer: bool = False
    older: bool = False
    passing: tuple[tuple[int, int], ...] = ()
    """Lane and colour of other threads that pass by."""


@dataclass(slots=True)
class _Track:
    first: int
    last: int
    lane: int = 0
    colour: int = 0


def rails(messages: Sequence[Message]) -> list[Rail]:
    place = {message.id: at for at, message in enumerate(messages)}
    forest = build(messages, max_threads=len(messages), max_messages=len(messages))
    tracks = [
        _Track(min(rows), max(rows))
        for thread in forest.threads
        if (rows := [place[message.id] for message in thread.messages])
    ]
    track_of = {
        place[message.id]: track
        for thread, track in zip(forest.threads, tracks, strict=True)
        for message in thread.messages
    }
    _lay_out(tracks, messages, track_of)
    return [_rail(at, track_of[at], tracks) for at in range(len(messages))]


def _lay_out(tracks: list[_Track], messages: Sequence[Message], track_of: dict[int, _Track]) -> None:
    """The leftmost free lane, from the oldest thread on, so that new messages do not move old threads."""
    taken: list[_Track] = []
    for track in sorted(tracks, key=lambda one: -one.last):
        taken = [one for one in taken if one.first <= track.last]
        used = {one.lane for one in taken}
        track.lane = next((lane for lane in range(LANES) if lane not in used), LANES - 1)
        taken.append(track)
    for at, track in track_of.items():
        if at == track.last:
            track.colour = _colour(messages[at].id)  # of the thread's first message: stays when others come


def _colour(message_id: int) -> int:
    """Spread evenly: the low bits of Discord's ids are nearly always the same (Fibonacci hashing)."""
    return (message_id * 0x9E37_79B9_7F4A_7C15 & 0xFFFF_FFFF_FFFF_FFFF) >> 61


def _rail(at: int, own: _Track, tracks: Sequence[_Track]) -> Rail:
    passing = {
        one.lane: one.colour for one in tracks if one is not own and one.first < at < one.last and one.lane != own.lane
    }
    return Rail(own.lane, own.colour, own.first < at, at < own.last, tuple(sorted(passing.items())))


# --- pyramid ---


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


# --- timeline ---


REPLY_CHARS: Final = 80
NAME_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class FileRow:
    name: str
    facts: str
    """Kind and size."""
    text: str
    """What is known of its content."""


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    author: str
    text: str
    clock: str
    day: str
    state: str
    """pending or embedded."""
    left: str
    """How long it will live."""
    share: int
    """The same in percent of a whole life."""
    flag: str
    """own, addressed, or nothing."""
    edited: bool
    buffered: bool
    """Whether it is in the rolling buffer; else it is only in the archive."""
    reply_id: str
    reply: str
    rail: Rail
    files: tuple[FileRow, ...]


BLANK: Final = Row("", "", "", "", "", "", "", 0, "", False, False, "", "", Rail(), ())
"""For the template that the script copies."""


def rows(stored: Sequence[Stored], policy: Policy, now: float, place: int = 0) -> list[Row]:
    """`place` is how many newer messages there are before these."""
    messages = [one.message for one in stored]
    people = {one.author_id: one.author for one in messages}
    known = {one.id: one for one in messages}
    return [
        _row(one, rail, policy, people, known.get(one.message.reply_to or 0), _buffered(one, policy, now, place + at))
        for at, (one, rail) in enumerate(zip(stored, rails(messages), strict=True))
    ]


def as_json(shown: Sequence[Row], **facts: Any) -> dict[str, Any]:
    """With a version that changes whenever anything does."""
    body = {"rows": [asdict(row) for row in shown], "lanes": lanes(shown), **facts}
    return body | {"version": hashlib.sha256(json.dumps(body).encode()).hexdigest()[:16]}


def lanes(shown: Sequence[Row]) -> int:
    """How many lanes the rails need side by side."""
    return 1 + max((row.rail.lane for row in shown), default=0)


def _buffered(one: Stored, policy: Policy, now: float, place: int) -> bool:
    return place < policy.limits.max_messages and now - one.message.ts <= policy.limits.buffer_s


def _row(
    one: Stored, rail: Rail, policy: Policy, people: Mapping[int, str], answered: Message | None, buffered: bool
) -> Row:
    message = one.message
    return Row(
        id=str(message.id),
        author=_name(message.author),
        text=named(message.content, people),
        clock=clock(message.ts, policy.tz),
        day=day(message.ts, policy.tz),
        state="embedded" if one.embedded else "pending",
        left=left(one.ttl_s),
        share=max(1, min(100, round(100 * one.ttl_s / policy.limits.lifetime_s))),
        flag="own" if message.own else "addressed" if message.addressed else "",
        edited=message.revision > 0,
        buffered=buffered,
        reply_id=str(answered.id) if answered else "",
        reply=f"{_name(answered.author)}: {cut(flatten(answered.content), REPLY_CHARS)}" if answered else "",
        rail=rail,
        files=tuple(map(_file, message.attachments)),
    )


def _name(name: str) -> str:
    return cut(flatten(name), NAME_CHARS) or "somebody"


def _file(one: Attachment) -> FileRow:
    kind = one.content_type.partition(";")[0] or "file"
    facts = f"{kind}, {size(one.size)}" if one.size else kind
    return FileRow(_name(one.name or "attachment"), flatten(facts), flatten(one.text or one.alt))
