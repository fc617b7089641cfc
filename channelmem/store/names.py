"""Names of guilds and channels, as far as an adapter told them: ids alone say little to people who look at a memory.

In: a guild's name and those of its channels. Out: the same. They go with the guild or channel they belong to
(apply.lua), and expire unless they are told again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from channelmem.durations import DAY_S
from channelmem.store.buckets import Buckets
from channelmem.store.connection import answered, reads
from channelmem.store.documents import clean

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


class Names:
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
        async with self._buckets.redis.pipeline(transaction=True) as pipe:
            pipe.hset(key, mapping=named)
            pipe.expire(key, round(LIFETIME_S))
            await answered(pipe.execute())

    @reads
    async def of(self, guild_ids: Iterable[int]) -> dict[int, GuildNames]:
        """What is known of each of these guilds."""
        guilds = list(dict.fromkeys(guild_ids))
        async with self._buckets.redis.pipeline(transaction=False) as pipe:
            for guild_id in guilds:
                pipe.hgetall(self._buckets.guild_keys(guild_id).of("names", guild_id))
            replies: list[dict[bytes, bytes]] = await answered(pipe.execute()) if guilds else []
        return {guild_id: _read(reply) for guild_id, reply in zip(guilds, replies, strict=True)}


def _read(reply: Mapping[Any, bytes]) -> GuildNames:
    names = {key.decode(): name.decode() for key, name in reply.items()}
    return GuildNames(names.pop(_GUILD, ""), {int(channel_id): name for channel_id, name in names.items()})
