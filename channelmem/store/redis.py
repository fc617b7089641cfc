"""The client for one Redis, and what it raises.

Every error of redis-py becomes one of ours here, and nowhere else: `RedisUnavailableError` if waiting may help,
`DamagedDataError` for keys that none of ours wrote, `CommandRefusedError` for what Redis would refuse again. Reading
differs from writing in one point: what is read may be junk, and `reads` marks a method that would trip over it.

A Redis that is silent (stopped, or out of reach) is asked by one task alone until it replies; commands fail at once
meanwhile.
"""

from __future__ import annotations

import asyncio
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
from redis.asyncio.client import Pipeline
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.connection import HiredisRespSerializer
from redis.driver_info import DriverInfo

from channelmem.errors import (
    CommandRefusedError,
    ConfigError,
    DamagedDataError,
    RedisLoadingError,
    RedisUnavailableError,
)
from channelmem.secrets import MALFORMED_URL, check_redis_url, is_cluster
from channelmem.settings import Settings
from channelmem.store.cluster import Cluster
from channelmem.tasks import cancel_all

T = TypeVar("T")
P = ParamSpec("P")

CLIENT = "channelmem"
PAUSE_S = 0.1
"""Between two attempts to reach a silent Redis; an attempt itself lasts as long as a command may."""
SILENT = "it has not replied since the last timeout"

log = logging.getLogger(__name__)

# --- errors ---

_UNREACHABLE = (redis_errors.ConnectionError, redis_errors.TimeoutError, OSError)
"""What redis-py raises while Redis cannot answer: gone, or too slow."""
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
# redis-py puts them behind the number and the text of a transaction's command.
_BEFORE_CODE = r"(?:^|-| of pipeline caused error: (?:\(['\"])?)"
_TEMPORARY_CODE = re.compile(
    _BEFORE_CODE + r"(?:ASK|BUSY|CLUSTERDOWN|DENIED|LOADING|MASTERDOWN|MISCONF|MOVED|NOPERM|NOREPLICAS|OOM|READONLY"
    r"|TRYAGAIN|UNKILLABLE)\b"
    # What a script meets when its slot begins to move while it runs.
    r"|ttempted to access a non local key in a cluster node"
)
_FULL_CODE = re.compile(_BEFORE_CODE + r"OOM\b")
_UNWRITABLE_CODE = re.compile(_BEFORE_CODE + r"MISCONF\b")
# What a command or script meets in a key of a wrong type, or in a value that none of ours wrote.
_DAMAGED = re.compile(
    r"WRONGTYPE|wrong Redis type|not an integer|not a valid float|user_script:\d+: (?:attempt to|bad argument)"
)
UNREADABLE = (ValueError, LookupError, TypeError, ArithmeticError, struct.error)
"""What reading such a value raises here."""
DAMAGED = "Redis holds something damaged where this is kept; the log says what"


def translated(error: Exception) -> RedisUnavailableError:
    """What an error of redis-py means for a caller."""
    ours = _translated(error)
    ours.__cause__ = error
    return ours


def _translated(error: Exception) -> RedisUnavailableError:
    if isinstance(error, redis_errors.BusyLoadingError):
        return RedisLoadingError("Redis is still loading its data")
    if isinstance(error, _UNREACHABLE):
        return RedisUnavailableError(f"Redis does not answer: {error}")
    if isinstance(error, redis_errors.ResponseError) and (found := _DAMAGED.search(str(error))):
        return damaged(found[0])
    if isinstance(error, _TEMPORARY) or _TEMPORARY_CODE.search(str(error)):
        return RedisUnavailableError(f"Redis rejects this for now: {error}")
    return CommandRefusedError(f"Redis rejects this: {error}")


def damaged(what: str) -> DamagedDataError:
    """Logs where, but no value: it may be somebody's words."""
    names = [frame.name for frame in traceback.extract_stack() if "channelmem" in frame.filename]
    log.error("Redis holds something damaged (%s), met in: %s", what, " > ".join(names[-8:-1]))
    return DamagedDataError(DAMAGED)


def reads(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """For a method that reads values: those that can't be read count as Redis being unavailable, so that a question is
    answered without them."""

    @wraps(method)
    async def reading(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return await method(*arguments, **options)
        except UNREADABLE as error:
            raise damaged(f"{type(error).__name__} in {method.__qualname__}") from error

    return reading


def is_unwritable(error: BaseException | None) -> bool:
    """Whether Redis cannot write to its disk, even if an error of ours wraps that."""
    return error is not None and (bool(_UNWRITABLE_CODE.search(str(error))) or is_unwritable(error.__cause__))


def is_full(error: BaseException | None) -> bool:
    """Whether Redis ran out of memory, even if an error of ours wraps that."""
    if error is None:
        return False
    known = isinstance(error, redis_errors.OutOfMemoryError) or bool(_FULL_CODE.search(str(error)))
    return known or is_full(error.__cause__)


# --- the client ---


class RedisClient(Redis):
    """A client of redis-py that raises our errors. A script that Redis does not know is the one thing that it tells as
    it is: the caller sends its source then."""

    async def execute_command(self, *arguments: Any, **options: Any) -> Any:
        try:
            return await super().execute_command(*arguments, **options)  # type: ignore[no-untyped-call]
        except redis_errors.NoScriptError:
            raise
        except (redis_errors.RedisError, OSError) as error:
            raise translated(error) from error

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        return _ClientPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


class _ClientPipeline(Pipeline):
    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        try:
            replies: list[Any] = await super().execute(raise_on_error=False)
        except (redis_errors.RedisError, OSError) as error:
            raise translated(error) from error
        for at, reply in enumerate(replies):
            if isinstance(reply, Exception) and not isinstance(reply, redis_errors.NoScriptError):
                replies[at] = translated(reply)
                if raise_on_error:
                    raise replies[at]
        return replies


def checked(replies: list[Any]) -> list[Any]:
    """The replies of a pipeline; raises the first error among them."""
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


def command(redis: Redis, *arguments: Any) -> Awaitable[Any]:
    """Sends any command; its reply is as hiredis parsed it."""
    reply: Awaitable[Any] = redis.execute_command(*arguments)  # type: ignore[no-untyped-call]
    return reply


async def pipelined(redis: Redis, commands: Iterable[Sequence[Any]], *, raise_first: bool = True) -> list[Any]:
    """The replies to many commands, in one round trip; without `raise_first`, errors that waiting would not cure are
    among them."""
    pipe = redis.pipeline(transaction=False)
    for one in commands:
        pipe.execute_command(*one)
    replies: list[Any] = await pipe.execute(raise_on_error=raise_first)
    for reply in replies:
        if isinstance(reply, RedisUnavailableError) and not isinstance(reply, (CommandRefusedError, DamagedDataError)):
            raise reply
    return replies


# --- the connection ---


def connect(url: str, settings: Settings, name: str = CLIENT) -> Redis:
    """A client that returns raw replies, bounds every wait and never retries on its own."""
    client_of = partial(_client, timeout_s=settings.redis_timeout_s, name=name)
    try:
        check_redis_url(url)
        return Cluster(url, client_of) if is_cluster(url) else client_of(url)
    except (ValueError, TypeError, redis_errors.RedisError):
        raise ConfigError(MALFORMED_URL) from None


def _client(url: str, *, timeout_s: float, name: str) -> Redis:
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
    return RedisClient.from_pool(pool)


class CircuitPool(ConnectionPool):
    """Connections to one Redis, which share what they know about its silence."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # redis-py's asyncio connections pack commands in Python. hiredis needs a sixth of the time, and a batch of
        # messages has hundreds of arguments.
        own = {"pack_command": HiredisRespSerializer().pack, "on_silence": staticmethod(self._open)}
        self.connection_class = type("OwnConnection", (_Noticing, self.connection_class), own)
        self._asking: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether Redis is silent."""
        return self._asking is not None

    async def get_connection(self, *arguments: Any, **options: Any) -> AbstractConnection:
        if self._asking is not None:
            raise redis_errors.ConnectionError(SILENT)
        try:
            connection: AbstractConnection = await super().get_connection(*arguments, **options)  # type: ignore[no-untyped-call]
        except redis_errors.TimeoutError:
            self._open()
            raise
        return connection

    async def disconnect(self, inuse_connections: bool = True) -> None:
        if self._asking is not None:
            await cancel_all([self._asking])
        await super().disconnect(inuse_connections)

    def _open(self) -> None:
        if self._asking is None:
            log.warning("Redis is silent; commands fail at once until it replies")
            self._asking = asyncio.create_task(self._ask_until_it_replies(), name="channelmem circuit")

    async def _ask_until_it_replies(self) -> None:
        try:
            while not await self._replies():  # noqa: ASYNC110  (Redis sends no event)
                await asyncio.sleep(PAUSE_S)
            log.info("Redis replies again")
        finally:
            self._asking = None

    async def _replies(self) -> bool:
        connection = self.make_connection()  # type: ignore[no-untyped-call]  # redis-py's gap
        try:
            await connection.connect()
            await connection.send_command("PING")
            await connection.read_response()
        except redis_errors.TimeoutError:
            return False
        except (redis_errors.RedisError, OSError):
            return True  # it refuses or is gone, and says so quickly
        finally:
            await connection.disconnect(nowait=True)
        return True


class _Noticing(AbstractConnection):
    """Mixed into redis-py's connections: reports replies that did not come in time."""

    async def read_response(self, *arguments: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*arguments, **options)
        except redis_errors.TimeoutError:
            self.on_silence()
            raise

    @staticmethod
    def on_silence() -> None:
        """Set by the pool."""
