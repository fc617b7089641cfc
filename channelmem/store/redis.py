"""Connection: how the store speaks to Redis. In: a URL, commands, scripts. Out: raw replies, or RedisUnavailableError
if waiting may help.

It opens the client, turns redis-py's errors into ours, and knows which of them pass by themselves and which mean that
Redis is full. `circuit.py` ends the waiting for a Redis that is silent.
"""

from __future__ import annotations

import logging
import re
import struct
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial, wraps
from importlib.metadata import version
from typing import Any, ParamSpec, TypeVar

from redis import exceptions as redis_errors
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo

from channelmem.errors import ConfigError, DamagedDataError, RedisLoadingError, RedisUnavailableError
from channelmem.redis_urls import is_cluster
from channelmem.secrets import MALFORMED_URL, check_redis_url
from channelmem.settings import Settings
from channelmem.store.circuit import CircuitPool
from channelmem.store.cluster.nodes import Cluster
from channelmem.store.keys import Keys
from channelmem.store.scripts import digest, source

T = TypeVar("T")
P = ParamSpec("P")

CLIENT = "channelmem"

log = logging.getLogger(__name__)

UNREACHABLE = (redis_errors.ConnectionError, redis_errors.TimeoutError, redis_errors.BusyLoadingError, OSError)
"""What redis-py raises while Redis cannot answer: gone, too slow, or still loading its data."""

_TEMPORARY = (
    redis_errors.OutOfMemoryError,
    redis_errors.ReadOnlyError,
    redis_errors.ClusterDownError,
    redis_errors.TryAgainError,
    redis_errors.AskError,
    redis_errors.NoPermissionError,
)
"""Server states with a redis-py exception of their own that time, or an operator, will change."""
# States without an exception class start the message. Older servers put any of them inside a script's error, and
# redis-py puts them behind the number and the text of a pipeline's command.
_BEFORE_CODE = r"(?:^|-| of pipeline caused error: (?:\(['\"])?)"
_TEMPORARY_CODE = re.compile(
    _BEFORE_CODE + r"(?:ASK|BUSY|CLUSTERDOWN|DENIED|LOADING|MASTERDOWN|MISCONF|MOVED|NOPERM|NOREPLICAS|OOM|READONLY"
    r"|TRYAGAIN|UNKILLABLE)\b"
    # What a script meets when its slot begins to move while it runs.
    r"|ttempted to access a non local key in a cluster node"
)
_FULL_CODE = re.compile(_BEFORE_CODE + r"OOM\b")
# What a command or script meets in a key of a wrong type, or in a value that none of ours wrote.
_DAMAGED = re.compile(
    r"WRONGTYPE|wrong Redis type|not an integer|not a valid float|user_script:\d+: (?:attempt to|bad argument)"
)
_UNREADABLE = (ValueError, LookupError, TypeError, ArithmeticError, struct.error)
"""What reading such a value raises here."""
DAMAGED = "Redis holds something damaged where this is kept; the log says what"
_UNWRITABLE_CODE = re.compile(_BEFORE_CODE + r"MISCONF\b")


def connect(url: str, settings: Settings, name: str = CLIENT) -> Redis:
    """A client that returns raw replies, bounds every wait and never retries on its own."""
    pool_of = partial(_pool, timeout_s=settings.redis_timeout_s, name=name)
    try:
        check_redis_url(url)
        client: Redis = Cluster(url, pool_of) if is_cluster(url) else Redis.from_pool(pool_of(url))
    except (ValueError, TypeError, redis_errors.RedisError):
        raise ConfigError(MALFORMED_URL) from None
    return client


def _pool(url: str, *, timeout_s: float, name: str) -> CircuitPool:
    pool = CircuitPool.from_url(
        url,
        protocol=2,
        decode_responses=False,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        # How `CLIENT LIST` names us, so that rebucket.py knows whether somebody else is there.
        driver_info=DriverInfo().add_upstream_driver(name, version("channelmem")),
    )
    pool.make_connection()  # type: ignore[no-untyped-call]  # finds options that do not exist, which would fail the first command otherwise
    return pool


async def command(redis: Redis, *arguments: Any) -> Any:
    """Sends any command and returns its reply as hiredis parsed it."""
    return await redis.execute_command(*arguments)  # type: ignore[no-untyped-call]


async def answered(reply: Awaitable[T]) -> T:
    """Awaits a reply; raises RedisUnavailableError for whatever passes with time."""
    try:
        return await reply
    except UNREACHABLE as error:
        raise unavailable(error) from error
    except redis_errors.ResponseError as error:
        check_damage(error)
        if not is_temporary(error):
            raise
        raise RedisUnavailableError(f"Redis rejects this for now: {error}") from error


def check_damage(error: BaseException) -> None:
    """Raises DamagedDataError if that is what Redis complains of."""
    if isinstance(error, redis_errors.ResponseError) and (found := _DAMAGED.search(str(error))):
        raise _damaged(found[0]) from error


def _damaged(what: str) -> DamagedDataError:
    """Logs where, but no value: it may be somebody's words."""
    names = [frame.name for frame in traceback.extract_stack() if "channelmem" in frame.filename]
    log.error("Redis holds something damaged (%s), met in: %s", what, " > ".join(names[-8:-1]))
    return DamagedDataError(DAMAGED)


def unavailable(error: BaseException) -> RedisUnavailableError:
    """What UNREACHABLE means for a caller."""
    if isinstance(error, redis_errors.BusyLoadingError):
        return RedisLoadingError("Redis is still loading its data")
    return RedisUnavailableError(f"Redis does not answer: {error}")


def reads(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """For whatever is read: what Redis replies instead (a key of a wrong type, a broken index) and values that can't be
    read count as Redis being unavailable, so that a question is answered without it."""

    @wraps(method)
    async def reading(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return await method(*arguments, **options)
        except UNREACHABLE as error:
            raise unavailable(error) from error
        except redis_errors.RedisError as error:
            raise RedisUnavailableError(f"Redis rejects a read: {error}") from error
        except _UNREADABLE as error:
            raise _damaged(f"{type(error).__name__} in {method.__qualname__}") from error

    return reading


async def run_script(redis: Redis, name: str, keys: Keys, arguments: Sequence[Any] = ()) -> Any:
    """One round trip; a second one only after Redis lost its script cache (a restart)."""
    call = (1, keys.base, *arguments)
    try:
        return await answered(command(redis, "EVALSHA", digest(name), *call))
    except redis_errors.NoScriptError:
        return await answered(command(redis, "EVAL", source(name), *call))


async def pipelined(redis: Redis, commands: Iterable[Sequence[Any]]) -> list[Any]:
    """The replies to many commands, in one round trip; raises the first error among them."""
    replies = await _pipelined(redis, commands)
    for reply in replies:
        if isinstance(reply, Exception):
            check_damage(reply)
            raise reply
    return replies


async def run_in_all(redis: Redis, name: str, buckets: Iterable[Keys], arguments: Sequence[Any]) -> list[Any]:
    """The same script in many buckets, in one round trip; replies may be errors that waiting would not cure."""
    calls = [(1, keys.base, *arguments) for keys in buckets]
    replies = await _pipelined(redis, [("EVALSHA", digest(name), *call) for call in calls])
    unknown = [at for at, reply in enumerate(replies) if isinstance(reply, redis_errors.NoScriptError)]
    if unknown:
        again = await _pipelined(redis, [("EVAL", source(name), *calls[at]) for at in unknown])
        for at, reply in zip(unknown, again, strict=True):
            replies[at] = reply
    return replies


async def _pipelined(redis: Redis, commands: Iterable[Sequence[Any]]) -> list[Any]:
    async with redis.pipeline(transaction=False) as pipe:
        for one in commands:
            pipe.execute_command(*one)
        replies: list[Any] = await answered(pipe.execute(raise_on_error=False))
    for reply in replies:
        if isinstance(reply, Exception) and (is_temporary(reply) or isinstance(reply, UNREACHABLE)):
            raise RedisUnavailableError(f"Redis rejects this for now: {reply}") from reply
    return replies


def is_temporary(error: BaseException) -> bool:
    """Whether waiting may help: Redis is unreachable, or rejects every write for now (out of memory, a replica)."""
    if isinstance(error, DamagedDataError):
        return False
    return isinstance(error, (RedisUnavailableError, *_TEMPORARY)) or bool(_TEMPORARY_CODE.search(str(error)))


def is_unwritable(error: BaseException | None) -> bool:
    """Whether Redis cannot write to its disk, even if a RedisUnavailableError wraps that."""
    return error is not None and (bool(_UNWRITABLE_CODE.search(str(error))) or is_unwritable(error.__cause__))


def is_full(error: BaseException | None) -> bool:
    """Whether Redis ran out of memory, even if a RedisUnavailableError wraps that."""
    if error is None:
        return False
    known = isinstance(error, redis_errors.OutOfMemoryError) or bool(_FULL_CODE.search(str(error)))
    return known or is_full(error.__cause__)
