"""What there is to set: one entry per setting. Resolver, dashboards, command line, API and docs are made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from channelmem.cascade.levels import Level
from channelmem.cascade.values import AUTO, OFF, Auto, Channels, Duration, Json, Kind, Number, Switch, Value
from channelmem.durations import DAY_S, HOUR_S, MINUTE_S
from channelmem.policy import Policy
from channelmem.settings import Settings

EVERY_LEVEL: Final = (Level.GLOBAL, Level.CHANNEL, Level.CHARACTER)
STORED: Final = (Level.GLOBAL, Level.CHANNEL)
"""For what is stored, which does not depend on who answers."""


class Combine(StrEnum):
    """How levels combine (resolve.py)."""

    SWITCH = "switch"
    """A channel's Off is final. Where the channel is On, a character may opt out; else the character decides."""
    LIMIT = "limit"
    """A channel replaces the global value, and caps the character's."""


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    label: str
    help: str
    kind: Kind
    combine: Combine
    default: Callable[[Settings], Value]
    """From the environment, below all levels."""
    apply: Callable[[Policy, Value], Policy]
    """Puts the value that is in force into the policy of a conversation."""
    levels: tuple[Level, ...] = EVERY_LEVEL

    @property
    def choices(self) -> tuple[str, ...]:
        """What can be typed, if that is a short list; else empty."""
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
        return self.kind.to_json(value)

    def from_json(self, value: object) -> Value:
        """Raises ValueError with the same sentence."""
        try:
            return self.kind.from_json(value)
        except ValueError:
            raise ValueError(f"{self.label} must be {self.kind.allowed}; {str(value)[:40]!r} is not.") from None


def _max_age(settings: Settings) -> Value:
    hours = settings.context_max_age_hours
    return OFF if hours is None else hours * HOUR_S


def _number(value: Value) -> int:
    return value if isinstance(value, int) else 0


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        "enabled",
        "Memory",
        "Whether a channel is remembered at all. Off hides what was stored until it is on again.",
        Switch(),
        Combine.SWITCH,
        lambda settings: settings.enabled,
        lambda policy, value: replace(policy, enabled=value is True),
    ),
    Setting(
        "max_messages",
        "Max Messages",
        "How many recent messages a language model is given unasked.",
        Number(1, 100),
        Combine.LIMIT,
        lambda settings: settings.context_messages,
        lambda policy, value: replace(policy, context_messages=_number(value)),
    ),
    Setting(
        "max_age",
        "Max Age",
        "How far back these messages reach. Questions about the channel still find older ones.",
        Duration(MINUTE_S, 365 * DAY_S),
        Combine.LIMIT,
        _max_age,
        lambda policy, value: replace(policy, context_max_age_s=value if isinstance(value, float) else None),
    ),
    Setting(
        "max_images",
        "Max Images",
        "How many recent pictures are described unasked; 0 describes only those somebody refers to.",
        Number(0, 10),
        Combine.LIMIT,
        lambda settings: settings.context_images,
        lambda policy, value: replace(policy, context_images=_number(value)),
    ),
    Setting(
        "read_media",
        "Read Media",
        "Whether pictures and voice messages are read as they arrive, so that they are found by what they show or say.",
        Switch(),
        Combine.SWITCH,
        lambda settings: settings.media_on_arrival,
        lambda policy, value: replace(policy, media_on_arrival=value is True),
        STORED,
    ),
    Setting(
        "adult_media",
        "Adult Media",
        "Whether pictures and voices are read in age-restricted channels at all.",
        Switch(),
        Combine.SWITCH,
        lambda settings: settings.media_age_restricted,
        lambda policy, value: replace(policy, media_age_restricted=value is True),
        STORED,
    ),
    Setting(
        "summaries",
        "Summaries",
        "Whether older messages are summarised, so that a language model is given a longer past.",
        Switch(),
        Combine.SWITCH,
        lambda settings: settings.summaries,
        lambda policy, value: replace(policy, summaries=value is True),
    ),
    Setting(
        "archive",
        "Archive",
        "Whether messages stay searchable after they leave the rolling buffer. Off removes them.",
        Switch(),
        Combine.SWITCH,
        lambda settings: settings.archive,
        lambda policy, value: replace(policy, limits=policy.limits._replace(archive=value is True)),
        STORED,
    ),
    Setting(
        "open_new",
        "Open /new",
        "Whether everybody may use /new, not only who can manage messages or owns the thread.",
        Switch(),
        Combine.SWITCH,
        lambda settings: settings.open_new,
        lambda policy, value: replace(policy, open_new=value is True),
        (Level.GLOBAL, Level.CHANNEL),  # a fresh start is the channel's, whoever answers there
    ),
    Setting(
        "related_channels",
        "Related Channels",
        "Channels whose newest summaries a language model is given too, where everybody who reads here may read them.",
        Channels(5),
        Combine.LIMIT,
        lambda _settings: (),
        lambda policy, value: replace(policy, related_channels=value if isinstance(value, tuple) else ()),
        (Level.CHANNEL,),
    ),
)
