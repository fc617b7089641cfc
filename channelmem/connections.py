"""Connections: how many a server over HTTP takes, and how long each may take to send a request. In: an application and
options of uvicorn. Out: a server of uvicorn with these limits.

uvicorn itself waits forever for a request's headers and body, and takes connections until the process has no file left.
Whoever comes beyond the limits takes the place of a connection that waits for nothing but its next request.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from channelmem.errors import ConfigError

HEADERS_S: Final = 10.0
"""How long headers may take to arrive, from the first byte or the begin of a connection."""
BODY_S: Final = 40.0
"""The same for a body; an application that answers sooner can say why."""
UNREAD_S: Final = 60
"""How long a response may wait for somebody to read it."""
MOST: Final = 1_000
BACKLOG: Final = 128
"""Connections that are taken in one step of the event loop, before any of them can be counted."""
RESERVED: Final = 128
"""Files that are not connections: libraries, Redis, the log."""
MAX_HEADERS: Final = 32_768

REPEATED: Final = 20
PERIOD_S: Final = 60.0

App = Callable[..., Awaitable[None]]


def server(app: App, **options: Any) -> uvicorn.Server:
    take_files()
    http: Any = partial(_Limited, Connections(most_connections()))
    config = uvicorn.Config(
        app,
        http=http,  # whatever makes a protocol
        loop="asyncio",
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=MAX_HEADERS,
        **options,
    )
    return uvicorn.Server(config)


def take_files() -> None:
    """Raises the soft limit of open files as far as it may: macOS begins with 256."""
    files, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + RESERVED + BACKLOG
    if files != resource.RLIM_INFINITY and files < wanted:
        more = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))


def most_connections() -> int:
    """As many as the process has files for."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MOST
    return max(16, min(MOST, files - RESERVED - BACKLOG))


def listening(host: str, port: int, how: str = "--host and --port") -> socket.socket:
    """`how`: what chooses another address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol spelt out: only then asyncio sends without delay. Otherwise every answer waits 40 ms: it is sent
    # in two parts, and the second would wait until the first is acknowledged.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux: ends connections whose other side stops reading
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_S * 1_000)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ConfigError(
            f"Can't listen on {host}, port {port}: {error.strerror or error}. Choose others with {how}."
        ) from error
    return sock


class Connections:
    """Those of one server."""

    def __init__(self, most: int) -> None:
        self._most, self._most_of_one = most, most // 2
        self._open: set[_Limited] = set()
        self._waiting: dict[_Limited, None] = {}
        """Those without a request, the oldest first."""
        self._addresses: Counter[str] = Counter()

    def add(self, one: _Limited) -> None:
        self._open.add(one)
        self._addresses[one.address] += 1
        self.waits(one)
        if self._addresses[one.address] > self._most_of_one:
            self._drop_idlest([other for other in self._waiting if other.address == one.address])
        elif len(self._open) > self._most:
            self._drop_idlest(list(self._waiting))

    def _drop_idlest(self, some: list[_Limited]) -> None:
        """The one that waits longest, if possible of those whose last response has left."""
        idlest = next((one for one in some if not one.transport.get_write_buffer_size()), some[0])
        self.remove(idlest)
        idlest.transport.abort()

    def waits(self, one: _Limited) -> None:
        if one in self._open:
            self._waiting[one] = None

    def works(self, one: _Limited) -> None:
        self._waiting.pop(one, None)

    def remove(self, one: _Limited) -> None:
        if one not in self._open:
            return
        self._open.discard(one)
        self._waiting.pop(one, None)
        self._addresses[one.address] -= 1
        if not self._addresses[one.address]:
            del self._addresses[one.address]


class _Limited(H11Protocol):
    """uvicorn's protocol with deadlines."""

    def __init__(self, others: Connections, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._others, self.address = others, ""
        self._deadline: asyncio.TimerHandle | None = None
        self._state: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._others.add(self)
        self._expect(h11.IDLE, HEADERS_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._others.remove(self)
        self._expect(None, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._at is h11.IDLE:
            self._others.waits(self)
            self._expect(None, None)  # until the first byte, uvicorn's own limit applies
        else:
            self._look()

    @property
    def _at(self) -> object:
        """What the other side does now: sends headers (IDLE), a body (SEND_BODY), or nothing."""
        return self.conn.their_state

    def _look(self) -> None:
        if self._at is h11.IDLE:
            self._expect(h11.IDLE, HEADERS_S)
            return
        self._others.works(self)
        self._expect(self._at, BODY_S if self._at is h11.SEND_BODY else None)

    def _expect(self, state: object, within_s: float | None) -> None:
        """Ends the connection unless it leaves this state in time; more of the same does not prolong it."""
        if state is self._state:
            return
        self._state = state
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if within_s is None else self.loop.call_later(within_s, self.transport.abort)


class Rarely(logging.Filter):
    """Lets the same line through a few times a minute: what strangers cause must not fill a disk."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._since = clock, float("-inf")
        self._seen: Counter[tuple[str, str]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        if (now := self._clock()) - self._since >= PERIOD_S:
            self._since = now
            self._seen.clear()
        line = (record.name, str(record.msg))
        self._seen[line] += 1
        if self._seen[line] == REPEATED:
            record.msg = f"{record.msg} (the same again is not logged for up to a minute)"
        return self._seen[line] <= REPEATED
