"""Is this Redis one that channelmem can use? In: a URL. Out: `ServerInfo`, or an error that says what to do.

Asked by `Memory.open` and `channelmem doctor`, of the embedded server and of the one behind REDIS_URL alike.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

import redis
from redis import exceptions

from channelmem.errors import ConfigError, RedisUnavailableError, RedisUnsuitableError

# FLOAT16 vectors and INDEXMISSING came with RediSearch 2.10 (Redis Stack 7.4).
SEARCH_NEEDED = (2, 10, 0)
NEEDED = "channelmem needs RediSearch 2.10 or newer, that is Redis Stack 7.4 or Redis 8"
FIX = "run `docker compose up -d redis`, or unset REDIS_URL to use the embedded server"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    name: str
    version: str
    search_version: str
    json_version: str | None


def check_server(redis_url: str, *, timeout_s: float = 5.0) -> ServerInfo:
    """Raises RedisUnavailableError or RedisUnsuitableError, each one sentence with the fix."""
    where = _where(redis_url)
    try:
        with redis.Redis.from_url(
            redis_url.replace("+cluster://", "://", 1), socket_timeout=timeout_s, socket_connect_timeout=timeout_s
        ) as client:
            info = client.info("server")
            modules = _modules(client)
    except ValueError as error:
        raise ConfigError(
            f"REDIS_URL is no Redis address ({error}); write it like redis://:password@host:6379/0."
        ) from error
    except exceptions.RedisError as error:
        raise _unavailable(error, where) from error
    return _suitable(info, modules, where)


def _modules(client: redis.Redis) -> dict[str, int]:
    try:
        listed = client.module_list()
    except exceptions.NoPermissionError:
        # An ACL user without @admin cannot list modules; the search command itself then has to tell.
        return _modules_by_use(client)
    return {_text(m.get(b"name", m.get("name"))).lower(): int(m.get(b"ver", m.get("ver", 0))) for m in listed}


def _modules_by_use(client: redis.Redis) -> dict[str, int]:
    try:
        client.execute_command("FT._LIST")  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
    except exceptions.ResponseError:
        return {}
    return {"search": _number(SEARCH_NEEDED)}


def _suitable(info: dict[str, object], modules: dict[str, int], where: str) -> ServerInfo:
    name, version = _name(info), str(info.get("valkey_version", info.get("redis_version", "?")))
    search = modules.get("search")
    if search is None:
        raise RedisUnsuitableError(
            f"The server at {where} is {name} {version} without the search module, and {NEEDED}; {FIX}."
        )
    if search < _number(SEARCH_NEEDED):
        raise RedisUnsuitableError(
            f"The server at {where} is {name} {version} with RediSearch {_dotted(search)}, and {NEEDED}; {FIX}."
        )
    json_version = modules.get("rejson")
    return ServerInfo(name, version, _dotted(search), None if json_version is None else _dotted(json_version))


def _unavailable(error: exceptions.RedisError, where: str) -> RedisUnavailableError:
    text = str(error)
    if isinstance(error, exceptions.AuthenticationError) or "NOAUTH" in text or "WRONGPASS" in text:
        return RedisUnavailableError(
            f"Redis at {where} refuses the user or password; correct them in REDIS_URL (redis://user:password@host:port)."
        )
    if isinstance(error, exceptions.BusyLoadingError):
        return RedisUnavailableError(f"Redis at {where} is still loading its data; try again in a moment.")
    if isinstance(error.__cause__, ssl.SSLError) or "SSL" in text:
        return RedisUnavailableError(
            f"Redis at {where} and this client do not agree on TLS ({text}); use rediss:// with a certificate "
            "that this machine trusts, or redis:// if the server speaks plain TCP."
        )
    if isinstance(error, exceptions.NoPermissionError):
        return RedisUnavailableError(
            f"The user of REDIS_URL may not run INFO on {where}; grant it with `ACL SETUSER <user> +info +@all ~*`."
        )
    return RedisUnavailableError(
        f"Redis at {where} does not answer ({text.rstrip('.')}); start it, correct REDIS_URL, or unset it to use the "
        "embedded server."
    )


def _where(redis_url: str) -> str:
    """Host and port, never the password."""
    parts = urlsplit(redis_url)
    return parts.netloc.rpartition("@")[2] or parts.path


def _name(info: dict[str, object]) -> str:
    return "Valkey" if info.get("server_name") == "valkey" else "Redis"


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _number(version: tuple[int, int, int]) -> int:
    major, minor, patch = version
    return major * 10_000 + minor * 100 + patch


def _dotted(version: int) -> str:
    return f"{version // 10_000}.{version // 100 % 100}.{version % 100}"
