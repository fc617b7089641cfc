"""Fetches media. The platform's own hosts are reached over HTTPS at public addresses only; the connection goes to the
very address that was checked, so that a name cannot point elsewhere a moment later. Hosts that the operator names may
be private and speak plain HTTP."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable
from http import HTTPStatus
from typing import Final

import httpx

from channelmem.media.kinds import PLATFORM_HOSTS, UnreadableError, lasting, passing

Resolve = Callable[[str, int], Awaitable[list[str]]]  # the addresses of a host, for a port

MOST_ADDRESSES: Final = 4
PORTS: Final = {"https": 443, "http": 80}

TIMEOUT_S: Final = 20.0  # for a whole file, redirects included
CONNECT_S: Final = 5.0
REDIRECTS: Final = 2
GONE: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
PASSING: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)


async def system_addresses(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _parsed(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError):
        raise lasting("its address is not valid") from None
    if parsed.userinfo or not parsed.host:
        raise lasting("its address is not valid")
    return parsed


class GoneError(UnreadableError):
    """The host does not have it, or no longer under this link, which may have expired."""


class Fetcher:
    def __init__(self, further: Collection[str] = (), resolve: Resolve | None = None) -> None:
        self._further = {one.strip().lower() for one in further}
        self._resolve = resolve or system_addresses
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
            target = _parsed(url)
            response = await self._connected(target, await self._addresses(target))
            try:
                if not response.is_redirect:
                    return await _content(response, max_bytes)
                url = str(target.join(response.headers["location"]))
            finally:
                await response.aclose()
        raise lasting("its link leads through too many others")

    async def _addresses(self, url: httpx.URL) -> list[str]:
        """Checked; raises UnreadableError if nothing may be fetched from there."""
        port = url.port or PORTS.get(url.scheme, 0)
        trusted = url.scheme in PORTS and not self._further.isdisjoint({url.host, f"{url.host}:{port}"})
        platform = url.scheme == "https" and url.host in PLATFORM_HOSTS and url.port in {None, 443}
        if not (trusted or platform):
            raise lasting("its host is not allowed")
        try:
            found = await self._resolve(url.host, port)
        except OSError:
            found = []
        if not found:
            raise passing("its host can't be found")
        if not trusted and not all(ipaddress.ip_address(one).is_global for one in found):
            raise lasting("its host has a private address")
        return found[:MOST_ADDRESSES]

    async def _connected(self, target: httpx.URL, addresses: Iterable[str]) -> httpx.Response:
        """To one of the checked addresses, in the name of the host: also for its certificate."""
        headers, named = {"Host": target.netloc.decode()}, {"sni_hostname": target.host}
        problem: httpx.ConnectError | None = None
        for address in addresses:
            url = target.copy_with(host=address)
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
