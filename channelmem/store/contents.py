"""How messages are stored, for people who look at a memory: their state, their vectors, and what a channel costs.

In: messages that a search returned, so that nothing hidden is shown here. Out: facts about their documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from channelmem.durations import HOUR_S, MINUTE_S
from channelmem.store.buckets import Buckets
from channelmem.store.connection import answered, reads
from channelmem.store.keys import room
from channelmem.types import Activity, Message, Stored

HOURS: Final = 24
SAMPLED: Final = 20
"""Documents whose size is measured to estimate a channel's."""


class Contents:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    @reads
    async def states(self, messages: Sequence[Message]) -> list[Stored]:
        """In the same order; all of one guild."""
        if not messages:
            return []
        bucket = await self._buckets.ready(self._buckets.bucket(messages[0].guild_id))
        async with self._buckets.redis.pipeline(transaction=False) as pipe:
            for one in messages:
                key = bucket.keys.message(one.guild_id, one.channel_id, one.id)
                pipe.hexists(key, bucket.vector_field)
                pipe.pttl(key)
            replies: list[Any] = await answered(pipe.execute())
        return [
            Stored(message, bool(embedded), max(0, ttl_ms) / 1000)
            for message, embedded, ttl_ms in zip(messages, replies[::2], replies[1::2], strict=True)
        ]

    @reads
    async def vectors(self, messages: Sequence[Message]) -> tuple[list[Message], NDArray[np.float32]]:
        """The messages that have a vector, and one row for each."""
        if not messages:
            return [], np.empty((0, self._buckets.dims), np.float32)
        bucket = await self._buckets.ready(self._buckets.bucket(messages[0].guild_id))
        async with self._buckets.redis.pipeline(transaction=False) as pipe:
            for one in messages:
                pipe.hget(bucket.keys.message(one.guild_id, one.channel_id, one.id), bucket.vector_field)
            blobs: list[bytes | None] = await answered(pipe.execute())
        width = self._buckets.dims * np.dtype(np.float16).itemsize
        known = [(one, blob) for one, blob in zip(messages, blobs, strict=True) if blob and len(blob) == width]
        packed = np.frombuffer(b"".join(blob for _, blob in known), np.float16)
        return [one for one, _ in known], packed.astype(np.float32).reshape(len(known), self._buckets.dims)

    @reads
    async def activity(self, guild_id: int, channel_ids: Sequence[int]) -> list[Activity]:
        """How much was said in each of these channels, in one round trip."""
        keys, now = self._buckets.guild_keys(guild_id), self._buckets.clock()
        async with self._buckets.redis.pipeline(transaction=False) as pipe:
            for channel_id in channel_ids:
                order = keys.of("chan", room(guild_id, channel_id))
                pipe.zcount(order, now - MINUTE_S, "+inf")
                for hour in range(HOURS, 0, -1):
                    pipe.zcount(order, now - hour * HOUR_S, f"({now - (hour - 1) * HOUR_S!r}" if hour > 1 else "+inf")
            counts: list[int] = await answered(pipe.execute()) if channel_ids else []
        per_channel = HOURS + 1
        return [
            Activity(counts[at], tuple(counts[at + 1 : at + per_channel])) for at in range(0, len(counts), per_channel)
        ]

    @reads
    async def size_bytes(self, guild_id: int, channel_id: int) -> int:
        """What a channel's messages take in Redis, without the index; estimated from some of them."""
        keys, place = self._buckets.guild_keys(guild_id), room(guild_id, channel_id)
        order = keys.of("chan", place)
        async with self._buckets.redis.pipeline(transaction=False) as pipe:
            pipe.zcard(order)
            pipe.zrandmember(order, SAMPLED)
            count, some = await answered(pipe.execute())
        async with self._buckets.redis.pipeline(transaction=False) as pipe:
            pipe.memory_usage(order)
            for one in some:
                pipe.memory_usage(keys.message(guild_id, channel_id, int(one)))
            order_bytes, *sizes = [int(size or 0) for size in await answered(pipe.execute())]
        known = [size for size in sizes if size]
        each = sum(known) / len(known) if known else 0.0
        return order_bytes + round(each * int(count))
