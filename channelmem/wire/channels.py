"""Channels in JSON: names, edits, removals, numbers, and how far their past is fetched. And settings, made from their
declaration: one more declared setting needs nothing here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any, Final

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
from channelmem.types import ChannelStatus, Gap, Load, Message, Window
from channelmem.wire.answers import AskBody
from channelmem.wire.messages import (
    MAX_BATCH,
    MAX_LIST,
    AttachmentBody,
    Body,
    Count,
    Flag,
    Id,
    MessageShown,
    Mirror,
    Moment,
    Name,
    OriginBody,
    Shown,
    Text,
    plain,
)

MOST_NAMED = 1_000


class NamedChannel(Body):
    id: Id
    name: Name


class NamesBody(Body):
    """An empty name changes nothing; names go with their channel or guild."""

    guild: Name = ""
    channels: Annotated[tuple[NamedChannel, ...], Field(max_length=MOST_NAMED)] = ()

    def by_channel(self) -> dict[int, str]:
        return {one.id: one.name for one in self.channels}


class EditBody(Body):
    """The fields of a message that changed; of a message that is not stored, all that `POST /messages` requires."""

    content: Text = Field(description="The new text; an empty one removes the message until a later edit.")
    revision: Moment | None = Field(None, description="When it was edited, in epoch seconds; now if absent.")
    author_id: Id | None = None
    author: Name | None = None
    ts: Moment | None = None
    reply_to: Id | None = None
    mentions: Annotated[tuple[Id, ...], Field(max_length=MAX_LIST)] | None = None
    own: Flag | None = None
    addressed: Flag | None = None
    aliases: Annotated[tuple[Name, ...], Field(max_length=MAX_LIST)] | None = None
    attachments: Annotated[tuple[AttachmentBody, ...], Field(max_length=MAX_LIST)] | None = None
    thread_of: Id | None = None
    age_restricted: Flag | None = None
    derived_from: Annotated[tuple[OriginBody, ...], Field(max_length=MAX_BATCH)] | None = None

    @property
    def complete(self) -> bool:
        """Whether it says all that a message needs."""
        return self.author_id is not None and self.author is not None and self.ts is not None

    def applied(self, message: Message, revision: float) -> Message:
        changes = {name: plain(getattr(self, name)) for name in self.model_fields_set}
        kept = {name: value for name, value in changes.items() if value is not None or name == "reply_to"}
        return replace(message, **kept | {"revision": revision, "parents": ()})


class PageShown(Shown):
    """Newest first."""

    messages: tuple[MessageShown, ...]
    next: str | None = Field(None, description="Send it as `cursor` to read on; null at the end.")


class DeleteBody(Body):
    ids: Annotated[tuple[Id, ...], Field(min_length=1, max_length=MAX_BATCH)]


class ClearBody(Body):
    at: Moment | None = Field(None, description="Up to this moment, in epoch seconds; now if absent.")


class Removed(Shown):
    removed: int = Field(description="How many existed; 0 also while Redis is unreachable and the removal is queued.")
    queued: bool = Field(
        False,
        description="Redis is unreachable: what was removed is no longer shown, but the removal is lost if this "
        "process ends. Send it again until this is false.",
    )


class EnrichBody(Body):
    text: Text = Field(description="What is in the attachment: a description or a transcript.")


class Enriched(Shown):
    added: bool = Field(description="False if there is no such message or attachment.")


class StatsShown(Shown, Mirror[ChannelStatus]):
    messages: int
    pending: int = Field(description="Messages still waiting for their vector.")
    oldest_ts: float | None
    newest_ts: float | None
    newest_id: Id | None
    paused: bool
    archive: bool


class ChannelShown(Shown):
    guild_id: Id
    channel_id: Id


class ChannelsShown(Shown):
    channels: tuple[ChannelShown, ...]


class GuildsShown(Shown):
    guilds: tuple[Id, ...]


class KnownMessage(Shown):
    id: Id
    revision: float


class KnownShown(Shown):
    messages: tuple[KnownMessage, ...]


class GapBody(Body):
    newest_id: Id | None = None
    oldest_id: Id


class GapShown(Shown, Mirror[Gap]):
    channel_id: Id
    newest_id: Id | None
    oldest_id: Id


class GapsShown(Shown):
    gaps: tuple[GapShown, ...]


class BoundaryBody(Body):
    at: Moment
    kept: Annotated[tuple[Id, ...], Field(max_length=MAX_BATCH)] = ()
    by: Id = 0


class Answered(ChannelShown):
    """An answer of the bot that quotes what is gone."""

    id: Id


class RedactionsShown(Shown):
    answers: tuple[Answered, ...]


class Done(Shown):
    """It is in force."""

    status: str = "ok"


class OptedOutShown(Shown):
    opted_out: bool


class ReturnShown(Shown):
    """An opt-in takes effect when what was forgotten is removed."""

    returning: bool = Field(description="Whether it still waits for that.")
    left: int | None = Field(None, description="Messages left to remove; null if it does not wait, or is not told.")


class ServiceStatus(Shown):
    """Numbers concern all guilds, so they are null for a token that is bound to some."""

    redis: bool
    queued: int | None = None
    dropped: int | None = None
    pending: int | None = None
    lag_s: float | None = None


class FlushBody(Body):
    timeout_s: Annotated[float, Field(strict=True, ge=0, le=30, allow_inf_nan=False)] = 30.0


class Flushed(Shown):
    searchable: bool = Field(description="False if that took longer than allowed.")


# --- recaps, loads and spending ---


LAST_DAY: Final = 100_000
"""In the year 2243."""
Micros = Annotated[int, Field(strict=True, ge=-(10**15), le=10**15)]


class RecapBody(AskBody):
    """Who asks for a recap, where and when, and the span it is about."""

    start: Moment
    end: Moment
    limit: Annotated[int, Field(strict=True, ge=200, le=20_000)] = Field(1_900, description="In characters.")

    def window(self) -> Window:
        return Window(self.start, self.end)


class RecapShown(Shown):
    text: str | None = Field(description="Null if nothing was said in that span.")


class LoadBody(Body):
    """Ids that bound a load of a channel's past, and how much of it is done."""

    start_id: Id
    done_id: Id
    end_id: Id
    stored: Count = 0
    summarised: Count = 0

    def value(self, channel_id: int) -> Load:
        return Load(channel_id, **dict(self))


class LoadShown(Shown, Mirror[Load]):
    channel_id: Id
    start_id: Id
    done_id: Id
    end_id: Id
    stored: int = 0
    summarised: int = 0


class LoadsShown(Shown):
    loads: tuple[LoadShown, ...]


class Accepted(Shown):
    accepted: bool


class SpendBody(Body):
    """A call of a language model for a channel, on a day counted from the epoch."""

    day: Annotated[int, Field(strict=True, ge=0, le=LAST_DAY)]
    guild_id: Id
    channel_id: Id
    micros: Micros = Field(description="Micro-dollars: the most it can cost, or by how much it cost more or less.")
    cap_micros: Count = 0


class SpentByChannel(ChannelShown):
    micros: int


class SpentShown(Shown):
    total: int
    channels: tuple[SpentByChannel, ...] = ()


# --- settings ---


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
    rows = [
        _row(one, own.values.get(name), settable=place.level in one.setting.levels) for name, one in effective.items()
    ]
    return LevelShown(
        level=place.level,
        guild_id=place.guild_id if place.level is not Level.GLOBAL else None,
        channel_id=(place.channel_id or channel_id) or None,
        character=place.character or None,
        settings=tuple(rows),
        changes=tuple(_change(effective[one.setting].setting, one) for one in changes),
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
