"""Windows of conversation and the pyramid of summaries above them. A window is 30 minutes on the UTC wall clock (smart
sizes cut a busy one in two and join quiet ones); once closed, it never changes its bounds. Each window has a summary of
level 1, and two neighbours of one level are combined into one of the next."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Final

from channelmem.display import counted, listed, plain_name
from channelmem.durations import DAY_S, HOUR_S, MINUTE_S
from channelmem.types import Message, Origin, Person

WINDOW_MINUTES: Final = 30
_DAY_MINUTES: Final = round(DAY_S / MINUTE_S)

READ_BEFORE = 4_096  # summaries kept parsed: the next question reads the same ones. Equal bytes are the same summary.

SILENCE_S: Final = HOUR_S  # longer gaps are named
_IN_DAYS_S: Final = 2 * DAY_S


@dataclass(frozen=True, slots=True)
class SmartSizes:
    """Half of a window where much is said, twice its size where little is."""

    busy: int = 60  # a window with more messages than this is cut in two
    quiet: int = 5  # two windows with at most this many messages together are one


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """A stretch of time that is over, with its messages, oldest first; never empty."""

    start: float
    end: float  # excluded
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
        doubles: dict[float, list[ClosedWindow]] = defaultdict(list)
        for window in windows:
            doubles[window.start // (2 * size_s) * 2 * size_s].append(window)
        windows = [one for start, some in doubles.items() for one in _double(start, some, now, size_s, smart)]
    return tuple(window for window in windows if window.end <= now)


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


def to_document(summary: Summary) -> str:
    document: dict[str, Any] = {
        "level": summary.level,
        "start": repr(summary.start),
        "end": repr(summary.end),
        "text": summary.text,
        "topics": summary.topics,
        "message_count": summary.message_count,
        "authors": [{"id": str(one.id), "name": one.name} for one in summary.authors],
        "model": summary.model,
        "created": repr(summary.created),
    }
    if summary.parts:
        document["parts"] = summary.parts
    else:
        channel_ids = {one.channel_id for one in summary.origins}
        messages = [{"id": str(one.id), "revision": repr(one.revision)} for one in summary.origins]
        document |= {"channel": str(*channel_ids), "messages": messages}
    if summary.lines:
        document["lines"] = [
            {"message": str(one.message_id), "author": str(one.author_id), "ts": repr(one.ts), "weight": one.weight}
            | {"text": one.text}
            for one in summary.lines
        ]
    if summary.shared != Shared():
        document["shared"] = asdict(summary.shared)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=READ_BEFORE)
def from_document(document: bytes) -> Summary:
    read = json.loads(document)
    channel_id = int(read.get("channel", 0))
    names = {one["id"]: _plain(one["name"]) for one in read["authors"]}
    return Summary(
        level=int(read["level"]),
        start=float(read["start"]),
        end=float(read["end"]),
        text=read["text"],
        message_count=int(read["message_count"]),
        authors=tuple(Person(int(one["id"]), one["name"]) for one in read["authors"]),
        topics=tuple(read["topics"]),
        model=read["model"],
        created=float(read["created"]),
        origins=tuple(Origin(channel_id, int(one["id"]), float(one["revision"])) for one in read.get("messages", ())),
        parts=tuple(read.get("parts", ())),
        lines=tuple(_line(one, names) for one in read.get("lines", ())),
        shared=Shared(**read.get("shared", {})),
    )


def forget_read() -> None:
    """Empties the cache: removed words must not stay in memory."""
    from_document.cache_clear()
    _plain.cache_clear()


_plain = lru_cache(maxsize=1_024)(plain_name)  # the same people are named in every summary of a channel


def _line(read: Mapping[str, Any], names: Mapping[str, str]) -> SummaryLine:
    return SummaryLine(
        int(read["message"]),
        int(read["author"]),
        names.get(read["author"], ""),
        float(read["ts"]),
        read["text"],
        float(read["weight"]),
    )


@dataclass(frozen=True, slots=True)
class SummaryLine:
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
        return Shared(self.images + other.images, self.voice_messages + other.voice_messages, self.files + other.files)

    def __str__(self) -> str:
        """ "[3 images shared]"; empty if there is nothing."""
        kinds = (("image", self.images), ("voice message", self.voice_messages), ("file", self.files))
        parts = [counted(count, noun) for noun, count in kinds if count]
        return f"[{listed(parts)} shared]" if parts else ""


@dataclass(frozen=True, slots=True)
class Summary:
    """A stretch of a channel in few words, and what it came from."""

    level: int
    start: float  # when its first message was sent
    end: float  # when its last message was sent
    text: str
    """Without a header. In an extractive summary every line begins with a name, or is ours in square brackets."""
    message_count: int
    authors: tuple[Person, ...]  # by first appearance, with the name they had last
    topics: tuple[str, ...]
    model: str
    created: float
    origins: tuple[Origin, ...] = ()  # level 1: the messages of its window
    parts: tuple[str, ...] = ()  # higher levels: the ids of the two summaries it came from, the older first
    lines: tuple[SummaryLine, ...] = ()  # what an extractive summary keeps; empty where a language model wrote the text
    shared: Shared = Shared()

    @property
    def id(self) -> str:
        """The same for the same stretch and level, however often it is made: "1-1800000000000-1800001740000"."""
        # Rounded down, so that it never leaves its window.
        return f"{self.level}-{math.floor(self.start * 1000)}-{math.floor(self.end * 1000)}"

    def origin_in(self, channel_id: int) -> Origin:
        """It counts as one source, under a number that no message has: its messages may have expired."""
        return Origin(channel_id, -(math.floor(self.start * 1000) * 100 + self.level), self.created)


def from_id(name: str) -> Summary:
    """A summary of which only its place in the pyramid is known: enough for roots, pairs and plans."""
    level, start, end = name.split("-")
    return Summary(int(level), int(start) / 1000, int(end) / 1000, "", 0, (), (), "", 0.0)


def roots(summaries: Iterable[Summary]) -> tuple[Summary, ...]:
    """Those that no other one contains, oldest first; they never overlap."""
    tops: list[Summary] = []
    for summary in sorted(summaries, key=lambda one: (one.start, -one.end, -one.level)):
        if not tops or summary.start > tops[-1].end:
            tops.append(summary)
    return tuple(tops)


def pairs(summaries: Iterable[Summary]) -> tuple[tuple[Summary, Summary], ...]:
    """Neighbours to combine next, the older first. After combining them there may be new ones: repeat until none.
    The lowest level comes first: a summary that is being made again must find the neighbour it had before."""
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


def halves(summary: Summary, known: Mapping[str, Summary]) -> tuple[Summary, ...]:
    """The two summaries it came from, if both are there."""
    found = tuple(known[one] for one in summary.parts if one in known)
    return found if len(found) == 2 else ()


def reaching(summaries: Iterable[Summary], windows: Sequence[ClosedWindow]) -> list[Summary]:
    """Those that reach into any of these windows; whatever is above such a one reaches there, too."""
    return [one for one in summaries if any(one.start < window.end and one.end >= window.start for window in windows)]


def missing(summaries: Collection[Summary], windows: Sequence[ClosedWindow]) -> tuple[ClosedWindow, ...]:
    """Windows to be summarised, oldest first: they have a message, or a revision of one, that no summary knows. So do
    those into which a summary of such a window reaches, because that one goes (the window size was changed, or a window
    that was empty lies between two that were paired)."""
    kept = list(summaries)
    while True:
        known = {origin for summary in kept for origin in summary.origins}
        found = [window for window in windows if any(one.origin not in known for one in window.messages)]
        outdated = {one.id for one in reaching(kept, found)}
        if not outdated:
            return tuple(found)
        gone = {one.id for one in with_all_above(kept, outdated)}
        kept = [one for one in kept if one.id not in gone]


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
    size, unit = (DAY_S, "days") if gap_s >= _IN_DAYS_S else (HOUR_S, "hours")
    return f"[{gap_s / size:.1f} {unit} of silence]"


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
