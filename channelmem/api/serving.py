"""Runs the service. In: settings. Out: a server on its address until a signal, or a ConfigError that names the fix."""

from __future__ import annotations

import gc
import ipaddress
import json
import logging
import socket
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from datetime import UTC, datetime

from channelmem import connections
from channelmem.access import OpenDoor
from channelmem.api.app import create_app
from channelmem.api.callers_history import CallersHistory
from channelmem.api.gate import is_loopback
from channelmem.errors import ConfigError, RedisUnavailableError
from channelmem.llm.opening import summariser_of
from channelmem.memory import Memory
from channelmem.ops.access import open_access
from channelmem.settings import Settings, hide
from channelmem.store.access import AccessTokens
from channelmem.terminal import one_line

DRAIN_S = 10
"""How long requests in progress may take after a stop signal."""
KEEP_ALIVE_S = 30
FLUSH_S = 5.0
OPEN_BEYOND_LOOPBACK = "--no-auth works on loopback only: anybody who reaches {host} could read and change everything."
NONE_BEYOND_LOOPBACK = (
    "There are no tokens, so the service does not listen on {host}. "
    "Make one first: channelmem token add NAME --scopes read,write"
)
NONE_YET = (
    "There are no tokens yet, so every request is refused. Make one: channelmem token add NAME --scopes read,write"
)

HOW = "--host and --port, or CHANNELMEM_SERVICE_HOST and CHANNELMEM_SERVICE_PORT"

Beside = Callable[[Memory, AccessTokens | None, str], AbstractAsyncContextManager[None]]
"""Is given the memory, the tokens and the URL."""

log = logging.getLogger(__name__)


async def serve(settings: Settings, *, guarded: bool = True, beside: Beside | None = None) -> None:
    """Until SIGTERM or SIGINT. `beside` runs with it: a demo."""
    async with AsyncExitStack() as stack:
        tokens = await _tokens(stack, settings, guarded=guarded)
        sock = stack.enter_context(connections.listening(settings.service_host, settings.service_port, HOW))
        summariser = await stack.enter_async_context(summariser_of(settings))
        opening = Memory.open(settings, history=CallersHistory(), summariser=summariser, patient=True)
        memory = await stack.enter_async_context(opening)
        if summariser is not None:
            summariser.attach(memory.spending)
        gc.freeze()  # what is loaded by now stays; walking it in search of garbage takes a tenth of a second
        app = create_app(memory, tokens or OpenDoor(), settings)
        server = connections.server(app, timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=DRAIN_S)
        url = _url(sock)
        if beside is not None:
            await stack.enter_async_context(beside(memory, tokens, url))
        if tokens is not None and not await _has_any(tokens):
            log.warning(NONE_YET)
        log.info("Listening on %s (pages at /, API at /v1, its documentation at /docs)", url)
        await server.serve(sockets=[sock])
        with suppress(RedisUnavailableError):
            await memory.flush(FLUSH_S)


async def _tokens(stack: AsyncExitStack, settings: Settings, *, guarded: bool) -> AccessTokens | None:
    """None lets everybody on this machine in; what would let strangers in is refused."""
    host, local = settings.service_host, is_loopback(settings.service_host)
    if not guarded:
        if not local:
            raise ConfigError(OPEN_BEYOND_LOOPBACK.format(host=host))
        log.warning("No token is asked for: everybody on this machine can read and change everything")
        return None
    tokens = await stack.enter_async_context(open_access(settings, patient=local))
    if not local and not await _has_any(tokens):
        raise ConfigError(NONE_BEYOND_LOOPBACK.format(host=host))
    return tokens


async def _has_any(tokens: AccessTokens) -> bool:
    """True while Redis can't say."""
    with suppress(RedisUnavailableError):
        return any(not one.is_expired(time.time()) for one in await tokens.all())
    return True


def _url(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Lines(logging.Formatter):
    """Without secrets and without effect on a terminal; as JSON, one object per line."""

    def __init__(self, settings: Settings) -> None:
        super().__init__("%(message)s" if settings.log_json else "%(asctime)s %(levelname)s %(message)s")
        self._settings = settings

    def format(self, record: logging.LogRecord) -> str:
        text = hide(super().format(record), self._settings)
        if not self._settings.log_json:
            return "\n".join(map(one_line, text.splitlines()))
        at = datetime.fromtimestamp(record.created, UTC).isoformat()
        return json.dumps({"event": text, "level": record.levelname.lower(), "logger": record.name, "timestamp": at})


def configure_logging(settings: Settings) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(settings))
    handler.addFilter(connections.Rarely())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(settings.log_level)))
