"""The values of settings, as people type them and in JSON; a ValueError says what is allowed.

Three things must never be confused: a setting that is absent at a level (inherit), one that is off, and the wish to
clear an override. The first is a missing key, the second a value, the third `AUTO`, which is never stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from channelmem import durations
from channelmem.ids import LARGEST_ID


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


@dataclass(frozen=True, slots=True)
class Switch:
    """On or off."""

    choices = ("on", "off", "auto")
    allowed = '"on" or "off"'

    def parse(self, text: str) -> Value:
        if text in _ON or text in _OFF:
            return text in _ON
        raise ValueError

    def show(self, value: Value) -> str:
        return "On" if value is True else "Off"

    def to_json(self, value: Value) -> Json:
        return value is True

    def from_json(self, value: object) -> Value:
        if isinstance(value, bool):
            return value
        raise ValueError

    def capped(self, value: Value) -> Value:
        return value


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number within bounds; the upper one also caps what lower levels or the environment say."""

    low: int
    high: int

    choices = ()

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def parse(self, text: str) -> Value:
        if not (text.isascii() and text.isdigit() and len(text) <= 9):
            raise ValueError
        return self.from_json(int(text))

    def show(self, value: Value) -> str:
        return str(value)

    def to_json(self, value: Value) -> Json:
        return int(value) if isinstance(value, int) else 0

    def from_json(self, value: object) -> Value:
        if isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high:
            return value
        raise ValueError

    def capped(self, value: Value) -> Value:
        return min(value, self.high) if isinstance(value, int) else value


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time in seconds, or OFF."""

    low_s: float
    high_s: float

    choices = ()

    @property
    def allowed(self) -> str:
        low, high = durations.format_duration(self.low_s), durations.format_duration(self.high_s)
        return f'a duration from {low} to {high} such as "24h" or "2h 30m", or "off" for no limit'

    def parse(self, text: str) -> Value:
        return OFF if text in _OFF or text == "none" else self.from_json(durations.parse(text))

    def show(self, value: Value) -> str:
        return durations.format_duration(value) if isinstance(value, int | float) else "Off"

    def to_json(self, value: Value) -> Json:
        return value if isinstance(value, int | float) else OFF.value

    def from_json(self, value: object) -> Value:
        if value == OFF.value:
            return OFF
        if isinstance(value, str):
            value = durations.parse(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and self.low_s <= value <= self.high_s:
            return float(value)
        raise ValueError

    def capped(self, value: Value) -> Value:
        return value


@dataclass(frozen=True, slots=True)
class Channels:
    """A few channels by id, in the order in which they were named."""

    most: int

    choices = ()

    @property
    def allowed(self) -> str:
        return f'up to {self.most} channel ids or mentions separated by commas, or "off"'

    def parse(self, text: str) -> Value:
        return () if text in _NONE else self.from_json(_SEPARATORS.split(text.strip(" ,")))

    def show(self, value: Value) -> str:
        return ", ".join(f"<#{one}>" for one in value) if isinstance(value, tuple) and value else "Off"

    def to_json(self, value: Value) -> Json:
        return [str(one) for one in value] if isinstance(value, tuple) else []

    def from_json(self, value: object) -> Value:
        found = [_CHANNEL.fullmatch(str(one)) for one in value] if isinstance(value, list | tuple) else [None]
        ids = dict.fromkeys(int(one[1]) for one in found if one is not None)
        if None in found or len(ids) > self.most or any(one > LARGEST_ID for one in ids):
            raise ValueError
        return tuple(ids)

    def capped(self, value: Value) -> Value:
        return value


SettingKind = Switch | Number | Duration | Channels
