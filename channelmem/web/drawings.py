"""What the pages draw: messages of a channel as rows with threads as rails beside them, summaries as a pyramid, a map
on which messages that mean similar things lie close, and where the milliseconds of an answer went."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import tzinfo
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from channelmem.display import counted, cut, flatten, named
from channelmem.policy.policy import Policy
from channelmem.summaries.pyramid import Summary
from channelmem.telling.block import build
from channelmem.types import Attachment, Message, Stored, Timing
from channelmem.web.session import clock, day, left, short_day, size

# --- rails ---
# A thread has one lane from its first to its last message, like a branch in a drawing of a history of commits. Threads
# that are over make room for others.


LANES: Final = 6
"""More threads at the same time share the last lane."""


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
    colour: int
    lane: int = 0


def rails(messages: Sequence[Message]) -> list[Rail]:
    place = {message.id: at for at, message in enumerate(messages)}
    forest = build(messages, max_threads=len(messages), max_messages=len(messages))
    tracks: list[_Track] = []
    track_of: dict[int, _Track] = {}
    for thread in forest.threads:
        at = [place[message.id] for message in thread.messages]
        colour = _colour(messages[max(at)].id)  # of the thread's first message: stays when others come
        tracks.append(_Track(min(at), max(at), colour))
        track_of |= dict.fromkeys(at, tracks[-1])
    _lay_out(tracks)
    return [_rail(at, track_of[at], tracks) for at in range(len(messages))]


def _lay_out(tracks: Sequence[_Track]) -> None:
    """The leftmost free lane, from the oldest thread on, so that new messages do not move old threads."""
    taken: list[_Track] = []
    for track in sorted(tracks, key=lambda one: -one.last):
        taken = [one for one in taken if one.first <= track.last]
        used = {one.lane for one in taken}
        track.lane = next((lane for lane in range(LANES) if lane not in used), LANES - 1)
        taken.append(track)


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


def draw_pyramid(summaries: Sequence[Summary], tz: tzinfo) -> Drawing | None:
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
    shown = []
    for at, (one, rail) in enumerate(zip(stored, rails(messages), strict=True), place):
        buffered = at < policy.limits.max_messages and now - one.message.ts <= policy.limits.buffer_s
        shown.append(_row(one, rail, policy, people, known.get(one.message.reply_to or 0), buffered))
    return shown


def as_json(shown: Sequence[Row], **facts: Any) -> dict[str, Any]:
    """With a version that changes whenever anything does."""
    body = {"rows": [asdict(row) for row in shown], "lanes": lanes(shown), **facts}
    return body | {"version": hashlib.sha256(json.dumps(body).encode()).hexdigest()[:16]}


def lanes(shown: Sequence[Row]) -> int:
    """How many lanes the rails need side by side."""
    return 1 + max((row.rail.lane for row in shown), default=0)


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


def _name(name: str, most: int = NAME_CHARS) -> str:
    return cut(flatten(name), most) or "somebody"


def _file(one: Attachment) -> FileRow:
    kind = one.content_type.partition(";")[0] or "file"
    facts = f"{kind}, {size(one.size)}" if one.size else kind
    return FileRow(_name(one.name or "attachment"), flatten(facts), flatten(one.text or one.alt))


# --- map ---
# Its plane is the one that keeps most of what tells vectors apart (principal components). Two of 384 dimensions keep
# only a part of that, and the page says how much.


MESSAGES: Final = 400
MAP_HEIGHT, MARGIN = 560, 24
COLOURS: Final = 7
"""People with a colour of their own; all others share the last one."""
TEXT_CHARS: Final = 300
LABELS: Final = 28
LABEL_CHARS: Final = 26
CHAR_WIDTH, LINE_HEIGHT = 6.3, 15.0
"""Of a label, roughly: enough to keep them apart."""

Area = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, slots=True)
class Point:
    id: str
    x: float
    y: float
    colour: int
    author: str
    text: str
    time: str
    label: str = ""
    """The beginning of the text, where there is room for it."""


@dataclass(frozen=True, slots=True)
class Map:
    points: tuple[Point, ...]
    people: tuple[tuple[str, int, int], ...]
    """Name, colour and number of messages."""
    kept: int
    """Percent of the variance that the plane keeps."""
    width: int = WIDTH
    height: int = MAP_HEIGHT


def project(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float64], float]:
    """Two coordinates per row, and the share of the variance they keep."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    left, strength, _ = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((len(vectors), 2))
    found = min(2, len(strength))
    # The sign of a component is chance; fixed, the same channel looks the same every time.
    signs = np.sign(left[np.abs(left[:, :found]).argmax(axis=0), range(found)])
    plane[:, :found] = left[:, :found] * strength[:found] * np.where(signs == 0, 1, signs)
    total = float((strength**2).sum())
    return plane, float((strength[:2] ** 2).sum()) / total if total else 1.0


def draw_map(messages: Sequence[Message], vectors: NDArray[np.float32], tz: tzinfo) -> Map:
    """Messages and vectors in the same order; at least one."""
    plane, kept = project(vectors)
    low, span = plane.min(axis=0), np.ptp(plane, axis=0)
    scaled = (plane - low) / np.where(span > 0, span, 1.0) if len(plane) > 1 else np.full((1, 2), 0.5)
    spoken = Counter(message.author_id for message in messages)
    colours = {author: at for at, (author, _) in enumerate(spoken.most_common(COLOURS))}
    names = {message.author_id: _name(message.author, 40) for message in reversed(messages)}
    points = [
        Point(
            str(message.id),
            round(MARGIN + float(x) * (WIDTH - 2 * MARGIN), 1),
            round(MARGIN + float(y) * (MAP_HEIGHT - 2 * MARGIN), 1),
            colours.get(message.author_id, COLOURS),
            _name(message.author, 40),
            cut(flatten(named(message.content, names)), TEXT_CHARS),
            short_day(message.ts, tz),
        )
        for message, (x, y) in zip(messages, scaled, strict=True)
    ]
    people = [(names[author], colour, spoken[author]) for author, colour in colours.items()]
    if others := sum(count for author, count in spoken.items() if author not in colours):
        people.append(("others", COLOURS, others))
    return Map(tuple(_labelled(points)), tuple(people), round(100 * kept))


def _labelled(points: Sequence[Point]) -> list[Point]:
    """The newest first, each unless it would cover another label or a point."""
    taken = [(point.x - 7, point.y - 7, point.x + 7, point.y + 7) for point in points]
    shown: dict[int, str] = {}
    for at, point in enumerate(points):
        text = cut(point.text, LABEL_CHARS)
        left, top = point.x + 10, point.y - LINE_HEIGHT / 2
        box = (left, top, left + CHAR_WIDTH * len(text), top + LINE_HEIGHT)
        if len(shown) < LABELS and box[2] < WIDTH and not any(_overlap(box, other) for other in taken):
            shown[at] = text
            taken.append(box)
    return [replace(point, label=shown.get(at, "")) for at, point in enumerate(points)]


def _overlap(one: Area, other: Area) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


# --- waterfall ---


WATERFALL_WIDTH: Final = 480


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    what: str
    ms: float
    x: float
    width: float


def bars(ms: Timing) -> list[Bar]:
    """In order of time; what is not measured by itself (reading names, writing the answer) comes last."""
    total = max(ms.total, ms.route + ms.embed + ms.search, 0.001)
    steps = (
        ("route", "reads the question", ms.route),
        ("embed", "turns the topic into a vector", ms.embed),
        ("search", "reads and ranks messages, beyond the time of embedding", ms.search),
        ("rest", "knows the people, decides, writes the answer", max(0.0, total - ms.route - ms.embed - ms.search)),
    )
    found: list[Bar] = []
    at = 0.0
    for name, what, took in steps:
        x, width = WATERFALL_WIDTH * at / total, max(1.5, WATERFALL_WIDTH * took / total)
        found.append(Bar(name, what, took, round(x, 1), round(width, 1)))
        at += took
    return found
