"""Rebuilding: one process at a time rebuilds the index of a bucket. In: a bucket. Out: whether it is this one's turn.

The turn of a process that dies expires; until then, and while another one works, `channelmem reindex` waits. redis-py
has a lock, too, but loads its scripts into one node of a cluster only.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from channelmem.errors import RedisUnavailableError
from channelmem.store.cancellation import cancel_all
from channelmem.store.connection import answered, run_script
from channelmem.store.keys import Keys

log = logging.getLogger(__name__)

TURN_S = 60.0
LOOK_S = 0.1


@asynccontextmanager
async def turn(redis: Redis, keys: Keys, *, wait: bool) -> AsyncIterator[bool]:
    """False if it is another process' turn and this one does not wait."""
    token = secrets.token_hex(8)
    if not await _taken(redis, keys, token, wait=wait):
        yield False
        return
    holding = asyncio.create_task(_hold(redis, keys, token))
    try:
        yield True
    finally:
        await cancel_all([holding])
        await _change(redis, keys, token, 0)


async def _taken(redis: Redis, keys: Keys, token: str, *, wait: bool) -> bool:
    told = False
    while not await answered(redis.set(keys.one("rebuilding"), token, nx=True, px=round(TURN_S * 1000))):
        if not wait:
            return False
        if not told:
            log.warning("Another process is rebuilding this index; waiting for it")
        told = True
        await asyncio.sleep(LOOK_S)
    return True


async def _hold(redis: Redis, keys: Keys, token: str) -> None:
    while True:
        await asyncio.sleep(TURN_S / 3)
        await _change(redis, keys, token, TURN_S)


async def _change(redis: Redis, keys: Keys, token: str, for_s: float) -> None:
    with suppress(RedisUnavailableError, ResponseError):  # then it expires
        await run_script(redis, "turn", keys, [token, round(for_s * 1000)])
