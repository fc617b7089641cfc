"""Store: everything that changes the memory. In: messages, deletions, policies. Out: outcomes and counts.

Changes of messages go through the outbox in order, coalesced into one round trip per batch (`apply.lua`); a batch
stores, orders, prunes, marks as pending and sets expiry in one atomic step. What people ask for by hand (pause,
opt-out, forget) goes to Redis directly and raises RedisUnavailableError when it is away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from channelmem.errors import RedisUnavailableError
from channelmem.settings import Settings
from channelmem.store.buckets import VERSION, Buckets
from channelmem.store.consent import Privacy
from channelmem.store.documents import to_revision, to_values
from channelmem.store.keys import padded, room
from channelmem.store.outbox import Event, Outbox, Result, results_of
from channelmem.store.scripts import answered
from channelmem.store.sweep import Sweeper
from channelmem.types import Message, Outcome

TOMBSTONE_MS = 15 * 60 * 1000
"""How long a delete refuses late edits, duplicates and back-fill of the same message."""
DELETE_CHUNK = 200
COMMIT_CHUNK = 24
"""Vectors per script, at most: inserting one takes Redis up to a millisecond, during which nobody else is served, and
every script wakes the event loop, which takes a core from the model."""

GIVEN_UP = b"-"
"""In place of a vector: the model fails on this text, so it waits no longer."""


class Store(Privacy):
    """Open with `await Store.open(...)`, end with `await store.close()`."""

    def __init__(self, buckets: Buckets) -> None:
        self.buckets = buckets
        self._settings = buckets.settings
        self._outbox = Outbox(self._send, buckets.settings.queue_size)
        self._sweeper = Sweeper(buckets)

    @classmethod
    async def open(
        cls, redis: Redis, settings: Settings, *, dims: int, identity: str, clock: Callable[[], float]
    ) -> Self:
        """Makes or checks meta, index and group; raises IndexMismatchError with the command that fixes it."""
        buckets = Buckets(redis, settings, dims=dims, identity=identity, clock=clock)
        await buckets.open()
        store = cls(buckets)
        store.sweep()
        return store

    def sweep(self) -> None:
        """Goes on with the removals that an earlier process left."""
        self._sweeper.wake()

    async def close(self, wait_s: float = 5.0) -> None:
        """Sends what is queued, for a bounded time. Removals left over are resumed by the next process."""
        await self._outbox.close(wait_s)
        await self._sweeper.stop()

    @property
    def available(self) -> bool:
        """Whether Redis answered the last write."""
        return not self._outbox.away

    @property
    def queued(self) -> int:
        return len(self._outbox)

    @property
    def dropped(self) -> int:
        """Events lost: the queue was full while Redis was away, Redis refused them, or they came after the end."""
        return self._outbox.dropped

    # --- messages ---

    async def add(self, messages: Sequence[Message]) -> list[Outcome]:
        """Stores normalised messages, or replaces older revisions of them. Never raises for an absent Redis."""
        results = await results_of([self._put(message) for message in messages])
        return [_outcome(result) for result in results]

    def _put(self, message: Message) -> asyncio.Future[Result]:
        # Not a coroutine: the event takes its place in the order when `add` is called, not when it is awaited.
        return self._outbox.put(self.buckets.bucket(message.guild_id), "add", to_values(message))

    async def edit(self, message: Message) -> Outcome:
        """Like `add`; an edit that leaves no text removes the message until a later revision brings text again."""
        if message.content.strip():
            return _outcome(await self._put(message))
        place = room(message.guild_id, message.channel_id)
        values = (message.guild_id, place, padded(message.id), repr(message.revision))
        return _outcome(await self._outbox.put(self.buckets.bucket(message.guild_id), "empty", values))

    async def delete(self, guild_id: int, channel_id: int, ids: Iterable[int]) -> int:
        """Removes messages; they are invisible when this returns. Returns how many were there (0 while queued)."""
        names = [padded(one) for one in ids]
        bucket = self.buckets.bucket(guild_id)
        done = [
            self._outbox.put(bucket, "delete", (guild_id, room(guild_id, channel_id), *names[at : at + DELETE_CHUNK]))
            for at in range(0, len(names), DELETE_CHUNK)
        ]
        return await self._removed(done)

    async def delete_channel(self, guild_id: int, channel_id: int) -> int:
        """Removes a channel's messages at once, whatever their number."""
        return await self._clear(guild_id, channel_id, TOMBSTONE_MS)

    async def clear(self, guild_id: int, channel_id: int) -> int:
        """The same for a channel that lives on: what was sent before stays out, also for back-fill."""
        return await self._clear(guild_id, channel_id, int(self._settings.archive_days * 86_400_000))

    async def delete_guild(self, guild_id: int) -> int:
        """Removes all channels of a guild at once."""
        values = (guild_id, repr(self.buckets.clock()))
        return await self._removed([self._outbox.put(self.buckets.bucket(guild_id), "leave", values)])

    async def known(self, guild_id: int, channel_id: int, newest: int) -> dict[int, float]:
        """Revisions of the newest messages by id, those of people who opted out too: they may come back."""
        arguments = (room(guild_id, channel_id), newest)
        flat: list[bytes] = await self.buckets.run("known", self.buckets.bucket(guild_id), arguments)
        return {int(id_): float(revision or 0) for id_, revision in zip(flat[::2], flat[1::2], strict=True)}

    async def _clear(self, guild_id: int, channel_id: int, floor_ms: int) -> int:
        # The moment of the call, not of its arrival: messages sent while Redis was away stay.
        values = (guild_id, room(guild_id, channel_id), repr(self.buckets.clock()), floor_ms)
        return await self._removed([self._outbox.put(self.buckets.bucket(guild_id), "clear", values)])

    async def _removed(self, done: list[asyncio.Future[Result]]) -> int:
        results = await results_of(done)
        self._sweeper.wake()
        return sum(result for result in results if isinstance(result, int))

    async def _send(self, bucket: int, events: Sequence[Event]) -> list[int]:
        arguments: list[Any] = [TOMBSTONE_MS]
        for event in events:
            arguments += (event.kind, len(event.values), *event.values)
        results: list[int]
        await _made(self.buckets.version(bucket))
        meta_there, drains, *results = await self.buckets.run("apply", bucket, arguments)
        if drains:  # also without a removal: where the cap is lower than before
            self._sweeper.wake()
        if not meta_there:  # somebody flushed this Redis; the events just applied are in it
            await _made(self.buckets.heal(bucket))
        return results

    # --- vectors ---

    async def commit(self, vectors: Sequence[tuple[Message, NDArray[np.float32]]]) -> int:
        """Adds vectors that came without a worker and its stream, as tests do; returns how many were still wanted."""
        rows: dict[int, list[tuple[str, str, str, bytes]]] = {}
        for message, vector in vectors:
            name = f"{room(message.guild_id, message.channel_id)}:{padded(message.id)}"
            row = ("", name, to_revision(message), vector.astype(np.float16).tobytes())
            rows.setdefault(self.buckets.bucket(message.guild_id), []).append(row)
        return sum([await self.commit_rows(bucket, batch) for bucket, batch in rows.items()])

    async def commit_rows(self, bucket: int, rows: Sequence[tuple[str, str, str, bytes]]) -> int:
        """Rows of (stream entry or '', '<channel>:<id>', revision, vector); a vector is FLOAT16, or GIVEN_UP, or b'' to
        just acknowledge."""
        written = 0
        for at in range(0, len(rows), COMMIT_CHUNK):
            values = [value for row in rows[at : at + COMMIT_CHUNK] for value in row]
            written += await self.buckets.run("commit", bucket, [VERSION, *values])
        return written

    async def pending(self) -> int:
        """Messages accepted by Redis that still wait for their vector, in all channels."""
        async with self.buckets.redis.pipeline(transaction=False) as pipe:
            for bucket in self.buckets.all:
                pipe.xlen(self.buckets.keys(bucket).one("ingest"))
            return sum(await answered(pipe.execute()))

    async def lag_s(self) -> float:
        """How long the message that waits longest for its vector has waited, by the clock of Redis."""
        async with self.buckets.redis.pipeline(transaction=False) as pipe:
            pipe.time()
            for bucket in self.buckets.all:
                pipe.xrange(self.buckets.keys(bucket).one("ingest"), count=1)
            (seconds, micros), *streams = await answered(pipe.execute())
        # The first half of a stream entry's id is the millisecond in which it was added.
        waiting = [int(entries[0][0].partition(b"-")[0]) / 1000 for entries in streams if entries]
        return max(0.0, seconds + micros / 1e6 - min(waiting)) if waiting else 0.0

    async def flush(self, timeout_s: float = 30.0) -> bool:
        """Waits until nothing accepted is queued or pending; False if that takes longer than allowed."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        while waiting := self.queued or await self.pending():
            if loop.time() >= end:
                return False
            # Not longer than the model needs for them; asking more often would only take its time.
            await asyncio.sleep(min(0.05, 0.002 + waiting * 0.001, end - loop.time()))
        return True


async def _made(making: Awaitable[object]) -> None:
    """A bucket that Redis refuses to make is no fault of the events that wait for it: they are kept."""
    try:
        await making
    except ResponseError as error:
        raise RedisUnavailableError(f"Redis refuses a bucket: {error}") from error


def _outcome(result: Result) -> Outcome:
    """The script's 1 or 0 as stored or ignored."""
    if isinstance(result, Outcome):
        return result
    return Outcome.STORED if result else Outcome.IGNORED
