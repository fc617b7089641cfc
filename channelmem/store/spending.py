"""What language models cost, over all processes and restarts. In: the most a call can cost, then what it did cost. Out:
whether the day's cap leaves room for it, and what each channel spent.

One page per UTC day, with the total and a row per channel, in micro-dollars. Checking the cap and setting the money
aside is one step, so calls of any number of processes cannot exceed it together. What a process that crashed had set
aside stays counted.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from channelmem.durations import DAY_S
from channelmem.store.buckets import Buckets
from channelmem.store.connection import answered, reads
from channelmem.store.keys import guild_and_channel, room

KEPT_S: Final = round(8 * DAY_S)
"""A week of pages can be read afterwards."""
BUCKET: Final = 0
"""The cap is one for all guilds, so its pages are in one place."""
TOTAL: Final = b"*"

Place = tuple[int, int]
"""Guild and channel."""


class Spending:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    @reads
    async def reserve(self, day: int, place: Place, micros: int, cap_micros: int) -> bool:
        """False if that could exceed the cap. `day` counts from the epoch."""
        arguments = (_date(day), room(*place), micros, cap_micros, KEPT_S)
        return bool(await self._buckets.run("reserve", BUCKET, arguments))

    @reads
    async def settle(self, day: int, place: Place, change_micros: int) -> None:
        await self._buckets.run("settle", BUCKET, (_date(day), room(*place), change_micros))

    @reads
    async def total(self, day: int) -> int:
        """Spent or set aside on that day."""
        return int(await answered(self._buckets.redis.hget(self._page(day), TOTAL.decode())) or 0)

    @reads
    async def by_channel(self, day: int) -> dict[Place, int]:
        """The same, by channel."""
        rows: Any = await answered(self._buckets.redis.hgetall(self._page(day)))
        return {guild_and_channel(name): int(micros) for name, micros in rows.items() if name != TOTAL}

    async def usd_today(self) -> dict[int, float]:
        """Today's, in US dollars by channel id."""
        rows = await self.by_channel(int(self._buckets.clock() // DAY_S))
        return {channel_id: micros / 1e6 for (_, channel_id), micros in rows.items()}

    def _page(self, day: int) -> str:
        return self._buckets.keys(BUCKET).of("spend", _date(day))


def _date(day: int) -> str:
    """ "2027-01-15": readable in RedisInsight."""
    return f"{datetime.fromtimestamp(day * DAY_S, UTC):%Y-%m-%d}"
