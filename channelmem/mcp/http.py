"""How the MCP server is started: on stdio, or over streamable HTTP.

Over HTTP every request carries a bearer token of the service; what it may reach lies within its guilds and within what
the operator opened. With an open door nobody is asked who they are, which is only for loopback.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl
from rich.console import Console
from starlette.applications import Starlette

from channelmem import connections
from channelmem.access import Doorkeeper, OpenDoor, Scope
from channelmem.embedding.model import Progress
from channelmem.errors import ConfigError, RedisUnavailableError
from channelmem.mcp.results import NOTHING, Bounds
from channelmem.mcp.server import MemoryServer
from channelmem.memory import Memory
from channelmem.ops import open_access
from channelmem.settings import Settings, load_settings

PATH: Final = "/mcp"
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
MAX_BODY_BYTES: Final = 256 * 1024
AGENT: Final = frozenset({Scope.READ, Scope.WRITE})
"""What an agent may have: no settings, and no exports of people."""
MAX_SESSIONS: Final = 1_000
"""Of older clients, which begin with a handshake."""
SESSIONS_OF_ONE: Final = 50
"""Of one token."""


class Verifier:
    """What the SDK asks about each bearer token. The secret itself goes no further than here."""

    def __init__(self, door: Doorkeeper) -> None:
        self._door = door

    async def verify_token(self, token: str) -> AccessToken | None:
        try:
            caller = await self._door.caller(token)
        except RedisUnavailableError:
            return None
        if caller is None:
            return None
        guilds = None if caller.guild_ids is None else sorted(caller.guild_ids)
        return AccessToken(
            token="",
            client_id=caller.token_id or caller.name,
            scopes=sorted(caller.scopes & AGENT),
            claims={"name": caller.name, "guilds": guilds},
        )


def make_app(memory: Memory, bounds: Bounds, door: Doorkeeper, *, url: str, host: str) -> Starlette:
    """The application; `url` is where it is reached, `host` what it listens on."""
    if isinstance(door, OpenDoor):
        server = MemoryServer(memory, lambda: bounds, write=bounds.write)
    else:
        # Tokens are made by `channelmem token add`; there is no authorisation server.
        auth = AuthSettings(issuer_url=AnyHttpUrl(url), resource_server_url=None, required_scopes=[Scope.READ.value])
        of_request = partial(_bounds_of_request, bounds)
        server = MemoryServer(memory, of_request, write=bounds.write, token_verifier=Verifier(door), auth=auth)
    # On loopback the SDK refuses names of other hosts, against DNS rebinding. Elsewhere the token protects.
    elsewhere = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY_BYTES,
        max_sessions=MAX_SESSIONS,
        transport_security=None if host in LOOPBACK else elsewhere,
        host=host,
    )
    _bound_by_token(server.session_manager)
    return app


def _bound_by_token(manager: StreamableHTTPSessionManager) -> None:
    """The SDK only knows a limit for all clients together, and has no public place for another one."""
    admit, owners = manager._admit_session, manager._session_owners  # noqa: SLF001

    def admitted(requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        open_ = sum(owner == requestor for owner in owners.values())
        return None if requestor is not None and open_ >= SESSIONS_OF_ONE else admit(requestor)

    manager._admit_session = admitted  # type: ignore[method-assign]  # noqa: SLF001


def _bounds_of_request(bounds: Bounds) -> Bounds:
    token = get_access_token()
    if token is None:
        return NOTHING
    claims = token.claims or {}
    return bounds.of_token(str(claims.get("name", "")), claims.get("guilds"), write=Scope.WRITE.value in token.scopes)


# --- run ---


NO_TOKENS: Final = "There is no token yet, so nobody can use this server; run: channelmem token add agent --scopes read"
NOT_HERE: Final = "--no-auth works on loopback only: elsewhere everybody on the network could read your channels."

Bar = Callable[[], AbstractContextManager[Progress]]
"""Shows the progress of the first model export."""


@dataclass(frozen=True, slots=True)
class HttpAddress:
    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{PATH}"


def on_stdio(bounds: Bounds, bar: Bar) -> None:
    async def run() -> None:
        async with _opened(load_settings(), bar) as memory:
            await MemoryServer(memory, lambda: bounds, write=bounds.write).run_stdio_async()

    asyncio.run(run())


def over_http(bounds: Bounds, address: HttpAddress, bar: Bar, *, guarded: bool) -> None:
    if not guarded and address.host not in LOOPBACK:
        raise ConfigError(NOT_HERE)
    asyncio.run(_over_http(bounds, address, bar, guarded=guarded))


async def _over_http(bounds: Bounds, address: HttpAddress, bar: Bar, *, guarded: bool) -> None:
    settings = load_settings()
    async with AsyncExitStack() as stack:
        memory = await stack.enter_async_context(_opened(settings, bar))
        door: Doorkeeper = OpenDoor()
        if guarded:
            door = tokens = await stack.enter_async_context(open_access(settings))
            if all(one.is_expired(time.time()) for one in await tokens.all()):
                raise ConfigError(NO_TOKENS)
        app = make_app(memory, bounds, door, url=address.url, host=address.host)
        sock = stack.enter_context(connections.listening(address.host, address.port))
        server = connections.server(app, log_level="warning")
        Console(stderr=True).print(f"MCP over HTTP at {address.url}. Press Ctrl-C to stop.", highlight=False)
        await server.serve(sockets=[sock])


@asynccontextmanager
async def _opened(settings: Settings, bar: Bar) -> AsyncIterator[Memory]:
    async with AsyncExitStack() as stack:
        with bar() as progress:
            memory = await stack.enter_async_context(Memory.open(settings, progress=progress))
        yield memory
