"""Tasks that are ended are really gone, however often they or their enders are cancelled."""

import asyncio
import contextlib

import pytest
from waiting import LIMIT_S, until_true

from channelmem.tasks import cancel_all


class Stubborn:
    """Swallows its first cancellations."""

    def __init__(self, times: int) -> None:
        self.left = times

    async def run(self) -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.left -= 1
                if self.left < 0:
                    raise


async def test_a_task_that_swallows_a_cancellation_is_cancelled_again() -> None:
    task = asyncio.create_task(Stubborn(2).run())
    await asyncio.sleep(0)
    await asyncio.wait_for(cancel_all([task]), LIMIT_S)
    assert task.cancelled()


async def test_an_ender_that_is_cancelled_leaves_nobody_behind() -> None:
    stubborn = Stubborn(3)
    task = asyncio.create_task(stubborn.run())
    await asyncio.sleep(0)
    ender = asyncio.create_task(cancel_all([task]))
    await until_true(lambda: stubborn.left < 3)
    ender.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(ender, LIMIT_S)
    assert task.cancelled()


async def test_ending_what_is_done_is_nothing() -> None:
    task = asyncio.create_task(asyncio.sleep(0))
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await cancel_all([task])
