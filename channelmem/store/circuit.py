"""Cancels background tasks reliably. In: tasks. Out: nothing; all of them are done when it returns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.connection import HiredisRespSerializer

AGAIN_S = 0.05


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels until they are done: a wait that ends at the same moment can swallow the first cancellation.

    If the caller is cancelled meanwhile, it still finishes first; otherwise the tasks would be left behind for ever.
    """
    left = {task for task in tasks if not task.done()}
    cancelled = False
    while left:
        for task in left:
            task.cancel()
        try:
            await asyncio.wait(left, timeout=AGAIN_S)
        except asyncio.CancelledError:
            cancelled = True
        left = {task for task in left if not task.done()}
    if cancelled:
        raise asyncio.CancelledError


# --- circuit ---


log = logging.getLogger(__name__)

PAUSE_S = 0.1
"""Between two attempts; an attempt itself lasts as long as a command may."""
SILENT = "it has not replied since the last timeout"


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
        if self.is_open:
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
