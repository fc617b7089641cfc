"""Keeps summaries up to date in the background; answers never wait for it. Messages make their channel due a while
after their window closes, removals at once. Any number of processes share the work: a channel is updated under a lock,
which expires if its process dies, and one that fails is tried again, later each time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from cachetools import LRUCache

from channelmem.errors import ChannelmemError, RedisUnavailableError, SummariesBusyError
from channelmem.policy.policy import Policy
from channelmem.store.derived import LOCK_MS, SummaryStore
from channelmem.summaries.update import BUSY, Held, Updated, Updater
from channelmem.tasks import cancel_all

log = logging.getLogger(__name__)

TOGETHER = 4  # channels that one process updates at a time
POLL_S = 5.0  # between two looks for channels that are due
FIRST_RETRY_S = 30.0
LAST_RETRY_S = 3600.0
LOCK_POLL_S = 0.2

PolicyOf = Callable[[int, int], Policy]
Work = Callable[[Held], Awaitable[Updated]]


class SummaryWorker:
    def __init__(self, store: SummaryStore, updater: Updater, policy_of: PolicyOf) -> None:
        self._store, self._updater, self._policy_of = store, updater, policy_of
        self._failures: LRUCache[tuple[int, int], int] = LRUCache(10_000)  # how often in a row a channel failed

    # --- in the background ---

    async def run(self) -> None:
        """Works until it is cancelled, and survives outages of Redis."""
        while True:
            try:
                busy = await self.run_due()
            except ChannelmemError as error:
                log.warning("Summaries wait: %s", error)
                busy = 0
            if busy < TOGETHER:
                await asyncio.sleep(POLL_S)

    async def finish(self) -> None:
        """Updates whatever is due, then returns."""
        while await self.run_due():
            pass

    async def run_due(self) -> int:
        """Updates a few channels that are due; returns how many."""
        token = secrets.token_hex(8)
        taken: list[tuple[int, int]] = []
        for bucket in await self._store.buckets():
            if len(taken) < TOGETHER:
                taken += await self._store.claim(bucket, token, TOGETHER - len(taken))
        await asyncio.gather(*(self._one(*place, token) for place in taken))
        return len(taken)

    async def _one(self, guild_id: int, channel_id: int, token: str) -> None:
        held = Held(guild_id, channel_id, self._policy_of(guild_id, channel_id), token)
        try:
            await self._work(held, self._updater.update)
        except (RedisUnavailableError, SummariesBusyError) as error:
            log.warning("Summaries of channel %d are tried again later: %s", channel_id, error)
        except Exception:  # one channel's texts must not end the summaries of all others
            log.exception("Summaries of channel %d failed; trying again later", channel_id)

    # --- on request ---

    async def now(self, guild_id: int, channel_id: int, work: Work, wait_s: float = 0.0) -> Updated:
        """Does something to a channel's summaries under its lock; SummariesBusyError if somebody else holds that for
        longer than `wait_s`."""
        token, loop = secrets.token_hex(8), asyncio.get_running_loop()
        end = loop.time() + wait_s
        while not await self._store.lock(guild_id, channel_id, token):
            if loop.time() >= end:
                raise SummariesBusyError(BUSY)
            await asyncio.sleep(LOCK_POLL_S)
        return await self._work(Held(guild_id, channel_id, self._policy_of(guild_id, channel_id), token), work)

    async def _work(self, held: Held, work: Work) -> Updated:
        done, policy = Updated(0, None), held.policy
        failed = self._failures.pop(held.place, 0) + 1
        due: float | None = self._store.now() + min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** (failed - 1))
        try:
            if policy.enabled and policy.summaries and policy.limits.archive:
                async with self._kept(held):
                    done = await work(held)
            failed, due = 0, done.due
        finally:
            if failed:
                self._failures[held.place] = failed
            # If that fails too, the lock expires, and the channel is due again.
            with contextlib.suppress(RedisUnavailableError):
                await self._store.free(*held.place, held.token, due)
        return done

    @asynccontextmanager
    async def _kept(self, held: Held) -> AsyncIterator[None]:
        """Prolongs the lock for as long as the block takes: a language model may need minutes."""

        async def keep() -> None:
            while True:
                await asyncio.sleep(LOCK_MS / 3000)
                with contextlib.suppress(RedisUnavailableError):
                    await self._store.keep(*held.place, held.token)

        task = asyncio.create_task(keep(), name="channelmem keeping a lock")
        try:
            yield
        finally:
            await cancel_all([task])
