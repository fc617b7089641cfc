"""What /history says. In: how far a load has come, what an export holds. Out: sentences for people."""

from __future__ import annotations

from datetime import UTC, datetime

import discord
from discord.utils import format_dt

from channelmem.durations import DAY_S
from channelmem.past.export import Export
from channelmem.telling.quote import counted
from channelmem.types import Load

NO_CHANNEL = "I can't see this channel."
NOT_REMEMBERED = (
    "I don't remember this channel, so I can't load its past. My settings or `/channel settings` exclude it."
)
PAUSED = "I'm paused in this channel. Use `/memory-channel resume` before you load its past."
UNREADABLE = "I can't read this channel's history: I'm missing the Read Message History permission here."
INTERRUPTED = "This goes on after I restart. `/history load` shows how far it is."
NOTHING = "There was nothing to load: I know everything of that time that I may keep."

NOTHING_THERE = "I have nothing of this channel from that time."


def loading(load: Load) -> str:
    since = format_dt(_time(load.start_id), "D")
    upto = "" if load.done_id <= load.start_id else f", up to {format_dt(_time(load.done_id), 'f')}"
    return f"Loading this channel since {since}: {load.share:.0%} done{upto}. {_counts(load)}\n{INTERRUPTED}"


def loaded(load: Load) -> str:
    if not load.stored + load.summarised:
        return NOTHING
    return f"I loaded this channel since {format_dt(_time(load.start_id), 'D')}. {_counts(load)}"


def less(days: float, reach_s: float) -> str:
    """Why less is loaded than somebody wants; empty if it is not."""
    if days * DAY_S <= reach_s:
        return ""
    return f"I keep nothing of this channel for longer than {reach_s / DAY_S:g} days, so I go back no further.\n"


def exported(export: Export) -> str:
    summaries = counted(export.summaries, "summary", "summaries")
    return f"Here is this channel's past: {counted(export.messages, 'message')} and {summaries}."


def _counts(load: Load) -> str:
    kept = f"{counted(load.stored, 'message')} that I didn't know {'is' if load.stored == 1 else 'are'} stored"
    return f"{kept}, {counted(load.summarised, 'older one')} went into summaries."


def _time(id_: int) -> datetime:
    return discord.utils.snowflake_time(id_).astimezone(UTC)
