"""Sweep: removes in the background what is already invisible. In: drain keys and forget jobs. Out: unlinked documents.

The work is recorded in Redis, so any process can resume it. Unlinking an indexed document blocks Redis for up to a
millisecond; hence small steps with pauses in between.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from redis.exceptions import ResponseError

from channelmem.errors import RedisUnavailableError
from channelmem.store.buckets import Buckets
from channelmem.store.cancellation import cancel_all
from channelmem.store.connection import UNREACHABLE, answered

log = logging.getLogger(__name__)

STEP = 4
PAUSE_S = 0.002
RETRY_S = 1.0


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
                for bucket in self._buckets.all:
                    await self._sweep(bucket)
            except (RedisUnavailableError, ResponseError, *UNREACHABLE) as error:
                if self._stopping:
                    return
                log.warning("Background removal paused, retrying in %g s: %s", RETRY_S, error)
                self._again = True
                await asyncio.sleep(RETRY_S)

    async def _jobs(self, bucket: int) -> list[bytes]:
        key = self._buckets.keys(bucket).one("forgetting")
        members: Any = await answered(self._buckets.redis.smembers(key))
        return list(members)

    async def _sweep(self, bucket: int) -> None:
        while await self._step("drain", bucket, STEP):
            pass
        for job in await self._jobs(bucket):
            await self._forget(bucket, job)

    async def _forget(self, bucket: int, job: bytes) -> None:
        while await self._step("forget", bucket, STEP, job):
            pass
        await self._buckets.run("forgotten", bucket, [*self._buckets.moment(), job])

    async def _step(self, script: str, bucket: int, *arguments: Any) -> bool:
        more: int = await self._buckets.run(script, bucket, arguments)
        await asyncio.sleep(PAUSE_S)
        return more > 0
