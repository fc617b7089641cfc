"""What the privacy commands and the join notice say. In: a status, counts, days. Out: sentences for people."""

from __future__ import annotations

from datetime import UTC, datetime

from discord.utils import format_dt

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
SERVER_ONLY = "This command only works in a server channel."
MANAGERS_ONLY = "Only people who can manage this channel can do that."
EXCLUDED = "My settings exclude this channel, so I don't remember anything here."
NOTICE = (
    "Hello! I remember what's said in the channels I can read, so you can ask me about it (mention me, or use `/ask`). "
    "{kept} Edits and deletions apply right away.\n"
    "`/memory forget me` deletes what you wrote, `/memory opt-out` stops me from remembering you, and "
    "`/memory export me` shows you what I have. "
    "Channel managers can use `/memory-channel pause` and `/memory-channel clear`. `/help` lists all commands."
)


def notice(lifetime_s: float) -> str:
    days = lifetime_s / 86_400
    return NOTICE.format(kept=f"Messages are kept for {days:g} day{'' if days == 1 else 's'}.")


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


def _messages(count: int) -> str:
    return f"{count} message{'' if count == 1 else 's'}"


def _time(ts: float) -> str:
    return format_dt(datetime.fromtimestamp(ts, UTC), "f")
