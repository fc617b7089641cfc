"""From where media may be fetched. In: a URL that somebody posted. Out: where to connect, or UnreadableError.

The platform's own hosts are reached over HTTPS at public addresses only: what a name resolves to is checked, and the
connection goes to that very address, so that a name cannot point elsewhere a moment later. Hosts that the operator
names may be private and speak plain HTTP.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final

import httpx

from channelmem.media.problems import lasting, passing
from channelmem.media_kinds import PLATFORM_HOSTS

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host, for a port."""

MOST_ADDRESSES: Final = 4
PORTS: Final = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect to, in the name of a host."""

    url: httpx.URL
    addresses: tuple[str, ...]

    @property
    def pinned(self) -> list[httpx.URL]:
        return [self.url.copy_with(host=address) for address in self.addresses]


class Hosts:
    def __init__(self, further: Collection[str] = (), resolve: Resolve | None = None) -> None:
        self._further = {one.strip().lower() for one in further}
        self._resolve = resolve or system_addresses

    async def target(self, url: str) -> Target:
        parsed = _parsed(url)
        trusted = self._is_further(parsed)
        if not trusted and not _is_platform(parsed):
            raise lasting("its host is not allowed")
        addresses = await self._addresses(parsed)
        if not trusted and not all(ipaddress.ip_address(one).is_global for one in addresses):
            raise lasting("its host has a private address")
        return Target(parsed, tuple(addresses[:MOST_ADDRESSES]))

    def _is_further(self, url: httpx.URL) -> bool:
        port = url.port or PORTS.get(url.scheme, 0)
        named = {url.host, f"{url.host}:{port}"}
        return url.scheme in PORTS and bool(named & self._further)

    async def _addresses(self, url: httpx.URL) -> list[str]:
        try:
            found = await self._resolve(url.host, url.port or PORTS[url.scheme])
        except OSError:
            found = []
        if not found:
            raise passing("its host can't be found")
        return found


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


def _is_platform(url: httpx.URL) -> bool:
    return url.scheme == "https" and url.host in PLATFORM_HOSTS and url.port in {None, 443}
