"""Settings in JSON, made from their declaration: one more declared setting needs nothing here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model

from channelmem.policy.cascade import (
    AUTO,
    FORMER,
    GRACE_S,
    Auto,
    Change,
    Channels,
    Effective,
    Json,
    Level,
    Loss,
    Number,
    Overrides,
    Place,
    Setting,
    SettingKind,
    Switch,
    Value,
)
from channelmem.wire.scalars import Id, Shown


def body_of(level: Level, declared: Sequence[Setting]) -> type[BaseModel]:
    """The body that changes a level: a field for each setting that can be set there; null (or "auto") inherits."""
    fields: dict[str, Any] = {
        one.name: (
            Annotated[Any, BeforeValidator(partial(_parsed, one)), WithJsonSchema(_schema(one.kind))],
            Field(None, description=f"{one.help} Null inherits.", validation_alias=_names(one.name)),
        )
        for one in declared
        if level in one.levels
    }
    name = f"{level.value.capitalize()}Settings"
    made: type[BaseModel] = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
    return made


def _names(name: str) -> AliasChoices:
    return AliasChoices(name, *(former for former, today in FORMER.items() if today == name))


def _parsed(setting: Setting, value: object) -> Value | Auto:
    return AUTO if value is None or value == AUTO.value else setting.from_json(value)


def _schema(kind: SettingKind) -> dict[str, Any]:
    auto: list[dict[str, Any]] = [{"type": "null"}, {"const": AUTO.value}]
    if isinstance(kind, Switch):
        return {"anyOf": [{"type": "boolean"}, *auto]}
    if isinstance(kind, Number):
        return {"anyOf": [{"type": "integer", "minimum": kind.low, "maximum": kind.high}, *auto]}
    if isinstance(kind, Channels):
        ids = {"type": "array", "items": {"type": "string", "pattern": "^[0-9]{1,19}$"}, "maxItems": kind.most}
        return {"anyOf": [ids, *auto]}
    seconds = {"type": "number", "minimum": kind.low_s, "maximum": kind.high_s, "description": "Seconds."}
    return {"anyOf": [seconds, {"type": "string", "examples": ["24h", "off"]}, *auto]}


class SettingShown(Shown):
    name: str
    label: str
    help: str
    allowed: str = Field(description="What can be set, in words.")
    settable: bool = Field(description="Whether it can be set at this level.")
    own: Json | None = Field(description="What is set at this level; null inherits.")
    effective: Json = Field(description="What is in force.")
    source: Level = Field(description="Which level decides.")
    why: str = Field(description="Why that level, where its name does not say it.")


class ChangeShown(Shown):
    at: float
    by: Id = Field(description="Who; 0 for the operator.")
    setting: str
    old: Json | None
    new: Json | None


class LossShown(Shown):
    """What a change hides at once; it is removed after `undo_s`, and setting it back before brings it back."""

    messages: int
    channels: int
    newest: int = Field(description="How many messages per channel stay at most ...")
    kept_s: float = Field(description="... of this span.")
    undo_s: float = GRACE_S


class LevelShown(Shown):
    """What is set at a level, and what is in force there."""

    level: Level
    guild_id: Id | None
    channel_id: Id | None
    character: str | None
    settings: tuple[SettingShown, ...]
    changes: tuple[ChangeShown, ...] = Field(description="The last ones, newest first; of a change: those it made.")
    loss: LossShown | None = Field(None, description="Of a change and its preview: what it takes away.")


class DocumentsShown(Shown):
    """For clients that keep a copy: everything that is set, as far as the token may reach it."""

    redis: bool = Field(description="Whether Redis answered last time.")
    known: bool = Field(description="False while nobody knows what is off: Redis was not reached yet.")
    defaults: dict[str, Any] = Field(description="What applies where nothing is set, from the service's environment.")
    documents: dict[str, dict[str, Any]]
    threads: dict[str, str]


def level_shown(
    place: Place,
    own: Overrides,
    effective: Mapping[str, Effective],
    changes: Sequence[Change],
    *,
    channel_id: int = 0,
    loss: Loss | None = None,
) -> LevelShown:
    """`channel_id`: where a character is looked at."""
    declared = {name: one.setting for name, one in effective.items()}
    rows = [
        _row(one, own.values.get(name), settable=place.level in one.setting.levels) for name, one in effective.items()
    ]
    return LevelShown(
        level=place.level,
        guild_id=place.guild_id if place.level is not Level.GLOBAL else None,
        channel_id=(place.channel_id or channel_id) or None,
        character=place.character or None,
        settings=tuple(rows),
        changes=tuple(_change(declared[one.setting], one) for one in changes),
        loss=LossShown(**asdict(loss)) if loss else None,
    )


def _row(one: Effective, own: Value | None, *, settable: bool) -> SettingShown:
    setting = one.setting
    return SettingShown(
        name=setting.name,
        label=setting.label,
        help=setting.help,
        allowed=setting.allowed,
        settable=settable,
        own=_json(setting, own),
        effective=setting.to_json(one.value),
        source=one.source,
        why=one.why,
    )


def _change(setting: Setting, one: Change) -> ChangeShown:
    return ChangeShown(
        at=one.at, by=one.by, setting=one.setting, old=_json(setting, one.old), new=_json(setting, one.new)
    )


def _json(setting: Setting, value: Value | None) -> Json | None:
    return None if value is None else setting.to_json(value)
