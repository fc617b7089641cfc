"""The client's requests. A refusal raises what a Memory would have raised.

A service that is busy says when to come back (429 and 503 with Retry-After); reads then wait a moment and try again.
What shows messages goes through `read`: the service then knows every removal that still waits here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel

from channelmem.access import is_loopback
from channelmem.errors import (
    ChannelmemError,
    ConfigError,
    DamagedDataError,
    DecisionDelayedError,
    RedisUnavailableError,
    RejectedError,
    ServiceUnavailableError,
    SummariesBusyError,
    TokenRefusedError,
)

TIMEOUT_S = 10.0
CONNECT_S = 2.0
CONNECTIONS = 100
TRIES = 3
LONGEST_WAIT_S = 2.0

MISSING = "CHANNELMEM_SERVICE_URL is not set; write it like http://127.0.0.1:8410"
MALFORMED = "CHANNELMEM_SERVICE_URL must be like http://127.0.0.1:8410, without a user or password"
NOT_OURS = "CHANNELMEM_SERVICE_URL answers, but not as a memory service does; check the URL"
REFUSED = "The service refused CHANNELMEM_SERVICE_TOKEN: {detail}"
RESTARTING = "The memory service keeps restarting"
RUN = "X-Service-Run"
"""The service's: another one after each start."""

KINDS: dict[str, type[ChannelmemError]] = {
    "urn:channelmem:delayed": DecisionDelayedError,
    "urn:channelmem:busy": SummariesBusyError,
    "urn:channelmem:damaged": DamagedDataError,
    "urn:channelmem:redis-unavailable": RedisUnavailableError,
}


T = TypeVar("T", bound=BaseModel)


class Json(str):
    """A body that is JSON already."""

    __slots__ = ()


async def _nothing() -> str | None:
    return None


class Connection:
    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.AsyncClient(
            base_url=_checked(url),
            headers=headers,
            timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
            trust_env=not is_loopback(urlsplit(url).hostname or ""),  # a proxy can't reach this machine's own services
        )
        self.answers = True
        """Whether the service, and its Redis, answered last time."""
        self.run = ""
        """Of the service that answered last."""
        self.tell: Callable[[], Awaitable[str | None]] = _nothing
        """Sends what waits here and changes what may be shown; returns the run that knows all of it, None if nothing
        waits."""

    async def close(self) -> None:
        await self._http.aclose()

    async def read(self, method: str, path: str, body: object = None, **options: Any) -> httpx.Response:
        """A `call` that shows messages: to a service that knows what was removed and edited, also if it restarts."""
        for _ in range(TRIES):
            told = await self.tell()
            response = await self.call(method, path, body, **options)
            if told in {None, response.headers.get(RUN, "")}:
                return response
        raise ServiceUnavailableError(RESTARTING)

    async def read_as(self, model: type[T], method: str, path: str, body: object = None, **options: Any) -> T:
        return model.model_validate((await self.read(method, path, body, **options)).json())

    async def get_as(self, model: type[T], path: str, **options: Any) -> T:
        """For numbers and notes; what shows messages is for `read_as`."""
        return model.model_validate((await self.call("GET", path, **options)).json())

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        tries: int = TRIES,
        timeout_s: float = TIMEOUT_S,
    ) -> httpx.Response:
        """The response to one request; raises for every status that is an error."""
        timeout = httpx.Timeout(timeout_s, connect=CONNECT_S)
        content = None if body is None else encoded(body).encode()
        headers = (headers or {}) | ({} if content is None else {"Content-Type": "application/json"})
        for left in reversed(range(tries)):
            response = await self._send(
                self._http.build_request(method, path, content=content, params=params, headers=headers, timeout=timeout)
            )
            wait_s = _wait_s(response)
            if wait_s is None or not left:
                break
            await asyncio.sleep(wait_s)
        self._check(response)
        return response

    async def lines(self, path: str) -> AsyncIterator[str]:
        """A stream of lines, read as by `read`."""
        told = await self.tell()
        try:
            async with self._http.stream("GET", path) as response:
                if response.is_error:
                    await response.aread()
                self._check(response)
                if told not in {None, response.headers.get(RUN, "")}:
                    raise ServiceUnavailableError(RESTARTING)
                async for line in response.aiter_lines():
                    yield line
        except httpx.TransportError as error:
            raise self._away(error) from error

    async def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._http.send(request)
        except httpx.TransportError as error:
            raise self._away(error) from error

    def _away(self, error: httpx.TransportError) -> ServiceUnavailableError:
        self.answers = False
        return ServiceUnavailableError(f"The memory service does not answer: {error or type(error).__name__}")

    def _check(self, response: httpx.Response) -> None:
        self.answers = response.status_code != 503
        self.run = response.headers.get(RUN, "")
        if response.is_error:
            raise _error(response)
        if response.status_code != 304 and "json" not in response.headers.get("content-type", ""):
            self.answers = False
            raise ServiceUnavailableError(NOT_OURS)


def channel_path(guild_id: int, channel_id: int) -> str:
    return f"/v1/guilds/{guild_id}/channels/{channel_id}"


def encoded(body: object) -> Json:
    """As JSON that every service takes: without lone surrogates, which have no bytes. RejectedError names no value."""
    if isinstance(body, Json):
        return body
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError):
        raise RejectedError("A value can't be sent: it must be valid text or a finite number") from None
    return Json(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _error(response: httpx.Response) -> ChannelmemError:
    """What a Memory would have raised."""
    problem, status = _problem(response), response.status_code
    detail = str(problem.get("detail", response.reason_phrase))
    if known := KINDS.get(str(problem.get("type"))):
        return known(detail)
    if status < 500 and "status" not in problem:
        return ServiceUnavailableError(NOT_OURS)
    if status in {401, 403}:
        return (TokenRefusedError if status == 401 else ConfigError)(REFUSED.format(detail=detail))
    if status in {408, 429} or status >= 500:
        return ServiceUnavailableError(f"The memory service is not ready: {detail}")
    return RejectedError(f"The memory service rejected a request ({status}): {detail}")


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        found = response.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _wait_s(response: httpx.Response) -> float | None:
    """How long to wait before the same request again; None if that makes no sense."""
    if response.status_code not in {429, 503} or _problem(response).get("type") == "urn:channelmem:redis-unavailable":
        return None
    after = response.headers.get("retry-after", "")
    return min(LONGEST_WAIT_S, float(after)) if after.isdigit() else None


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc:
        raise ConfigError(MALFORMED)
    return url.rstrip("/")
