"""A Redis that refuses: one whose disk is full (MISCONF), and one that is busy with a script (BUSY)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import redis.exceptions
from conftest import OwnServer
from redis.asyncio import Redis
from waiting import until


@asynccontextmanager
async def disk_full(server: OwnServer) -> AsyncIterator[None]:
    """Snapshots fail while the block lasts, as on a full disk, so Redis refuses every write (MISCONF)."""
    async with Redis.from_url(server.url) as client:
        folder = server.folder / "dump.rdb"
        folder.mkdir()  # no snapshot can be moved here
        await client.config_set("save", "3600 1")
        await _save(client, "err")
        try:
            yield
        finally:
            folder.rmdir()
            await _save(client, "ok")
            await client.config_set("save", "")


async def _save(client: Redis, status: str) -> None:
    async def saved() -> bool:
        info = await client.info("persistence")
        if info["rdb_last_bgsave_status"] == status:
            return True
        if not info["rdb_bgsave_in_progress"] and not info["aof_rewrite_in_progress"]:
            await client.bgsave()
        return False

    await until(saved)


@asynccontextmanager
async def busy(server: OwnServer) -> AsyncIterator[None]:
    """Redis runs an endless script while the block lasts, and replies BUSY to everything."""
    async with Redis.from_url(server.url, socket_timeout=None) as client, Redis.from_url(server.url) as other:
        await other.config_set("busy-reply-threshold", 10)
        script = asyncio.create_task(_run_for_ever(client))
        await until(lambda: _is_busy(other))
        try:
            yield
        finally:
            await other.script_kill()
            await script


async def _run_for_ever(client: Redis) -> None:
    with suppress(redis.exceptions.ResponseError):  # killed
        await client.eval("while true do end", 0)


async def _is_busy(client: Redis) -> bool:
    try:
        await client.ping()
    except redis.exceptions.ResponseError as error:
        return "BUSY" in str(error)
    return False
