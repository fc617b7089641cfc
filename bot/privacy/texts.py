"""What the privacy commands and the join notice say."""

from __future__ import annotations

from datetime import UTC, datetime

from discord.utils import format_dt

from channelmem.display import counted
from channelmem.durations import DAY_S, HOUR_S, MINUTE_S
from channelmem.types import ChannelStatus

FORGOTTEN = (
    "I forgot everything you wrote, in every server, and I won't remember anything new. "
    "Use `/memory opt-in` if you change your mind."
)
OPTED_OUT = (
    "From now on I won't remember what you write, in any server, and I won't show what I already have. "
    "`/memory forget me` deletes that too; `/memory opt-in` undoes this."
)
OPTED_IN = "From now on I remember what you write, as I do for everyone."
RETURNING = (
    "You're opted in again, but I'm still deleting what you asked me to forget ({left} to go). "
    "Once that's done, I'll remember what you write."
)
COOLING_DOWN = "You just used this command. Try again in {seconds} s."
PAUSED = "I won't remember anything new in this channel until `/memory-channel resume`. I keep what I already know."
RESUMED = "I remember this channel again."
NOTHING_STORED = "I don't have anything you wrote."
MANAGERS_ONLY = "Only people who can manage this channel can do that."
EXCLUDED = "My settings exclude this channel, so I don't remember anything here."
NOTICE = (
    "Hello! I remember what's said in the channels I can read, so you can ask me about it (mention me, or use `/ask`). "
    "{kept} Edits and deletions apply right away.\n"
    "`/memory forget me` deletes what you wrote, `/memory opt-out` stops me from remembering you, and "
    "`/memory export me` shows you what I have. "
    "Channel managers can use `/memory-channel pause` and `/memory-channel clear`. `/help` lists all commands."
)

SENT = (
    " A language model summarises what is said here, so all of it is sent to its provider, "
    "even if nobody asks me about it."
)


def notice(lifetime_s: float, kept_s: float = 0.0, *, sent: bool = False) -> str:
    """`kept_s` is how long people's words are kept at most; summaries may outlive messages. `sent` says that a language
    model writes these."""
    longer = f", summaries of them for {_span(kept_s)}" if kept_s > lifetime_s else ""
    return NOTICE.format(kept=f"Messages are kept for {_span(lifetime_s)}{longer}.{SENT if sent else ''}")


def returning(left: int) -> str:
    return RETURNING.format(left=_messages(left))


def exported(count: int) -> str:
    return f"Here {'is' if count == 1 else 'are'} {_messages(count)} you wrote."


def cleared(count: int) -> str:
    return f"I forgot this channel ({_messages(count)})."


def describe(status: ChannelStatus, *, included: bool) -> str:
    if not included:
        return EXCLUDED
    state = "I'm paused in this channel" if status.paused else "I remember this channel"
    archive = "with archive" if status.archive else "without archive"
    span = ""
    if status.oldest_ts and status.newest_ts:
        span = f", from {_time(status.oldest_ts)} to {_time(status.newest_ts)}"
    waiting = f" Still waiting for an embedding: {status.pending}." if status.pending else ""
    return f"{state} ({archive}): {_messages(status.messages)}{span}.{waiting}"


def _span(seconds: float) -> str:
    if seconds < HOUR_S:
        return counted(round(seconds / MINUTE_S), "minute")
    return f"{seconds / DAY_S:g} day{'' if seconds == DAY_S else 's'}"


def _messages(count: int) -> str:
    return f"{count} message{'' if count == 1 else 's'}"


def _time(ts: float) -> str:
    return format_dt(datetime.fromtimestamp(ts, UTC), "f")
