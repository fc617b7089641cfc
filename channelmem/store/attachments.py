"""Attachments inside a message's document. In: attachments, or their JSON from Redis. Out: the other one.

The JSON stands behind the mentions in `about`, so a message without attachments costs nothing and RedisInsight shows
the rest. Ids are strings, because Lua's numbers would round them; what is empty is left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from channelmem.types import Attachment, Message

BEGIN = b"["
"""The first byte of the JSON; ids and spaces, which come before it, do not contain it."""
MARK = "~"
"""Ends the revision of an enriched message. Behind it: length of the content in bytes, and a hash of the whole text."""


def to_json(attachments: Sequence[Attachment]) -> str:
    """Empty without attachments."""
    if not attachments:
        return ""
    return json.dumps([_to_item(one) for one in attachments], ensure_ascii=False, separators=(",", ":"))


def from_json(packed: bytes) -> tuple[Attachment, ...]:
    return tuple(_from_item(item) for item in json.loads(packed))


def to_mark(message: Message) -> str:
    """Tells texts of one revision apart, so that a vector is committed for the text it was made of; empty while nothing
    is known of the attachments. `attachments.lua` makes the same."""
    text = message.searchable
    if text == message.content:
        return ""
    digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return f"{MARK}{len(message.content.encode())}{MARK}{digest[:8]}"


def split_mark(version: bytes, text: bytes) -> tuple[bytes, bytes]:
    """The revision, and the content: what the person wrote of a text."""
    revision, _, mark = version.partition(MARK.encode())
    return revision, text[: int(mark.partition(MARK.encode())[0])] if mark else text


def _to_item(one: Attachment) -> dict[str, Any]:
    item = {
        "id": str(one.id),
        "url": one.url,
        "type": one.content_type,
        "name": one.name,
        "size": one.size,
        "alt": one.alt,
        "seconds": one.duration_s,
        "text": one.text,
        "embed": int(one.embed),
    }
    return {name: value for name, value in item.items() if value not in ("", 0, None)}


def _from_item(item: dict[str, Any]) -> Attachment:
    return Attachment(
        int(item["id"]),
        item.get("url", ""),
        item.get("type", ""),
        item.get("name", ""),
        int(item.get("size", 0)),
        item.get("alt", ""),
        item.get("seconds"),
        item.get("text", ""),
        bool(item.get("embed")),
    )
