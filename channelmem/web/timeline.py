"""A channel as a timeline. In: its stored messages, newest first. Out: rows as text and numbers, for the template and,
as JSON, for the script that keeps the page current.

Whatever is formatted is formatted here, so that the script only has to put text into places.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from channelmem.policy import Policy
from channelmem.telling.quote import cut, flatten, named
from channelmem.types import Attachment, Message, Stored
from channelmem.web.rails import Rail, rails
from channelmem.web.templating import clock, day, left, size

REPLY_CHARS: Final = 80
NAME_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class FileRow:
    name: str
    facts: str
    """Kind and size."""
    text: str
    """What is known of its content."""


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    author: str
    text: str
    clock: str
    day: str
    state: str
    """pending or embedded."""
    left: str
    """How long it will live."""
    share: int
    """The same in percent of a whole life."""
    flag: str
    """own, addressed, or nothing."""
    edited: bool
    buffered: bool
    """Whether it is in the rolling buffer; else it is only in the archive."""
    reply_id: str
    reply: str
    rail: Rail
    files: tuple[FileRow, ...]


BLANK: Final = Row("", "", "", "", "", "", "", 0, "", False, False, "", "", Rail(), ())
"""For the template that the script copies."""


def rows(stored: Sequence[Stored], policy: Policy, now: float, place: int = 0) -> list[Row]:
    """`place` is how many newer messages there are before these."""
    messages = [one.message for one in stored]
    people = {one.author_id: one.author for one in messages}
    known = {one.id: one for one in messages}
    return [
        _row(one, rail, policy, people, known.get(one.message.reply_to or 0), _buffered(one, policy, now, place + at))
        for at, (one, rail) in enumerate(zip(stored, rails(messages), strict=True))
    ]


def as_json(shown: Sequence[Row], **facts: Any) -> dict[str, Any]:
    """With a version that changes whenever anything does."""
    body = {"rows": [asdict(row) for row in shown], "lanes": lanes(shown), **facts}
    return body | {"version": hashlib.sha256(json.dumps(body).encode()).hexdigest()[:16]}


def lanes(shown: Sequence[Row]) -> int:
    """How many lanes the rails need side by side."""
    return 1 + max((row.rail.lane for row in shown), default=0)


def _buffered(one: Stored, policy: Policy, now: float, place: int) -> bool:
    return place < policy.limits.max_messages and now - one.message.ts <= policy.limits.buffer_s


def _row(
    one: Stored, rail: Rail, policy: Policy, people: Mapping[int, str], answered: Message | None, buffered: bool
) -> Row:
    message = one.message
    return Row(
        id=str(message.id),
        author=_name(message.author),
        text=named(message.content, people),
        clock=clock(message.ts, policy.tz),
        day=day(message.ts, policy.tz),
        state="embedded" if one.embedded else "pending",
        left=left(one.ttl_s),
        share=max(1, min(100, round(100 * one.ttl_s / policy.limits.lifetime_s))),
        flag="own" if message.own else "addressed" if message.addressed else "",
        edited=message.revision > 0,
        buffered=buffered,
        reply_id=str(answered.id) if answered else "",
        reply=f"{_name(answered.author)}: {cut(flatten(answered.content), REPLY_CHARS)}" if answered else "",
        rail=rail,
        files=tuple(map(_file, message.attachments)),
    )


def _name(name: str) -> str:
    return cut(flatten(name), NAME_CHARS) or "somebody"


def _file(one: Attachment) -> FileRow:
    kind = one.content_type.partition(";")[0] or "file"
    facts = f"{kind}, {size(one.size)}" if one.size else kind
    return FileRow(_name(one.name or "attachment"), flatten(facts), flatten(one.text or one.alt))
