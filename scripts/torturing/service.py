"""The service of a history, a process that can be killed and stopped. Its URL and its token for a `Client` stay.

python -m scripts.torturing.service DATA_DIR PORT    until it is killed
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import uvicorn
from pydantic import SecretStr

from channelmem.access import Scope, new_token
from channelmem.api.app import create_app
from channelmem.api.asking import CallersHistory
from channelmem.connections import listening
from channelmem.errors import RedisUnavailableError
from channelmem.memory import Memory
from channelmem.ops import open_access
from channelmem.settings import Settings
from scripts.fake_embedder import FakeEmbedder
from scripts.torturing.actor import settings_for

READY_S = 60.0
REDIS = "TORTURED_REDIS"
"""Where it is, unless it is the embedded one of the folder."""


class Service:
    """Its process, as the torturer holds it. It keeps port and token over all restarts."""

    def __init__(self, settings: Settings, log: Path) -> None:
        self._settings, self._log = settings, log
        self._process: asyncio.subprocess.Process | None = None
        # Bound and never listening: nobody else gets the port while the service is down.
        self._port = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._port.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._port.getsockname()[1]}"
        self.token, self._kept = new_token("bot", frozenset(Scope), None, now=time.time())
        self.on_death: Callable[[], None] = lambda: None

    def client_settings(self) -> Settings:
        return self._settings.model_copy(update={"service_url": self.url, "service_token": SecretStr(self.token)})

    async def start(self) -> None:
        """Does not wait until it answers."""
        redis = {} if self._settings.redis_url is None else {REDIS: self._settings.redis_url.get_secret_value()}
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "scripts.torturing.service"),
                *(str(self._settings.data_dir), self.url.rpartition(":")[2]),
                env=os.environ | redis,
                stderr=log,
            )

    async def admit(self) -> None:
        """Makes its token, again after FLUSHALL."""
        async with asyncio.timeout(READY_S), open_access(self._settings, patient=True) as tokens:
            while True:
                with suppress(RedisUnavailableError):
                    await tokens.add(self._kept)
                    return
                await asyncio.sleep(0.05)

    async def ready(self) -> None:
        """Returns when it answers, and its Redis does."""
        async with asyncio.timeout(READY_S), httpx.AsyncClient(base_url=self.url, trust_env=False) as client:
            while not await _answers(client):
                if self._process is None or self._process.returncode is not None:
                    raise RuntimeError(f"The service ended by itself; {self._log} says why")
                await asyncio.sleep(0.05)

    async def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self.on_death()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def close(self) -> None:
        await self.kill()
        self._port.close()


async def _answers(client: httpx.AsyncClient) -> bool:
    with suppress(httpx.TransportError):
        return (await client.get("/readyz")).is_success
    return False


async def serve(settings: Settings, port: int) -> None:
    opening = Memory.open(settings, embedder=FakeEmbedder(), history=CallersHistory(), patient=True)
    sock = listening("127.0.0.1", port)
    async with opening as memory, open_access(settings, patient=True) as tokens:
        config = uvicorn.Config(create_app(memory, tokens, settings), access_log=False, ws="none", log_config=None)
        await uvicorn.Server(config).serve(sockets=[sock])


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    elsewhere = os.environ.get(REDIS)
    changes = {"redis_url": SecretStr(elsewhere)} if elsewhere else {}
    asyncio.run(serve(settings_for(Path(sys.argv[1]), **changes), int(sys.argv[2])))
