"""Messages in JSON: as callers send them, as the service shows them, and what a client sends of a value."""

from __future__ import annotations

import time
from dataclasses import fields
from typing import Annotated, Any, Final

from pydantic import Field

from channelmem.types import LAST_TS, Attachment, Message, Origin, Outcome, Person, Question, RelatedChannel
from channelmem.wire.scalars import (
    LARGEST_ID,
    MAX_LIST,
    Body,
    Count,
    Flag,
    Id,
    Mirror,
    Moment,
    Name,
    Shown,
    Span,
    Text,
)

MAX_BATCH = 1_000


class PersonBody(Body, Mirror[Person]):
    id: Id
    name: Name
    aliases: Annotated[tuple[Name, ...], Field(max_length=MAX_LIST)] = ()


class AttachmentBody(Body, Mirror[Attachment]):
    id: Id
    url: Text = ""
    content_type: Name = ""
    name: Text = ""
    size: Count = 0
    alt: Text = ""
    duration_s: Span | None = None
    text: Text = Field("", description="A description or transcript, if the caller knows one already.")
    embed: Flag = Field(False, description="The picture of a link preview, whose id is made of its address.")


class OriginBody(Body, Mirror[Origin]):
    """A message that something was made of, as it was then."""

    channel_id: Id
    id: Id
    revision: Moment = 0.0


class MessageBody(Body, Mirror[Message]):
    """A message to remember. The same id twice is one message; a higher `revision` replaces the text."""

    guild_id: Id = Field(description="Server, workspace or any other border that memory never crosses.")
    channel_id: Id
    id: Id
    author_id: Id
    author: Name = Field(description="The name people see.")
    content: Text
    ts: Moment = Field(default_factory=time.time, description="When it was sent, in epoch seconds; now if absent.")
    reply_to: Id | None = None
    mentions: Annotated[tuple[Id, ...], Field(max_length=MAX_LIST)] = ()
    own: Flag = Field(False, description="Written by the bot itself.")
    addressed: Flag = Field(False, description="Addressed to the bot: such messages are found only if asked for.")
    revision: Moment = Field(0.0, description="When it was last edited, in epoch seconds.")
    aliases: Annotated[tuple[Name, ...], Field(max_length=MAX_LIST)] = ()
    attachments: Annotated[tuple[AttachmentBody, ...], Field(max_length=MAX_LIST)] = ()
    thread_of: Id = Field(
        0,
        description="The channel of the thread it was written in, whose settings apply; 0 if none. It is noted once, "
        "and counts from a token with the admin scope; from others it can only close something.",
    )
    age_restricted: Flag = Field(False, description="In a channel for adults only: its media are read only by setting.")
    derived_from: Annotated[tuple[OriginBody, ...], Field(max_length=MAX_BATCH)] = Field(
        (), description="What an answer of the bot quotes: it goes with the first of it."
    )


class OriginShown(Shown, Mirror[Origin]):
    channel_id: Id
    id: Id
    revision: float = 0.0


class AttachmentShown(Shown, Mirror[Attachment]):
    id: Id
    url: str = ""
    content_type: str = ""
    name: str = ""
    size: int = 0
    alt: str = ""
    duration_s: float | None = None
    text: str = ""
    embed: bool = False


class MessageShown(Shown, Mirror[Message]):
    """A stored message."""

    guild_id: Id
    channel_id: Id
    id: Id
    author_id: Id
    author: str
    content: str
    ts: float
    reply_to: Id | None = None
    mentions: tuple[Id, ...] = ()
    own: bool = False
    addressed: bool = False
    revision: float = 0.0
    aliases: tuple[str, ...] = ()
    parents: tuple[tuple[Id, float], ...] = Field((), description="What it probably answers: id and probability.")
    attachments: tuple[AttachmentShown, ...] = ()


class Remembered(Shown):
    """What became of one message."""

    guild_id: Id
    channel_id: Id
    id: Id
    outcome: Outcome


class Outcomes(Shown):
    """In the order of the messages."""

    outcomes: tuple[Remembered, ...]


# --- sending ---


_NOT_SENT: Final = frozenset({"parents"})
_IDS: Final = frozenset({"guild_id", "channel_id", "id", "author_id", "asker_id", "reply_to", "thread_of"})
_EDITED: Final = ("guild_id", "channel_id", "id")
_PARTS: Final = frozenset({"reply_to", "thread_of", "duration_s", "joined_ts"})
"""Left out if they are impossible."""


def is_sendable(message: Message) -> bool:
    """Whether it has a valid time and ids, without which it cannot be filed."""
    revisions = (message.revision, *(one.revision for one in message.derived_from))
    return has_place(message) and all(map(_is_time, (message.ts, *revisions)))


def has_place(message: Message) -> bool:
    """The same of its ids alone."""
    sources = (id_ for one in message.derived_from for id_ in (one.channel_id, one.id))
    return all(map(_is_id, (message.guild_id, message.channel_id, message.id, message.author_id, *sources)))


def message_json(message: Message) -> dict[str, Any]:
    return _json(message)


def edit_json(message: Message) -> dict[str, Any]:
    """Complete, so that the service needs to know nothing of it."""
    sent = _json(message) | {"revision": message.revision, "content": message.content}
    return {name: value for name, value in sent.items() if name not in _EDITED}


def question_json(question: Question) -> dict[str, Any]:
    return _json(question)


def person_json(person: Person) -> dict[str, Any]:
    return {"id": str(person.id), "name": person.name, "aliases": list(person.aliases)}


def origin_json(origin: Origin) -> dict[str, Any]:
    return {"channel_id": str(origin.channel_id), "id": str(origin.id), "revision": origin.revision}


def _json(value: Message | Question | Attachment) -> dict[str, Any]:
    sent = {}
    for one in fields(value):
        held = getattr(value, one.name)
        if one.name not in _NOT_SENT and held != one.default and _is_possible(one.name, held):
            sent[one.name] = _plain(one.name, held)
    return sent


def _plain(name: str, held: Any) -> Any:
    match held:
        case Person():
            return person_json(held)
        case Origin():
            return origin_json(held)
        case RelatedChannel():
            return {"id": str(held.id), "name": held.name}
        case Attachment():
            return _json(held)
        case tuple():
            return [_plain(name, one) for one in held if _is_possible(name, one)]
    if name in _IDS or (isinstance(held, int) and name in {"mentions", "readable_channel_ids"}):
        held = None if held is None else str(held)
    return held


def _is_possible(name: str, held: Any) -> bool:
    if isinstance(held, (Person, Attachment, RelatedChannel)):
        return _is_id(held.id)
    if name == "size":
        return bool(held >= 0)
    if name in _PARTS and held is not None:
        return _is_id(held) if name in _IDS else _is_time(held)
    return _is_id(held) if isinstance(held, int) and name in {"mentions", "readable_channel_ids"} else True


def _is_id(number: int) -> bool:
    return 0 <= number <= LARGEST_ID


def _is_time(seconds: float) -> bool:
    return 0 <= seconds <= LAST_TS  # NaN compares as False
