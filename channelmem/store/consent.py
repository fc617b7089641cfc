"""Privacy and policy: what people decide about their messages and their channels.

In: an author, or a channel and its wish. Out: counts, status, the author's own messages. An opt-out takes effect
with its acknowledgement: nothing new is stored, nothing old is shown. Forgetting opts out first and then removes
in the background; the job is a key, so it survives the process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Any

from channelmem.store.buckets import Buckets
from channelmem.store.documents import RosterEntry, from_row, parse_person
from channelmem.store.keys import room
from channelmem.store.schema import FIELDS
from channelmem.store.scripts import answered
from channelmem.store.sweep import Sweeper
from channelmem.types import ChannelStatus, Message

EXPORT_MOST = 1_000_000  # RediSearch's own limit
EXPORT_PAGE = 100
# What people decide takes a few bytes and must hold in a full Redis too. That lets a script end whose first write takes
# no memory, such as this one of a key that does not exist.
_DECIDE = "redis.call('UNLINK', KEYS[1] .. ':none') return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))"


class Privacy:
    """The part of the Store that people speak to."""

    buckets: Buckets
    _sweeper: Sweeper

    # --- authors ---

    async def opt_out(self, author_id: int, guild_id: int | None = None) -> None:
        """Neither stored nor shown any more, everywhere or in one guild."""
        await self._decide(guild_id, "SADD", "optout", _whom(author_id, guild_id))

    async def opt_in(self, author_id: int, guild_id: int | None = None) -> None:
        """Undoes an opt-out. A removal that still runs is finished first, or it would take new messages too."""
        await self._sweeper.forget_now(author_id)
        await self._decide(guild_id, "SREM", "optout", _whom(author_id, guild_id))

    async def opted_out(self, author_id: int, guild_id: int | None = None) -> bool:
        names = [str(author_id)] if guild_id is None else [str(author_id), f"{guild_id}:{author_id}"]
        bucket = 0 if guild_id is None else self.buckets.bucket(guild_id)
        key = self.buckets.keys(bucket).one("optout")
        return any(await answered(self.buckets.redis.smismember(key, names)))

    async def hidden(self, guild_id: int, author_ids: Collection[int]) -> set[int]:
        """Those of these people who are not to be shown in the guild."""
        if not author_ids:
            return set()
        ids = list(author_ids)
        names = [*map(str, ids), *[f"{guild_id}:{one}" for one in ids]]
        key = self.buckets.keys(self.buckets.bucket(guild_id)).one("optout")
        out = await answered(self.buckets.redis.smismember(key, names))
        return {one for one, everywhere, here in zip(ids, out, out[len(ids) :], strict=False) if everywhere or here}

    async def forget(self, author_id: int, guild_id: int | None = None) -> None:
        """Opts out, hides at once and removes in the background everything of an author."""
        await self.opt_out(author_id, guild_id)
        job = f"{'*' if guild_id is None else guild_id}:{author_id}"  # direct messages are guild 0
        await self._decide(guild_id, "SADD", "forgetting", job)
        self._sweeper.wake()

    async def swept(self) -> None:
        """Waits until everything removed is really gone."""
        await self._sweeper.done()

    async def export(self, author_id: int) -> AsyncIterator[Message]:
        """Everything stored of an author, oldest first within each bucket; also after an opt-out."""
        for bucket in self.buckets.all:
            names = await self._authored(bucket, author_id)
            for at in range(0, len(names), EXPORT_PAGE):
                for message in await self._load(bucket, names[at : at + EXPORT_PAGE]):
                    yield message

    def _concerned(self, guild_id: int | None) -> list[int]:
        return list(self.buckets.all) if guild_id is None else [self.buckets.bucket(guild_id)]

    async def _decide(self, guild_id: int | None, command: str, name: str, *values: str) -> None:
        async with self.buckets.redis.pipeline(transaction=False) as pipe:
            for bucket in self._concerned(guild_id):
                pipe.execute_command("EVAL", _DECIDE, 1, self.buckets.keys(bucket).one(name), command, *values)
            await answered(pipe.execute())

    async def _authored(self, bucket: int, author_id: int) -> list[list[bytes]]:
        prefix = self.buckets.keys(bucket).one("msg")
        reply = await self.buckets.run("authored", bucket, [author_id, EXPORT_MOST])
        return [key[len(prefix) :].split(b":") for key in reply]

    async def _load(self, bucket: int, names: list[list[bytes]]) -> list[Message]:
        keys = self.buckets.keys(bucket)
        async with self.buckets.redis.pipeline(transaction=False) as pipe:
            for place, message_id in names:
                pipe.zscore(keys.of("chan", place.decode()), message_id)
                pipe.hmget(f"{keys.one('msg')}{place.decode()}:{message_id.decode()}", FIELDS)
            replies: list[Any] = await answered(pipe.execute())
        return [
            from_row([*name, fields])
            for name, score, fields in zip(names, replies[::2], replies[1::2], strict=True)
            if score is not None and fields[4] is not None
        ]

    # --- channels ---

    async def pause(self, guild_id: int, channel_id: int) -> None:
        """Nothing new of this channel is stored."""
        await self._decide(guild_id, "HSET", "policy", f"{room(guild_id, channel_id)}:paused", "1")

    async def resume(self, guild_id: int, channel_id: int) -> None:
        await self._decide(guild_id, "HDEL", "policy", f"{room(guild_id, channel_id)}:paused")

    async def set_archive(self, guild_id: int, channel_id: int, wanted: bool | None) -> int:
        """Switches a channel's archive (None: the default). Off removes what the buffer does not hold."""
        value = "" if wanted is None else str(int(wanted))
        removed: int = await self.buckets.run(
            "archive", self.buckets.bucket(guild_id), [room(guild_id, channel_id), value]
        )
        self._sweeper.wake()
        return removed

    async def status(self, guild_id: int, channel_id: int) -> ChannelStatus:
        keys = self.buckets.keys(self.buckets.bucket(guild_id))
        place = room(guild_id, channel_id)
        order = keys.of("chan", place)
        paused, own = await answered(
            self.buckets.redis.hmget(keys.one("policy"), [f"{place}:paused", f"{place}:archive"])
        )
        archive = self.buckets.settings.archive if own is None else own == b"1"
        since = self._horizon(archive=archive)
        async with self.buckets.redis.pipeline(transaction=False) as pipe:
            pipe.zcount(order, since, "+inf")
            pipe.zrangebyscore(order, since, "+inf", start=0, num=1, withscores=True)
            pipe.zrevrange(order, 0, 0, withscores=True)
            pipe.scard(keys.of("wait", place))
            count, first, last, pending = await answered(pipe.execute())
        oldest, newest = (first[0][1], last[0][1]) if count else (None, None)
        return ChannelStatus(count, pending, oldest, newest, paused is not None, archive)

    async def roster(self, guild_id: int, channel_id: int) -> list[RosterEntry]:
        """People known in the channel, the last to speak first; those whose messages all expired left out."""
        keys = self.buckets.keys(self.buckets.bucket(guild_id))
        async with self.buckets.redis.pipeline(transaction=False) as pipe:
            pipe.hgetall(keys.of("people", room(guild_id, channel_id)))
            pipe.smembers(keys.one("optout"))
            people, out = await answered(pipe.execute())
        hidden = {int(one.rpartition(b":")[2]) for one in out if b":" not in one or one.startswith(b"%d:" % guild_id)}
        seen = [parse_person(author, packed) for author, packed in people.items()]
        since = self._horizon(archive=True)
        known = [one for one in seen if one.last_ts >= since and one.person.id not in hidden]
        return sorted(known, key=lambda one: one.last_ts, reverse=True)

    async def last_seen(self, guild_id: int, channel_id: int) -> int | None:
        """The id of the newest stored message: where back-fill starts."""
        keys = self.buckets.keys(self.buckets.bucket(guild_id))
        newest: Any = await answered(self.buckets.redis.zrevrange(keys.of("chan", room(guild_id, channel_id)), 0, 0))
        return int(newest[0]) if newest else None

    def _horizon(self, *, archive: bool) -> float:
        settings = self.buckets.settings
        return self.buckets.clock() - (settings.archive_days * 86_400 if archive else settings.buffer_s)


def _whom(author_id: int, guild_id: int | None) -> str:
    return str(author_id) if guild_id is None else f"{guild_id}:{author_id}"
