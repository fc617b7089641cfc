"""Where settings are set: for all servers, in a channel, for a character in a server. Threads follow their channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from channelmem.cascade.values import Value
from channelmem.durations import format_duration

GRACE_S = 3_600.0
"""How long an archive that was switched off can be switched on again as it was; hidden meanwhile."""
UNDO = "They are removed in an hour; until then, setting it back brings them back."


class Level(StrEnum):
    DEFAULT = "default"
    """From the environment."""
    GLOBAL = "global"
    CHANNEL = "channel"
    CHARACTER = "character"


@dataclass(frozen=True, slots=True)
class Place:
    """One level of one server, channel or character."""

    level: Level
    guild_id: int = 0
    channel_id: int = 0
    character: str = ""

    @classmethod
    def everywhere(cls) -> Place:
        return cls(Level.GLOBAL)

    @classmethod
    def channel(cls, guild_id: int, channel_id: int) -> Place:
        return cls(Level.CHANNEL, guild_id, channel_id)

    @classmethod
    def of_character(cls, guild_id: int, name: str) -> Place:
        return cls(Level.CHARACTER, guild_id, character=name.casefold())


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one setting at a place; None is auto."""

    at: float
    by: int
    """Who; 0 for the operator at the command line. Ids only: names would outlive a "forget me"."""
    setting: str
    old: Value | None
    new: Value | None


@dataclass(frozen=True, slots=True)
class Overrides:
    """What is set at a place, and by whom."""

    values: Mapping[str, Value] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    """The last ones, newest first."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What a change of settings hides at once, and removes once it can't be undone any more."""

    messages: int
    channels: int
    newest: int
    """How many messages per channel stay at most ..."""
    kept_s: float
    """... of this span."""

    def __bool__(self) -> bool:
        return self.messages > 0

    def __str__(self) -> str:
        messages = "1 message" if self.messages == 1 else f"{self.messages:,} messages"
        where = f" in {self.channels} channels" if self.channels > 1 else ""
        return f"{messages}{where}, all but the newest {self.newest} of the last {format_duration(self.kept_s)}"


@dataclass(frozen=True, slots=True)
class Boundary:
    """A fresh start (`/new`): nothing up to this moment is given to a language model unasked, but for `kept`."""

    at: float
    kept: tuple[int, ...] = ()
    """Ids of older messages that stay in context (`/context edit`)."""
