"""The application of the service, how it is served, and its documentation as a page (/docs) that works offline."""

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
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, select_autoescape

from channelmem import connections, web
from channelmem.access import Doorkeeper, OpenDoor, is_loopback
from channelmem.api import asking, channels, messages, problems, service
from channelmem.api.asking import CallersHistory
from channelmem.api.gate import Gate, Pressure
from channelmem.api.service import Service, ServiceMetrics
from channelmem.api.settings import settings_router
from channelmem.display import one_line
from channelmem.errors import ConfigError, RedisUnavailableError
from channelmem.llm.opening import summariser_of
from channelmem.memory import Memory
from channelmem.ops import open_access
from channelmem.settings import Settings, hide
from channelmem.store.access import AccessTokens

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

router = APIRouter(include_in_schema=False)
_pages = Environment(loader=PackageLoader("channelmem.api"), autoescape=select_autoescape())


@router.get("/docs", response_class=HTMLResponse)
async def docs(request: Request) -> HTMLResponse:
    document = request.app.openapi()
    page = _pages.get_template("docs.html").render(
        info=document["info"],
        server=str(request.base_url).rstrip("/"),
        operations=[(path, *one) for path, methods in document["paths"].items() for one in methods.items()],
        schemas=document["components"]["schemas"],
    )
    return HTMLResponse(page, headers={"Content-Security-Policy": POLICY})


def kind(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(kind, schema["anyOf"])))
    if "const" in schema:
        return f'"{schema["const"]}"'
    if schema.get("type") == "array":
        inner = schema.get("items") or {"anyOf": schema.get("prefixItems", [])}
        return f"list of {kind(inner)}"
    if "pattern" in schema:
        return "id" if schema["pattern"] == "^[0-9]{1,19}$" else "string"
    return str(schema.get("type", ""))


_pages.filters["kind"] = kind


DESCRIPTION = """Semantic channel memory for chat bots.

Ids are strings (whole numbers are accepted, too), times are epoch seconds, errors are RFC 9457 problem details.
Everything but /healthz and /readyz needs a token."""


def create_app(memory: Memory, door: Doorkeeper, settings: Settings) -> FastAPI:
    metrics = ServiceMetrics()

    app = FastAPI(
        title="channelmem",
        version=version("channelmem"),
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = Service(memory, settings, Pressure(memory, settings), metrics)
    problems.install(app)
    for one in (
        messages.router, asking.router, channels.router, channels.summaries_router, channels.progress_router,
        messages.people_router, service.router,
    ):  # fmt: skip
        app.include_router(one)
    app.include_router(router)
    app.include_router(settings_router(memory.policies.declared))
    web.install(app, memory, door)
    app.add_middleware(Gate, door=door, max_body=int(settings.service_max_body_mb * 1_000_000), observe=metrics.observe)
    return app


# --- serving ---


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
