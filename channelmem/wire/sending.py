"""What the client sends. In: messages and questions. Out: their JSON: ids as strings, nothing that is at its default.

Made by hand, because what Discord sends has been checked already and must not be cut off here by a limit.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from channelmem.types import Attachment, Message, Origin, Person, Question, RelatedChannel

_NOT_SENT: Final = frozenset({"parents"})
_IDS: Final = frozenset({"guild_id", "channel_id", "id", "author_id", "asker_id", "reply_to", "thread_of"})
_EDITED: Final = ("guild_id", "channel_id", "id")


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
        if one.name not in _NOT_SENT and held != one.default:
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
            return [_plain(name, one) for one in held]
    if name in _IDS or (isinstance(held, int) and name in {"mentions", "readable_channel_ids"}):
        held = None if held is None else str(held)
    return held
