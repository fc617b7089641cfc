"""Access tokens of the service: who may do what, in which guilds.

A token is `cm_<id>_<secret>`. The id is public and finds the entry; of the secret only a SHA-256 digest is kept, which
is enough for 256 random bits (a slow hash protects words that people choose).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol
from urllib.parse import urlsplit

PREFIX: Final = "cm"
_FORM: Final = re.compile(rf"{PREFIX}_([0-9a-f]{{12}})_([A-Za-z0-9-]{{43}})")


class Scope(StrEnum):
    READ = "read"
    """Ask, search, look at what is stored."""
    WRITE = "write"
    """Remember, edit, delete; what people decide about their messages."""
    EXPORT = "export"
    """Get everything that is stored of a person, also what is hidden from answers."""
    ADMIN = "admin"
    """Change settings."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request."""

    name: str
    scopes: frozenset[Scope]
    guild_ids: frozenset[int] | None = None
    """None: every guild."""
    token_id: str = ""

    def may_reach(self, guild_id: int) -> bool:
        return self.guild_ids is None or guild_id in self.guild_ids


class Doorkeeper(Protocol):
    """Knows callers by their tokens."""

    async def caller(self, text: str) -> Caller | None:
        """Whose token this is, None if nobody's; RedisUnavailableError if that can't be found out."""


ANYBODY: Final = Caller("anybody on this machine", frozenset(Scope))


class OpenDoor:
    """For a service on loopback that was told to let everybody in."""

    async def caller(self, text: str) -> Caller | None:
        del text
        return ANYBODY


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_for_this_machine(headers: Mapping[str, str]) -> bool:
    """Where nobody needs a token, only this machine may ask, under a name of its own: a web page that points its own
    name here (DNS rebinding) may not."""
    host = headers.get("host", "")
    return is_loopback((host if host.endswith("]") else host.rsplit(":", 1)[0]).strip("[]"))


def is_from_our_site(headers: Mapping[str, str]) -> bool:
    """Whether a request comes from a page of ours, or from no page at all: no other website may change anything through
    somebody's browser."""
    if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        return False
    origin = headers.get("origin", "")
    return not origin or urlsplit(origin).netloc == headers.get("host", "")


@dataclass(frozen=True, slots=True)
class AccessToken:
    """What is kept of a token."""

    id: str
    name: str
    digest: str
    scopes: frozenset[Scope]
    guild_ids: frozenset[int] | None
    created_at: float
    expires_at: float | None = None

    @property
    def caller(self) -> Caller:
        return Caller(self.name, self.scopes, self.guild_ids, self.id)

    def is_expired(self, now: float) -> bool:
        return self.expires_at is not None and now >= self.expires_at

    def matches(self, secret: str) -> bool:
        """Takes the same time for every wrong secret."""
        return hmac.compare_digest(self.digest, digest_of(secret))


def new_token(
    name: str,
    scopes: frozenset[Scope],
    guild_ids: frozenset[int] | None,
    *,
    now: float,
    life_s: float | None = None,
) -> tuple[str, AccessToken]:
    """The text to show once, and what to keep."""
    # An underscore would end the secret, so that a double click could not select it in one piece.
    id_, secret = secrets.token_hex(6), secrets.token_urlsafe(32).replace("_", "-")
    expires_at = None if life_s is None else now + life_s
    kept = AccessToken(id_, name, digest_of(secret), scopes, guild_ids, now, expires_at)
    return f"{PREFIX}_{id_}_{secret}", kept


def split(text: str) -> tuple[str, str] | None:
    """Id and secret of a token's text; None if it isn't one."""
    found = _FORM.fullmatch(text)
    return (found[1], found[2]) if found else None


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
