"""Channels and people in JSON: pages of messages, edits, statistics, gaps, decisions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from channelmem.types import ChannelStatus, Gap, Message
from channelmem.wire.messages import MAX_BATCH, AttachmentBody, MessageShown, OriginBody
from channelmem.wire.scalars import MAX_LIST, Body, Flag, Id, Moment, Name, Shown, Text


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
        changes = {name: getattr(self, name) for name in self.model_fields_set}
        for name in ("attachments", "derived_from"):
            if changes.get(name) is not None:
                changes[name] = tuple(one.value() for one in changes[name])
        kept = {name: value for name, value in changes.items() if value is not None or name == "reply_to"}
        known = {name: getattr(message, name) for name in message.__slots__}
        return Message(**known | kept | {"revision": revision, "parents": ()})


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


class StatsShown(Shown):
    messages: int
    pending: int = Field(description="Messages still waiting for their vector.")
    oldest_ts: float | None
    newest_ts: float | None
    newest_id: Id | None
    paused: bool
    archive: bool

    def value(self) -> ChannelStatus:
        return ChannelStatus(
            self.messages, self.pending, self.oldest_ts, self.newest_ts, paused=self.paused, archive=self.archive
        )


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


class GapShown(Shown):
    channel_id: Id
    newest_id: Id | None
    oldest_id: Id

    def value(self) -> Gap:
        return Gap(self.channel_id, self.newest_id, self.oldest_id)


class GapsShown(Shown):
    gaps: tuple[GapShown, ...]


class BoundaryBody(Body):
    at: Moment
    kept: Annotated[tuple[Id, ...], Field(max_length=MAX_BATCH)] = ()
    by: Id = 0


class Answered(Shown):
    """An answer of the bot that quotes what is gone."""

    guild_id: Id
    channel_id: Id
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
