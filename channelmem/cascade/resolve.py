"""What is in force. In: a setting, its default, and what each level says. Out: the value, with its source and why.

Nothing here opens what a channel closed: Off at a channel is final, and its limits cap those of a character.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from channelmem.cascade.declared import Combine, Setting
from channelmem.cascade.levels import Level
from channelmem.cascade.values import Off, Value

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
    rule = _switch if setting.combine is Combine.SWITCH else _limit
    allowed = {level: value for level, value in said.items() if level in setting.levels}
    value, source, why = rule(default, allowed)
    capped = setting.kind.capped(value)
    if capped != value:
        why = f"capped at {setting.show(capped)}"
    return Effective(setting, capped, source, why)


def _switch(default: Value, said: Mapping[Level, Value]) -> tuple[Value, Level, str]:
    channel, character = said.get(Level.CHANNEL), said.get(Level.CHARACTER)
    if channel is False:
        return False, Level.CHANNEL, FINAL if character is True else ""
    if channel is True:
        return (False, Level.CHARACTER, OPTED_OUT) if character is False else (True, Level.CHANNEL, "")
    if character is not None:
        return character, Level.CHARACTER, ""
    return _base(default, said)


def _limit(default: Value, said: Mapping[Level, Value]) -> tuple[Value, Level, str]:
    channel, character = said.get(Level.CHANNEL), said.get(Level.CHARACTER)
    if character is not None:
        if channel is not None and _size(channel) < _size(character):
            return channel, Level.CHANNEL, CAPPED
        return character, Level.CHARACTER, ""
    if channel is not None:
        return channel, Level.CHANNEL, ""
    return _base(default, said)


def _base(default: Value, said: Mapping[Level, Value]) -> tuple[Value, Level, str]:
    if Level.GLOBAL in said:
        return said[Level.GLOBAL], Level.GLOBAL, ""
    return default, Level.DEFAULT, ""


def _size(value: Value) -> float:
    if isinstance(value, tuple):
        return len(value)
    return math.inf if isinstance(value, Off) else float(value)
