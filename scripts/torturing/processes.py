"""The processes of a history, as the torturer holds them. One that was killed replies None."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

from channelmem.settings import Settings
from scripts.torturing.actor import Actor
from scripts.torturing.live import TOKEN, URL, packed, unpacked
from scripts.torturing.remote import acting_anywhere
from scripts.torturing.service import Service
from scripts.torturing.steps import Reply, Step

LIMIT = 1 << 26
HANGS_S = 75.0


class Process(Protocol):
    async def start(self) -> None:
        """Returns when it can be told something."""

    async def do(self, step: Step) -> Reply | None:
        """None: it died, and nobody knows whether the step was done."""

    async def kill(self) -> None:
        """Like kill -9."""

    async def stop(self) -> None:
        """In good order."""


class OwnProcess:
    """A real one."""

    def __init__(self, data_dir: Path, log: Path, service: Service | None = None) -> None:
        self._data_dir, self._log = data_dir, log
        self._service = {URL: service.url, TOKEN: service.token} if service else {}
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "scripts.torturing.live", str(self._data_dir)),
                env=os.environ | self._service,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                limit=LIMIT,
            )
        if await self._read() is None:
            raise RuntimeError(f"A process did not start; {self._log} says why")

    async def do(self, step: Step) -> Reply | None:
        if self._process is None or self._process.stdin is None:
            return None
        try:
            self._process.stdin.write(packed(step))
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            return None
        return await self._read()

    async def _read(self) -> Reply | None:
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(HANGS_S):
            line = await self._process.stdout.readline()
        reply: Reply | None = unpacked(line) if line.endswith(b"\n") else None
        return reply

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()


class LocalProcess:
    """Part of this process, for short runs. It cannot be killed, only closed."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._stack = settings, AsyncExitStack()
        self._actor: Actor | None = None

    async def start(self) -> None:
        self._actor = await self._stack.enter_async_context(acting_anywhere(self._settings))

    async def do(self, step: Step) -> Reply | None:
        if self._actor is None:
            return None
        async with asyncio.timeout(HANGS_S):
            return await self._actor.do(step)

    async def kill(self) -> None:
        await self.stop()

    async def stop(self) -> None:
        self._actor = None
        await self._stack.aclose()
