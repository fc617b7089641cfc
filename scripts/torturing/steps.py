"""One step of a history, and what a process reports about it. Both travel between processes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

TOKEN = re.compile(r"zq[0-9a-f]+r[0-9a-f]+qz")
"""Every revision of every message holds a word of its own, by which it is recognised wherever it comes out."""

GUILDS = (5 << 22, 6 << 22)
ROOMS = tuple((guild, guild + number) for guild in GUILDS for number in (1, 2, 3))
"""Guild and channel."""
PEOPLE = {11: "Ann", 12: "Bob", 13: "Cid", 14: "Dora", 15: "Eve", 16: "Fred"}
BOT_ID = 99


class Act(StrEnum):
    SAY = "say"
    EDIT = "edit"
    DELETE = "delete"
    CLEAR = "clear"
    PAUSE = "pause"
    RESUME = "resume"
    OPT_OUT = "opt out"
    OPT_IN = "opt in"
    FORGET = "forget"
    ASK = "ask"
    ANSWER = "answer"
    """Asks, and stores the answer as the bot's own message."""
    LIST = "list"
    """Everything visible in a channel."""
    SEARCH = "search"
    EXPORT = "export"
    RETURNING = "returning"
    """Whether an opt-in still waits for a removal."""
    SETTLE = "settle"
    """Waits until nothing is queued and the copy of decisions is fresh."""
    EMBED = "embed"
    """Waits until everything has its vector."""


LOOKS = frozenset({Act.ASK, Act.ANSWER, Act.LIST, Act.SEARCH, Act.EXPORT})


@dataclass(frozen=True, slots=True)
class Step:
    act: Act
    guild: int = 0
    channel: int = 0
    author: int = 0
    id: int = 0
    text: str = ""
    """The words of a message, or a question."""
    others: tuple[int, ...] = ()
    """Channels that a question may search besides its own."""
    scope: int | None = None
    """The guild that a decision is about; None: everywhere."""
    ts: float = 0.0
    revision: float = 0.0

    @property
    def token(self) -> str:
        found = TOKEN.search(self.text)
        return found[0] if found else ""


class Result(StrEnum):
    """What `Reply.result` is besides an `Outcome`."""

    DONE = "done"
    LEFT = "left"
    """An opt-in that waits."""
    DELAYED = "delayed"
    """Not written yet, but it holds in that process."""
    UNAVAILABLE = "unavailable"
    """Redis could not be asked; it may or may not have happened."""
    FAILED = "failed"
    """An error that no caller expects."""


@dataclass(frozen=True, slots=True)
class Reply:
    result: str
    queued: int = 0
    """Changes that this process still has to deliver."""
    seen: frozenset[str] = frozenset()
    """The tokens that came out."""
    down: bool = False
    """Whether the answer had to do without Redis."""
