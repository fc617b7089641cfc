"""A process that is killed before any of its commands to Redis."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from redis.asyncio import Redis


class Killed(BaseException):
    """The process ends here."""


async def killed_after(commands: int, redis: Redis, work: Awaitable[object]) -> bool:
    """Whether the work, which uses this client, was still going on by then."""
    send, sent = redis.execute_command, 0

    async def counting(*arguments: Any, **options: Any) -> Any:
        nonlocal sent
        sent += 1
        if sent > commands:
            raise Killed
        return await send(*arguments, **options)  # type: ignore[no-untyped-call]

    redis.execute_command = counting  # type: ignore[method-assign]
    try:
        await work
    except Killed:
        return True
    finally:
        await redis.aclose()
    return False
