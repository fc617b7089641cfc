"""What a channel's memory holds, who is known there, and whether it listens; and small notes per guild: what back-fill
must still fetch, how far a load has come, names of channels, and what language models cost.

Pausing and `fit` go to Redis directly and raise RedisUnavailableError when it cannot be reached. Limits come from the
policy that the caller passes, or from the default one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from channelmem.durations import DAY_S
from channelmem.ids import ChannelId
from channelmem.policy.policy import Limits, Policy
from channelmem.store.buckets import Buckets, InBuckets, newest_of
from channelmem.store.consent import Sweeper
from channelmem.store.decisions import Decisions
from channelmem.store.documents import RosterEntry, clean, pack_limits, parse_person
from channelmem.store.index import rooms_of
from channelmem.store.keys import guild_and_channel, room
from channelmem.store.redis import checked, pipelined, reads
from channelmem.types import ChannelStatus, Gap, Load, Window


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
        removed: int = await self._buckets.run_for(guild_id, "archive", arguments)
        self._sweeper.wake()
        return removed

    @reads
    async def rooms(self, guild_id: int = 0) -> list[tuple[int, int]]:
        """Guild and channel of everything that holds messages, in one guild or in all."""
        redis = self._buckets.redis
        if guild_id:
            names: Any = await redis.smembers(self._buckets.guild_keys(guild_id).of("guild", guild_id))
        else:
            used = await self._buckets.used()
            names = [name for bucket in used for name in await rooms_of(redis, self._buckets.keys(bucket))]
        return list(map(guild_and_channel, names))

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
                first[0][1] if count else None,
                last[0][1] if count else None,
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


# --- back-fill ---


class Bookmarks(InBuckets):
    """One gap per channel, kept in Redis so that the next process resumes an interrupted back-fill.

    `apply.lua` removes a channel's gap in the same step that clears or deletes the channel or leaves its guild."""

    async def note(self, guild_id: int, gap: Gap) -> None:
        value = f"{gap.newest_id or ''} {gap.oldest_id}"
        await self._buckets.redis.hset(self._key(guild_id), str(gap.channel_id), value)

    async def close(self, guild_id: int, channel_id: int) -> None:
        await self._buckets.redis.hdel(self._key(guild_id), str(channel_id))

    @reads
    async def open(self, guild_id: int) -> list[Gap]:
        rows: Any = await self._buckets.redis.hgetall(self._key(guild_id))
        gaps = []
        for channel_id, ends in rows.items():
            newest, _, oldest = ends.decode().partition(" ")
            gaps.append(Gap(int(channel_id), int(newest) if newest else None, int(oldest)))
        return sorted(gaps, key=lambda gap: gap.channel_id)

    def _key(self, guild_id: int) -> str:
        return self._buckets.guild_keys(guild_id).of("unfetched", guild_id)


# --- loads ---


class Loads(InBuckets):
    async def begin(self, guild_id: int, load: Load) -> bool:
        """False if one is in progress already, which goes on."""
        return bool(await self._buckets.redis.hsetnx(self._key(guild_id), str(load.channel_id), _packed(load)))

    async def advance(self, guild_id: int, load: Load) -> bool:
        """Notes progress; False if there is nothing to go on with: the channel was cleared meanwhile."""
        return bool(await self._buckets.run_for(guild_id, "advance", (guild_id, load.channel_id, _packed(load))))

    async def end(self, guild_id: int, channel_id: int) -> None:
        await self._buckets.redis.hdel(self._key(guild_id), str(channel_id))

    @reads
    async def open(self, guild_id: int) -> list[Load]:
        rows: Any = await self._buckets.redis.hgetall(self._key(guild_id))
        return [Load(int(channel), *map(int, row.split())) for channel, row in sorted(rows.items())]

    def _key(self, guild_id: int) -> str:
        return self._buckets.guild_keys(guild_id).of("loading", guild_id)


def _packed(load: Load) -> str:
    return " ".join(map(str, astuple(load)[1:]))


# --- names ---


LIFETIME_S: Final = 30 * DAY_S
NAME_CHARS: Final = 100
MOST: Final = 1_000
"""Channels of a guild that are named in one call; Discord allows 500 and their threads."""
_GUILD: Final = ""


@dataclass(frozen=True, slots=True)
class GuildNames:
    """Empty where nobody told a name."""

    guild: str = ""
    channels: Mapping[int, str] = field(default_factory=dict)

    def channel(self, channel_id: int) -> str:
        return self.channels.get(channel_id, "")


class NameStore(InBuckets):
    async def tell(self, guild_id: int, guild: str = "", channels: Mapping[int, str] | None = None) -> None:
        """Adds or replaces names; an empty one changes nothing."""
        told = {str(channel_id): name for channel_id, name in list((channels or {}).items())[:MOST]} | {_GUILD: guild}
        shortened = ((key, clean(name).strip()[:NAME_CHARS]) for key, name in told.items())
        named: dict[Any, Any] = {key: name for key, name in shortened if name}
        if not named:
            return
        key = self._buckets.guild_keys(guild_id).of("names", guild_id)
        pipe = self._buckets.redis.pipeline(transaction=True)
        pipe.hset(key, mapping=named)
        pipe.expire(key, round(LIFETIME_S))
        await pipe.execute()

    @reads
    async def of(self, guild_ids: Iterable[int]) -> dict[int, GuildNames]:
        guilds = list(dict.fromkeys(guild_ids))
        keys = (self._buckets.guild_keys(guild_id).of("names", guild_id) for guild_id in guilds)
        replies = await pipelined(self._buckets.redis, [("HGETALL", key) for key in keys])
        return {guild_id: _read(reply) for guild_id, reply in zip(guilds, replies, strict=True)}


def _read(reply: Mapping[Any, bytes]) -> GuildNames:
    names = {key.decode(): name.decode() for key, name in reply.items()}
    return GuildNames(names.pop(_GUILD, ""), {int(channel_id): name for channel_id, name in names.items()})


# --- spending ---


KEPT_S: Final = round(8 * DAY_S)
"""A week of pages can be read afterwards."""
BUCKET: Final = 0
"""The cap is one for all guilds, so its pages are in one place."""
TOTAL: Final = b"*"


class Spending(InBuckets):
    @reads
    async def reserve(self, day: int, channel: ChannelId, micros: int, cap_micros: int) -> bool:
        """False if that could exceed the cap. `day` counts from the epoch."""
        arguments = (_date(day), room(*channel), micros, cap_micros, KEPT_S)
        return bool(await self._buckets.run("reserve", BUCKET, arguments))

    @reads
    async def settle(self, day: int, channel: ChannelId, change_micros: int) -> None:
        await self._buckets.run("settle", BUCKET, (_date(day), room(*channel), change_micros))

    @reads
    async def total(self, day: int) -> int:
        """Spent or set aside on that day."""
        return int(await self._buckets.redis.hget(self._page(day), TOTAL.decode()) or 0)

    @reads
    async def by_channel(self, day: int) -> dict[ChannelId, int]:
        """The same, by channel."""
        rows: Any = await self._buckets.redis.hgetall(self._page(day))
        return {ChannelId(*guild_and_channel(name)): int(micros) for name, micros in rows.items() if name != TOTAL}

    async def usd_today(self) -> dict[int, float]:
        """Today's, in US dollars by channel id."""
        rows = await self.by_channel(int(self._buckets.clock() // DAY_S))
        return {channel_id: micros / 1e6 for (_, channel_id), micros in rows.items()}

    def _page(self, day: int) -> str:
        return self._buckets.keys(BUCKET).of("spend", _date(day))


def _date(day: int) -> str:
    """ "2027-01-15": readable in RedisInsight."""
    return f"{datetime.fromtimestamp(day * DAY_S, UTC):%Y-%m-%d}"
