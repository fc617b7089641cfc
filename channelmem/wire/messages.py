"""What all of the JSON is made of: ids, texts, times, and models that become the values they stand for. And messages in
it: as callers send them, as the service shows them, and what a client sends of a value."""

from __future__ import annotations

import inspect
import time
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from channelmem.types import LAST_TS, Attachment, Message, Origin, Outcome, Person, Question, RelatedChannel

LARGEST_ID: Final = 10**19 - 1
"""19 digits: any snowflake, and less than 2^64."""
MAX_TEXT: Final = 16_000
"""Characters of a message as sent; the memory cuts what it stores much shorter."""
MAX_NAME: Final = 200
MAX_LIST: Final = 200

_DIGITS: Final = {"type": "string", "pattern": "^[0-9]{1,19}$", "examples": ["922222222222222222"]}


def _whole(value: object) -> int:
    """Neither True nor 1.0 nor '1_0' is an id, although Python would convert them."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_ID:
        raise ValueError("an id is a string of up to 19 digits, such as '922222222222222222'")
    return value


Id = Annotated[
    int,
    BeforeValidator(_whole),
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema({"anyOf": [_DIGITS, {"type": "integer", "minimum": 0, "maximum": LARGEST_ID}]}, mode="validation"),
    WithJsonSchema(_DIGITS, mode="serialization"),
]
_SIGNED: Final = {"type": "string", "pattern": "^-?[0-9]{1,19}$"}


def _signed(value: object) -> int:
    """The same for a number of our own, which may be negative."""
    if isinstance(value, str) and value.startswith("-"):
        return -_whole(value[1:])
    return -_whole(-value) if isinstance(value, int) and value < 0 else _whole(value)


SourceId = Annotated[
    int,
    BeforeValidator(_signed),
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema(_SIGNED),
]
"""A message's id; a summary has a negative number instead."""
PathId = Annotated[int, BeforeValidator(_whole), WithJsonSchema(_DIGITS)]
"""An id in a path or a query, where everything is a string."""

Text = Annotated[str, Field(strict=True, max_length=MAX_TEXT)]
Name = Annotated[str, Field(strict=True, max_length=MAX_NAME)]
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0)]
Moment = Annotated[float, Field(strict=True, ge=0, le=LAST_TS, allow_inf_nan=False)]
"""Epoch seconds."""
Span = Annotated[float, Field(strict=True, ge=0, le=LAST_TS, allow_inf_nan=False)]
"""Seconds."""


T = TypeVar("T")


class Mirror(BaseModel, Generic[T]):
    """Has the fields of a value; it may lack some, and have others besides."""

    def value(self) -> T:
        made, names = _mirrored(type(self))
        mirrored: T = made(**{name: plain(getattr(self, name)) for name in names})
        return mirrored


@cache
def _mirrored(model: type[BaseModel]) -> tuple[Any, tuple[str, ...]]:
    """The type of the value, and the fields that both have."""
    (made,) = next(args for base in model.__mro__ if (args := _arguments(base)))
    known = inspect.signature(made).parameters
    return made, tuple(name for name in model.model_fields if name in known)


def _arguments(base: type) -> tuple[Any, ...]:
    return base.__pydantic_generic_metadata__["args"] if issubclass(base, BaseModel) else ()


def plain(held: Any) -> Any:
    """The values that models stand for, also in a tuple of them."""
    if isinstance(held, tuple):
        return tuple(map(plain, held))
    return held.value() if isinstance(held, Mirror) else held


class Body(BaseModel):
    """What callers send: a misspelt field is an error, not silently ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Shown(BaseModel):
    """What the service sends: an older client ignores what it does not know yet."""

    model_config = ConfigDict(extra="ignore", frozen=True, from_attributes=True, hide_input_in_errors=True)


# --- messages ---


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
_IDS: Final = frozenset({
    "guild_id", "channel_id", "id", "author_id", "asker_id", "reply_to", "thread_of",
    "mentions", "readable_channel_ids",
})  # fmt: skip
_EDITED: Final = ("guild_id", "channel_id", "id")
_PARTS: Final = frozenset({"reply_to", "thread_of", "mentions", "readable_channel_ids", "duration_s", "joined_ts"})
"""Left out if they are impossible."""


def is_sendable(message: Message) -> bool:
    """Whether it has a valid time and ids, without which it cannot be filed."""
    revisions = (message.revision, *(one.revision for one in message.derived_from))
    return has_place(message) and all(map(_is_time, (message.ts, *revisions)))


def has_place(message: Message) -> bool:
    """The same of its ids alone."""
    sources = (id_ for one in message.derived_from for id_ in (one.channel_id, one.id))
    return all(map(_is_id, (message.guild_id, message.channel_id, message.id, message.author_id, *sources)))


def edit_json(message: Message) -> dict[str, Any]:
    """Complete, so that the service needs to know nothing of it."""
    sent = value_json(message) | {"revision": message.revision, "content": message.content}
    return {name: value for name, value in sent.items() if name not in _EDITED}


def value_json(value: Message | Question | Attachment | Person | Origin | RelatedChannel) -> dict[str, Any]:
    """What of it is not at its default."""
    if isinstance(value, tuple):
        return {name: _plain(name, held) for name, held in value._asdict().items()}
    sent = {}
    for one in fields(value):
        held = getattr(value, one.name)
        if one.name not in _NOT_SENT and held != one.default and _is_possible(one.name, held):
            sent[one.name] = _plain(one.name, held)
    return sent


def _plain(name: str, held: Any) -> Any:
    match held:
        case Person() | Origin() | RelatedChannel() | Attachment():
            return value_json(held)
        case tuple():
            return [_plain(name, one) for one in held if _is_possible(name, one)]
    return str(held) if name in _IDS and held is not None else held


def _is_possible(name: str, held: Any) -> bool:
    if isinstance(held, (Person, Attachment, RelatedChannel)):
        return _is_id(held.id)
    if name == "size":
        return bool(held >= 0)
    if name in _PARTS and isinstance(held, (int, float)):
        return _is_id(held) if name in _IDS else _is_time(held)
    return True


def _is_id(number: float) -> bool:
    return 0 <= number <= LARGEST_ID


def _is_time(seconds: float) -> bool:
    return 0 <= seconds <= LAST_TS  # NaN compares as False
