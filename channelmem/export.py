"""Which stretch of time a command means, and what was said in it as a Markdown file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from channelmem.context_window import ReachError, reach_s
from channelmem.display import counted, flatten, name, named, safe
from channelmem.durations import WEEK_S
from channelmem.interface import ChannelMemory
from channelmem.summaries.pyramid import Summary
from channelmem.types import Message, Window

EXPORT_S: Final = WEEK_S
BACKWARDS: Final = "`from` is later than `to`. Swap them."

MOST_MESSAGES: Final = 20_000
_MARKS: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\<>[]"})


def back_from(now: float, text: str, tz: str) -> Window:
    """From what the text names until now; ReachError with a sentence for whoever typed it."""
    return Window(now - reach_s(text, now, tz), now)


def between(now: float, first: str, last: str, tz: str) -> Window:
    """Both may be empty: a week before the end, and now."""
    end = now - reach_s(last, now, tz) if last else now
    start = now - reach_s(first, now, tz) if first else end - EXPORT_S
    if start >= end:
        raise ReachError(BACKWARDS)
    return Window(start, end)


@dataclass(frozen=True, slots=True)
class Export:
    lines: tuple[str, ...]
    messages: int
    summaries: int

    @property
    def found(self) -> bool:
        return bool(self.messages or self.summaries)


async def export(memory: ChannelMemory, guild_id: int, channel_id: int, window: Window, title: str) -> Export:
    """May raise RedisUnavailableError."""
    policy = memory.policies.of(guild_id, channel_id)
    read = await memory.summaries.of(guild_id, channel_id, window)
    summaries = [one for one in read if one.level == 1]
    recent = await memory.recent(guild_id, channel_id, MOST_MESSAGES)
    messages = [one for one in recent if window.contains(one.ts) and not one.own]
    lines = [*_head(title, window, len(messages), len(summaries), policy.tz), *_body(summaries, messages, policy.tz)]
    return Export(tuple(lines), len(messages), len(summaries))


def _head(title: str, window: Window, messages: int, summaries: int, tz: tzinfo) -> list[str]:
    start, end = (f"{_local(ts or 0.0, tz):%d %B %Y %H:%M}" for ts in (window.start, window.end))
    held = f"{counted(messages, 'message')}, {counted(summaries, 'summary', 'summaries')}"
    return [f"# {_inert(title)}", "", f"From {start} to {end} ({tz}): {held}.", ""]


def _body(summaries: Sequence[Summary], messages: Sequence[Message], tz: tzinfo) -> Iterator[str]:
    # A summary comes before its first message.
    items: list[tuple[float, int, Summary | Message]] = [(one.start, 0, one) for one in summaries]
    items += [(one.ts, 1, one) for one in messages]
    day = ""
    for ts, _, item in sorted(items, key=lambda one: one[:2]):
        if (today := f"{_local(ts, tz):%A, %d %B %Y}") != day:
            yield from ["", f"## {today}", ""] if day else [f"## {today}", ""]
            day = today
        yield from _summary(item, tz) if isinstance(item, Summary) else [_message(item, tz)]


def _summary(summary: Summary, tz: tzinfo) -> list[str]:
    start, end = (f"{_local(ts, tz):%H:%M}" for ts in (summary.start, summary.end))
    topics = f", topics: {', '.join(map(_inert, summary.topics))}" if summary.topics else ""
    head = f"> **Summary, {start} to {end}** ({counted(summary.message_count, 'message')}{topics})  "
    return ["", head, *(f"> {_inert(line)}  " for line in summary.text.splitlines()), ""]


def _message(message: Message, tz: tzinfo) -> str:
    return f"- **{_local(message.ts, tz):%H:%M} {_inert(name(message.author))}**: {_inert(named(message.content))}"


def _inert(text: str) -> str:
    return safe(flatten(text)).translate(_MARKS)


def _local(ts: float, tz: tzinfo) -> datetime:
    return datetime.fromtimestamp(ts, tz)
