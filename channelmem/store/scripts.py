"""The Lua scripts, loaded once and called by hash. In: a script's name and arguments. Out: Redis' raw reply.

Every script starts with the same prelude: `base` (KEYS[1], which also routes it to the bucket's node), the key
names and `common.lua`, whose five arguments (clock and limits) this module puts in front.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any, TypeVar

from redis import exceptions as redis_errors
from redis.asyncio import Redis

from channelmem.errors import RedisUnavailableError
from channelmem.settings import Settings
from channelmem.store.keys import Keys, lua_names

T = TypeVar("T")
PARTS = {"view": "read", "find": "read", "around": "read", "apply": "attachments", "enrich": "attachments"}
"""What a script shares with others besides `common`."""

AWAY = (redis_errors.ConnectionError, redis_errors.TimeoutError, redis_errors.BusyLoadingError, OSError)
"""What redis-py raises while Redis cannot be asked: gone, too slow, or still loading its data."""


_PASSING = (
    redis_errors.OutOfMemoryError,
    redis_errors.ReadOnlyError,
    redis_errors.ClusterDownError,
    redis_errors.TryAgainError,
    redis_errors.AskError,
    redis_errors.NoPermissionError,
)
"""What redis-py knows of the states of a server that somebody, or time, will change."""
# Those that it does not know, at the start; and all of them within an error of a script, as older servers put it.
_PASSING_CODE = re.compile(
    r"(?:^|-)(?:BUSY|CLUSTERDOWN|DENIED|LOADING|MASTERDOWN|MISCONF|NOPERM|NOREPLICAS|OOM|READONLY|UNKILLABLE)\b"
)
_FULL_CODE = re.compile(r"(?:^|-)OOM\b")


def passes(error: BaseException) -> bool:
    """Whether waiting may help: Redis is away, or refuses everything for a while (out of memory, a replica)."""
    return isinstance(error, (RedisUnavailableError, *_PASSING)) or bool(_PASSING_CODE.search(str(error)))


def is_full(error: BaseException | None) -> bool:
    """Whether Redis refused for want of memory; also where that was told on as RedisUnavailableError."""
    if error is None:
        return False
    known = isinstance(error, redis_errors.OutOfMemoryError) or bool(_FULL_CODE.search(str(error)))
    return known or is_full(error.__cause__)


@cache
def source(name: str) -> str:
    lua = resources.files("channelmem.store") / "lua"
    names = ["common", *([PARTS[name]] if name in PARTS else []), name]
    parts = [(lua / f"{part}.lua").read_text("utf-8") for part in names]
    return "\n".join(["local base = KEYS[1]", lua_names(), *parts])


@cache
def digest(name: str) -> str:
    return hashlib.sha1(source(name).encode(), usedforsecurity=False).hexdigest()


async def command(redis: Redis, *arguments: Any) -> Any:
    """Any command, its reply as hiredis read it."""
    return await redis.execute_command(*arguments)  # type: ignore[no-untyped-call]


async def answered(reply: Awaitable[T]) -> T:
    """The reply, or RedisUnavailableError."""
    try:
        return await reply
    except AWAY as error:
        raise RedisUnavailableError(f"Redis does not answer: {error}") from error
    except redis_errors.ResponseError as error:
        if not passes(error):
            raise
        raise RedisUnavailableError(f"Redis refuses for now: {error}") from error


class Scripts:
    """Calls scripts with the clock and the limits of the settings."""

    def __init__(self, redis: Redis, settings: Settings, clock: Callable[[], float]) -> None:
        self.redis = redis
        self.clock = clock
        self._limits = (
            settings.max_messages,
            settings.buffer_s,
            settings.archive_days * 86_400,
            int(settings.archive),
        )

    async def run(self, name: str, keys: Keys, arguments: Sequence[Any] = ()) -> Any:
        """One round trip; a second one only after Redis lost its script cache (a restart)."""
        call = (1, keys.base, repr(self.clock()), *self._limits, *arguments)
        try:
            return await answered(command(self.redis, "EVALSHA", digest(name), *call))
        except redis_errors.NoScriptError:
            return await answered(command(self.redis, "EVAL", source(name), *call))
