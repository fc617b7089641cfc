"""Heavy work off the event loop: one piece at a time, even if nobody waits for it any more."""

from __future__ import annotations

import asyncio
import threading

import pytest
from waiting import LIMIT_S, until_true

from channelmem.media.kinds import UnreadableError
from channelmem.media.opening import MOST_WAITING, Aside


async def test_one_piece_at_a_time_even_after_a_cancellation() -> None:
    aside, gate, running, most = Aside(), threading.Event(), [0], [0]

    def work() -> str:
        running[0] += 1
        most[0] = max(most[0], running[0])
        gate.wait(LIMIT_S)
        running[0] -= 1
        return "done"

    first = asyncio.create_task(aside.run(work))
    await until_true(lambda: running[0])
    second = asyncio.create_task(aside.run(work))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.set()
    assert await second == "done"
    assert most[0] == 1


async def test_only_so_many_may_wait() -> None:
    aside, gate = Aside(), threading.Event()
    waiting = [asyncio.create_task(aside.run(lambda: gate.wait(LIMIT_S))) for _ in range(MOST_WAITING + 1)]
    await until_true(lambda: len(aside._running) == MOST_WAITING + 1)
    with pytest.raises(UnreadableError) as caught:
        await aside.run(lambda: None)
    assert not caught.value.lasting
    gate.set()
    assert all(await asyncio.gather(*waiting))


async def test_an_error_reaches_who_waits() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Aside().run(fail)
