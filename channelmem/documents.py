"""Between values and documents: a message as the `apply` script takes it, and messages from raw replies.

On the way of every question, so it reads hiredis' lists by position instead of building dictionaries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from channelmem.keys import padded
from channelmem.types import Message, Person

SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True)
class Seen:
    """Somebody known in a channel, and when they last spoke."""

    person: Person
    last_ts: float


def to_values(message: Message) -> tuple[str | int, ...]:
    """The thirteen values of an `add` event."""
    flag = "own" if message.own else "addressed" if message.addressed else ""
    return (
        message.guild_id,
        message.channel_id,
        padded(message.id),
        message.author_id,
        message.author,
        message.content,
        repr(message.ts),
        to_revision(message),
        flag,
        "" if message.reply_to is None else message.reply_to,
        " ".join(map(str, message.mentions)),
        " ".join(f"{parent}:{p:.3g}" for parent, p in message.parents),
        "".join(SEPARATOR + alias for alias in message.aliases),
    )


def to_revision(message: Message) -> str:
    """Absent for a message that was never edited."""
    return repr(message.revision) if message.revision else ""


def to_message(guild_id: int, row: list[Any]) -> Message:
    """From a row of the reading scripts: channel, id and the fields in the order of schema.FIELDS."""
    author_id, author, text, ts, rev, flag, reply_to, mentions, parents = row[2][:9]
    return Message(
        guild_id,
        int(row[0]),
        int(row[1]),
        int(author_id),
        author.decode(),
        text.decode(),
        float(ts),
        int(reply_to) if reply_to else None,
        tuple(map(int, mentions.split())) if mentions else (),
        flag == b"own",
        flag == b"addressed",
        float(rev) if rev else 0.0,
        (),
        to_parents(parents) if parents else (),
    )


def to_parents(packed: bytes) -> tuple[tuple[int, float], ...]:
    pairs = [part.split(b":") for part in packed.split()]
    return tuple((int(parent), float(p)) for parent, p in pairs)


def parse_person(author_id: bytes, packed: bytes) -> Seen:
    last_ts, name, *aliases = packed.decode().split(SEPARATOR)
    return Seen(Person(int(author_id), name, tuple(aliases)), float(last_ts))
