"""Fitting: which index a bucket needs where the settings say `auto`. In: settings and a bucket. Out: settings that name
an algorithm.
"""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from channelmem.settings import Settings
from channelmem.store.connection import answered
from channelmem.store.keys import Keys
from channelmem.store.schema import chosen

COUNTED = 1_000
"""Channels whose messages are counted in one round trip."""


async def fitted(redis: Redis, settings: Settings, keys: Keys) -> Settings:
    """Unchanged if the settings name an algorithm."""
    if settings.index_algorithm != "auto":
        return settings
    built: Any = await answered(redis.hget(keys.one("meta"), "shape"))
    return chosen(settings, messages=await _stored(redis, keys), built=(built or b"").decode())


async def rooms_of(redis: Redis, keys: Keys) -> list[bytes]:
    """All rooms of a bucket that hold messages."""
    found: list[Any] = []
    guilds: Any = await answered(redis.smembers(keys.one("guilds")))
    for guild in guilds:
        rooms: Any = await answered(redis.smembers(keys.of("guild", int(guild))))
        found += rooms
    return found


async def _stored(redis: Redis, keys: Keys) -> int:
    """Messages of a bucket. FT.INFO would say it, too, but blocks a large Redis for long."""
    rooms, messages = await rooms_of(redis, keys), 0
    for at in range(0, len(rooms), COUNTED):
        async with redis.pipeline(transaction=False) as pipe:
            for room in rooms[at : at + COUNTED]:
                pipe.zcard(keys.of("chan", room.decode()))
            messages += sum(await answered(pipe.execute()))
    return messages
