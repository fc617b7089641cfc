"""Everything that changes messages: store, edit, delete, clear, enrich.

Changes go through the outbox in order, coalesced into one round trip per batch (`apply.lua`); a batch stores, orders,
prunes, marks as pending and sets expiry in one atomic step. `consent` holds what people decide about their messages,
`channels` the state of each channel.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Self

from redis.asyncio import Redis

from channelmem.errors import CommandRefusedError, RedisUnavailableError
from channelmem.policy.policy import Limits, Policy
from channelmem.settings import Settings
from channelmem.store.buckets import VERSION, Buckets
from channelmem.store.channel_state import ChannelState, Loads, Spending
from channelmem.store.consent import Consent, Sweeper
from channelmem.store.decisions import Decisions
from channelmem.store.derived import Derived, Descriptions
from channelmem.store.documents import change_of, late, pack_limits, to_values
from channelmem.store.keys import padded, room
from channelmem.store.levels import Levels
from channelmem.store.outbox import Event, Outbox, Result, removed_of, results_of
from channelmem.store.redis import pipelined, reads
from channelmem.types import Message, Outcome, Window

log = logging.getLogger(__name__)

TOMBSTONE_MS = 15 * 60 * 1000
"""How long a delete blocks late edits, duplicates and back-fill of the same message."""
DELETE_CHUNK = 200
COMMIT_CHUNK = 24
"""Vectors per script at most. More would block Redis for long, up to a millisecond each; fewer would wake the event
loop more often, and take that time from the model."""

GIVEN_UP = b"-"
"""In place of a vector: the model failed on this text, so the message waits no longer."""


class Store:
    """Open it with `await Store.open(...)` and close it with `await store.close()`."""

    def __init__(self, buckets: Buckets) -> None:
        self.buckets = buckets
        self._outbox = Outbox(self._send, buckets.settings.queue_size, same=change_of)
        buckets.undelivered.waiting = self._outbox.waiting
        self._pace_s = buckets.settings.summary_pace_s
        self._sweeper = Sweeper(buckets)
        self.decisions, self.derived, self.levels = Decisions(buckets), Derived(buckets), Levels(buckets)
        self.descriptions = Descriptions(buckets)
        self.spending, self.loads = Spending(buckets), Loads(buckets)
        self.consent = Consent(buckets, self._sweeper, self.decisions, self._outbox.put)
        self.channels = ChannelState(buckets, self._sweeper, self.decisions)

    @classmethod
    async def open(
        cls, redis: Redis, settings: Settings, *, dims: int, identity: str, clock: Callable[[], float]
    ) -> Self:
        """Creates or checks meta key, index and group; raises IndexMismatchError, which names the fix."""
        buckets = Buckets(redis, settings, dims=dims, identity=identity, clock=clock)
        await buckets.open()
        store = cls(buckets)
        store.sweep()
        return store

    def sweep(self) -> None:
        """Resumes the removals that an earlier process left unfinished."""
        self._sweeper.wake()

    async def swept(self) -> None:
        """Waits until everything removed is really gone from Redis."""
        await self._sweeper.done()

    async def close(self, wait_s: float = 5.0) -> None:
        """Sends what is queued, within a bounded time. The next process resumes unfinished removals."""
        await self._outbox.close(wait_s)
        await self._sweeper.stop()
        if lost := len(self.buckets.undelivered):
            log.error("%d opt-outs never reached Redis and end with this process; those people must repeat them", lost)

    @property
    def available(self) -> bool:
        """Whether Redis answered the last write."""
        return not self._outbox.offline

    @property
    def queued(self) -> int:
        return len(self._outbox)

    def is_queued(self, guild_id: int) -> bool:
        """Whether something that a caller was told QUEUED still waits; what shares the guild's bucket counts, too."""
        return self._outbox.is_waiting(self.buckets.bucket(guild_id))

    @property
    def dropped(self) -> int:
        """Events lost: the queue was full, Redis rejected them permanently, or they came after `close`."""
        return self._outbox.dropped

    # --- messages ---

    async def add(self, messages: Sequence[Message], policies: Sequence[Policy] | None = None) -> list[Outcome]:
        """Stores normalised messages, or replaces older revisions of them; queues them while Redis is unreachable.

        `policies` has one for each message, so channels with different limits can share a batch."""
        kept = [self.buckets.policy] * len(messages) if policies is None else policies
        added = [self._put(message, policy.limits) for message, policy in zip(messages, kept, strict=True)]
        results = await results_of(added)
        return [self._outcome_of(message, result) for message, result in zip(messages, results, strict=True)]

    def _outcome_of(self, message: Message, result: Result) -> Outcome:
        # It is queued behind the opt-out and will be refused there; until then nobody here may keep a copy.
        hidden = self.buckets.undelivered.hides(message.guild_id, message.author_id)
        return Outcome.IGNORED if hidden else _outcome(result)

    def _put(self, message: Message, limits: Limits) -> asyncio.Future[Result]:
        # Not a coroutine: the event takes its place in the order when `add` is called, not when it is awaited.
        return self._outbox.put(self.buckets.bucket(message.guild_id), "add", to_values(message, limits))

    async def edit(self, message: Message, policy: Policy | None = None) -> Outcome:
        """Like `add`; an edit that leaves no text removes the message until a later revision has text again."""
        if message.content.strip():
            return self._outcome_of(message, await self._put(message, (policy or self.buckets.policy).limits))
        place = room(message.guild_id, message.channel_id)
        values = (message.guild_id, place, padded(message.id), repr(message.revision))
        return _outcome(await self._outbox.put(self.buckets.bucket(message.guild_id), "empty", values))

    async def delete(self, guild_id: int, channel_id: int, ids: Iterable[int]) -> int:
        """Removes messages; they are invisible when this returns. Returns how many existed (0 while queued)."""
        names = [padded(one) for one in ids]
        bucket = self.buckets.bucket(guild_id)
        done = [
            self._outbox.put(bucket, "delete", (guild_id, room(guild_id, channel_id), *names[at : at + DELETE_CHUNK]))
            for at in range(0, len(names), DELETE_CHUNK)
        ]
        return await self._removed(done)

    async def delete_channel(self, guild_id: int, channel_id: int, *, at: float | None = None) -> int:
        """Removes all messages of a channel at once. `at`: as for `clear`."""
        floor = self.buckets.clock() if at is None else at
        return await self._removed([self._clear(guild_id, channel_id, floor, TOMBSTONE_MS)])

    async def clear(
        self, guild_id: int, channel_id: int, policy: Policy | None = None, *, at: float | None = None
    ) -> int:
        """The same for a channel that lives on; nothing sent before is stored or shown again, from any source.

        `at` is the moment by the clock that also dates the messages: by a clock that is ahead, later ones would be
        refused. None: by our own clock."""
        limits = (policy or self.buckets.policy).limits
        # The time of the call, not of its arrival: messages sent while Redis was unreachable stay.
        floor = self.buckets.clock() if at is None else at
        clear = self._clear(guild_id, channel_id, floor, int(limits.archive_s * 1000), 1, int(at is not None))
        await self.decisions.close(guild_id, channel_id, Window(end=floor))
        removed = await self._removed([clear])
        await self.decisions.sync()
        return removed

    async def delete_guild(self, guild_id: int, *, at: float | None = None) -> int:
        """Removes all channels of a guild at once. `at`: as for `clear`."""
        values = (guild_id, repr(self.buckets.clock() if at is None else at), int(at is not None))
        return await self._removed([self._outbox.put(self.buckets.bucket(guild_id), "leave", values)])

    async def enrich(
        self,
        guild_id: int,
        channel_id: int,
        message_id: int,
        attachment_id: int,
        text: str,
        policy: Policy | None = None,
    ) -> bool:
        """Adds a description of an attachment to its message; False if there is no such message to show."""
        limits = pack_limits((policy or self.buckets.policy).limits)
        name = (guild_id, room(guild_id, channel_id), padded(message_id))
        arguments = (repr(self.buckets.clock()), limits, *name, attachment_id, text)
        return bool(await self.buckets.run_for(guild_id, "enrich", arguments))

    @reads
    async def known(self, guild_id: int, channel_id: int, newest: int) -> dict[int, float]:
        """Revisions of the newest messages by id, even of people who opted out: they may opt in again."""
        flat: list[bytes] = await self.buckets.run_for(guild_id, "known", (room(guild_id, channel_id), newest))
        return {int(id_): float(revision or 0) for id_, revision in zip(flat[::2], flat[1::2], strict=True)}

    def _clear(self, guild_id: int, channel_id: int, at: float, floor_ms: int, *flags: int) -> asyncio.Future[Result]:
        """Flags: whether the channel lives on; whether the caller dated it, as a client does, which may repeat it."""
        # Not a coroutine, for the same reason as `_put`.
        values: tuple[str | int | bytes, ...] = (guild_id, room(guild_id, channel_id), repr(at), floor_ms, *flags)
        return self._outbox.put(self.buckets.bucket(guild_id), "clear", values)

    async def _removed(self, done: list[asyncio.Future[Result]]) -> int:
        results = await results_of(done)
        self._sweeper.wake()
        return removed_of(results)

    async def _send(self, bucket: int, events: Sequence[Event]) -> list[int]:
        arguments: list[Any] = [repr(self.buckets.clock()), TOMBSTONE_MS, *self._pace_s]
        for event in events:
            values = event.values
            if event.kind == "add" and event.done.done():
                values = late(values)
            arguments += (event.kind, len(values), *values)
        results: list[int]
        await _created(self.buckets.ready(bucket))
        meta_there, drains, *results = await self.buckets.run("apply", bucket, arguments)
        if drains:  # even without a removal: the cap may be lower than before
            self._sweeper.wake()
        for event in [event for event in events if event.kind == "optout"]:
            # Redis hides these people from now on, and the sweeper removes what they want forgotten.
            self.buckets.undelivered.delivered(bucket, str(event.values[0]))
            self._sweeper.wake()
        if not meta_there:  # somebody flushed this Redis; it holds just the events of this batch
            await _created(self.buckets.heal(bucket))
        return results

    # --- vectors ---

    async def commit_rows(self, bucket: int, rows: Sequence[tuple[str, str, str, bytes]]) -> int:
        """Takes rows of (stream entry or '', '<channel>:<id>', revision, vector); a vector is FLOAT16, or GIVEN_UP, or
        b'' to only acknowledge. Returns how many vectors were written."""
        written = 0
        for at in range(0, len(rows), COMMIT_CHUNK):
            values = [value for row in rows[at : at + COMMIT_CHUNK] for value in row]
            written += await self.buckets.run("commit", bucket, [VERSION, *values])
        return written

    async def pending(self) -> int:
        """How many stored messages still wait for their vector, over all channels."""
        return sum((await self.buckets.everywhere.ask("XLEN", "ingest")).values())

    async def lag_s(self) -> float:
        """How long the oldest of them has waited, by the clock of Redis."""
        keys = [self.buckets.keys(bucket).one("ingest") for bucket in await self.buckets.where("XLEN", "ingest")]
        asked = [("TIME",), *(("XRANGE", key, "-", "+", "COUNT", 1) for key in keys)]
        (seconds, micros), *streams = await pipelined(self.buckets.redis, asked)
        # The first half of a stream entry's id is the millisecond in which it was added.
        waiting = [int(entries[0][0].partition(b"-")[0]) / 1000 for entries in streams if entries]
        return max(0.0, seconds + micros / 1e6 - min(waiting)) if waiting else 0.0

    async def flush(self, timeout_s: float = 30.0) -> bool:
        """Waits until nothing is queued or pending; returns False if that takes longer than allowed."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        while waiting := self.queued or await self.pending():
            if loop.time() >= end:
                return False
            # About as long as the model needs for them; polling more often would only take its time.
            await asyncio.sleep(min(0.05, 0.002 + waiting * 0.001, end - loop.time()))
        return True


async def _created(creation: Awaitable[object]) -> None:
    """If Redis rejects a bucket, the events that wait for it are not at fault: they must stay queued."""
    try:
        await creation
    except CommandRefusedError as error:
        raise RedisUnavailableError(f"Redis rejects the creation of a bucket: {error}") from error


def _outcome(result: Result) -> Outcome:
    """The script's 1 or 0 as stored or ignored."""
    if isinstance(result, Outcome):
        return result
    return Outcome.STORED if result else Outcome.IGNORED
