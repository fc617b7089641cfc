"""Bookmarks of back-fill. In: the gaps in what was fetched of a channel's past. Out: those that are still open."""

from __future__ import annotations

from typing import Any

from channelmem.store.buckets import Buckets
from channelmem.store.connection import answered, reads
from channelmem.types import Gap


class Bookmarks:
    """One gap per channel, kept in Redis so that the next process resumes an interrupted back-fill.

    `apply.lua` removes a channel's gap in the same step that clears or deletes the channel or leaves its guild."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    async def note(self, guild_id: int, gap: Gap) -> None:
        value = f"{gap.newest_id or ''} {gap.oldest_id}"
        await answered(self._buckets.redis.hset(self._key(guild_id), str(gap.channel_id), value))

    async def close(self, guild_id: int, channel_id: int) -> None:
        await answered(self._buckets.redis.hdel(self._key(guild_id), str(channel_id)))

    @reads
    async def open(self, guild_id: int) -> list[Gap]:
        rows: Any = await answered(self._buckets.redis.hgetall(self._key(guild_id)))
        return sorted(map(_gap, rows.items()), key=lambda gap: gap.channel_id)

    def _key(self, guild_id: int) -> str:
        return self._buckets.guild_keys(guild_id).of("unfetched", guild_id)


def _gap(row: tuple[bytes, bytes]) -> Gap:
    newest, _, oldest = row[1].decode().partition(" ")
    return Gap(int(row[0]), int(newest) if newest else None, int(oldest))
