"""How a large store removes, for bench_scale: seconds until all is swept, and how long others waited.

Another process sends a PING every few milliseconds meanwhile: what it waits for is Redis, not this event loop.
"""

from __future__ import annotations

import asyncio
import json
import selectors
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
import redis as sync_redis

from channelmem.store.store import Store

PAUSE_S = 0.002


@dataclass(slots=True)
class Waits:
    """What the other process waited for its PINGs, in milliseconds."""

    ms: list[float]

    def at(self, percentile: float) -> float:
        return float(np.percentile(self.ms, percentile))


async def removed(store: Store, url: str, removal: Callable[[], Awaitable[object]]) -> tuple[float, Waits]:
    """Seconds until everything is unlinked, and the waits of another process meanwhile."""
    async with pinging(url) as waits:
        started = time.perf_counter()
        await removal()
        await store.swept()
        took_s = time.perf_counter() - started
    return took_s, waits


@asynccontextmanager
async def pinging(url: str) -> AsyncIterator[Waits]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "scripts.scaling.removals",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**26,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    waits = Waits([])
    try:
        process.stdin.write(url.encode() + b"\n")  # not an argument: it has a password
        await process.stdout.readline()
        yield waits
        process.stdin.write(b"\n")
        waits.ms += json.loads(await process.stdout.readline())
    finally:
        process.stdin.close()
        await process.wait()


def ping_until_told(url: str) -> None:
    """Runs in the other process."""
    waits: list[float] = []
    told = selectors.DefaultSelector()
    told.register(sys.stdin, selectors.EVENT_READ)
    with sync_redis.Redis.from_url(url) as client:
        client.ping()
        print("ready", flush=True)
        while True:
            started = time.perf_counter()
            client.ping()
            waits.append((time.perf_counter() - started) * 1000)
            if told.select(PAUSE_S):
                break
    print(json.dumps(waits), flush=True)


if __name__ == "__main__":
    ping_until_told(sys.stdin.readline().strip())
