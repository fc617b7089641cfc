"""Checks that channelmem can use a Redis. In: a URL. Out: `ServerInfo`, or an error that says how to fix it.

`Memory.open` and `channelmem doctor` run it on the embedded server and on REDIS_URL alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from channelmem.errors import ConfigError, RedisUnavailableError, RedisUnsuitableError
from channelmem.secrets import MALFORMED_URL, check_redis_url, masked, passwords

# FLOAT16 vectors and INDEXMISSING came with RediSearch 2.10 (Redis Stack 7.4).
SEARCH_NEEDED = (2, 10, 0)
NEEDED = "channelmem needs RediSearch 2.10 or newer (Redis Stack 7.4 or Redis 8)"
FIX = "run `docker compose up -d redis`, or unset REDIS_URL to use the embedded server"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    name: str
    version: str
    search_version: str
    json_version: str | None


def check_server(redis_url: str, *, timeout_s: float = 5.0) -> ServerInfo:
    """Raises ConfigError, RedisUnavailableError or RedisUnsuitableError; each is one sentence that names the fix."""
    try:
        check_redis_url(redis_url)
        with redis.Redis.from_url(
            redis_url,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
        ) as client:
            # INFO lists the modules too and, unlike MODULE LIST, needs no admin rights.
            info = {**client.info("server"), **client.info("modules")}
    except (ValueError, TypeError):  # the parser's message may quote the password; TypeError: an unknown option
        raise ConfigError(MALFORMED_URL) from None
    except exceptions.RedisError as error:
        if type(error) is exceptions.RedisError:  # an option of the URL with an impossible value
            raise ConfigError(MALFORMED_URL) from None
        raise _unavailable(error, redis_url) from error
    return _suitable(info, _where(redis_url))


def _modules(info: Mapping[str, Any]) -> dict[str, int]:
    return {str(module["name"]).lower(): int(module["ver"]) for module in info.get("modules", ())}


def _suitable(info: Mapping[str, Any], where: str) -> ServerInfo:
    modules = _modules(info)
    name, version = _name(info), str(info.get("valkey_version", info.get("redis_version", "?")))
    search = modules.get("search")
    if "cluster" in (info.get("redis_mode"), info.get("server_mode")):  # as Redis and as Valkey call it
        raise RedisUnsuitableError(
            f"The server at {where} is part of a Redis cluster, which channelmem does not support; "
            "point REDIS_URL at a standalone server."
        )
    if search is None:
        raise RedisUnsuitableError(
            f"The server at {where} is {name} {version} without the search module, but {NEEDED}; {FIX}."
        )
    if search < _number(SEARCH_NEEDED):
        raise RedisUnsuitableError(
            f"The server at {where} is {name} {version} with RediSearch {_dotted(search)}, but {NEEDED}; {FIX}."
        )
    json_version = modules.get("rejson")
    return ServerInfo(name, version, _dotted(search), None if json_version is None else _dotted(json_version))


def _unavailable(error: exceptions.RedisError, redis_url: str) -> RedisUnavailableError:
    where, text = _where(redis_url), masked(str(error), passwords(redis_url)).rstrip(".")
    if isinstance(error, exceptions.AuthenticationError) or "NOAUTH" in text or "WRONGPASS" in text:
        why = "rejects the user or password; correct them in REDIS_URL (redis://user:password@host:port)"
    elif isinstance(error, exceptions.BusyLoadingError):
        why = "is still loading its data; try again in a moment"
    elif isinstance(error, exceptions.NoPermissionError):
        why = "does not allow this user to run INFO; grant it with `ACL SETUSER <user> +info`"
    elif isinstance(error, exceptions.ResponseError):
        why = f"rejects the connection ({text}); correct REDIS_URL"
    elif "SSL" in text or (redis_url.startswith("rediss") and isinstance(error, exceptions.TimeoutError)):
        why = (
            f"does not complete a TLS handshake ({text}); use redis:// if it speaks plain TCP, "
            "or rediss:// with a certificate that this machine trusts"
        )
    else:
        why = f"does not answer ({text}); start it, correct REDIS_URL, or unset it to use the embedded server"
    return RedisUnavailableError(f"Redis at {where} {why}.")


def _where(redis_url: str) -> str:
    """Host and port, without the password."""
    parts = urlsplit(redis_url)
    return parts.netloc.rpartition("@")[2] or parts.path


def _name(info: Mapping[str, Any]) -> str:
    return "Valkey" if info.get("server_name") == "valkey" else "Redis"


def _number(version: tuple[int, int, int]) -> int:
    major, minor, patch = version
    return major * 10_000 + minor * 100 + patch


def _dotted(version: int) -> str:
    return f"{version // 10_000}.{version // 100 % 100}.{version % 100}"
