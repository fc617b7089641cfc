"""Back-pressure: how much the service takes on at once. In: a caller with a question or messages. Out: a place, or a
refusal that says when to try again (429 if the caller alone is too much, 503 if all together are).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from channelmem.access import Caller
from channelmem.api.problems import ProblemError
from channelmem.errors import RedisUnavailableError
from channelmem.memory import Memory
from channelmem.settings import Settings

RUNNING: Final = 16
"""Questions that are answered at the same time; more would only make all of them slower."""
COUNTED_S: Final = 0.5
"""How old the number of messages that wait for an embedding may be."""
OVERLOADED: Final = "urn:channelmem:overloaded"


class Pressure:
    def __init__(self, memory: Memory, settings: Settings) -> None:
        self._memory, self._settings = memory, settings
        self._running = asyncio.Semaphore(RUNNING)
        self._asking: Counter[str] = Counter()
        self._pending, self._counted_at = 0, float("-inf")

    @property
    def asking(self) -> int:
        """Questions that wait or are being answered."""
        return self._asking.total()

    @asynccontextmanager
    async def question(self, caller: Caller) -> AsyncIterator[None]:
        """A place among the questions; waits for its turn."""
        most = self._settings.service_max_asks
        if self._asking.total() >= most:
            raise ProblemError(503, "Too many questions at once; try again.", type_=OVERLOADED, retry_s=1)
        if self._asking[caller.token_id] >= most * 3 // 4:
            raise ProblemError(429, "Too many questions of this token at once; try again.", retry_s=1)
        self._asking[caller.token_id] += 1
        try:
            async with self._running:
                yield
        finally:
            self._asking[caller.token_id] -= 1
            if not self._asking[caller.token_id]:
                del self._asking[caller.token_id]

    async def messages(self, count: int) -> None:
        """Refuses what would only be dropped, or would wait too long for the model."""
        if self._memory.queued + count > self._settings.queue_size:
            detail = "Redis does not answer and the queue for it is full; try again."
            raise ProblemError(503, detail, type_=OVERLOADED, retry_s=2)
        if self._memory.available and await self._count() > self._settings.service_max_pending:
            detail = "Too many messages wait for an embedding; try again, or start more `channelmem worker` processes."
            raise ProblemError(429, detail, type_=OVERLOADED, retry_s=2)

    async def _count(self) -> int:
        if time.monotonic() - self._counted_at >= COUNTED_S:
            self._counted_at = time.monotonic()
            with suppress(RedisUnavailableError):  # then the messages are queued here
                self._pending = await self._memory.pending()
        return self._pending
