"""Consent: what people decide about their own messages. In: an author, everywhere or in one guild. Out: their messages.

An opt-out takes effect with its acknowledgement: nothing new is stored, nothing old is shown. "Forget me" opts out
first, then the sweeper removes everything in the background; the job is a key, so it survives the process. All of it
goes to Redis directly and raises RedisUnavailableError when Redis cannot be reached.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from channelmem.store.buckets import Buckets
from channelmem.store.connection import answered
from channelmem.store.decisions import Decisions, person
from channelmem.store.documents import from_row
from channelmem.store.schema import FIELDS
from channelmem.store.sweep import Sweeper
from channelmem.types import Message

EXPORT_PAGE = 100
NO_MORE = b"0"


class Consent:
    def __init__(self, buckets: Buckets, sweeper: Sweeper, decisions: Decisions) -> None:
        self._buckets, self._sweeper, self._decisions = buckets, sweeper, decisions

    async def opt_out(self, author_id: int, guild_id: int | None = None) -> None:
        """Stops storing and showing an author, everywhere or in one guild."""
        await self._decide("out", author_id, guild_id)

    async def forget(self, author_id: int, guild_id: int | None = None) -> None:
        """Opts an author out, which hides them at once, and removes everything of theirs in the background."""
        await self._decide("forget", author_id, guild_id)

    async def _decide(self, kind: str, author_id: int, guild_id: int | None) -> None:
        await self._decisions.hide(author_id, guild_id)
        await self._decisions.write(kind, person(author_id, guild_id), self._of(guild_id))
        self._sweeper.wake()
        await self._decisions.sync()

    async def opt_in(self, author_id: int, guild_id: int | None = None) -> int | None:
        """Undoes an opt-out and returns None. While a removal runs, it takes effect when that is done, because the
        removal would take new messages too; then this returns how many messages are left to remove."""
        arguments = [*self._buckets.moment(), author_id, person(author_id, guild_id)]
        left = [await self._buckets.run("opt_in", bucket, arguments) for bucket in self._of(guild_id)]
        self._sweeper.wake()
        await self._decisions.sync()
        return _left(left)

    async def returning(self, author_id: int) -> int | None:
        """How many messages are left to remove before an opt-in takes effect; None if none waits."""
        return _left([await self._buckets.run("returning", bucket, [author_id]) for bucket in self._buckets.all])

    async def opted_out(self, author_id: int, guild_id: int | None = None) -> bool:
        names = [str(author_id)] if guild_id is None else [str(author_id), f"{guild_id}:{author_id}"]
        keys = self._buckets.keys(0) if guild_id is None else self._buckets.guild_keys(guild_id)
        return any(await answered(self._buckets.redis.smismember(keys.one("optout"), names)))

    async def export(self, author_id: int) -> AsyncIterator[Message]:
        """Everything stored of an author, oldest first within each bucket, even after an opt-out. Read in small pages,
        so that neither Redis nor this process makes others wait."""
        for bucket in self._buckets.all:
            names = await self._authored(bucket, author_id)
            for at in range(0, len(names), EXPORT_PAGE):
                page = [name.split(b":") for _, name in names[at : at + EXPORT_PAGE]]
                for message in await self._load(bucket, page):
                    yield message

    def _of(self, guild_id: int | None) -> list[int]:
        """The guild's bucket, or all of them."""
        return list(self._buckets.all) if guild_id is None else [self._buckets.bucket(guild_id)]

    async def _authored(self, bucket: int, author_id: int) -> list[tuple[float, bytes]]:
        """Times and names (`<room>:<id>`) of an author's messages, oldest first."""
        skip, cursor, found = len(self._buckets.keys(bucket).one("msg")), b"", list[tuple[float, bytes]]()
        while cursor != NO_MORE:
            cursor, *page = await self._buckets.run("authored", bucket, [author_id, EXPORT_PAGE, cursor])
            found += [(float(ts), key[skip:]) for key, ts in zip(page[::2], page[1::2], strict=True)]
        return sorted(found)

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


def _left(counts: Iterable[int]) -> int | None:
    """The sum over buckets; None if nothing is being waited for in any of them."""
    waiting = [count for count in counts if count >= 0]
    return sum(waiting) if waiting else None
