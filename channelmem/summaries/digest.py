"""A stretch of a channel for people to read: a few parts in order of time, each with when it was, how much was said,
about what, and a link to where it began. Neighbours are merged while there are too many, and split while there is
room."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Final

from channelmem.display import Phrasing, clock_time, counted, flatten, name, quoted, safe
from channelmem.durations import HOUR_S
from channelmem.summaries.extractive import MODEL, combine, lines_of, shortened, summarise
from channelmem.summaries.pyramid import ClosedWindow, Summary, halves, roots, window_start
from channelmem.types import Message, Origin

MOST_PARTS: Final = 5
PART_CHARS: Final = 350  # a part needs about this much room for its times, its link and some words
LEAST_SPLIT: Final = 8  # a part of fewer messages is not split
PAUSE_S: Final = 4 * HOUR_S  # parts with a longer pause between them are merged last
LEAST_CHARS: Final = 80  # of people's words in a part

Link = Callable[[Origin], str]  # a link to a message; empty if there is none


@dataclass(frozen=True, slots=True)
class Part:
    summary: Summary
    first: Origin | None  # the message it begins with


@dataclass(frozen=True, slots=True)
class Digest:
    parts: tuple[Part, ...] = ()

    @property
    def message_count(self) -> int:
        return sum(part.summary.message_count for part in self.parts)

    @property
    def message_ids(self) -> frozenset[int]:
        """The messages whose words it may quote."""
        return frozenset(line.message_id for part in self.parts for line in part.summary.lines)


def parts_within(limit: int) -> int:
    """How many parts can be told in so many characters."""
    return max(1, min(MOST_PARTS, limit // PART_CHARS))


def digest(
    summaries: Collection[Summary], messages: Sequence[Message], *, now: float, most: int = MOST_PARTS
) -> Digest:
    """`messages` are the raw ones of the stretch, in any order; those that a summary covers are left out."""
    known = {one.id: one for one in summaries}
    tops = roots(summaries)
    left = (one for one in messages if not any(top.start <= one.ts <= top.end for top in tops))
    raw = sorted(left, key=lambda one: (one.ts, one.id))
    found = [Part(top, _first(top, known)) for top in tops]
    found += [_part_of(tuple(some), now) for _, some in groupby(raw, key=lambda one: window_start(one.ts))]
    parts = sorted(found, key=lambda part: part.summary.start)
    return Digest(tuple(_split(_merged(parts, most, now), known, most)))


def told(digest_: Digest, phrasing: Phrasing, limit: int, link: Link) -> Iterator[str]:
    """The lines of an answer, the heading first."""
    first, last = digest_.parts[0].summary, digest_.parts[-1].summary
    count = counted(digest_.message_count, "message")
    many = f", in {len(digest_.parts)} parts" if len(digest_.parts) > 1 else ""
    heading = f"{count} {_span(first.start, last.end, phrasing)}{many}:"
    yield heading
    heads = [_head(part.summary, phrasing) for part in digest_.parts]
    links = [link(part.first) if part.first else "" for part in digest_.parts]
    overhead = len(heading) + sum(len(head) + len(url) + 3 for head, url in zip(heads, links, strict=True))
    room = max(LEAST_CHARS, (limit - overhead) // len(digest_.parts))
    for part, head, url in zip(digest_.parts, heads, links, strict=True):
        yield " ".join(filter(None, (head, _words(part.summary, phrasing, room), url)))


def _part_of(messages: tuple[Message, ...], now: float) -> Part:
    """Messages of a window that has no summary."""
    window = ClosedWindow(messages[0].ts, messages[-1].ts, messages)
    return Part(summarise(window, created=now), messages[0].origin)


def _first(summary: Summary, known: Mapping[str, Summary]) -> Origin | None:
    """Where it began: down its older halves to a window."""
    while summary.parts:
        older = known.get(summary.parts[0])
        if older is None:
            return None
        summary = older
    return summary.origins[0] if summary.origins else None


def _merged(parts: list[Part], most: int, now: float) -> list[Part]:
    def cost(older: Summary, newer: Summary) -> tuple[bool, int]:
        return newer.start - older.end > PAUSE_S, older.message_count + newer.message_count

    while len(parts) > most:
        at = min(range(len(parts) - 1), key=lambda place: cost(parts[place].summary, parts[place + 1].summary))
        older, newer = parts[at : at + 2]
        parts[at : at + 2] = [Part(combine(older.summary, newer.summary, created=now), older.first)]
    return parts


def _split(parts: list[Part], known: Mapping[str, Summary], most: int) -> list[Part]:
    while len(parts) < most:
        able = [at for at, part in enumerate(parts) if _worth_telling_apart(part.summary, known)]
        if not able:
            break
        at = max(able, key=lambda place: parts[place].summary.message_count)
        parts[at : at + 1] = [Part(one, _first(one, known)) for one in _worth_telling_apart(parts[at].summary, known)]
    return parts


def _worth_telling_apart(summary: Summary, known: Mapping[str, Summary]) -> tuple[Summary, ...]:
    return halves(summary, known) if summary.message_count >= LEAST_SPLIT else ()


def _head(summary: Summary, phrasing: Phrasing) -> str:
    topics = f" about {', '.join(safe(flatten(topic)) for topic in summary.topics[:3])}" if summary.topics else ""
    return f"- {_span(summary.start, summary.end, phrasing)}, {counted(summary.message_count, 'message')}{topics}:"


def _span(start: float, end: float, phrasing: Phrasing) -> str:
    """ "from yesterday 09:02 to 17:40", "from 11 January 08:00 to today 16:45"; a day is named once."""
    first, last = clock_time(start, phrasing), clock_time(end, phrasing)
    days = [datetime.fromtimestamp(ts, phrasing.tz).date() for ts in (start, end)]
    clock = f"{datetime.fromtimestamp(end, phrasing.tz):%H:%M}"
    if days[0] == days[1]:
        return f"at {first}" if first.endswith(clock) else f"from {first} to {clock}"
    return f"from {first} to {f'today {last}' if last == clock else last}"


def _words(summary: Summary, phrasing: Phrasing, room: int) -> str:
    """What was said, with who said it; what a language model wrote is nobody's."""
    fitting = shortened(summary, room)
    if summary.model != MODEL and not summary.lines:
        return safe(flatten(fitting.text))
    lines = lines_of(fitting)
    spoken = [f"{_who(line.author_id, line.author, phrasing)}: {quoted(line.text, room)}" for line in lines]
    spoken += [str(fitting.shared)] if str(fitting.shared) else []
    while len(spoken) > 1 and len("; ".join(spoken)) > room:  # names and quotation marks take room, too
        spoken.pop()
    if len(spoken) == 1 and lines and len(spoken[0]) > room:
        who = _who(lines[0].author_id, lines[0].author, phrasing)
        return f"{who}: {quoted(lines[0].text, max(1, room - len(who) - 4))}"
    return "; ".join(spoken)


def _who(author_id: int, author: str, phrasing: Phrasing) -> str:
    if author_id == phrasing.question.asker_id:
        return "you"
    return phrasing.called(author_id, author) if author else name(author)
