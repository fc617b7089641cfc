"""Runs our bot against the loopback, in this process or in one of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Self
from unittest.mock import patch

from processes import python_path

from bot.client import Bot
from bot.history import DiscordHistory
from channelmem.interface import ChannelMemory
from channelmem.llm import Responder
from channelmem.settings import Settings

from .recorder import Recorder
from .server import PATIENCE_S, Loopback, point_at

ROOT = Path(__file__).resolve().parents[2]
DEADLINES = (
    "bot.messages.CHANNEL_TIMEOUT_S",
    "bot.messages.MEMBERS_TIMEOUT_S",
    "bot.history.TIMEOUT_S",
    "bot.listening.UNTIL_STORED_S",
)
"""In production the bot goes on without what comes later than this. On a busy test machine that would be luck."""


def unhurried(settings: Settings) -> Settings:
    """Nobody has to wait between two questions, and an answer waits for the embeddings that it needs."""
    return settings.model_copy(
        update={
            "cooldown_user_s": 0.0,
            "cooldown_channel_s": 0.0,
            "cooldown_export_s": 0.0,
            "pending_wait_ms": PATIENCE_S * 1000,
        }
    )


@contextlib.contextmanager
def patient() -> Iterator[None]:
    with contextlib.ExitStack() as patches:
        for deadline in DEADLINES:
            patches.enter_context(patch(deadline, PATIENCE_S))
        yield


@contextlib.asynccontextmanager
async def running(
    server: Loopback,
    settings: Settings,
    memory: ChannelMemory,
    history: DiscordHistory,
    responder: Responder | None = None,
) -> AsyncIterator[Bot]:
    """Our bot, logged in and ready, in this process. It leaves no task behind."""
    before = point_at(server.api_base, server.gateway_url)
    if isinstance(memory, Recorder):
        memory.settings = settings
    bot = Bot(settings, memory, history, responder=responder, guild_ready_timeout=0.05)
    try:
        with patient():
            async with bot:
                task = asyncio.create_task(bot.start(server.rest.token))
                await server.until(lambda: bot.is_ready() or task.done())
                if task.done():
                    task.result()
                yield bot
                await bot.shut_down()
                await task
            await _until_tasks_end()
    finally:
        point_at(before[0], str(before[1]))


async def _until_tasks_end() -> None:
    """Fails if a task of the bot goes on although the bot has stopped."""
    if ours := [task for task in asyncio.all_tasks() if _is_the_bots(task)]:
        _, pending = await asyncio.wait(ours, timeout=PATIENCE_S)
        assert not pending


def _is_the_bots(task: asyncio.Task[object]) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and Path(code.co_filename).is_relative_to(ROOT / "bot")


async def backfilled() -> None:
    """Until the backfill runs in progress have ended."""
    runs = [task for task in asyncio.all_tasks() if task.get_name().startswith("backfill ")]
    await asyncio.gather(*runs, return_exceptions=True)


class BotProcess:
    """`python -m bot` as an operator starts it: everything by environment."""

    def __init__(self, server: Loopback, environment: dict[str, str]) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CHANNELMEM_", "DISCORD_", "REDIS_"))}
        self._environment = kept | {
            "DISCORD_TOKEN": server.rest.token,
            "DISCORD_API_BASE": server.api_base,
            "DISCORD_GATEWAY": server.gateway_url,
            "PYTHONPATH": python_path(),
            **environment,
        }
        self._server = server
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._lines: list[str] = []

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    async def start(self, cwd: Path) -> None:
        self._lines = []
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bot", cwd=cwd, env=self._environment, stdout=DEVNULL, stderr=PIPE
        )
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self._lines.append(line.decode())
            self._server.changed()

    async def until_logged(self, event: str) -> None:
        """For a bot that logs JSON."""
        await self._server.until(lambda: any(json.loads(line)["event"] == event for line in self._lines))

    async def finished(self) -> tuple[int, str]:
        """Its exit code and everything that it wrote to stderr."""
        assert self._reading is not None
        await self._reading
        return await self.process.wait(), "".join(self._lines)

    def signal(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    async def terminate(self) -> tuple[int, str]:
        self.signal()
        return await self.finished()

    async def kill(self) -> None:
        self.process.kill()
        await self.finished()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None and self._process.returncode is None:
            await self.kill()
