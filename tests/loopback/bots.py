"""Runs our bot against the loopback, in this process or in one of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

from bot.client import Bot
from bot.history.discord_history import DiscordHistory
from channelmem.llm.responder import Responder
from channelmem.memory import Memory
from channelmem.settings import Settings

from .server import Loopback, point_at

ROOT = Path(__file__).resolve().parents[2]


@contextlib.asynccontextmanager
async def running(
    server: Loopback, settings: Settings, memory: Memory, history: DiscordHistory, responder: Responder | None = None
) -> AsyncIterator[Bot]:
    """Our bot, logged in and ready, in this process."""
    before = point_at(server.api_base, server.gateway_url)
    bot = Bot(settings, memory, history, responder=responder, guild_ready_timeout=0.05)
    try:
        async with bot:
            task = asyncio.create_task(bot.start(server.rest.token))
            await server.until(lambda: bot.is_ready() or task.done())
            if task.done():
                task.result()
            yield bot
            await bot.shut_down()
            await task
    finally:
        point_at(before[0], str(before[1]))


class BotProcess:
    """`python -m bot` as an operator starts it: everything by environment."""

    def __init__(self, server: Loopback, environment: dict[str, str]) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CHANNELMEM_", "DISCORD_", "REDIS_"))}
        self._environment = kept | {
            "DISCORD_TOKEN": server.rest.token,
            "DISCORD_API_BASE": server.api_base,
            "DISCORD_GATEWAY": server.gateway_url,
            "PYTHONPATH": str(ROOT),
            **environment,
        }
        self._process: Process | None = None

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    async def start(self, cwd: Path) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bot", cwd=cwd, env=self._environment, stdout=PIPE, stderr=PIPE
        )

    async def finished(self) -> tuple[int, str]:
        """Its exit code and everything that it wrote to stderr."""
        _, errors = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, errors.decode()

    async def terminate(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        return await self.finished()

    async def kill(self) -> None:
        self.process.kill()
        await self.finished()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None and self._process.returncode is None:
            await self.kill()
