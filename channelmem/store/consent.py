"""Consent: what people decide about their own messages. In: an author, everywhere or in one guild. Out: their messages.

An opt-out takes effect with its acknowledgement: nothing new is stored, nothing old is shown. "Forget me" opts out
first, then the sweeper removes everything in the background; the job is a key, so it survives the process. All of it
goes to Redis directly and raises RedisUnavailableError when Redis cannot be reached: then nothing has changed. An
opt-out that Redis cannot write (its disk or memory is full, which may last) waits in the outbox and holds in this
process at once; DecisionDelayedError says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

from channelmem.errors import DecisionDelayedError, RedisUnavailableError
from channelmem.store.buckets import Buckets
from channelmem.store.connection import answered, is_full, is_unwritable, reads, write_even_if_full
from channelmem.store.documents import from_row
from channelmem.store.outbox import Result, Value
from channelmem.store.schema import FIELDS
from channelmem.store.sweep import Sweeper
from channelmem.types import Message

EXPORT_MOST = 1_000_000  # RediSearch's own limit
EXPORT_PAGE = 100

DELAYED = (
    "I can't save that yet because {why}. I already leave you out of everything, and I'll save it as soon as I can. "
    "If I'm restarted before that, please repeat it."
)
STILL_DELAYED = "I'm still saving what you asked for earlier. Please try again in a minute."

Put = Callable[[int, str, tuple[Value, ...]], asyncio.Future[Result]]
"""How an event enters the outbox: bucket, kind, values."""


class Consent:
    def __init__(self, buckets: Buckets, sweeper: Sweeper, put: Put) -> None:
        self._buckets, self._sweeper, self._put = buckets, sweeper, put

    async def opt_out(self, author_id: int, guild_id: int | None = None) -> None:
        """Stops storing and showing an author, everywhere or in one guild."""
        await self._decide(author_id, guild_id, "")

    async def _decide(self, author_id: int, guild_id: int | None, job: str) -> None:
        try:
            await self._write(guild_id, "SADD", "optout", _member(author_id, guild_id))
            if job:
                await self._write(guild_id, "SADD", "forgetting", job)
        except RedisUnavailableError as error:
            if not (why := _why_full(error)):
                raise
            self._deliver_later(author_id, guild_id, job)
            raise DecisionDelayedError(DELAYED.format(why=why)) from error

    def _deliver_later(self, author_id: int, guild_id: int | None, job: str) -> None:
        """Through the outbox: in order with the author's messages, and again and again until Redis takes it."""
        buckets = self._places(guild_id)
        self._buckets.undelivered.add(author_id, guild_id, buckets)
        for bucket in buckets:
            done = self._put(bucket, "optout", (_member(author_id, guild_id), job))
            done.add_done_callback(lambda one: one.cancelled() or one.exception())  # nobody awaits it

    async def opt_in(self, author_id: int, guild_id: int | None = None) -> None:
        """Undoes an opt-out. Finishes a running removal first; otherwise it would take new messages too."""
        if self._buckets.undelivered.concerns(author_id):
            raise DecisionDelayedError(STILL_DELAYED)
        await self._sweeper.forget_now(author_id)
        await self._write(guild_id, "SREM", "optout", _member(author_id, guild_id))
        self._buckets.undelivered.decided.discard((guild_id, author_id))

    async def opted_out(self, author_id: int, guild_id: int | None = None) -> bool:
        names = [str(author_id)] if guild_id is None else [str(author_id), f"{guild_id}:{author_id}"]
        keys = self._buckets.keys(0) if guild_id is None else self._buckets.guild_keys(guild_id)
        return any(await answered(self._buckets.redis.smismember(keys.one("optout"), names)))

    @reads
    async def hidden(self, guild_id: int, author_ids: Collection[int]) -> set[int]:
        """Which of these authors must not be shown in the guild."""
        if not author_ids:
            return set()
        ids = list(author_ids)
        names = [*map(str, ids), *[f"{guild_id}:{one}" for one in ids]]
        key = self._buckets.guild_keys(guild_id).one("optout")
        out = await answered(self._buckets.redis.smismember(key, names))
        hidden = {one for one, everywhere, here in zip(ids, out, out[len(ids) :], strict=False) if everywhere or here}
        return hidden | {one for one in ids if self._buckets.undelivered.hides(guild_id, one)}

    async def forget(self, author_id: int, guild_id: int | None = None) -> None:
        """Opts an author out, which hides them at once, and removes everything of theirs in the background."""
        job = f"{'*' if guild_id is None else guild_id}:{author_id}"  # direct messages are guild 0
        await self._decide(author_id, guild_id, job)
        self._sweeper.wake()

    async def export(self, author_id: int) -> AsyncIterator[Message]:
        """Everything stored of an author, oldest first within each bucket, even after an opt-out."""
        for bucket in self._buckets.all:
            names = await self._authored(bucket, author_id)
            for at in range(0, len(names), EXPORT_PAGE):
                for message in await self._load(bucket, names[at : at + EXPORT_PAGE]):
                    yield message

    async def _write(self, guild_id: int | None, command: str, key: str, member: str) -> None:
        keys = [self._buckets.keys(bucket).one(key) for bucket in self._places(guild_id)]
        await write_even_if_full(self._buckets.redis, keys, command, member)

    def _places(self, guild_id: int | None) -> list[int]:
        """Every bucket, or the guild's."""
        return list(self._buckets.all) if guild_id is None else [self._buckets.bucket(guild_id)]

    async def _authored(self, bucket: int, author_id: int) -> list[list[bytes]]:
        prefix = self._buckets.keys(bucket).one("msg")
        reply = await self._buckets.run("authored", bucket, [author_id, EXPORT_MOST])
        return [key[len(prefix) :].split(b":") for key in reply]

    async def _load(self, bucket: int, names: list[list[bytes]]) -> list[Message]:
        keys = self._buckets.keys(bucket)
        async with self._buckets.redis.pipeline(transaction=False) as pipe:
            for place, message_id in names:
                pipe.zscore(keys.of("chan", place.decode()), message_id)
                pipe.hmget(f"{keys.one('msg')}{place.decode()}:{message_id.decode()}", FIELDS)
            replies: list[Any] = await answered(pipe.execute())
        return [
            from_row([*name, fields])
            for name, score, fields in zip(names, replies[::2], replies[1::2], strict=True)
            if score is not None and fields[4] is not None
        ]


def _member(author_id: int, guild_id: int | None) -> str:
    """How the set of opt-outs names an author."""
    return str(author_id) if guild_id is None else f"{guild_id}:{author_id}"


def _why_full(error: RedisUnavailableError) -> str:
    """Empty for any other reason."""
    if is_unwritable(error):
        return "my storage cannot write to its disk, which is probably full"
    return "my storage is full" if is_full(error) else ""
