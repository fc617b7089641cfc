"""Small notes per guild: what back-fill must still fetch, how far a load has come, names of channels, and what language
models cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from channelmem.durations import DAY_S
from channelmem.ids import ChannelId
from channelmem.store.buckets import Buckets
from channelmem.store.documents import clean
from channelmem.store.keys import guild_and_channel, room
from channelmem.store.redis import pipelined, reads
from channelmem.types import Gap, Load


class Bookmarks:
    """One gap per channel, kept in Redis so that the next process resumes an interrupted back-fill.

    `apply.lua` removes a channel's gap in the same step that clears or deletes the channel or leaves its guild."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    async def note(self, guild_id: int, gap: Gap) -> None:
        value = f"{gap.newest_id or ''} {gap.oldest_id}"
        await self._buckets.redis.hset(self._key(guild_id), str(gap.channel_id), value)

    async def close(self, guild_id: int, channel_id: int) -> None:
        await self._buckets.redis.hdel(self._key(guild_id), str(channel_id))

    @reads
    async def open(self, guild_id: int) -> list[Gap]:
        rows: Any = await self._buckets.redis.hgetall(self._key(guild_id))
        return sorted(map(_gap, rows.items()), key=lambda gap: gap.channel_id)

    def _key(self, guild_id: int) -> str:
        return self._buckets.guild_keys(guild_id).of("unfetched", guild_id)


def _gap(row: tuple[bytes, bytes]) -> Gap:
    channel_id, ends = row
    newest, _, oldest = ends.decode().partition(" ")
    return Gap(int(channel_id), int(newest) if newest else None, int(oldest))


# --- loads ---


class Loads:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    async def begin(self, guild_id: int, load: Load) -> bool:
        """False if one is in progress already, which goes on."""
        row = (self._key(guild_id), str(load.channel_id), _packed(load))
        return bool(await self._buckets.redis.hsetnx(*row))

    async def advance(self, guild_id: int, load: Load) -> bool:
        """Notes progress; False if there is nothing to go on with: the channel was cleared meanwhile."""
        arguments = (guild_id, load.channel_id, _packed(load))
        return bool(await self._buckets.run("advance", self._buckets.bucket(guild_id), arguments))

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


class NameStore:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

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
        """What is known of each of these guilds."""
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


class Spending:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

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
