"""Rebuilding: one process at a time rebuilds the index of a bucket. In: a bucket. Out: whether it is this one's turn.

The lock of a process that dies expires; until then, and while another one works, `channelmem reindex` waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from redis.asyncio import Redis
from redis.asyncio.lock import Lock
from redis.exceptions import LockError, ResponseError

from channelmem.store.cancellation import cancel_all
from channelmem.store.connection import UNREACHABLE
from channelmem.store.keys import Keys

log = logging.getLogger(__name__)

LOCK_S = 60.0


@asynccontextmanager
async def turn(redis: Redis, keys: Keys, *, wait: bool) -> AsyncIterator[bool]:
    """False if it is another process' turn and this one does not wait."""
    lock = redis.lock(keys.one("rebuilding"), timeout=LOCK_S, thread_local=False)
    if not await _acquired(lock, wait=wait):
        yield False
        return
    holding = asyncio.create_task(_hold(lock))
    try:
        yield True
    finally:
        await cancel_all([holding])
        with suppress(LockError, ResponseError, *UNREACHABLE):  # it has expired, or does so soon
            await lock.release()


async def _acquired(lock: Lock, *, wait: bool) -> bool:
    acquired = bool(await lock.acquire(blocking=False))
    if wait and not acquired:
        log.warning("Another process is rebuilding this index; waiting for it")
        acquired = bool(await lock.acquire(blocking=True))
    return acquired


async def _hold(lock: Lock) -> None:
    while True:
        await asyncio.sleep(LOCK_S / 3)
        with suppress(LockError, ResponseError, *UNREACHABLE):
            await lock.reacquire()
