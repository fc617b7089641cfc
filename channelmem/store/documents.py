"""How messages, attachments and people are packed for Redis and read again, and small files of this machine."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import struct
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from channelmem.policy.policy import Limits
from channelmem.secrets import is_cluster
from channelmem.settings import Settings
from channelmem.store.keys import guild_and_channel, padded, room
from channelmem.types import Attachment, Message, Origin, Person

T = TypeVar("T")

log = logging.getLogger(__name__)


def place_of(settings: Settings) -> str:
    """Which Redis a copy belongs to. Passwords and the embedded server's port change, so they are no part of it."""
    if settings.redis_url is None:
        return f"embedded {settings.key_prefix}"
    where = settings.redis_url.get_secret_value()
    url = urlsplit(where)
    if is_cluster(where):
        return f"cluster {url.netloc.rpartition('@')[2]} {settings.key_prefix}"
    return f"{url.hostname}:{url.port}{url.path} {settings.key_prefix}"


def replace_file(path: Path, data: bytes) -> None:
    """Even if the machine stops meanwhile, the old or the new content is there."""
    fd, fresh = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)  # with mode 0600
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(fresh).replace(path)
    except OSError:
        Path(fresh).unlink(missing_ok=True)
        raise


class LocalCopy(NamedTuple):
    """A small file in the data directory, for its owner's eyes only. A disk that fails is a warning: there is no copy
    then."""

    path: Path
    what: str

    def read(self, parsed: Callable[[Any], T | None]) -> T | None:
        try:
            return parsed(json.loads(self.path.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("The local copy of %s is unusable: %s", self.what, type(error).__name__)
            return None

    def write(self, data: bytes) -> bool:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self.path, data)
        except OSError as error:
            return self._warn("keep a", error)
        return True

    def remove(self) -> bool:
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            return self._warn("remove the", error)
        return True

    def _warn(self, doing: str, error: OSError) -> bool:
        why = error.strerror or error
        log.warning("Can't %s local copy of %s in %s: %s", doing, self.what, self.path.parent, why)
        return False


# --- attachments ---


BEGIN = b"["
"""The first byte of the JSON; ids and spaces, which come before it, do not contain it."""
ITEM = ("id", "url", "type", "name", "size", "alt", "seconds", "text", "embed")
"""What the JSON calls the fields of an attachment, in their order."""
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
    is known of the attachments. `lib/attachments.lua` makes the same."""
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
    item = dict(zip(ITEM, (str(one.id), *astuple(one)[1:-1], int(one.embed)), strict=True))
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


# --- documents ---


SEPARATOR = "\x1f"
_PARENT = struct.Struct("<Qd")
READ_BEFORE = 8_192
"""Messages kept parsed: the next question mostly reads the same ones. Equal bytes are the same message."""


@dataclass(frozen=True, slots=True)
class RosterEntry:
    """Somebody known in a channel, and when they last spoke."""

    person: Person
    last_ts: float


def clean(text: str) -> str:
    """Replaces lone surrogates by U+FFFD, joins split pairs, and removes NUL and our field separator."""
    if not text.isprintable():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        text = text.replace("\x00", "").replace("\x1f", "")
    return text


def to_values(message: Message, limits: Limits) -> tuple[str | int | bytes, ...]:
    """The ten values of an `add` event, and an eleventh if the message was made of others. The limits of the message's
    policy travel with it."""
    about = pack(message)
    values = (
        message.guild_id,
        room(message.guild_id, message.channel_id),
        padded(message.id),
        message.author_id,
        message.searchable if message.attachments else message.content,
        repr(message.ts),
        "own" if message.own else "addressed" if message.addressed else "",
        about,
        SEPARATOR.join((message.author, *message.aliases)),
        pack_limits(limits),
    )
    return (*values, pack_origins(message.guild_id, message.derived_from)) if message.derived_from else values


LIMITS_AT = 9


def late(values: Sequence[str | int | bytes]) -> tuple[str | int | bytes, ...]:
    """An `add` event that had to wait. Its limits are those of then: an archive that was off may be on again, so this
    event removes nothing of it. If it is still off, the next one does."""
    limits, _, undo_until = str(values[LIMITS_AT]).rpartition(" ")
    if undo_until == "0.0":  # nobody ever switched it
        return tuple(values)
    return (*values[:LIMITS_AT], f"{limits} inf", *values[LIMITS_AT + 1 :])


def change_of(kind: str, values: tuple[str | int | bytes, ...]) -> tuple[object, ...]:
    """What an event of the outbox changes: two of them change the same, whatever links were guessed meanwhile."""
    about = values[7] if kind == "add" else b""
    if isinstance(about, bytes) and about:
        return (*values[1:3], about.partition(SEPARATOR.encode())[0])
    return (kind, *values)


def pack_origins(guild_id: int, origins: Iterable[Origin]) -> str:
    """As one argument for the scripts; `standing` in lib/sources.lua reads it."""
    return " ".join(f"{room(guild_id, one.channel_id)}:{padded(one.id)}:{one.revision!r}" for one in origins)


@lru_cache(maxsize=1_024)
def pack_limits(limits: Limits) -> str:
    """As one argument for the scripts; `limits_of` in lib/rules.lua reads it."""
    n, archive, undo = limits.max_messages, int(limits.archive), limits.undo_until
    return f"{n} {limits.buffer_s!r} {limits.archive_s!r} {archive} {limits.summary_s!r} {undo!r}"


def pack(message: Message) -> bytes:
    """The `about` field: revision, name, explicit parent, mentions with attachments; last, in binary, the probable
    parents."""
    mentions = " ".join(map(str, message.mentions))
    readable = (
        to_revision(message),
        message.author,
        "" if message.reply_to is None else str(message.reply_to),
        mentions + to_json(message.attachments) if message.attachments else mentions,
        "",
    )
    return SEPARATOR.join(readable).encode() + b"".join(_PARENT.pack(*parent) for parent in message.parents)


def to_revision(message: Message) -> str:
    """Empty if the message was never edited; carries a mark once its attachments are described."""
    revision = repr(message.revision) if message.revision else ""
    return revision + to_mark(message) if message.attachments else revision


@lru_cache(maxsize=READ_BEFORE)
def to_message(guild_id: int, channel_id: int, message_id: bytes, fields: tuple[Any, ...]) -> Message:
    """Reads raw fields in the order of index.FIELDS."""
    author_id, text, ts, flag, about = fields
    revision, author, reply_to, mentions, parents = about.split(b"\x1f", 4)
    attachments: tuple[Attachment, ...] = ()
    if mentions and BEGIN in mentions:
        mentions, begin, items = mentions.partition(BEGIN)
        attachments = from_json(begin + items)
        revision, text = split_mark(revision, text)
    return Message(
        guild_id,
        channel_id,
        int(message_id),
        int(author_id),
        author.decode(),
        text.decode(),
        float(ts),
        int(reply_to) if reply_to else None,
        tuple(map(int, mentions.split())) if mentions else (),
        flag == b"own",
        flag == b"addressed",
        float(revision) if revision else 0.0,
        (),
        tuple(_PARENT.iter_unpack(parents)) if parents else (),
        attachments,
    )


def forget_read() -> None:
    """Empties the cache: removed messages must not stay in memory."""
    to_message.cache_clear()


def from_row(row: Sequence[Any]) -> Message:
    """Reads a row of the reading scripts: room, id, fields."""
    channel, id_, fields = row
    return to_message(*guild_and_channel(channel), id_, tuple(fields))


class StoredMessage(NamedTuple):
    """A message as a search found it, read as far as ranking needs it. Few candidates are shown, and a whole `Message`
    takes three times as long to make. As a tuple it sorts in channel order."""

    channel_id: int
    ts: float
    id: int
    author_id: int
    content: str
    parents: tuple[tuple[int, float], ...]
    reply_to: int | None
    own: bool
    addressed: bool
    attachments: tuple[Attachment, ...]
    guild_id: int
    row: Sequence[Any]

    @property
    def searchable(self) -> str:
        return whole(self).searchable


AnyMessage = Message | StoredMessage


def whole(message: AnyMessage) -> Message:
    return message if isinstance(message, Message) else from_row(message.row)


def to_stored(row: Sequence[Any]) -> StoredMessage:
    """Reads the same rows as `from_row`."""
    channel, id_, (author_id, text, ts, flag, about) = row
    guild_id, channel_id = guild_and_channel(channel)
    _, _, reply_to, mentions, parents = about.split(b"\x1f", 4)
    content = text.decode()
    attachments: tuple[Attachment, ...] = ()
    if mentions and BEGIN in mentions:
        message = from_row(row)
        content, attachments = message.content, message.attachments
    return StoredMessage(
        channel_id,
        float(ts),
        int(id_),
        int(author_id),
        content,
        tuple(_PARENT.iter_unpack(parents)) if parents else (),
        int(reply_to) if reply_to else None,
        flag == b"own",
        flag == b"addressed",
        attachments,
        guild_id,
        row,
    )


def parse_person(author_id: bytes, packed: bytes) -> RosterEntry:
    last_ts, name, *aliases = packed.decode().split(SEPARATOR)
    return RosterEntry(Person(int(author_id), name, tuple(aliases)), float(last_ts))
