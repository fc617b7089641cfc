"""Runs the MCP server. In: bounds, and where to listen. Out: nothing, until its client or a signal ends it.

On stdio, standard output belongs to the protocol: whatever people should read goes to standard error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from rich.console import Console

from channelmem import connections
from channelmem.access import Doorkeeper, OpenDoor
from channelmem.embedding.model import Progress
from channelmem.errors import ConfigError
from channelmem.mcp.bounds import Bounds
from channelmem.mcp.http import PATH, make_app
from channelmem.mcp.server import MemoryServer
from channelmem.memory import Memory
from channelmem.ops.access import open_access
from channelmem.settings import Settings, load_settings

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
NO_TOKENS: Final = "There is no token yet, so nobody can use this server; run: channelmem token add agent --scopes read"
NOT_HERE: Final = "--no-auth works on loopback only: elsewhere everybody on the network could read your channels."

Bar = Callable[[], AbstractContextManager[Progress]]
"""Shows the progress of the first model export."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{PATH}"


def on_stdio(bounds: Bounds, bar: Bar) -> None:
    asyncio.run(_on_stdio(bounds, bar))


async def _on_stdio(bounds: Bounds, bar: Bar) -> None:
    async with _opened(load_settings(), bar) as memory:
        await MemoryServer(memory, lambda: bounds, write=bounds.write).run_stdio_async()


def over_http(bounds: Bounds, address: Address, bar: Bar, *, guarded: bool) -> None:
    if not guarded and address.host not in LOOPBACK:
        raise ConfigError(NOT_HERE)
    asyncio.run(_over_http(bounds, address, bar, guarded=guarded))


async def _over_http(bounds: Bounds, address: Address, bar: Bar, *, guarded: bool) -> None:
    settings = load_settings()
    async with AsyncExitStack() as stack:
        memory = await stack.enter_async_context(_opened(settings, bar))
        door = await _door(stack, settings) if guarded else OpenDoor()
        app = make_app(memory, bounds, door, url=address.url, host=address.host)
        sock = stack.enter_context(connections.listening(address.host, address.port))
        server = connections.server(app, log_level="warning")
        Console(stderr=True).print(f"MCP over HTTP at {address.url}. Press Ctrl-C to stop.", highlight=False)
        await server.serve(sockets=[sock])


async def _door(stack: AsyncExitStack, settings: Settings) -> Doorkeeper:
    tokens = await stack.enter_async_context(open_access(settings))
    if all(one.is_expired(time.time()) for one in await tokens.all()):
        raise ConfigError(NO_TOKENS)
    return tokens


@asynccontextmanager
async def _opened(settings: Settings, bar: Bar) -> AsyncIterator[Memory]:
    async with AsyncExitStack() as stack:
        with bar() as progress:
            memory = await stack.enter_async_context(Memory.open(settings, progress=progress))
        yield memory
