"""Stops, blocks, fills, slows or kills a Redis server, or takes its index away; stops or kills a service."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio import Redis

from scripts.torturing.service import Service

BACK_S = 60.0
"""A killed server loads its data again."""
SLOW_MS = 60

BETWEEN_S = 0.1

Lasting = Callable[[], AbstractAsyncContextManager[None]]


class Faults:
    def __init__(self, url: str, folder: Path | None = None, service: Service | None = None) -> None:
        """`folder` is where the server keeps its data; without it there is no full disk."""
        self._url, self._folder, self.service = url, folder, service
        self._lasting: dict[str, Lasting] = {
            "Redis stopped (SIGSTOP)": self._stopped,
            "busy with a script (BUSY)": self._busy,
            "memory full (OOM)": self._memory_full,
            "disk full (MISCONF)": self._disk_full,
            "slow (CLIENT PAUSE)": self._slow,
        }
        self._sudden: dict[str, Callable[[], Awaitable[None]]] = {
            "index dropped (FT.DROPINDEX)": self._drop_index,
            "scripts lost (SCRIPT FLUSH)": self._lose_scripts,
            "connections cut (CLIENT KILL)": self._cut,
            "Redis killed (kill -9)": self._kill,
        }
        if service is not None:
            self._lasting |= {
                "service killed (kill -9)": partial(self._service_killed, service),
                "service stopped (SIGSTOP)": partial(self._service_stopped, service),
                "service killed while the disk is full": partial(self._both, service, self._disk_full),
                "service killed while Redis is stopped": partial(self._both, service, self._stopped),
            }
            self._sudden["service and Redis killed (kill -9)"] = partial(self._kill_both, service)

    @property
    def names(self) -> list[str]:
        return [*self._lasting, *self._sudden]

    async def strike(self, name: str, begins_s: float, lasts_s: float) -> None:
        await asyncio.sleep(begins_s)
        if name in self._sudden:
            await self._sudden[name]()
            return
        async with self._lasting[name]():
            await asyncio.sleep(lasts_s)

    async def recovered(self) -> None:
        """Returns when Redis answers, writes before it replies, and searches to the end."""
        async with asyncio.timeout(BACK_S):
            while not await self._replies():  # noqa: ASYNC110  (Redis sends no event)
                await asyncio.sleep(0.05)
        if self.service is not None:
            await self.service.ready()

    async def flush_all(self) -> None:
        await self._do("FLUSHALL")
        if self.service is not None:
            await self.service.admit()

    async def _replies(self) -> bool:
        try:
            # Otherwise an acknowledged write may still be in the memory of a server that is killed.
            await self._do("CONFIG", "SET", "appendfsync", "always")
            await self._do("FT.CONFIG", "SET", "TIMEOUT", "60000")
        except (redis_errors.RedisError, OSError):
            return False
        return True

    async def _do(self, *command: Any) -> Any:
        async with Redis.from_url(self._url, protocol=2, socket_timeout=5) as client:
            return await client.execute_command(*command)  # type: ignore[no-untyped-call]

    async def _pid(self) -> int:
        return int((await self._do("INFO", "server"))["process_id"])

    # --- for a while ---

    @asynccontextmanager
    async def _stopped(self) -> AsyncIterator[None]:
        pid = await self._pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @asynccontextmanager
    async def _busy(self) -> AsyncIterator[None]:
        await self._do("CONFIG", "SET", "busy-reply-threshold", "10")
        script = asyncio.create_task(self._run_for_ever())
        try:
            yield
        finally:
            while not script.done():
                with suppress(redis_errors.RedisError):
                    await self._do("SCRIPT", "KILL")
                await asyncio.sleep(0.02)

    async def _run_for_ever(self) -> None:
        async with Redis.from_url(self._url, protocol=2, socket_timeout=None) as client:
            with suppress(redis_errors.RedisError):
                await client.eval("while true do end", 0)

    @asynccontextmanager
    async def _memory_full(self) -> AsyncIterator[None]:
        await self._do("CONFIG", "SET", "maxmemory", "1")
        try:
            yield
        finally:
            await self._do("CONFIG", "SET", "maxmemory", "0")

    @asynccontextmanager
    async def _disk_full(self) -> AsyncIterator[None]:
        """A folder where the snapshot should be, so Redis cannot save and refuses every write."""
        assert self._folder is not None
        in_the_way = self._folder / "dump.rdb"
        in_the_way.unlink(missing_ok=True)
        in_the_way.mkdir()
        await self._do("CONFIG", "SET", "save", "3600 1")
        await self._save("err")
        try:
            yield
        finally:
            in_the_way.rmdir()
            await self._save("ok")
            await self._do("CONFIG", "SET", "save", "")

    async def _save(self, status: str) -> None:
        deadline = time.monotonic() + BACK_S
        while (await self._do("INFO", "persistence"))["rdb_last_bgsave_status"] != status:
            with suppress(redis_errors.ResponseError):  # one is running
                await self._do("BGSAVE")
            await asyncio.sleep(0.05)
            if time.monotonic() > deadline:
                raise RuntimeError(f"no snapshot ended with {status}")

    @asynccontextmanager
    async def _slow(self) -> AsyncIterator[None]:
        over = asyncio.Event()
        pausing = asyncio.create_task(self._pause_until(over))
        try:
            yield
        finally:
            over.set()
            await pausing

    async def _pause_until(self, over: asyncio.Event) -> None:
        """Not by cancelling: a wait that ends at the same moment can swallow that, and the pauses would never end."""
        while not over.is_set():
            await self._do("CLIENT", "PAUSE", str(SLOW_MS), "ALL")
            await asyncio.sleep(SLOW_MS / 800)

    @asynccontextmanager
    async def _service_killed(self, service: Service) -> AsyncIterator[None]:
        await service.kill()
        try:
            yield
        finally:
            await service.start()

    @asynccontextmanager
    async def _service_stopped(self, service: Service) -> AsyncIterator[None]:
        service.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            service.signal(signal.SIGCONT)

    @asynccontextmanager
    async def _both(self, service: Service, breaking: Lasting) -> AsyncIterator[None]:
        """It ends with what it was told and Redis could not take, and comes back before Redis does."""
        async with breaking():
            await asyncio.sleep(BETWEEN_S)
            await service.kill()
            await service.start()
            yield

    # --- once ---

    async def _drop_index(self) -> None:
        for name in await self._do("FT._LIST"):
            await self._do("FT.DROPINDEX", name)

    async def _lose_scripts(self) -> None:
        await self._do("SCRIPT", "FLUSH")

    async def _cut(self) -> None:
        await self._do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    async def _kill(self) -> None:
        os.kill(await self._pid(), signal.SIGKILL)

    async def _kill_both(self, service: Service) -> None:
        """The service comes back first, and knows no token until Redis is back."""
        await self._kill()
        await service.kill()
        await service.start()
