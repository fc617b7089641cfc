"""What people can set while the bot runs, on which levels, and how levels combine.

Levels are all servers, a channel, and a character in a server. Threads follow their channel.

Three things must never be confused: a setting that is absent at a level (inherit), one that is off, and the wish to
clear an override. The first is a missing key, the second a value, the third `AUTO`, which is never stored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeVar

from channelmem import durations
from channelmem.durations import DAY_S, HOUR_S, MINUTE_S, format_duration
from channelmem.ids import LARGEST_ID
from channelmem.policy.policy import Policy
from channelmem.settings import Settings


class Off(Enum):
    """No limit at all."""

    OFF = "off"


class Auto(Enum):
    """Clear this override."""

    AUTO = "auto"


OFF: Final = Off.OFF
AUTO: Final = Auto.AUTO

Value = bool | int | float | Off | tuple[int, ...]
Json = bool | int | float | str | list[str]

_ON = frozenset({"on", "yes", "true", "enabled"})
_OFF = frozenset({"off", "no", "false", "disabled"})
_NONE = frozenset({"none", "off", "nothing"})
_CHANNEL = re.compile(r"(?:<#)?(\d{1,19})>?")
_SEPARATORS = re.compile(r"\s*[,;\s]\s*")


class _Kind:
    choices: ClassVar[tuple[str, ...]] = ()
    """What can be typed, if that is a short list."""

    def capped(self, value: Value) -> Value:
        return value


@dataclass(frozen=True, slots=True)
class Switch(_Kind):
    """On or off."""

    choices = ("on", "off", "auto")
    allowed = '"on" or "off"'

    def parse(self, text: str) -> Value:
        if text in _ON or text in _OFF:
            return text in _ON
        raise ValueError

    def show(self, value: Value) -> str:
        return "On" if value is True else "Off"

    def from_json(self, value: object) -> Value:
        if isinstance(value, bool):
            return value
        raise ValueError


@dataclass(frozen=True, slots=True)
class Number(_Kind):
    """A whole number within bounds; the upper one also caps what lower levels or the environment say."""

    low: int
    high: int

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def parse(self, text: str) -> Value:
        if not (text.isascii() and text.isdigit() and len(text) <= 9):
            raise ValueError
        return self.from_json(int(text))

    def show(self, value: Value) -> str:
        return str(value)

    def from_json(self, value: object) -> Value:
        if isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high:
            return value
        raise ValueError

    def capped(self, value: Value) -> Value:
        return min(value, self.high) if isinstance(value, int) else value


@dataclass(frozen=True, slots=True)
class Duration(_Kind):
    """A span of time in seconds, or OFF."""

    low_s: float
    high_s: float

    @property
    def allowed(self) -> str:
        low, high = durations.format_duration(self.low_s), durations.format_duration(self.high_s)
        return f'a duration from {low} to {high} such as "24h" or "2h 30m", or "off" for no limit'

    def parse(self, text: str) -> Value:
        return OFF if text in _OFF or text == "none" else self.from_json(durations.parse(text))

    def show(self, value: Value) -> str:
        return durations.format_duration(value) if isinstance(value, int | float) else "Off"

    def from_json(self, value: object) -> Value:
        if value == OFF.value:
            return OFF
        if isinstance(value, str):
            value = durations.parse(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and self.low_s <= value <= self.high_s:
            return float(value)
        raise ValueError


@dataclass(frozen=True, slots=True)
class Channels(_Kind):
    """A few channels by id, in the order in which they were named."""

    most: int

    @property
    def allowed(self) -> str:
        return f'up to {self.most} channel ids or mentions separated by commas, or "off"'

    def parse(self, text: str) -> Value:
        return () if text in _NONE else self.from_json(_SEPARATORS.split(text.strip(" ,")))

    def show(self, value: Value) -> str:
        return ", ".join(f"<#{one}>" for one in value) if isinstance(value, tuple) and value else "Off"

    def from_json(self, value: object) -> Value:
        found = [_CHANNEL.fullmatch(str(one)) for one in value] if isinstance(value, list | tuple) else [None]
        ids = dict.fromkeys(int(one[1]) for one in found if one is not None)
        if None in found or len(ids) > self.most or any(one > LARGEST_ID for one in ids):
            raise ValueError
        return tuple(ids)


SettingKind = Switch | Number | Duration | Channels


T = TypeVar("T")

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


# --- declared ---


EVERY_LEVEL: Final = (Level.GLOBAL, Level.CHANNEL, Level.CHARACTER)
STORED: Final = (Level.GLOBAL, Level.CHANNEL)
"""For what is stored, which does not depend on who answers."""


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    label: str
    help: str
    kind: SettingKind
    default: Callable[[Settings], Value]
    """From the environment, below all levels."""
    apply: Callable[[Policy, Value], Policy]
    """Puts the value that is in force into the policy of a conversation."""
    levels: tuple[Level, ...] = EVERY_LEVEL

    @property
    def choices(self) -> tuple[str, ...]:
        return self.kind.choices

    @property
    def allowed(self) -> str:
        return f'{self.kind.allowed}, or "auto" to inherit'

    def parse(self, text: str) -> Value | Auto:
        """Raises ValueError with one sentence that says what is allowed."""
        plain = " ".join(text.casefold().split())
        try:
            return AUTO if plain == AUTO.value else self.kind.parse(plain)
        except ValueError:
            raise ValueError(f"{self.label} must be {self.allowed}; {text[:40]!r} is not.") from None

    def show(self, value: Value | None) -> str:
        """None is auto."""
        return "Auto" if value is None else self.kind.show(value)

    def to_json(self, value: Value) -> Json:
        if isinstance(value, tuple):
            return [str(one) for one in value]  # ids are larger than what JSON's readers take for exact
        return value.value if isinstance(value, Off) else value

    def from_json(self, value: object) -> Value:
        """Raises ValueError with the same sentence."""
        try:
            return self.kind.from_json(value)
        except ValueError:
            raise ValueError(f"{self.label} must be {self.kind.allowed}; {str(value)[:40]!r} is not.") from None


def _max_age(settings: Settings) -> Value:
    hours = settings.context_max_age_hours
    return OFF if hours is None else hours * HOUR_S


def _field(
    name: str, label: str, help_: str, kind: SettingKind, levels: tuple[Level, ...] = EVERY_LEVEL, *, field: str = ""
) -> Setting:
    """A setting that is one field, of the same name in `Settings` and `Policy`."""

    def apply(policy: Policy, value: Value) -> Policy:
        changed: dict[str, Any] = {field or name: value}
        return replace(policy, **changed)

    return Setting(name, label, help_, kind, attrgetter(field or name), apply, levels)


SETTINGS: Final[tuple[Setting, ...]] = (
    _field(
        "enabled",
        "Memory",
        "Whether a channel is remembered at all. Off hides what was stored until it is on again.",
        Switch(),
    ),
    _field(
        "context_messages",
        "Context Messages",
        "How many recent messages a language model is given unasked.",
        Number(1, 100),
    ),
    Setting(
        "context_max_age",
        "Context Max Age",
        "How far back these messages reach. Questions about the channel still find older ones.",
        Duration(MINUTE_S, 365 * DAY_S),
        _max_age,
        lambda policy, value: replace(policy, context_max_age_s=value if isinstance(value, float) else None),
    ),
    _field(
        "max_images",
        "Max Images",
        "How many recent pictures are described unasked; 0 describes only those somebody refers to.",
        Number(0, 10),
        field="context_images",
    ),
    _field(
        "read_media",
        "Read Media",
        "Whether pictures and voice messages are read as they arrive, so that they are found by what they show or say.",
        Switch(),
        STORED,
        field="media_on_arrival",
    ),
    _field(
        "adult_media",
        "Adult Media",
        "Whether pictures and voices are read in age-restricted channels at all.",
        Switch(),
        STORED,
        field="media_age_restricted",
    ),
    _field(
        "summaries",
        "Summaries",
        "Whether older messages are summarised, so that a language model is given a longer past.",
        Switch(),
    ),
    Setting(
        "archive",
        "Archive",
        "Whether messages stay searchable after they leave the rolling buffer. Off removes them.",
        Switch(),
        lambda settings: settings.archive,
        lambda policy, value: replace(policy, limits=policy.limits._replace(archive=value is True)),
        STORED,
    ),
    _field(
        "open_new",
        "Open /new",
        "Whether everybody may use /new, not only who can manage messages or owns the thread.",
        Switch(),
        (Level.GLOBAL, Level.CHANNEL),  # a fresh start is the channel's, whoever answers there
    ),
    Setting(
        "related_channels",
        "Related Channels",
        "Channels whose newest summaries a language model is given too, where everybody who reads here may read them.",
        Channels(5),
        lambda _settings: (),
        lambda policy, value: replace(policy, related_channels=value if isinstance(value, tuple) else ()),
        (Level.CHANNEL,),
    ),
)


FORMER: Final = {"max_messages": "context_messages", "max_age": "context_max_age"}
"""What settings were called before. Stored documents, open dashboards and scripts may still say so (settings.lua)."""


def current(name: str) -> str:
    """Today's name of a setting."""
    return FORMER.get(name, name)


def renamed(values: Mapping[str, T]) -> dict[str, T]:
    """The same by today's names; where both names have a value, that of today's counts."""
    before = {FORMER[name]: value for name, value in values.items() if name in FORMER}
    return before | {name: value for name, value in values.items() if name not in FORMER}


# --- resolve ---


FINAL = "a channel's Off overrules the character"
OPTED_OUT = "the character opts out"
CAPPED = "capped by the channel"


@dataclass(frozen=True, slots=True)
class Effective:
    setting: Setting
    value: Value
    source: Level
    why: str = ""
    """Empty where the source explains it."""

    @property
    def text(self) -> str:
        return self.setting.show(self.value)


def resolve(setting: Setting, default: Value, said: Mapping[Level, Value]) -> Effective:
    """`said` holds the levels that say something about this setting."""
    rule = _switch if isinstance(setting.kind, Switch) else _limit
    allowed = {level: value for level, value in said.items() if level in setting.levels}
    value, source, why = rule(default, allowed)
    capped = setting.kind.capped(value)
    if capped != value:
        why = f"capped at {setting.show(capped)}"
    return Effective(setting, capped, source, why)


def _switch(default: Value, said: Mapping[Level, Value]) -> tuple[Value, Level, str]:
    """A channel's Off is final. Where the channel is On, a character may opt out; else the character decides."""
    channel, character = said.get(Level.CHANNEL), said.get(Level.CHARACTER)
    if channel is False:
        return False, Level.CHANNEL, FINAL if character is True else ""
    if channel is True:
        return (False, Level.CHARACTER, OPTED_OUT) if character is False else (True, Level.CHANNEL, "")
    return _nearest(default, said)


def _limit(default: Value, said: Mapping[Level, Value]) -> tuple[Value, Level, str]:
    """A channel replaces the global value, and caps the character's."""
    channel, character = said.get(Level.CHANNEL), said.get(Level.CHARACTER)
    if channel is not None and character is not None and _size(channel) < _size(character):
        return channel, Level.CHANNEL, CAPPED
    return _nearest(default, said)


def _nearest(default: Value, said: Mapping[Level, Value]) -> tuple[Value, Level, str]:
    level = next((one for one in (Level.CHARACTER, Level.CHANNEL, Level.GLOBAL) if one in said), None)
    return (default, Level.DEFAULT, "") if level is None else (said[level], level, "")


def _size(value: Value) -> float:
    if isinstance(value, tuple):
        return len(value)
    return math.inf if isinstance(value, Off) else float(value)
