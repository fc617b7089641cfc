"""The summaries of a channel that may be shown, and as many of them as fit into a language model's context. Redis
leaves out what was removed; what this process could not tell Redis yet is left out here."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import Final

from channelmem.display import counted, plain_name
from channelmem.policy.policy import Policy
from channelmem.store.derived import SummaryStore
from channelmem.store.outbox import Withdrawn
from channelmem.store.redis import reads
from channelmem.summaries.extractive import of_lines
from channelmem.summaries.pyramid import (
    READ_BEFORE,
    Summary,
    affected_by,
    from_document,
    halves,
    roots,
    silence,
    with_all_above,
)
from channelmem.telling.block import plain_words
from channelmem.types import Message

CONTEXT_CHARS: Final = 10_000
NEARNESS: Final = 0.25
"""How much more the near past counts than the far: 0 splits the largest summary first, so that all are equally fine; 1
splits by the share of a summary in what was said since it began. See docs/summaries.md for the measurement."""


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


def _shown(summaries: Iterable[Summary], guild_id: int, channel_id: int, withdrawn: Withdrawn) -> tuple[Summary, ...]:
    found = tuple(summaries)
    if not withdrawn.anything:
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


@dataclass(frozen=True, slots=True)
class PastBlock:
    """Summaries as one text, and those there was no room for; oldest first."""

    text: str = ""
    summaries: tuple[Summary, ...] = ()
    dropped: tuple[Summary, ...] = ()


def cover(summaries: Collection[Summary], *, now: float, tz: tzinfo, limit: int = CONTEXT_CHARS) -> PastBlock:
    """The finest cover of at most `limit` characters. The oldest are dropped until the coarsest cover fits; then the
    summary that is coarsest for its age is split, again and again, until the next one has no room."""
    known, tops = {one.id: one for one in summaries}, roots(summaries)
    texts: dict[str, str] = {}  # by id, with headers

    def text(shown: Sequence[Summary]) -> str:
        pieces: list[str] = []
        for at, summary in enumerate(shown):
            if summary.id not in texts:
                texts[summary.id] = "\n".join(filter(None, (header(summary, now, tz), summary.text)))
            gap = silence(summary.start - shown[at - 1].end) if at else ""
            pieces += filter(None, (gap, texts[summary.id]))
        return "\n".join(pieces)

    # Dropping something never adds to the size, so the fewest can be found by halving.
    fewest = bisect_left(range(len(tops)), True, key=lambda count: len(text(tops[count:])) <= limit)
    shown = list(tops[fewest:])
    while (at := _next_split(shown, known)) is not None:
        split = [*shown[:at], *halves(shown[at], known), *shown[at + 1 :]]
        if len(text(split)) > limit:
            break
        shown = split
    return PastBlock(text(shown), tuple(shown), tops[:fewest])


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


def _next_split(shown: Sequence[Summary], known: Mapping[str, Summary]) -> int | None:
    best, found, newer = 0.0, None, 0
    for at in range(len(shown) - 1, -1, -1):
        windows = 2 ** (shown[at].level - 1)
        newer += windows
        coarse = windows / newer**NEARNESS
        if coarse > best and _gains(shown[at], known):
            best, found = coarse, at
    return found


def _gains(summary: Summary, known: Mapping[str, Summary]) -> bool:
    """Whether its halves say more than it does: a few lines that all found room need no second header."""
    parts = halves(summary, known)
    if summary.lines:
        return len(summary.lines) < sum(len(part.lines) for part in parts)
    return len(summary.text) < sum(len(part.text) for part in parts)


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
    found = cover([_safe(one) for one in kept], now=now, tz=tz, limit=limit)
    if not found.summaries:
        return found
    end = found.summaries[-1].end
    gap = silence(min((one.ts for one in raw if one.ts > end), default=now) - end)
    fits = gap and len(found.text) + 1 + len(gap) <= limit
    return replace(found, text=f"{found.text}\n{gap}") if fits else found


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
    return replace(summary, text=_safe_text(summary.text), topics=tuple(map(plain_name, summary.topics)))


@lru_cache(maxsize=READ_BEFORE)
def _safe_text(text: str) -> str:
    return "\n".join(f"  {plain_words(line)}" for line in text.splitlines())


def forget_read() -> None:
    """Empties the cache: removed words must not stay in memory."""
    _safe_text.cache_clear()
