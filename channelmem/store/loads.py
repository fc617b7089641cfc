"""Loads of a channel's past. In: how far each has come. Out: those that are not finished, also after a restart.

One per channel. `apply.lua` removes it in the step that clears or deletes the channel or leaves its guild, so that a
load in progress ends there.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

from channelmem.store.buckets import Buckets
from channelmem.store.connection import answered, reads
from channelmem.types import Load


class Loads:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    async def begin(self, guild_id: int, load: Load) -> bool:
        """False if one is in progress already, which goes on."""
        row = (self._key(guild_id), str(load.channel_id), _packed(load))
        return bool(await answered(self._buckets.redis.hsetnx(*row)))

    async def advance(self, guild_id: int, load: Load) -> bool:
        """Notes progress; False if there is nothing to go on with: the channel was cleared meanwhile."""
        arguments = (guild_id, load.channel_id, _packed(load))
        return bool(await self._buckets.run("advance", self._buckets.bucket(guild_id), arguments))

    async def end(self, guild_id: int, channel_id: int) -> None:
        await answered(self._buckets.redis.hdel(self._key(guild_id), str(channel_id)))

    @reads
    async def open(self, guild_id: int) -> list[Load]:
        rows: Any = await answered(self._buckets.redis.hgetall(self._key(guild_id)))
        return [Load(int(channel), *map(int, row.split())) for channel, row in sorted(rows.items())]

    def _key(self, guild_id: int) -> str:
        return self._buckets.guild_keys(guild_id).of("loading", guild_id)


def _packed(load: Load) -> str:
    return " ".join(map(str, astuple(load)[1:]))
