"""What was made of messages goes when they go: answers of the bot that quote them, descriptions of their pictures.

The scripts apply one rule to every kind (lib/derived.lua, lib/sources.lua): something made is stored only while all of
its sources are visible and unchanged, and goes in the same step as the first of them: deleted, edited, cleared,
expired, or by somebody who opts out or asks to be forgotten. What is made of an answer has that answer's sources, too.
Answers are messages with `derived_from` (`Store.add`). Summaries (summaries.py) alone survive when their sources
expire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from channelmem.ids import MessageId
from channelmem.policy.policy import Policy
from channelmem.store.buckets import Buckets
from channelmem.store.documents import pack_limits, to_json
from channelmem.store.keys import guild_and_channel, padded, room
from channelmem.store.redis import pipelined, reads
from channelmem.types import Attachment, Message

REDACT_S = 24 * 60 * 60
"""Answers older than this stay on the platform as they are."""


class Derived:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    # --- answers that people can still read on the platform ---

    @reads
    async def to_redact(self) -> list[MessageId]:
        """Answers of the last day that quote what was deleted since, or somebody who asked to be forgotten."""
        oldest = self._buckets.clock() - REDACT_S
        keys = (self._buckets.keys(bucket).one("redact") for bucket in self._buckets.all)
        pages = await pipelined(self._buckets.redis, [("ZRANGEBYSCORE", key, oldest, "+inf") for key in keys])
        names = (name.partition(b":") for page in pages for name in page)
        return [MessageId(*guild_and_channel(channel), int(id_)) for channel, _, id_ in names]

    async def redacted(self, guild_id: int, channel_id: int, message_id: int) -> None:
        """This one needs no more attention."""
        key = self._buckets.guild_keys(guild_id).one("redact")
        await self._buckets.redis.zrem(key, f"{room(guild_id, channel_id)}:{padded(message_id)}")


# --- descriptions ---


MOST_FILES: Final = 10
"""Per message, as in `normalise`."""
CLAIM_MS: Final = 60_000
"""A process that dies while it reads holds others back no longer than this."""


class State(StrEnum):
    """What a look-up found (described.lua)."""

    KNOWN = "known"
    FAILED = "failed"
    CLAIMED = "claimed"
    BUSY = "busy"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Wanted:
    """An attachment to look up, for the reader that would read it."""

    message: Message
    attachment_id: int
    key: str
    reader: str
    rank: int
    pointed: bool
    """Whether somebody refers to it: then an earlier failure does not count."""

    @property
    def name(self) -> str:
        """Unique over all guilds."""
        return f"{room(self.message.guild_id, self.message.channel_id)}:{self.key}"


@dataclass(frozen=True, slots=True)
class Described:
    """What is known of one."""

    state: State
    text: str = ""
    """The description, or why there is none."""
    reader: str = ""
    loose: bool = False
    """Its message is not stored, so what is read of it must not be, either."""


class Descriptions:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    @reads
    async def look_up(self, wanted: Sequence[Wanted], token: str) -> list[Described]:
        """One for each, all of one guild, in one round trip."""
        guild_id = wanted[0].message.guild_id
        hidden = self._buckets.undelivered.withdrawn()
        arguments: list[Any] = [repr(self._buckets.clock()), guild_id, token, CLAIM_MS]
        for one in wanted:
            message = one.message
            arguments += (room(guild_id, message.channel_id), padded(message.id), repr(message.ts), message.author_id)
            arguments += (one.attachment_id, one.key, one.reader, one.rank, int(one.pointed))
        replies = await self._buckets.run("described", self._buckets.bucket(guild_id), arguments)
        found = [_described(*reply) for reply in replies]
        refused = Described(State.REFUSED)
        return [refused if hidden.hides(one.message) else it for one, it in zip(wanted, found, strict=True)]

    @reads
    async def attach(self, message: Message, files: Sequence[Attachment]) -> bool:
        """Adds what the platform found later to a stored message, which is not an edit; False if there is none."""
        guild_id = message.guild_id
        place = (room(guild_id, message.channel_id), padded(message.id))
        arguments = (*place, MOST_FILES, to_json(files))
        return bool(await self._buckets.run("attach", self._buckets.bucket(guild_id), arguments))

    @reads
    async def keep(self, one: Wanted, token: str, text: str, size: int, policy: Policy) -> bool:
        """Stores what was read, and makes the message findable by it; False if the message is gone."""
        message, guild_id = one.message, one.message.guild_id
        keep_ms = int(self._buckets.settings.media_ttl_days * 86_400_000)
        place = (guild_id, room(guild_id, message.channel_id), padded(message.id), one.attachment_id, one.key)
        arguments = (repr(self._buckets.clock()), pack_limits(policy.limits), *place, token)
        content = (text, one.reader, one.rank, size, keep_ms)
        return bool(await self._buckets.run("describe", self._buckets.bucket(guild_id), (*arguments, *content)))

    @reads
    async def fail(self, one: Wanted, token: str, why: str = "", hold_s: float = 0.0) -> None:
        """Ends a claim, and holds back look-ups that nobody asked for."""
        guild_id = one.message.guild_id
        arguments = (room(guild_id, one.message.channel_id), one.key, token, one.reader, why, int(hold_s * 1000))
        await self._buckets.run("unread", self._buckets.bucket(guild_id), arguments)


def _described(state: bytes, text: bytes = b"", reader: bytes = b"") -> Described:
    loose = state == b"claimed" and reader == b"loose"
    return Described(State(state.decode()), text.decode(errors="replace"), "" if loose else reader.decode(), loose)
