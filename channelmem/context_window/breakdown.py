"""What a language model is given of a channel's past, in words. In: a `Breakdown`. Out: a line, or a few."""

from __future__ import annotations

from channelmem.memory import Memory
from channelmem.summarising.past import Breakdown
from channelmem.telling.quote import counted, listed
from channelmem.types import Question

OFF = "Memory is off in this channel."
NO_ARCHIVE = "There are no summaries here: the archive is off, so nothing outlives the rolling buffer."
NO_SUMMARIES = "Summaries are off in this channel. `/channel settings` turns them on."


def in_one_line(breakdown: Breakdown) -> str:
    """ "3 summaries, 24 raw messages"."""
    return f"{_summaries(len(breakdown.summaries))}, {counted(breakdown.raw, 'raw message')}"


async def status_of(memory: Memory, question: Question) -> str:
    """What a model would be given if somebody asked now; why there are no summaries, where there are none."""
    policy = memory.policies.of_question(question)
    if not policy.enabled:
        return OFF
    if not policy.limits.archive:
        return NO_ARCHIVE
    if not policy.summaries:
        return NO_SUMMARIES
    shown = await memory.summaries.breakdown(question)
    stored = await memory.summaries.of(question.guild_id, question.channel_id)
    return "\n".join(_lines(shown, len(stored)))


def _lines(shown: Breakdown, stored: int) -> list[str]:
    levels = [f"{count} of level {level}" for level, count in shown.levels.items()]
    by_level = f" ({listed(levels)})" if levels else ""
    lines = [
        f"A language model would be given {in_one_line(shown)}: {shown.chars:,} of {shown.limit:,} characters.",
        f"Stored: {_summaries(stored)}. Shown: {_summaries(len(shown.summaries))}{by_level}.",
    ]
    left_out = [
        *([_summaries(len(shown.dropped))] if shown.dropped else []),
        *([counted(shown.dropped_raw, "raw message")] if shown.dropped_raw else []),
    ]
    lines.append(f"Left out for lack of room: {listed(left_out)}." if left_out else "Nothing had to be left out.")
    return lines


def _summaries(count: int) -> str:
    return counted(count, "summary", "summaries")
