"""Where settings are set: for all servers, in a channel, for a character in a server. Threads follow their channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from channelmem.cascade.values import Value


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
    """What changing settings would hide at once and remove after the grace."""

    messages: int
    channels: int
    older_than_s: float

    def __bool__(self) -> bool:
        return self.messages > 0


@dataclass(frozen=True, slots=True)
class Boundary:
    """A fresh start (`/new`): nothing up to this moment is given to a language model unasked, but for `kept`."""

    at: float
    kept: tuple[int, ...] = ()
    """Ids of older messages that stay in context (`/context edit`)."""
