"""What every request passes first: its caller is recognised, and its size, time and number are limited.

A refusal says when to try again: 429 if the caller alone is too much, 503 if all together are.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from channelmem.access import Caller, Doorkeeper, OpenDoor, is_for_this_machine, is_from_our_site
from channelmem.api.problems import ProblemError, redis_away, response_of
from channelmem.errors import RedisUnavailableError
from channelmem.memory import Memory
from channelmem.settings import Settings

RUNNING: Final = 16
"""Questions that are answered at the same time; more would only make all of them slower."""
COUNTED_S: Final = 0.5
"""How old the number of messages that wait for an embedding may be."""
OVERLOADED: Final = "urn:channelmem:overloaded"


class Pressure:
    def __init__(self, memory: Memory, settings: Settings) -> None:
        self._memory, self._settings = memory, settings
        self._running = asyncio.Semaphore(RUNNING)
        self._asking: Counter[str] = Counter()
        self._pending, self._counted_at = 0, float("-inf")

    @property
    def asking(self) -> int:
        """Questions that wait or are being answered."""
        return self._asking.total()

    @asynccontextmanager
    async def question(self, caller: Caller) -> AsyncIterator[None]:
        """A place among the questions; waits for its turn."""
        most = self._settings.service_max_asks
        if self._asking.total() >= most:
            raise ProblemError(503, "Too many questions at once; try again.", type_=OVERLOADED, retry_s=1)
        if self._asking[caller.token_id] >= most * 3 // 4:
            raise ProblemError(429, "Too many questions of this token at once; try again.", retry_s=1)
        place = Counter([caller.token_id])
        self._asking += place
        try:
            async with self._running:
                yield
        finally:
            self._asking -= place  # of a Counter, which drops what is at zero

    async def messages(self, count: int) -> None:
        """Refuses what would only be dropped, or would wait too long for the model."""
        if self._memory.queued + count > self._settings.queue_size:
            detail = "Redis does not answer and the queue for it is full; try again."
            raise ProblemError(503, detail, type_=OVERLOADED, retry_s=2)
        if self._memory.available and await self._count() > self._settings.service_max_pending:
            detail = "Too many messages wait for an embedding; try again, or start more `channelmem worker` processes."
            raise ProblemError(429, detail, type_=OVERLOADED, retry_s=2)

    async def _count(self) -> int:
        if time.monotonic() - self._counted_at >= COUNTED_S:
            self._counted_at = time.monotonic()
            with suppress(RedisUnavailableError):  # then the messages are queued here
                self._pending = await self._memory.pending()
        return self._pending


# --- gate ---


REQUEST_ID: Final = "X-Request-ID"
RUN: Final = "X-Service-Run"
"""Another one after a restart: what this process held in memory is gone."""
BODY_S: Final = 30.0
"""How long a body may take to arrive."""
BODIES: Final = 16
"""Bodies of the largest size that may be in hand at once; one token or address may have three quarters of that."""
LOGIN: Final = "/login"
LOGIN_BYTES: Final = 4_096
LOGIN_S: Final = 5.0
LOGINS, LOGINS_OF_ONE = 64, 4
"""Log-ins in hand at once, of all and of one address."""
NO_CALLER: Final = "Send a token as 'Authorization: Bearer cm_...'; `channelmem token add NAME` makes one."
UNKNOWN_CALLER: Final = "This token is unknown, revoked or expired; `channelmem token add NAME` makes a new one."
NOT_HERE: Final = "Without tokens this service answers only on localhost."
MISTAKE: Final = "Something went wrong here; the log has it under this request id."
ELSEWHERE: Final = "This request came from another site and was refused."
GUARDED: Final = ("/v1/", "/metrics")
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

DRAIN_BYTES, DRAIN_S = 65_536, 1.0
"""How much of a refused request is still read: who is cut off while sending may never see why."""

_HANG_UP: Final = {"Connection": "close"}
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")

Observe = Callable[[Scope, int, float], None]
"""Is told of every response: scope, status, seconds."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Room:
    """Bytes of all bodies in hand, and whose they are."""

    most: int
    most_of_one: int
    held: Counter[str] = field(default_factory=Counter)

    def take(self, owner: str, size: int) -> bool:
        """False if that is too much."""
        self.held[owner] += size
        return self.held.total() <= self.most and self.held[owner] <= self.most_of_one

    def give_back(self, owner: str, size: int) -> None:
        self.held -= Counter({owner: size})  # which drops what is at zero


@dataclass(slots=True)
class _Body:
    """A request's body on its way, which ends the request if it grows too large or takes too long."""

    receive: Receive
    room: _Room
    owner: str
    most: int
    until: float
    size: int = 0
    is_read: bool = False

    async def __call__(self) -> Message:
        if self.is_read:  # what comes now is only the end of the connection
            return await self.receive()
        try:
            async with asyncio.timeout(self.until - time.monotonic()):
                message = await self.receive()
        except TimeoutError:
            raise HTTPException(408, "The body took too long to arrive.", _HANG_UP) from None
        size = len(message.get("body", b""))
        self.size += size
        self.is_read = not message.get("more_body", False)
        has_room = self.room.take(self.owner, size)
        if self.size > self.most:
            raise HTTPException(413, _too_large(self.most), _HANG_UP)
        if not has_room:
            raise HTTPException(503, "Too many large requests at once; try again.", _HANG_UP | {"Retry-After": "1"})
        return message


class Gate:
    def __init__(self, app: ASGIApp, door: Doorkeeper, max_body: int, observe: Observe) -> None:
        self._app, self._door, self._max_body, self._observe = app, door, max_body, observe
        self._room = _Room(max_body * BODIES, max_body * BODIES * 3 // 4)
        self._logins = _Room(LOGIN_BYTES * LOGINS, LOGIN_BYTES * LOGINS_OF_ONE)
        self._run = secrets.token_hex(8)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, headers = time.perf_counter(), Headers(scope=scope)
        request_id = headers.get(REQUEST_ID, "")  # the caller's own id, if it is one
        if not _ID.fullmatch(request_id):
            request_id = secrets.token_hex(8)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                shown = MutableHeaders(scope=message)
                shown[REQUEST_ID] = request_id
                shown[RUN] = self._run
                shown.setdefault("X-Content-Type-Options", "nosniff")
                shown.setdefault("Cache-Control", "no-store")
                self._observe(scope, message["status"], time.perf_counter() - started)
            await send(message)

        try:
            state["caller"] = await self._admitted(scope, headers)
        except ProblemError as problem:
            refusal = response_of(problem, request_id)
            if not await _drained(receive):
                refusal.headers["Connection"] = "close"
            await refusal(scope, receive, sending)
            return
        await self._pass_on(scope, receive, sending, request_id)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        started, body = False, self._body(scope, receive)

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, body, sending)
        except Exception as error:  # noqa: BLE001  (the last place that can answer)
            # Where, but not what: its words may be somebody's.
            lines = "".join(traceback.format_tb(error.__traceback__))
            log.error("Request %s failed: %s\n%s", request_id, type(error).__name__, lines)  # noqa: TRY400
            if not started:
                await response_of(ProblemError(500, MISTAKE), request_id)(scope, receive, sending)
        finally:
            body.room.give_back(body.owner, body.size)

    def _body(self, scope: Scope, receive: Receive) -> _Body:
        caller, address = scope["state"].get("caller"), scope["client"][0] if scope.get("client") else ""
        if scope["path"] == LOGIN:
            return _Body(receive, self._logins, address, LOGIN_BYTES, time.monotonic() + LOGIN_S)
        owner = caller.token_id if caller else address
        return _Body(receive, self._room, owner, self._max_body, time.monotonic() + BODY_S)

    async def _admitted(self, scope: Scope, headers: Headers) -> Caller | None:
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > self._max_body:
            raise ProblemError(413, _too_large(self._max_body))
        if not scope["path"].startswith(GUARDED):
            return None
        if isinstance(self._door, OpenDoor):
            if not is_for_this_machine(headers):
                raise ProblemError(403, NOT_HERE)
            if scope["method"] not in SAFE and not is_from_our_site(headers):
                raise ProblemError(403, ELSEWHERE)
        scheme, _, text = headers.get("authorization", "").partition(" ")
        if not isinstance(self._door, OpenDoor) and (scheme.lower() != "bearer" or not text.strip()):
            raise ProblemError(401, NO_CALLER)
        try:
            caller = await self._door.caller(text.strip())
        except RedisUnavailableError as error:
            log.warning("Tokens can't be checked: %s", error)
            raise redis_away() from None
        if caller is None:
            raise ProblemError(401, UNKNOWN_CALLER)
        return caller


def _too_large(most: int) -> str:
    return f"A body may have up to {most:,} bytes; send it in several requests."


async def _drained(receive: Receive) -> bool:
    """Reads the rest of a small body; False if it is a large one, or does not come."""
    left = DRAIN_BYTES
    try:
        async with asyncio.timeout(DRAIN_S):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):
                    return True
    except TimeoutError:
        pass
    return False
