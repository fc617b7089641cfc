"""Circuit: stops waiting for a Redis that is silent. In: a timeout. Out: errors at once, until Redis replies again.

A stopped or unreachable machine accepts connections and answers nothing, so each command of a question would wait for
its whole timeout. After the first timeout the circuit is open: commands fail at once while one connection in the
background asks whether Redis is back. No question is ever used to find that out, and nothing needs tuning: any reply
closes the circuit, even an error, since a Redis that refuses does so quickly.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.connection import HiredisRespSerializer

from channelmem.store.cancellation import cancel_all

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
