"""Puts messages without a vector back on the ingest stream; whose turn it is to rebuild an index.

Needed after the stream was lost (buckets.py recreates its consumer group), because no worker would hear of them. A
recreated index needs no help: it reads the existing documents by itself, vectors included.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from redis.asyncio import Redis

from channelmem.errors import CommandRefusedError, RedisUnavailableError
from channelmem.store.buckets import VERSION, Buckets
from channelmem.store.keys import Keys
from channelmem.store.scripts import run_script
from channelmem.tasks import cancel_all

PAGE = 200
NO_MORE = b"0"


async def repair(buckets: Buckets, bucket: int) -> bool:
    """Returns False if it must be tried again: the index still reads documents or was lost meanwhile, or the stream has
    entries to embed first."""
    await buckets.ready(bucket)
    if not await buckets.indexed(bucket):
        return False
    cursor: bytes | None = b""
    while cursor not in (None, NO_MORE):
        try:
            cursor = await buckets.run("requeue", bucket, [VERSION, PAGE, cursor])
        except CommandRefusedError as error:
            if "cursor" not in str(error).lower():
                raise
            return False
    return cursor == NO_MORE


# --- rebuilding ---


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
    while not await redis.set(keys.one("rebuilding"), token, nx=True, px=round(TURN_S * 1000)):
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
    with suppress(RedisUnavailableError):  # then it expires
        await run_script(redis, "turn", keys, [token, round(for_s * 1000)])
