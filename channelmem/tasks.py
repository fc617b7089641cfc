"""Work in the background, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

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


@asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Runs something in the background until the block ends."""
    task = asyncio.create_task(work, name="channelmem keeping current")
    try:
        yield
    finally:
        await cancel_all([task])
