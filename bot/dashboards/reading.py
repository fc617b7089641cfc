"""Reading: everything a dashboard shows. In: an address. Out: a `Reading`, fresh from Redis, or RedisUnavailableError.

The process's own copy of the settings would do almost always; but a dashboard must not show what is no longer so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from channelmem.cascade.declared import Setting
from channelmem.cascade.levels import Change, Level, Overrides, Place
from channelmem.cascade.resolve import Effective, resolve
from channelmem.cascade.values import Value
from channelmem.policies import Policies
from channelmem.settings import Settings

from .address import LEVELS, Address


@dataclass(frozen=True, slots=True)
class Row:
    """One setting of a dashboard."""

    setting: Setting
    own: Value | None
    """What is set at this level; None is auto."""
    inherited: Effective
    """What would be in force without it."""
    effective: Effective


@dataclass(frozen=True, slots=True)
class Reading:
    address: Address
    character: str
    rows: tuple[Row, ...]
    changes: tuple[Change, ...]


async def read(policies: Policies, settings: Settings, address: Address, character: str) -> Reading:
    levels = LEVELS[: LEVELS.index(address.level) + 1]  # its own and those it inherits from
    found = await asyncio.gather(*(policies.read(_place(level, address, character)) for level in levels))
    said = dict(zip(levels, found, strict=True))
    shown = [one for one in policies.declared if address.level in one.levels]
    rows = tuple(_row(one, one.default(settings), said, address.level) for one in shown)
    return Reading(address, character, rows, said[address.level].changes)


def _place(level: Level, address: Address, character: str) -> Place:
    return Address(level, address.guild_id, address.channel_id).place(character)


def _row(setting: Setting, default: Value, said: Mapping[Level, Overrides], level: Level) -> Row:
    values = {one: of.values[setting.name] for one, of in said.items() if setting.name in of.values}
    above = {one: value for one, value in values.items() if one is not level}
    return Row(setting, values.get(level), resolve(setting, default, above), resolve(setting, default, values))
