"""What is wrong with a secret or with the URL of a Redis that holds one, and text without secrets. No sentence quotes
one, not even in part: parsers do, and so do servers and libraries in their errors.

A cluster has a URL of its own, and each of its nodes one with the same login and options. A few nodes are enough: they
name the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import SplitResult, unquote, urlsplit

MALFORMED_URL = (
    "REDIS_URL is not a valid Redis URL; write it like redis://:password@host:6379/0 (or rediss://, unix://, "
    "redis+cluster://:password@host:6379,host:6379) and percent-encode special characters in the password "
    "(for docker compose, set REDIS_PASSWORD to letters and digits only)."
)
MASK = "********"
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")
_CLUSTER = re.compile(r"(rediss?)\+cluster://((?:[^/?#]*@)?)([^/?#@]*)(.*)", re.DOTALL)
"""Scheme, login, hosts, and what follows."""


def is_cluster(url: str) -> bool:
    return url.startswith(("redis+cluster://", "rediss+cluster://"))


def node_urls(url: str) -> list[str]:
    """One URL for each node that a cluster's URL names; a URL of a single server is its own."""
    found = _CLUSTER.fullmatch(url)
    if found is None:
        return [url]
    scheme, login, hosts, rest = found.groups()
    return [f"{scheme}://{login}{host}{rest}" for host in hosts.split(",")]


def node_url(url: str, host: str, port: int) -> str:
    """The same for a node that only the cluster names."""
    shown = f"[{host}]" if ":" in host else host
    return _CLUSTER.sub(rf"\g<1>://\g<2>{shown}:{port}\g<4>", url)


def check_redis_url(url: str) -> None:
    """Raises ValueError(MALFORMED_URL). Stricter than redis-py, which would look for some passwords' host elsewhere:
    an unescaped # or / ends the host's part of a URL, so what stands before it is taken for host and port."""
    try:
        fine = url.isprintable() and all(_is_redis_url(urlsplit(one), url) for one in node_urls(url))
    except ValueError:  # a port in letters, a lone bracket; the parser's own message quotes it
        fine = False
    if not fine:
        raise ValueError(MALFORMED_URL) from None


def _is_redis_url(parts: SplitResult, whole: str) -> bool:
    if parts.fragment or "@" in parts.path or "@" in parts.query:
        return False
    if is_cluster(whole) and not (parts.hostname and parts.path in {"", "/", "/0"}):
        return False  # a cluster has no other database
    if parts.scheme == "unix":
        return bool(parts.path)
    numbered = re.fullmatch(r"/?\d*/?", parts.path) is not None
    return parts.scheme in {"redis", "rediss"} and (parts.port is None or parts.port > 0) and numbered


def check_token(token: str) -> None:
    """Raises ValueError if no HTTP header can carry it; libraries quote it when they find out."""
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise ValueError("it contains a space, a line break or a character that no key has; copy it again")


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, and without the user and password of any URL."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return _USER_INFO.sub(f"{MASK}@", text)


def passwords(url: str) -> list[str]:
    """The password of a URL, as written and as sent."""
    try:
        written = urlsplit(url).password or ""
    except ValueError:
        return []
    return [written, unquote(written)]
