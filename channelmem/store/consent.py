"""What people decide about their own messages, everywhere or in one guild: opt out, opt in, forget me, export; and the
sweeper, which removes in the background what is already invisible.

An opt-out takes effect with its acknowledgement: nothing new is stored, nothing old is shown. "Forget me" opts out
first, then the sweeper removes everything. All of it goes to Redis directly and raises RedisUnavailableError when Redis
cannot be reached: then nothing has changed. An opt-out that Redis cannot write (its disk or memory is full, which may
last) waits in the outbox and holds in this process at once; DecisionDelayedError says so.

The sweeper's work is recorded in Redis, so any process can resume it. Unlinking an indexed document blocks Redis for up
to a millisecond; hence short steps, bounded by time, with pauses in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from channelmem.errors import CommandRefusedError, DecisionDelayedError, RedisUnavailableError
from channelmem.policy.policy import Policy
from channelmem.store.buckets import Buckets
from channelmem.store.decisions import Decisions, person
from channelmem.store.documents import from_row
from channelmem.store.index import FIELDS
from channelmem.store.outbox import Result, Value, Withdrawn
from channelmem.store.redis import is_full, is_unwritable, pipelined, reads
from channelmem.tasks import cancel_all
from channelmem.types import Message

EXPORT_PAGE = 100
NO_MORE = b"0"
INDEXING_S = 0.05
"""Between two looks at an index that still reads documents."""

DELAYED = (
    "I can't save that yet because {why}. I already leave you out of everything, and I'll save it as soon as I can. "
    "If I'm restarted before that, please repeat it."
)
STILL_DELAYED = "I'm still saving what you asked for earlier. Please try again in a minute."

Put = Callable[[int, str, tuple[Value, ...]], asyncio.Future[Result]]
"""How an event enters the outbox: bucket, kind, values."""


class Consent:
    def __init__(self, buckets: Buckets, sweeper: Sweeper, decisions: Decisions, put: Put) -> None:
        self._buckets, self._sweeper, self._decisions, self._put = buckets, sweeper, decisions, put

    async def opt_out(self, author_id: int, guild_id: int | None = None) -> None:
        """Stops storing and showing an author, everywhere or in one guild."""
        await self._decide("out", author_id, guild_id)

    async def forget(self, author_id: int, guild_id: int | None = None) -> None:
        """Opts an author out, which hides them at once, and removes everything of theirs in the background."""
        await self._decide("forget", author_id, guild_id)

    async def _decide(self, kind: str, author_id: int, guild_id: int | None) -> None:
        async with self._decisions.hiding(person(author_id, guild_id)):
            try:
                await self._decisions.write(kind, person(author_id, guild_id), self._of(guild_id))
            except RedisUnavailableError as error:
                if not (why := _why_full(error)):
                    raise
                self._deliver_later(kind, author_id, guild_id)
                raise DecisionDelayedError(DELAYED.format(why=why)) from error
            self._sweeper.wake()

    def _deliver_later(self, kind: str, author_id: int, guild_id: int | None) -> None:
        """Through the outbox: in order with the author's messages, and again and again until Redis takes it."""
        buckets = self._of(guild_id)
        self._buckets.undelivered.add(author_id, guild_id, buckets)
        for bucket in buckets:
            done = self._put(bucket, "optout", (person(author_id, guild_id), kind, *self._buckets.moment()))
            done.add_done_callback(lambda one: one.cancelled() or one.exception())  # nobody awaits it

    async def opt_in(self, author_id: int, guild_id: int | None = None) -> int | None:
        """Undoes an opt-out and returns None. While a removal runs, it takes effect when that is done, because the
        removal would take new messages too; then this returns how many messages are left to remove."""
        if self._buckets.undelivered.concerns(author_id):
            raise DecisionDelayedError(STILL_DELAYED)
        arguments = [*self._buckets.moment(), author_id, person(author_id, guild_id)]
        left = await self._buckets.visit_all("opt_in", self._of(guild_id), arguments)
        self._sweeper.wake()
        await self._decisions.sync()
        return _left(left)

    async def returning(self, author_id: int, guild_id: int | None = None) -> int | None:
        """How many messages are left to remove before an opt-in takes effect; None if none waits (in that guild)."""
        wish = "" if guild_id is None else person(author_id, guild_id)
        return _left(await self._buckets.visit_all("returning", self._of(guild_id), [author_id, wish]))

    @reads
    async def opted_out(self, author_id: int, guild_id: int | None = None) -> bool:
        names = [str(author_id), person(author_id, guild_id)]
        keys = self._buckets.keys(0) if guild_id is None else self._buckets.guild_keys(guild_id)
        return any(await self._buckets.redis.smismember(keys.one("optout"), names))

    async def export(
        self, author_id: int, policy_of: Callable[[int, int], Policy] | None = None
    ) -> AsyncIterator[Message]:
        """Everything stored of an author that no policy hides, oldest first within each bucket, even after an opt-out.
        Read in small pages, so that neither Redis nor this process makes others wait."""
        policy_of, now = policy_of or (lambda *_: self._buckets.policy), self._buckets.clock()
        for bucket in await self._buckets.used():
            names = await self._authored(bucket, author_id)
            for at in range(0, len(names), EXPORT_PAGE):
                page = [name.split(b":") for _, name in names[at : at + EXPORT_PAGE]]
                for message, newer in await self._load(bucket, page):
                    limits = policy_of(message.guild_id, message.channel_id).limits
                    if limits.shows(now - message.ts, newer):
                        yield message

    def _of(self, guild_id: int | None) -> list[int]:
        return list(self._buckets.all) if guild_id is None else [self._buckets.bucket(guild_id)]

    @reads
    async def _authored(self, bucket: int, author_id: int) -> list[tuple[float, bytes]]:
        """Times and names (`<room>:<id>`) of an author's messages, oldest first. An index that was lost and recreated
        knows only a part of them for a while, so this waits for it."""
        while True:
            healed = self._buckets.healed
            if await self._buckets.indexed(bucket):
                found = await self._read_authored(bucket, author_id)
                if found is not None and healed == self._buckets.healed and await self._buckets.indexed(bucket):
                    return sorted(found)
            await asyncio.sleep(INDEXING_S)

    async def _read_authored(self, bucket: int, author_id: int) -> list[tuple[float, bytes]] | None:
        """None if the index was lost between two pages."""
        skip, cursor, found = len(self._buckets.keys(bucket).one("msg")), b"", list[tuple[float, bytes]]()
        while cursor != NO_MORE:
            try:
                cursor, *page = await self._buckets.run("authored", bucket, [author_id, EXPORT_PAGE, cursor])
            except CommandRefusedError as error:
                if "cursor" not in str(error).lower():
                    raise
                return None
            found += [(float(ts), key[skip:]) for key, ts in zip(page[::2], page[1::2], strict=True)]
        return found

    @reads
    async def _load(self, bucket: int, names: list[list[bytes]]) -> list[tuple[Message, int]]:
        """Messages, and how many newer ones their channels hold."""
        keys, gone = self._buckets.keys(bucket), Withdrawn(self._buckets.undelivered.waiting(), frozenset())
        asked: list[tuple[Any, ...]] = []
        for channel, id_ in names:
            asked.append(("ZREVRANK", keys.of("chan", channel.decode()), id_))
            asked.append(("HMGET", keys.of("msg", f"{channel.decode()}:{id_.decode()}"), *FIELDS))
        replies = await pipelined(self._buckets.redis, asked)
        found = [
            (from_row([*name, fields]), newer)
            for name, newer, fields in zip(names, replies[::2], replies[1::2], strict=True)
            if newer is not None and fields[4] is not None
        ]
        return [one for one in found if not gone.hides(one[0])]


def _left(counts: Iterable[int]) -> int | None:
    """The sum over buckets; None if nothing is being waited for in any of them."""
    waiting = [count for count in counts if count >= 0]
    return sum(waiting) if waiting else None


def _why_full(error: RedisUnavailableError) -> str:
    """Empty for any other reason."""
    if is_unwritable(error):
        return "my storage cannot write to its disk, which is probably full"
    return "my storage is full" if is_full(error) else ""


# --- the sweeper ---


log = logging.getLogger(__name__)

STEP_MS = 3
PAUSE_S = 0.001
"""Between two steps, so that whoever waits for Redis comes first."""
PAGE = 500
"""Messages of somebody to be forgotten that are looked up together, and rosters that are changed together."""
RETRY_S = 1.0


class Sweeper:
    """Runs one background task while there is work."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._stopping = False

    def wake(self) -> None:
        self._again = True
        if not self._stopping and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._stopping = True
        if self._task is not None:
            await cancel_all([self._task])

    async def done(self) -> None:
        """Waits until nothing is left to remove."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while self._again:
            self._again = False
            try:
                for bucket in await self._buckets.where("EXISTS", "drains", "forgetting"):
                    await self._sweep(bucket)
            except RedisUnavailableError as error:
                if self._stopping:
                    return
                log.warning("Background removal paused, retrying in %g s: %s", RETRY_S, error)
                self._again = True
                await asyncio.sleep(RETRY_S)

    async def _jobs(self, bucket: int) -> list[bytes]:
        members: Any = await self._buckets.redis.smembers(self._buckets.keys(bucket).one("forgetting"))
        return list(members)

    async def _sweep(self, bucket: int) -> None:
        while await self._buckets.visit("drain", bucket, [STEP_MS]):  # noqa: ASYNC110  (each step is the work itself)
            await asyncio.sleep(PAUSE_S)
        for job in await self._jobs(bucket):
            await self._forget(bucket, job)

    async def _forget(self, bucket: int, job: bytes) -> None:
        used = await self._buckets.redis.exists(self._buckets.keys(bucket).one("meta"))
        if used and not await self._remove_all(bucket, job):
            return
        await self._unlist(bucket, job)
        await self._buckets.visit("forgotten", bucket, [*self._buckets.moment(), job])

    async def _remove_all(self, bucket: int, job: bytes) -> bool:
        """False if the job was finished elsewhere. An index that still reads documents cannot tell whether anything is
        left, so it must be complete before and after it names nothing more."""
        before: list[bytes] = []
        while True:
            healed, complete = self._buckets.healed, await self._buckets.indexed(bucket)
            names = await self._buckets.visit("forget", bucket, ["find", job, PAGE])
            if names is None:
                return False
            if not names or names == before:  # if the index names what no longer exists, that is nothing, too
                if complete and healed == self._buckets.healed and await self._buckets.indexed(bucket):
                    return True
                await asyncio.sleep(INDEXING_S)
            await self._remove(bucket, job, names)
            before = names

    async def _remove(self, bucket: int, job: bytes, names: list[bytes]) -> None:
        while names:
            removed = await self._buckets.visit("forget", bucket, ["remove", job, STEP_MS, *names])
            if removed is None:
                return
            names = names[removed:]
            await asyncio.sleep(PAUSE_S)

    async def _unlist(self, bucket: int, job: bytes) -> None:
        """Takes the author out of the rosters. Nothing of theirs is stored until the job is finished."""
        keys, guild = self._buckets.keys(bucket), job.partition(b":")[0]
        guilds: Any = [guild] if guild != b"*" else await self._buckets.redis.smembers(keys.one("guilds"))
        for one in guilds:
            rooms: Any = list(await self._buckets.redis.smembers(keys.of("guild", one.decode())))
            for at in range(0, len(rooms), PAGE):
                await self._buckets.visit("unlist", bucket, [job, *rooms[at : at + PAGE]])
                await asyncio.sleep(PAUSE_S)
