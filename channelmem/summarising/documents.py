"""Summaries as Redis holds them. In: a `Summary`. Out: a JSON document that people can read; and back.

Ids are strings, because JavaScript and many JSON readers round what is beyond 2^53. So are times, because RedisJSON
changes the last digit of some: a summary that starts a little late would not cover its first message.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from channelmem.summarising.pyramid import Line, Shared, Summary
from channelmem.telling.quote import plain_name
from channelmem.types import Origin, Person

READ_BEFORE = 4_096
"""Summaries kept parsed: the next question reads the same ones. Equal bytes are the same summary."""


def to_document(summary: Summary) -> str:
    document: dict[str, Any] = {
        "level": summary.level,
        "start": repr(summary.start),
        "end": repr(summary.end),
        "text": summary.text,
        "topics": summary.topics,
        "message_count": summary.message_count,
        "authors": [{"id": str(one.id), "name": one.name} for one in summary.authors],
        "model": summary.model,
        "created": repr(summary.created),
    }
    if summary.parts:
        document["parts"] = summary.parts
    else:
        channel_ids = {one.channel_id for one in summary.origins}
        document |= {"channel": str(*channel_ids), "messages": _pack(summary.origins)}
    if summary.lines:
        document["lines"] = [
            {"message": str(one.message_id), "author": str(one.author_id), "ts": repr(one.ts), "weight": one.weight}
            | {"text": one.text}
            for one in summary.lines
        ]
    if summary.shared != Shared():
        document["shared"] = asdict(summary.shared)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=READ_BEFORE)
def from_document(document: bytes) -> Summary:
    read = json.loads(document)
    channel_id = int(read.get("channel", 0))
    names = {one["id"]: _plain(one["name"]) for one in read["authors"]}
    return Summary(
        level=int(read["level"]),
        start=float(read["start"]),
        end=float(read["end"]),
        text=read["text"],
        message_count=int(read["message_count"]),
        authors=tuple(Person(int(one["id"]), one["name"]) for one in read["authors"]),
        topics=tuple(read["topics"]),
        model=read["model"],
        created=float(read["created"]),
        origins=_origins(channel_id, read.get("messages", ())),
        parts=tuple(read.get("parts", ())),
        lines=tuple(_line(one, names) for one in read.get("lines", ())),
        shared=Shared(**read.get("shared", {})),
    )


def forget_read() -> None:
    """Empties the cache: removed words must not stay in memory."""
    from_document.cache_clear()
    _plain.cache_clear()


_plain = lru_cache(maxsize=1_024)(plain_name)
"""The same people are named in every summary of a channel."""


def _pack(origins: Iterable[Origin]) -> list[dict[str, str]]:
    return [{"id": str(one.id), "revision": repr(one.revision)} for one in origins]


def _origins(channel_id: int, read: Iterable[Mapping[str, Any]]) -> tuple[Origin, ...]:
    return tuple(Origin(channel_id, int(one["id"]), float(one["revision"])) for one in read)


def _line(read: Mapping[str, Any], names: Mapping[str, str]) -> Line:
    return Line(
        int(read["message"]),
        int(read["author"]),
        names.get(read["author"], ""),
        float(read["ts"]),
        read["text"],
        float(read["weight"]),
    )
