"""What was made of messages, such as the bot's answers, and how it goes when they go. In: something made, with its
sources. Out: its text while all of its sources stand.

One rule for every kind, applied by the scripts (derived.lua, making.lua): something made is stored only while all of
its sources are visible and unchanged. It goes in the same step as the first of them: deleted, edited, cleared, expired,
or by somebody who opts out or asks to be forgotten. What is made of an answer has that answer's sources, too. The bot's
answers are messages with `derived_from` and go through `Store.add`. Summaries (summaries.py) are the one kind that
survives when its sources expire, and still goes with them afterwards. Other kinds are stored here.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from channelmem.policy import Policy
from channelmem.store.buckets import Buckets
from channelmem.store.connection import answered, reads
from channelmem.store.documents import pack_limits, pack_origins
from channelmem.store.keys import guild_and_channel, padded, room
from channelmem.types import Origin

REDACT_S = 24 * 60 * 60
"""Answers older than this stay on the platform as they are."""

Place = tuple[int, int, int]
"""Guild, channel and message."""


class Made(StrEnum):
    """Kinds with a text of their own."""

    DESCRIPTION = "description"
    """Stored by `descriptions.py`, which also says who read the attachment."""


class Derived:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    async def make(
        self, kind: Made, guild_id: int, channel_id: int, id_: int, text: str, origins: Iterable[Origin], policy: Policy
    ) -> bool:
        """Stores or replaces something; False, with nothing stored, unless all of its sources stand."""
        name, sources = _name(kind, guild_id, channel_id, id_), pack_origins(guild_id, origins)
        arguments = [repr(self._buckets.clock()), pack_limits(policy.limits), guild_id, name, text, sources]
        return bool(await self._buckets.run("make", self._buckets.bucket(guild_id), arguments))

    @reads
    async def text(self, kind: Made, guild_id: int, channel_id: int, id_: int) -> str | None:
        key = self._buckets.guild_keys(guild_id).of("made", _name(kind, guild_id, channel_id, id_))
        found: Any = await answered(self._buckets.redis.hget(key, "text"))
        return None if found is None else str(found, "utf-8")

    # --- answers that people can still read on the platform ---

    @reads
    async def to_redact(self) -> list[Place]:
        """Answers of the last day that quote what was deleted since, or somebody who asked to be forgotten."""
        oldest = self._buckets.clock() - REDACT_S
        async with self._buckets.redis.pipeline(transaction=False) as pipe:
            for bucket in self._buckets.all:
                pipe.zrangebyscore(self._buckets.keys(bucket).one("redact"), oldest, "+inf")
            replies: list[list[bytes]] = await answered(pipe.execute())
        found = (name.partition(b":") for names in replies for name in names)
        return [(*guild_and_channel(place), int(id_)) for place, _, id_ in found]

    async def redacted(self, guild_id: int, channel_id: int, message_id: int) -> None:
        """This one needs no more attention."""
        key = self._buckets.guild_keys(guild_id).one("redact")
        await answered(self._buckets.redis.zrem(key, f"{room(guild_id, channel_id)}:{padded(message_id)}"))


def _name(kind: Made, guild_id: int, channel_id: int, id_: int) -> str:
    return f"{kind.value}/{room(guild_id, channel_id)}:{padded(id_)}"
