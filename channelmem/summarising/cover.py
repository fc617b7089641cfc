"""A channel's past within a number of characters: summaries, then what was said since. Enters: all summaries, and the
raw lines by time and size. Leaves: a `Cover`, what to show in order and what had no room.

No two pieces overlap. It begins with the roots of the pyramid, which are coarse far back and fine near the present, and
splits summaries into their halves while there is room. More room only ever splits further. Where the roots do not fit,
the oldest summaries are dropped, then the oldest raw lines.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Final

from channelmem.summarising.pyramid import Summary, roots, silence
from channelmem.telling.quote import counted

CONTEXT_CHARS: Final = 10_000
NEARNESS: Final = 0.25
"""How much more the near past counts than the far: 0 splits the largest summary first, so that all are equally fine; 1
splits by the share of a summary in what was said since it began. See docs/summaries.md for the measurement."""


@dataclass(frozen=True, slots=True)
class RawLine:
    """A message as the caller will show it: when it was sent, and how many characters its line has."""

    ts: float
    chars: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the context: one of the three."""

    text: str = ""
    """A summary with its header, or a line of silence."""
    summary: Summary | None = None
    raw: int | None = None
    """The position of a raw line among those passed in."""


@dataclass(frozen=True, slots=True)
class Cover:
    """What to show, oldest first, one piece per line or lines of its own, and what there was no room for."""

    pieces: tuple[Piece, ...] = ()
    dropped: tuple[Summary, ...] = ()
    """Summaries left out, oldest first. From level 4 on, that is much of the past: worth a warning in the log."""
    dropped_raw: tuple[int, ...] = ()
    """Positions of raw lines left out."""

    @property
    def summaries(self) -> tuple[Summary, ...]:
        return tuple(piece.summary for piece in self.pieces if piece.summary is not None)

    @property
    def raw(self) -> tuple[int, ...]:
        return tuple(piece.raw for piece in self.pieces if piece.raw is not None)

    def text(self, raw: Sequence[str]) -> str:
        """All of it, given the raw lines."""
        return "\n".join(piece.text if piece.raw is None else raw[piece.raw] for piece in self.pieces)


def cover(
    summaries: Collection[Summary], raw: Sequence[RawLine], *, now: float, tz: tzinfo, limit: int = CONTEXT_CHARS
) -> Cover:
    """The finest cover of at most `limit` characters, line ends included. Raw lines may come in any order; what a
    summary already covers is left out of them, so that nothing is told twice."""
    tops = roots(summaries)
    lines = [(line.ts, at, line.chars) for at, line in enumerate(raw) if not any(_covers(top, line.ts) for top in tops)]
    items = [*(_Item(top.start, top.end, summary=top) for top in tops)]
    items += [_Item(ts, ts, raw=at, chars=chars) for ts, at, chars in sorted(lines)]
    draft = _Draft(sorted(items, key=lambda item: (item.start, item.raw or 0)), now, tz)
    draft.drop_until_fits(limit)
    draft.split_while_fits({one.id: one for one in summaries}, limit)
    return draft.result()


def header(summary: Summary, now: float, tz: tzinfo) -> str:
    """ "[summarized 30 messages from 14:00 to 14:29, topics: login, deploy]", with a date where it is not today's."""
    today = datetime.fromtimestamp(now, tz)
    start, end = (datetime.fromtimestamp(ts, tz) for ts in (summary.start, summary.end))
    first, last = f"{_date(start, today)}{start:%H:%M}", f"{_date(end, start)}{end:%H:%M}"
    span = f"from {first} to {last}" if summary.message_count > 1 else f"from {first}"
    about = f", topics: {', '.join(summary.topics)}" if summary.topics else ""
    return f"[summarized {counted(summary.message_count, 'message')} {span}{about}]"


def _date(moment: datetime, known: datetime) -> str:
    """ "17 Mar " unless that day is known, with the year unless that is."""
    if moment.date() == known.date():
        return ""
    return f"{moment.day} {moment:%b} " if moment.year == known.year else f"{moment.day} {moment:%b %Y} "


def _covers(summary: Summary, ts: float) -> bool:
    return summary.start <= ts <= summary.end


@dataclass(frozen=True, slots=True)
class _Item:
    """A summary or a raw line in order of time."""

    start: float
    end: float
    summary: Summary | None = None
    raw: int | None = None
    chars: int = 0
    dropped: bool = False


class _Draft:
    """Everything in order of time, dropped things included: silence is only named where nothing was left out."""

    def __init__(self, items: list[_Item], now: float, tz: tzinfo) -> None:
        self._items = items
        self._now, self._tz = now, tz
        self._texts: dict[str, str] = {}

    def drop_until_fits(self, limit: int) -> None:
        """The oldest summaries go first, then the oldest raw lines."""
        order = [at for at, item in enumerate(self._items) if item.summary is not None]
        order += [at for at, item in enumerate(self._items) if item.summary is None]
        # Dropping something never adds to the size, so the fewest can be found by halving.
        fewest = bisect_left(
            range(len(order)), True, key=lambda count: self._size(self._without(order[:count])) <= limit
        )
        self._items = self._without(order[:fewest])

    def split_while_fits(self, known: Mapping[str, Summary], limit: int) -> None:
        """Splits the summary that is coarsest for its age, again and again, until the next one has no room."""
        while True:
            at = self._next_split(known)
            if at is None:
                return
            parts = _parts(self._items[at].summary, known)
            split = [*self._items[:at], *(_Item(one.start, one.end, one) for one in parts), *self._items[at + 1 :]]
            if self._size(split) > limit:
                return
            self._items = split

    def result(self) -> Cover:
        return Cover(
            tuple(self._pieces(self._items)),
            tuple(item.summary for item in self._items if item.dropped and item.summary is not None),
            tuple(item.raw for item in self._items if item.dropped and item.raw is not None),
        )

    def _without(self, places: Sequence[int]) -> list[_Item]:
        items = list(self._items)
        for at in places:
            items[at] = replace(items[at], dropped=True)
        return items

    def _next_split(self, known: Mapping[str, Summary]) -> int | None:
        best, found, newer = 0.0, None, 0
        for at in range(len(self._items) - 1, -1, -1):
            item = self._items[at]
            if item.summary is None:
                continue
            windows = 2 ** (item.summary.level - 1)
            newer += windows
            coarse = windows / newer**NEARNESS
            if not item.dropped and coarse > best and _gains(item.summary, known):
                best, found = coarse, at
        return found

    def _size(self, items: Sequence[_Item]) -> int:
        shown = [len(piece.text) if piece.raw is None else 0 for piece in self._pieces(items)]
        raw = sum(item.chars for item in items if item.raw is not None and not item.dropped)
        return sum(shown) + raw + max(len(shown) - 1, 0)

    def _pieces(self, items: Sequence[_Item]) -> list[Piece]:
        found: list[Piece] = []
        before: _Item | None = None
        for item in items:
            if not item.dropped:
                if before is not None and not before.dropped and (gap := silence(item.start - before.end)):
                    found.append(Piece(gap))
                found.append(Piece(self._text(item.summary), item.summary) if item.summary else Piece(raw=item.raw))
            before = item
        return found

    def _text(self, summary: Summary) -> str:
        if summary.id not in self._texts:
            told = (header(summary, self._now, self._tz), summary.text)
            self._texts[summary.id] = "\n".join(filter(None, told))
        return self._texts[summary.id]


def _parts(summary: Summary | None, known: Mapping[str, Summary]) -> tuple[Summary, ...]:
    """The halves, if both are there."""
    parts = tuple(known[one] for one in summary.parts if one in known) if summary else ()
    return parts if len(parts) == 2 else ()


def _gains(summary: Summary, known: Mapping[str, Summary]) -> bool:
    """Whether its halves say more than it does: a few lines that all found room need no second header."""
    parts = _parts(summary, known)
    if summary.lines:
        return len(summary.lines) < sum(len(part.lines) for part in parts)
    return len(summary.text) < sum(len(part.text) for part in parts)
