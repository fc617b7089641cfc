"""The service over real HTTP, in this process, with its memory and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import httpx
from clock import wall_now
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from channelmem import connections
from channelmem.access import Doorkeeper, OpenDoor, Scope, new_token
from channelmem.api.app import create_app
from channelmem.api.asking import CallersHistory
from channelmem.client import connection
from channelmem.connections import listening as bound
from channelmem.embedding.embed import Embedder
from channelmem.memory import Memory
from channelmem.ops import open_access
from channelmem.policy.cascade import SETTINGS, Setting
from channelmem.settings import Settings
from channelmem.store.access import AccessTokens

EVERYTHING = frozenset(Scope)
connection.CONNECT_S = 60.0
"""Service and client share this process and its event loop, which may be busy."""


@dataclass
class Running:
    """A running service, and who may use it."""

    app: FastAPI
    memory: Memory
    tokens: AccessTokens
    url: str
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    async def token(self, name: str = "test", scopes: Iterable[Scope] = EVERYTHING, *guild_ids: int) -> str:
        bound = frozenset(guild_ids) or None
        text, kept = new_token(name, frozenset(scopes), bound, now=wall_now())
        await self.tokens.add(kept)
        return text

    def caller(self, token: str = "") -> httpx.AsyncClient:
        """A client that sends this token; closed with the service."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        client = httpx.AsyncClient(base_url=self.url, headers=headers, timeout=60, trust_env=False)
        self.clients.append(client)
        return client

    async def operator(self) -> httpx.AsyncClient:
        return self.caller(await self.token("operator"))


def described() -> dict[str, object]:
    """The OpenAPI document, without a running service."""
    nothing = cast("Memory", SimpleNamespace(policies=SimpleNamespace(declared=SETTINGS)))
    return create_app(nothing, OpenDoor(), Settings(_env_file=None)).openapi()


_routes: dict[tuple[Setting, ...], list[BaseRoute]] = {}


def app_of(memory: Memory, door: Doorkeeper, settings: Settings) -> FastAPI:
    """The service's app, with the routes of the first test's: FastAPI resolves them at their first request, which would
    take most of each test. Routes know their app by the request only."""
    app = create_app(memory, door, settings)
    app.router.routes = _routes.setdefault(tuple(memory.policies.declared), app.router.routes)
    return app


@asynccontextmanager
async def listening(app: Starlette, port: int = 0) -> AsyncIterator[str]:
    """The app on a loopback port; yields its URL."""
    sock = bound("127.0.0.1", port)
    server = connections.server(app, timeout_graceful_shutdown=5)
    running = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        while not server.started and not running.done():  # noqa: ASYNC110  (uvicorn has no event for it)
            await asyncio.sleep(0.005)
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        await running
        sock.close()


@asynccontextmanager
async def serving(
    settings: Settings,
    embedder: Embedder,
    *,
    clock: Callable[[], float] = wall_now,
    door: Doorkeeper | None = None,
    port: int = 0,
) -> AsyncIterator[Running]:
    memories = Memory.open(settings, clock=clock, history=CallersHistory(), embedder=embedder, patient=True)
    async with memories as memory, open_access(settings, patient=True) as tokens:
        app = app_of(memory, door or tokens, settings)
        async with listening(app, port) as url:
            running = Running(app, memory, tokens, url)
            try:
                yield running
            finally:
                for client in running.clients:
                    await client.aclose()
