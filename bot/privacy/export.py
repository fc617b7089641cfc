"""Export of a person's messages. In: their messages, Discord's upload limit. Out: a file that fits."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from datetime import UTC, datetime

from channelmem.types import Message

PLAIN = "my-messages.jsonl"
PACKED = "my-messages.jsonl.gz"
TRUNCATED = " The file holds only the newest ones; the rest doesn't fit in an upload."


def to_line(message: Message) -> str:
    """One JSON line; ids are strings because JSON readers round large numbers."""
    fields: dict[str, object] = {
        "guild_id": str(message.guild_id),
        "channel_id": str(message.channel_id),
        "id": str(message.id),
        "time": datetime.fromtimestamp(message.ts, UTC).isoformat(),
        "content": message.content,
    }
    if message.attachments:
        fields["attachments"] = [{"name": one.name, "alt": one.alt, "text": one.text} for one in message.attachments]
    return json.dumps(fields, ensure_ascii=False)


def fit(lines: Sequence[str], limit: int, name: str = PLAIN) -> tuple[str, bytes, str]:
    """File name, content and a remark: plain if it fits, else gzipped, else only the newest part."""
    data = "\n".join(lines).encode()
    if len(data) <= limit:
        return name, data, ""
    packed = gzip.compress(data)
    if len(packed) <= limit:
        return f"{name}.gz", packed, ""
    newest = data[-limit:].split(b"\n", 1)[-1]
    return name, newest, TRUNCATED
