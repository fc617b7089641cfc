"""Fetches a file. In: a URL that somebody posted. Out: its bytes, within a limit, or UnreadableError.

Nothing touches the disk. Bytes are counted as they arrive, and never decompressed on the way. A redirect leads only to
hosts that are allowed themselves. The environment's proxy is not used: it would resolve names on its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from http import HTTPStatus
from typing import Final

import httpx

from channelmem.media.hosts import Hosts, Resolve, Target
from channelmem.media.problems import UnreadableError, lasting, passing

TIMEOUT_S: Final = 20.0
"""For a whole file, redirects included."""
CONNECT_S: Final = 5.0
REDIRECTS: Final = 2
GONE: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
PASSING: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)


class GoneError(UnreadableError):
    """The host does not have it, or no longer under this link, which may have expired."""


class Fetcher:
    def __init__(self, further: Collection[str] = (), resolve: Resolve | None = None) -> None:
        self._hosts = Hosts(further, resolve)
        self._client = httpx.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_S),
            headers={"Accept-Encoding": "identity", "User-Agent": "channelmem"},
        )

    async def fetch(self, url: str, max_bytes: int) -> bytes:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._follow(url, max_bytes)
        except TimeoutError:
            raise passing("its host is too slow") from None
        except httpx.HTTPError:
            raise passing("its host can't be reached") from None

    async def close(self) -> None:
        await self._client.aclose()

    async def _follow(self, url: str, max_bytes: int) -> bytes:
        for _ in range(REDIRECTS + 1):
            target = await self._hosts.target(url)
            response = await self._connected(target)
            try:
                if not response.is_redirect:
                    return await _content(response, max_bytes)
                url = str(target.url.join(response.headers["location"]))
            finally:
                await response.aclose()
        raise lasting("its link leads through too many others")

    async def _connected(self, target: Target) -> httpx.Response:
        """To one of the checked addresses, in the name of the host: also for its certificate."""
        headers, named = {"Host": target.url.netloc.decode()}, {"sni_hostname": target.url.host}
        problem: httpx.ConnectError | None = None
        for url in target.pinned:
            request = self._client.build_request("GET", url, headers=headers, extensions=named)
            try:
                return await self._client.send(request, stream=True)
            except httpx.ConnectError as error:  # such as an IPv6 address in a network without
                problem = error
        raise problem or httpx.ConnectError("no address")


async def _content(response: httpx.Response, max_bytes: int) -> bytes:
    _check(response)
    declared = response.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise too_large(max_bytes)
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise lasting("its host sends it compressed")
    content = bytearray()
    async for part in response.aiter_raw():
        content += part
        if len(content) > max_bytes:
            raise too_large(max_bytes)
    return bytes(content)


def _check(response: httpx.Response) -> None:
    status = response.status_code
    if status in GONE:
        raise GoneError("it is gone", lasting=True)
    if status in PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise passing(f"its host answered with status {status}")
    if status != HTTPStatus.OK:
        raise lasting(f"its host answered with status {status}")


def too_large(max_bytes: int) -> UnreadableError:
    return lasting(f"it is larger than {max_bytes // 1_000_000} MB")
