"""What a channel's memory holds, who is known there, and whether it listens.

Pausing and `fit` go to Redis directly and raise RedisUnavailableError when it cannot be reached. Limits come from the
policy that the caller passes, or from the default one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from channelmem.policy.policy import Limits, Policy
from channelmem.store.buckets import Buckets, newest_of
from channelmem.store.decisions import Decisions
from channelmem.store.documents import RosterEntry, pack_limits, parse_person
from channelmem.store.keys import guild_and_channel, room
from channelmem.store.redis import checked, reads
from channelmem.store.sweep import Sweeper
from channelmem.types import ChannelStatus, Window


class ChannelState:
    def __init__(self, buckets: Buckets, sweeper: Sweeper, decisions: Decisions) -> None:
        self._buckets, self._sweeper, self._decisions = buckets, sweeper, decisions

    async def pause(self, guild_id: int, channel_id: int) -> None:
        """Stores and shows nothing new of this channel until `resume`."""
        await self._decisions.close(guild_id, channel_id, Window(start=self._buckets.clock()))
        await self._decide("pause", guild_id, channel_id)

    async def resume(self, guild_id: int, channel_id: int) -> None:
        """Stores what is said from now on. What was said during the pause stays out."""
        await self._decide("resume", guild_id, channel_id)

    async def fit(self, guild_id: int, channel_id: int, policy: Policy) -> int:
        """Brings lifetimes in line with the policy. Without an archive, what the buffer does not hold is removed once
        that can't be undone any more. Returns how many messages were removed."""
        arguments = [repr(self._buckets.clock()), pack_limits(policy.limits), room(guild_id, channel_id)]
        removed: int = await self._buckets.run("archive", self._buckets.bucket(guild_id), arguments)
        self._sweeper.wake()
        return removed

    @reads
    async def rooms(self, guild_id: int = 0) -> list[tuple[int, int]]:
        """Guild and channel of everything that holds messages, in one guild or in all."""
        found: list[tuple[int, int]] = []
        for bucket in [self._buckets.bucket(guild_id)] if guild_id else await self._buckets.used():
            keys = self._buckets.keys(bucket)
            guilds: Any = [guild_id] if guild_id else await self._buckets.redis.smembers(keys.one("guilds"))
            for guild in guilds:
                names: Any = await self._buckets.redis.smembers(keys.of("guild", int(guild)))
                found += map(guild_and_channel, names)
        return found

    async def status(self, guild_id: int, channel_id: int, policy: Policy | None = None) -> ChannelStatus:
        (status,) = await self.statuses([(guild_id, channel_id)], lambda *_: policy or self._buckets.policy)
        return status

    async def statuses(
        self, rooms: Sequence[tuple[int, int]], policy_of: Callable[[int, int], Policy]
    ) -> list[ChannelStatus]:
        """Of many channels, in two round trips per bucket."""
        found: dict[tuple[int, int], ChannelStatus] = {}
        buckets: dict[int, list[tuple[int, int]]] = {}
        for guild_id, channel_id in rooms:
            buckets.setdefault(self._buckets.bucket(guild_id), []).append((guild_id, channel_id))
        for bucket, places in buckets.items():
            limits = [policy_of(*place).limits for place in places]
            found |= zip(places, await self._statuses(bucket, [room(*place) for place in places], limits), strict=True)
        return [found[place] for place in rooms]

    @reads
    async def _statuses(self, bucket: int, names: Sequence[str], limits: Sequence[Limits]) -> list[ChannelStatus]:
        keys, now = self._buckets.keys(bucket), self._buckets.clock()
        async with self._buckets.redis.pipeline(transaction=False) as pipe:
            pipe.hmget(keys.one("policy"), [f"{name}:paused" for name in names])
            for name, limit in zip(names, limits, strict=True):
                order, since = keys.of("chan", name), now - limit.lifetime_s
                pipe.zcount(order, since, "+inf")
                pipe.zrangebyscore(order, since, "+inf", start=0, num=1, withscores=True)
                pipe.zrevrange(order, 0, 0, withscores=True)
                pipe.scard(keys.of("wait", name))
            paused, *replies = await pipe.execute()
        counts = zip(replies[::4], replies[1::4], replies[2::4], replies[3::4], strict=True)
        return [
            ChannelStatus(
                count if limit.archive else min(count, limit.max_messages),
                pending,
                *_ends(first, last, count),
                since is not None,
                limit.archive,
            )
            for (count, first, last, pending), since, limit in zip(counts, paused, limits, strict=True)
        ]

    @reads
    async def roster(self, guild_id: int, channel_id: int, policy: Policy | None = None) -> list[RosterEntry]:
        """People known in the channel, the latest speaker first; leaves out those whose messages have all expired."""
        keys = self._buckets.guild_keys(guild_id)
        pipe = self._buckets.redis.pipeline(transaction=False)
        pipe.xrevrange(keys.one("changes"), count=1)  # first: what is removed right after is seen as new
        pipe.hgetall(keys.of("people", room(guild_id, channel_id)))
        pipe.smembers(keys.one("optout"))
        changes, *replies = await pipe.execute(raise_on_error=False)
        people, out = checked(replies)
        self._buckets.changes.saw(self._buckets.bucket(guild_id), newest_of(changes))
        hidden = {int(one.rpartition(b":")[2]) for one in out if b":" not in one or one.startswith(b"%d:" % guild_id)}
        seen = [parse_person(author, packed) for author, packed in people.items()]
        since = self._buckets.clock() - (policy or self._buckets.policy).limits.lifetime_s
        hidden |= {one.person.id for one in seen if self._buckets.undelivered.hides(guild_id, one.person.id)}
        known = [one for one in seen if one.last_ts >= since and one.person.id not in hidden]
        return sorted(known, key=lambda one: one.last_ts, reverse=True)

    @reads
    async def last_seen(self, guild_id: int, channel_id: int) -> int | None:
        """The id of the newest stored message: back-fill starts there."""
        order = self._buckets.guild_keys(guild_id).of("chan", room(guild_id, channel_id))
        newest: Any = await self._buckets.redis.zrevrange(order, 0, 0)
        return int(newest[0]) if newest else None

    async def _decide(self, kind: str, guild_id: int, channel_id: int) -> None:
        await self._decisions.write(kind, room(guild_id, channel_id), [self._buckets.bucket(guild_id)])
        await self._decisions.sync()


def _ends(first: Any, last: Any, count: int) -> tuple[float | None, float | None]:
    """The times of the oldest and newest message."""
    return (first[0][1], last[0][1]) if count else (None, None)
