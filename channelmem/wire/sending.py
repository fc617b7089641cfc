"""What the client sends. In: messages and questions. Out: their JSON: ids as strings, nothing that is at its default.

Made by hand, because what Discord sends has been checked already and must not be cut off here by a limit. What the
service would refuse (an impossible time or id) is left out, as a Memory does: of many messages the one, of one message
the part.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from channelmem.types import LAST_TS, Attachment, Message, Origin, Person, Question, RelatedChannel
from channelmem.wire.scalars import LARGEST_ID

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
