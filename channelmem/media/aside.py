"""Heavy work off the event loop. In: a blocking call. Out: its result.

One piece at a time: reading media must never take the cores from answering. Work that is under way can't be stopped, so
the next piece waits for it even if nobody wants its result any more; how long that takes is up to the caller's limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from channelmem.media.problems import passing

T = TypeVar("T")

MOST_WAITING: Final = 16


class Aside:
    def __init__(self) -> None:
        self._lane = asyncio.Lock()
        self._running: set[asyncio.Task[object]] = set()

    async def run(self, work: Callable[[], T]) -> T:
        if len(self._running) > MOST_WAITING:
            raise passing("there is too much to read at once")
        task = asyncio.create_task(self._in_turn(work))
        self._running.add(task)
        task.add_done_callback(self._finished)
        return await asyncio.shield(task)

    async def _in_turn(self, work: Callable[[], T]) -> T:
        async with self._lane:
            return await asyncio.to_thread(work)

    def _finished(self, task: asyncio.Task[object]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited for it has it; if nobody does any more, it must not be logged as lost
