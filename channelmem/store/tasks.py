"""Ending background tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

AGAIN_S = 0.05


async def end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancels until they are done: a wait that ends in the same moment can swallow the first cancellation."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_S)
