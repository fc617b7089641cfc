"""What was made of messages goes when they go: answers of the bot that quote them, descriptions of their pictures,
summaries.

The scripts apply one rule to every kind (lib/derived.lua, lib/sources.lua): something made is stored only while all of
its sources are visible and unchanged, and goes in the same step as the first of them: deleted, edited, cleared,
expired, or by somebody who opts out or asks to be forgotten. What is made of an answer has that answer's sources, too.
Answers are messages with `derived_from` (`Store.add`). Summaries alone survive when their sources expire; with one that
goes, every level above it goes in the same step. What this process could not tell Redis yet is hidden here (outbox.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from channelmem.ids import MessageId
from channelmem.policy.policy import Policy
from channelmem.store.buckets import InBuckets
from channelmem.store.documents import pack_limits, pack_origins, to_json
from channelmem.store.keys import guild_and_channel, padded, room
from channelmem.store.outbox import Withdrawn
from channelmem.store.redis import pipelined, reads
from channelmem.types import Attachment, Message, Origin

REDACT_S = 24 * 60 * 60
"""Answers older than this stay on the platform as they are."""


class Derived(InBuckets):
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


class Descriptions(InBuckets):
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
        replies = await self._buckets.run_for(guild_id, "described", arguments)
        found = [_described(*reply) for reply in replies]
        refused = Described(State.REFUSED)
        return [refused if hidden.hides(one.message) else it for one, it in zip(wanted, found, strict=True)]

    @reads
    async def attach(self, message: Message, files: Sequence[Attachment]) -> bool:
        """Adds what the platform found later to a stored message, which is not an edit; False if there is none."""
        arguments = (room(message.guild_id, message.channel_id), padded(message.id), MOST_FILES, to_json(files))
        return bool(await self._buckets.run_for(message.guild_id, "attach", arguments))

    @reads
    async def keep(self, one: Wanted, token: str, text: str, size: int, policy: Policy) -> bool:
        """Stores what was read, and makes the message findable by it; False if the message is gone."""
        message, guild_id = one.message, one.message.guild_id
        keep_ms = int(self._buckets.settings.media_ttl_days * 86_400_000)
        place = (guild_id, room(guild_id, message.channel_id), padded(message.id), one.attachment_id, one.key)
        arguments = (repr(self._buckets.clock()), pack_limits(policy.limits), *place, token)
        content = (text, one.reader, one.rank, size, keep_ms)
        return bool(await self._buckets.run_for(guild_id, "describe", (*arguments, *content)))

    @reads
    async def fail(self, one: Wanted, token: str, why: str = "", hold_s: float = 0.0) -> None:
        """Ends a claim, and holds back look-ups that nobody asked for."""
        channel = room(one.message.guild_id, one.message.channel_id)
        arguments = (channel, one.key, token, one.reader, why, int(hold_s * 1000))
        await self._buckets.run_for(one.message.guild_id, "unread", arguments)


def _described(state: bytes, text: bytes = b"", reader: bytes = b"") -> Described:
    loose = (state, reader) == (b"claimed", b"loose")
    return Described(State(state.decode()), text.decode(errors="replace"), "" if loose else reader.decode(), loose)


# --- summaries ---


LOCK_MS = 60_000
"""A process that died holds a channel back for at most this long."""
PAGE = 1_000
"""Messages that one script looks at: about 3 ms of Redis."""


class Committed(StrEnum):
    DONE = "done"
    LOST = "lost"
    """The lock is another's by now."""
    CHANGED = "changed"
    """A source went or changed meanwhile; nothing was stored."""


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A summary as the script takes it."""

    id: str
    start: float
    document: str
    origins: tuple[Origin, ...] = ()
    passing: tuple[Message, ...] = ()
    """Instead of origins: messages that are not stored."""
    parts: tuple[str, ...] = ()
    """Instead of both: the summaries below."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What a channel has of summaries, and what it lacks."""

    ids: tuple[str, ...] = ()
    left: tuple[float, ...] = ()
    """When messages were sent that no summary has, oldest first."""


class SummaryStore(InBuckets):
    def now(self) -> float:
        return self._buckets.clock()

    def withdrawn(self) -> Withdrawn:
        """What Redis could not hear of yet; to be asked for before it is read."""
        return self._buckets.undelivered.withdrawn()

    async def buckets(self) -> list[int]:
        """Those where something may be due, as far as their nodes answer."""
        return await self._buckets.where("EXISTS", "due", "updating", partly=True)

    # --- reading ---

    @reads
    async def since(self, guild_id: int, channel_id: int, start: float | None, policy: Policy) -> list[bytes]:
        """The documents of all summaries that begin at `start` or later, in one round trip."""
        earliest = -math.inf if start is None else start
        return await self._read(guild_id, channel_id, policy, "from", repr(earliest))

    @reads
    async def some(self, guild_id: int, channel_id: int, ids: Iterable[str], policy: Policy) -> list[bytes]:
        """The documents of these summaries, as far as they stand."""
        wanted = list(ids)
        return await self._read(guild_id, channel_id, policy, "ids", *wanted) if wanted else []

    async def _read(self, guild_id: int, channel_id: int, policy: Policy, *which: str) -> list[bytes]:
        head = (repr(self.now()), pack_limits(policy.limits), room(guild_id, channel_id))
        found: list[bytes] = await self._buckets.run_for(guild_id, "summaries", (*head, *which))
        return found

    @reads
    async def ids(self, guild_id: int, channel_id: int, policy: Policy) -> list[str]:
        key = self._buckets.guild_keys(guild_id).of("summaries", room(guild_id, channel_id))
        oldest = self.now() - policy.limits.summary_s
        found: Any = await self._buckets.redis.zrangebyscore(key, oldest, "+inf")
        return [one.decode() for one in found]

    @reads
    async def outline(self, guild_id: int, channel_id: int, policy: Policy) -> Outline:
        """Looks at every message of the channel, page by page, so that Redis serves others in between."""
        head = (repr(self.now()), pack_limits(policy.limits), guild_id, room(guild_id, channel_id))
        ids, left, seen, looked = list[bytes](), list[float](), 0, PAGE
        while looked == PAGE:
            looked, ids, times = await self._buckets.run_for(guild_id, "outline", (*head, seen, PAGE))
            left += map(float, times)
            seen += looked
        return Outline(tuple(one.decode() for one in ids), tuple(left))

    # --- changing ---

    @reads
    async def commit(
        self,
        guild_id: int,
        channel_id: int,
        token: str,
        removed: Sequence[str],
        made: Sequence[SummaryRow],
        policy: Policy,
    ) -> Committed:
        """Replaces summaries in one atomic step, while the token still holds the channel's lock."""
        channel = room(guild_id, channel_id)
        arguments = [repr(self.now()), pack_limits(policy.limits), guild_id, channel, token, len(removed), *removed]
        for one in made:
            arguments += (one.id, repr(one.start), _sources(guild_id, one), one.document)
        reply: bytes = await self._buckets.run_for(guild_id, "summarise", arguments)
        return Committed(reply.decode())

    # --- who updates what ---

    async def claim(self, bucket: int, token: str, most: int) -> list[tuple[int, int]]:
        """Guild and channel of what is due in a bucket, locked with the token."""
        return await self._claim(bucket, token, "", most)

    async def lock(self, guild_id: int, channel_id: int, token: str) -> bool:
        """Whether the token holds this channel now."""
        return bool(await self._claim(self._buckets.bucket(guild_id), token, room(guild_id, channel_id), 1))

    @reads
    async def _claim(self, bucket: int, token: str, wanted: str, most: int) -> list[tuple[int, int]]:
        debounce_s = self._buckets.settings.summary_debounce_s
        arguments = (repr(self.now()), token, LOCK_MS, debounce_s, wanted, most)
        return [guild_and_channel(one) for one in await self._buckets.run("claim", bucket, arguments)]

    async def keep(self, guild_id: int, channel_id: int, token: str) -> bool:
        """Holds a lock for longer; False if it was lost."""
        return await self._unlock(guild_id, channel_id, token, "keep", LOCK_MS)

    async def free(self, guild_id: int, channel_id: int, token: str, due: float | None) -> bool:
        """Gives a lock back, and says when the channel is due next."""
        return await self._unlock(guild_id, channel_id, token, "free", "" if due is None else repr(due))

    @reads
    async def _unlock(self, guild_id: int, channel_id: int, token: str, *how: str | int) -> bool:
        arguments = (room(guild_id, channel_id), token, *how)
        return bool(await self._buckets.run_for(guild_id, "unlock", arguments))


def _sources(guild_id: int, row: SummaryRow) -> str:
    if row.parts:
        return " ".join(row.parts)
    if not row.passing:
        return pack_origins(guild_id, row.origins)
    return " ".join(
        f"{room(guild_id, one.channel_id)}:{padded(one.id)}:{one.revision!r}:{one.author_id}:{one.ts!r}"
        for one in row.passing
    )
