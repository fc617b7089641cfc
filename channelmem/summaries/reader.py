"""The summaries of a channel that may be shown. In: a channel and its policy. Out: summaries on all levels.

Redis leaves out what was removed; what this process could not tell Redis yet is left out here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import Final

from channelmem.display import counted, plain_name
from channelmem.policy.policy import Policy
from channelmem.store.outbox import Withdrawn
from channelmem.store.redis import reads
from channelmem.store.summaries import SummaryStore
from channelmem.summaries.extractive import of_lines
from channelmem.summaries.pyramid import (
    READ_BEFORE,
    Summary,
    affected_by,
    from_document,
    roots,
    silence,
    with_all_above,
)
from channelmem.telling.block import plain_words
from channelmem.types import Message


class SummaryReader:
    def __init__(self, store: SummaryStore, window_s: float) -> None:
        self._store, self._window_s = store, window_s

    @reads
    async def read(
        self, guild_id: int, channel_id: int, policy: Policy, since: float | None = None
    ) -> tuple[Summary, ...]:
        """Those that begin at `since` or later, or in the window that it divides, oldest first, in one round trip; none
        where the policy wants none."""
        if not (policy.enabled and policy.summaries):
            return ()
        withdrawn = self._store.withdrawn()
        start = None if since is None else since - self._window_s
        documents = await self._store.since(guild_id, channel_id, start, policy)
        return _shown(map(from_document, documents), guild_id, channel_id, withdrawn)

    @reads
    async def standing(self, guild_id: int, channel_id: int, ids: Iterable[str], policy: Policy) -> dict[str, Summary]:
        """These summaries as they are now, by id; without those that went."""
        withdrawn = self._store.withdrawn()
        documents = await self._store.some(guild_id, channel_id, ids, policy)
        return {one.id: one for one in _shown(map(from_document, documents), guild_id, channel_id, withdrawn)}


def _shown(summaries: Iterable[Summary], guild_id: int, channel_id: int, withdrawn: Withdrawn) -> tuple[Summary, ...]:
    found = tuple(summaries)
    if not withdrawn:
        return found
    messages, floor = withdrawn.hidden_in(guild_id, channel_id)
    hit = {one.id for one in affected_by(found, messages)}
    hit |= {
        one.id
        for one in found
        if one.start <= floor or withdrawn.hides_any(guild_id, (person.id for person in one.authors))
    }
    hidden = {one.id for one in with_all_above(found, hit)}
    return tuple(one for one in found if one.id not in hidden)


# --- cover ---


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

    text: str = ""  # a summary with its header, or a line of silence
    summary: Summary | None = None
    raw: int | None = None  # the position of a raw line among those passed in


@dataclass(frozen=True, slots=True)
class Cover:
    """What to show, oldest first, one piece per line or lines of its own, and what there was no room for."""

    pieces: tuple[Piece, ...] = ()
    dropped: tuple[Summary, ...] = ()
    """Summaries left out, oldest first. From level 4 on, that is much of the past: worth a warning in the log."""
    dropped_raw: tuple[int, ...] = ()  # positions of raw lines left out

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


# --- past ---


@dataclass(frozen=True, slots=True)
class PastBlock:
    """The summaries that are shown, and those that had no room."""

    text: str = ""
    summaries: tuple[Summary, ...] = ()
    dropped: tuple[Summary, ...] = ()


@dataclass(frozen=True, slots=True)
class Breakdown:
    """What a language model is given of a channel's past, in numbers."""

    summaries: tuple[Summary, ...] = ()  # shown, oldest first
    raw: int = 0  # recent messages shown as they were written
    chars: int = 0  # of the whole block
    limit: int = 0  # how many characters it may have
    dropped: tuple[Summary, ...] = ()  # had no room, oldest first
    dropped_raw: int = 0

    @property
    def levels(self) -> dict[int, int]:
        """How many summaries are shown by level, lowest first."""
        levels = [one.level for one in self.summaries]
        return {level: levels.count(level) for level in sorted(set(levels))}


def past(
    summaries: Collection[Summary], raw: Collection[Message], *, start: float | None, now: float, tz: tzinfo, limit: int
) -> PastBlock:
    """As much of the past since `start` as fits; `raw` is what else is shown of the channel."""
    kept = _untold(_since(summaries, start), {one.id for one in raw})
    found = cover([_safe(one) for one in kept], (), now=now, tz=tz, limit=limit)
    if not found.summaries:
        return PastBlock(dropped=found.dropped)
    text = found.text(())
    first = min((one.ts for one in raw if one.ts > found.summaries[-1].end), default=now)
    gap = silence(first - found.summaries[-1].end)
    text = f"{text}\n{gap}" if gap and len(text) + 1 + len(gap) <= limit else text
    return PastBlock(text, found.summaries, found.dropped)


def _since(summaries: Iterable[Summary], start: float | None) -> list[Summary]:
    """Those that begin at `start` or later; of a window that it divides, what was said later."""
    kept = []
    for one in summaries:
        if start is None or one.start >= start:
            kept.append(one)
        elif one.level == 1 and one.end >= start and any(line.ts >= start for line in one.lines):
            lines = tuple(line for line in one.lines if line.ts >= start)
            at = [origin.id for origin in one.origins].index(lines[0].message_id)
            later = replace(of_lines(one, lines), start=lines[0].ts, origins=one.origins[at:])
            kept.append(replace(later, message_count=len(later.origins)))
    return kept


def _untold(summaries: Collection[Summary], told: set[int]) -> list[Summary]:
    """Without what is told: its windows lose lines or go, and what was combined of them makes way for its parts. A text
    that a language model wrote can't be divided; it stays while it has something that is not told."""
    kept = []
    touched: set[str] = set()
    for one in sorted(summaries, key=lambda one: one.level):
        if one.level > 1:
            touched |= {one.id} if touched.intersection(one.parts) else set()
            kept += [one] if one.id not in touched else []
            continue
        left = tuple(origin for origin in one.origins if origin.id not in told)
        if len(left) == len(one.origins):
            kept.append(one)
            continue
        touched.add(one.id)
        lines = tuple(line for line in one.lines if line.message_id not in told)
        if left and lines:
            kept.append(replace(of_lines(one, lines), end=lines[-1].ts, origins=left, message_count=len(left)))
        elif left and not one.lines:
            kept.append(one)
    return kept


def _safe(summary: Summary) -> Summary:
    text, topics = _safe_text(summary.text, summary.topics)
    return replace(summary, text=text, topics=topics)


@lru_cache(maxsize=READ_BEFORE)
def _safe_text(text: str, topics: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    lines = "\n".join(f"  {plain_words(line)}" for line in text.splitlines())
    return lines, tuple(map(plain_name, topics))


def forget_read() -> None:
    """Empties the cache: removed words must not stay in memory."""
    _safe_text.cache_clear()
