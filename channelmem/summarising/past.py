"""A channel's past for a language model. In: its visible summaries, and what is shown as it was written. Out: the
summaries that fit beside that, as text.

Nothing is told twice: lines of messages that are shown as they are leave their summary. Whatever people wrote stays
inside an indented line, so it can't look like a header, and nothing in it can be read as a tag.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import lru_cache

from channelmem.summarising.cover import cover
from channelmem.summarising.documents import READ_BEFORE
from channelmem.summarising.extractive import of_lines
from channelmem.summarising.pyramid import Summary, silence
from channelmem.telling.assemble import plain_words
from channelmem.telling.quote import plain_name
from channelmem.types import Message


@dataclass(frozen=True, slots=True)
class PastBlock:
    """The summaries that are shown, and those that had no room."""

    text: str = ""
    summaries: tuple[Summary, ...] = ()
    dropped: tuple[Summary, ...] = ()


@dataclass(frozen=True, slots=True)
class Breakdown:
    """What a language model is given of a channel's past, in numbers."""

    summaries: tuple[Summary, ...] = ()
    """Shown, oldest first."""
    raw: int = 0
    """Recent messages shown as they were written."""
    chars: int = 0
    """Of the whole block."""
    limit: int = 0
    """How many characters it may have."""
    dropped: tuple[Summary, ...] = ()
    """Had no room, oldest first."""
    dropped_raw: int = 0

    @property
    def levels(self) -> dict[int, int]:
        """How many summaries are shown by level, lowest first."""
        levels = [one.level for one in self.summaries]
        return {level: levels.count(level) for level in sorted(set(levels))}


def past(
    summaries: Collection[Summary],
    raw: Collection[Message],
    *,
    start: float | None,
    now: float,
    tz: tzinfo,
    limit: int,
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
