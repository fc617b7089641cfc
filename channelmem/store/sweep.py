"""Removes in the background what is already invisible: leftovers of channels, and messages of people to be forgotten.

The work is recorded in Redis, so any process can resume it. Unlinking an indexed document blocks Redis for up to a
millisecond; hence short steps, bounded by time, with pauses in between.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from channelmem.errors import RedisUnavailableError
from channelmem.store.buckets import Buckets
from channelmem.tasks import cancel_all

log = logging.getLogger(__name__)

STEP_MS = 3
PAUSE_S = 0.001
"""Between two steps, so that whoever waits for Redis comes first."""
PAGE = 500
"""Messages of somebody to be forgotten that are looked up together, and rosters that are changed together."""
RETRY_S = 1.0
INDEXING_S = 0.05
"""Between two looks at an index that still reads documents; buckets.py asks Redis less often."""


class Sweeper:
    """Runs one background task while there is work."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._stopping = False

    def wake(self) -> None:
        self._again = True
        if not self._stopping and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._stopping = True
        if self._task is not None:
            await cancel_all([self._task])

    async def done(self) -> None:
        """Waits until nothing is left to remove."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while self._again:
            self._again = False
            try:
                for bucket in await self._buckets.where("EXISTS", "drains", "forgetting"):
                    await self._sweep(bucket)
            except RedisUnavailableError as error:
                if self._stopping:
                    return
                log.warning("Background removal paused, retrying in %g s: %s", RETRY_S, error)
                self._again = True
                await asyncio.sleep(RETRY_S)

    async def _jobs(self, bucket: int) -> list[bytes]:
        key = self._buckets.keys(bucket).one("forgetting")
        members: Any = await self._buckets.redis.smembers(key)
        return list(members)

    async def _sweep(self, bucket: int) -> None:
        while await self._buckets.visit("drain", bucket, [STEP_MS]):  # noqa: ASYNC110  (each step is the work itself)
            await asyncio.sleep(PAUSE_S)
        for job in await self._jobs(bucket):
            await self._forget(bucket, job)

    async def _forget(self, bucket: int, job: bytes) -> None:
        if await self._buckets.is_used(bucket) and not await self._remove_all(bucket, job):
            return
        await self._unlist(bucket, job)
        await self._buckets.visit("forgotten", bucket, [*self._buckets.moment(), job])

    async def _remove_all(self, bucket: int, job: bytes) -> bool:
        """False if the job was finished elsewhere. An index that still reads documents cannot tell whether anything is
        left, so it must be complete before and after it names nothing more."""
        before: list[bytes] = []
        while True:
            healed, complete = self._buckets.healed, await self._buckets.indexed(bucket)
            names = await self._buckets.visit("forget", bucket, ["find", job, PAGE])
            if names is None:
                return False
            if not names or names == before:  # if the index names what no longer exists, that is nothing, too
                if complete and healed == self._buckets.healed and await self._buckets.indexed(bucket):
                    return True
                await asyncio.sleep(INDEXING_S)
            await self._remove(bucket, job, names)
            before = names

    async def _remove(self, bucket: int, job: bytes, names: list[bytes]) -> None:
        at = 0
        while at < len(names):
            removed = await self._buckets.visit("forget", bucket, ["remove", job, STEP_MS, *names[at:]])
            if removed is None:
                return
            at += removed
            await asyncio.sleep(PAUSE_S)

    async def _unlist(self, bucket: int, job: bytes) -> None:
        """Takes the author out of the rosters. Nothing of theirs is stored until the job is finished."""
        keys, guild = self._buckets.keys(bucket), job.partition(b":")[0]
        guilds: Any = [guild] if guild != b"*" else await self._buckets.redis.smembers(keys.one("guilds"))
        for one in guilds:
            rooms: Any = list(await self._buckets.redis.smembers(keys.of("guild", one.decode())))
            for at in range(0, len(rooms), PAGE):
                await self._buckets.visit("unlist", bucket, [job, *rooms[at : at + PAGE]])
                await asyncio.sleep(PAUSE_S)
