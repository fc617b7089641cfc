"""How tests wait: for a condition, never for a span of time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

LIMIT_S = 60.0
"""Against a hang only: long enough for a machine whose cores are all busy."""


async def until(reached: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not await reached():  # noqa: ASYNC110  (nothing to wait for)
            await asyncio.sleep(0.005)


async def until_true(reached: Callable[[], object]) -> None:
    """The same for what this process itself knows."""
    async with asyncio.timeout(LIMIT_S):
        while not reached():  # noqa: ASYNC110  (nothing to wait for)
            await asyncio.sleep(0.001)
