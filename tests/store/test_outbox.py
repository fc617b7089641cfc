"""The outbox without Redis: order, coalescing, and what is kept or dropped while nothing can be sent."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence

import pytest
from redis.exceptions import OutOfMemoryError, ResponseError
from waiting import LIMIT_S, until_true

from channelmem.errors import IndexMismatchError, RedisUnavailableError
from channelmem.store import outbox as outbox_module
from channelmem.store.outbox import Event, Outbox, results_of
from channelmem.store.redis import translated
from channelmem.types import Outcome


class Wire:
    """A Redis that can be away, and that notes what reached it."""

    def __init__(self) -> None:
        self.away = False
        self.refusals: dict[str, Exception] = {}
        self.sent = 0
        self.batches: list[list[str]] = []
        self.reached = asyncio.Event()
        """Set by the first batch, which then waits for `open`."""
        self.open = asyncio.Event()
        self.open.set()

    async def send(self, bucket: int, events: Sequence[Event]) -> list[int]:
        self.reached.set()
        await self.open.wait()
        await asyncio.sleep(0)
        if self.away:
            raise RedisUnavailableError("away")
        self.sent += 1
        for event in events:
            if event.values[0] in self.refusals:
                raise self.refusals[str(event.values[0])]
        self.batches.append([str(event.values[0]) for event in events])
        return [1] * len(events)

    @property
    def arrived(self) -> list[str]:
        return [name for batch in self.batches for name in batch]


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "FIRST_RETRY_S", 0.001)
    monkeypatch.setattr(outbox_module, "LAST_RETRY_S", 0.005)


async def drained(outbox: Outbox) -> None:
    await until_true(lambda: len(outbox) == 0)


async def test_events_that_come_together_are_sent_together() -> None:
    wire = Wire()
    outbox = Outbox(wire.send, 100)
    results = await asyncio.gather(*[outbox.put(0, "add", (str(number),)) for number in range(50)])
    assert results == [1] * 50
    assert len(wire.batches) == 1


async def test_a_batch_is_bounded_and_the_order_kept() -> None:
    wire = Wire()
    outbox = Outbox(wire.send, 5000)
    await asyncio.gather(*[outbox.put(0, "add", (str(number), "x", "y")) for number in range(1000)])
    assert wire.arrived == [str(number) for number in range(1000)]
    assert all(len(batch) * 3 <= outbox_module.BATCH_VALUES for batch in wire.batches)


async def test_events_wait_their_turn_while_a_batch_is_on_its_way() -> None:
    wire = Wire()
    wire.open.clear()
    outbox = Outbox(wire.send, 100)
    first = outbox.put(0, "add", ("1",))
    await wire.reached.wait()
    rest = [outbox.put(0, "add", (str(number),)) for number in range(2, 6)]
    wire.open.set()
    await asyncio.gather(first, *rest)
    assert wire.batches == [["1"], ["2", "3", "4", "5"]]


async def test_while_redis_is_away_events_are_queued_and_later_sent_in_order() -> None:
    wire = Wire()
    wire.away = True
    outbox = Outbox(wire.send, 100)
    assert await outbox.put(0, "add", ("1",)) is Outcome.QUEUED
    assert (outbox.offline, len(outbox)) == (True, 1)
    kinds = ["add", "delete", "add", "clear"]
    later = [await outbox.put(0, kind, (str(number),)) for number, kind in enumerate(kinds, start=2)]
    assert later == [Outcome.QUEUED] * 4
    wire.away = False
    await drained(outbox)
    assert wire.arrived == ["1", "2", "3", "4", "5"]
    assert not outbox.offline
    assert await outbox.put(0, "add", ("6",)) == 1


async def test_the_oldest_additions_are_dropped_first_and_counted() -> None:
    wire = Wire()
    wire.away = True
    outbox = Outbox(wire.send, 5)
    for number in range(1, 13):
        await outbox.put(0, "delete" if number == 2 else "add", (str(number),))
    assert (outbox.dropped, len(outbox)) == (7, 5)
    wire.away = False
    await drained(outbox)
    assert wire.arrived == ["2", "9", "10", "11", "12"]


async def test_removals_are_dropped_only_when_nothing_else_is_left() -> None:
    wire = Wire()
    wire.away = True
    outbox = Outbox(wire.send, 3)
    for number in range(1, 6):
        await outbox.put(0, "delete", (str(number),))
    assert outbox.dropped == 2
    wire.away = False
    await drained(outbox)
    assert wire.arrived == ["3", "4", "5"]


async def test_a_batch_larger_than_the_queue_says_which_were_dropped() -> None:
    wire = Wire()
    wire.away = True
    outbox = Outbox(wire.send, 4)
    results = await asyncio.gather(*[outbox.put(0, "add", (str(number),)) for number in range(10)])
    assert results == [Outcome.DROPPED] * 6 + [Outcome.QUEUED] * 4


async def test_the_bound_holds_over_all_buckets() -> None:
    wire = Wire()
    wire.away = True
    outbox = Outbox(wire.send, 3)
    for number in range(6):
        await outbox.put(number % 2, "add", (str(number),))
    await until_true(lambda: len(outbox) == 3)  # a batch that is on its way counts once it comes back
    wire.away = False
    await drained(outbox)
    assert sorted(wire.arrived) == ["3", "4", "5"]


async def test_closing_sends_what_it_can_and_counts_what_it_cannot() -> None:
    wire = Wire()
    outbox = Outbox(wire.send, 10)
    sent = outbox.put(0, "add", ("1",))
    await outbox.close(1)
    assert await sent == 1
    wire.away = True
    lost = Outbox(wire.send, 10)
    assert await lost.put(0, "add", ("2",)) is Outcome.QUEUED
    await lost.close(0.02)
    assert lost.dropped == 1


async def test_what_comes_after_the_end_is_dropped_and_keeps_nobody_waiting() -> None:
    wire = Wire()
    outbox = Outbox(wire.send, 10)
    assert await outbox.put(0, "add", ("1",)) == 1
    await outbox.close(1)
    for bucket, kind in ((0, "add"), (1, "add"), (0, "delete")):
        assert await asyncio.wait_for(outbox.put(bucket, kind, ("2",)), LIMIT_S) is Outcome.DROPPED
    assert (outbox.dropped, len(outbox), wire.arrived) == (3, 0, ["1"])


async def test_what_comes_during_the_end_is_sent_while_its_bucket_is_at_work_and_else_dropped() -> None:
    wire = Wire()
    wire.open.clear()
    outbox = Outbox(wire.send, 10)
    outbox.put(0, "add", ("1",))
    closing = asyncio.create_task(outbox.close(5))
    await asyncio.sleep(0)
    sent, dropped = outbox.put(0, "add", ("2",)), outbox.put(1, "add", ("3",))
    wire.open.set()
    await closing
    assert (await sent, await dropped) == (1, Outcome.DROPPED)
    assert sorted(wire.arrived) == ["1", "2"]


async def test_a_caller_that_gave_up_does_not_disturb_the_others() -> None:
    wire = Wire()
    wire.open.clear()
    outbox = Outbox(wire.send, 10)
    given_up, waiting = outbox.put(0, "add", ("1",)), outbox.put(0, "add", ("2",))
    given_up.cancel()
    wire.open.set()
    assert await waiting == 1
    assert wire.arrived == ["1", "2"]


async def test_an_error_that_waiting_cannot_cure_is_told_to_the_callers_and_blocks_nobody() -> None:
    wire = Wire()

    async def refuse_once(bucket: int, events: Sequence[Event]) -> list[int]:
        if events[0].values == ("1",):
            raise IndexMismatchError("Run: channelmem reindex")
        return await wire.send(bucket, events)

    outbox = Outbox(refuse_once, 10)
    with pytest.raises(IndexMismatchError):
        await outbox.put(0, "add", ("1",))
    assert await outbox.put(0, "add", ("2",)) == 1


NO_FLOAT = translated(ResponseError("value is not a valid float script: 5f6c, on @user_script:163."))
REFUSED = translated(ResponseError("unknown command"))


@pytest.mark.parametrize("error", [NO_FLOAT, REFUSED], ids=["damage", "refusal"])
@pytest.mark.parametrize("bad", [["0"], ["31"], ["7", "8"], ["0", "13", "26", "99"], [str(n) for n in range(100)]])
async def test_what_redis_refuses_for_good_is_dropped_alone_and_the_rest_goes_on_in_order(
    bad: list[str], error: Exception
) -> None:
    wire = Wire()
    wire.refusals = dict.fromkeys(bad, error)
    outbox = Outbox(wire.send, 1000)
    names = [str(number) for number in range(100)]
    results = await asyncio.wait_for(asyncio.gather(*[outbox.put(0, "add", (name,)) for name in names]), LIMIT_S)
    assert results == [Outcome.DROPPED if name in bad else 1 for name in names]
    assert wire.arrived == [name for name in names if name not in bad]
    assert (outbox.dropped, len(outbox), outbox.offline) == (len(bad), 0, False)


async def test_after_a_refusal_batches_are_as_large_as_before() -> None:
    wire = Wire()
    wire.refusals = {"0": NO_FLOAT}
    outbox = Outbox(wire.send, 2000)
    await asyncio.gather(*[outbox.put(0, "add", (str(number),)) for number in range(1000)])
    assert len(wire.batches[-2]) == outbox_module.BATCH_VALUES
    assert wire.sent < 40


async def test_a_refusal_is_logged_without_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire()
    wire.refusals = {"a secret": NO_FLOAT}
    await Outbox(wire.send, 10).put(0, "add", ("a secret",))
    (record,) = [one for one in caplog.records if one.name == outbox_module.__name__]
    assert record.levelname == "ERROR"
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "error",
    [
        translated(OutOfMemoryError("command not allowed when used memory > 'maxmemory'.")),
        translated(ResponseError("BUSY Redis is busy running a script.")),
    ],
)
async def test_a_refusal_that_passes_keeps_everything(error: Exception) -> None:
    wire = Wire()
    wire.refusals = {"1": error}
    outbox = Outbox(wire.send, 100)
    names = [str(number) for number in range(5)]
    assert await asyncio.gather(*[outbox.put(0, "add", (name,)) for name in names]) == [Outcome.QUEUED] * 5
    assert outbox.offline
    wire.refusals = {}
    await drained(outbox)
    assert (wire.arrived, outbox.dropped) == (names, 0)


async def test_a_refusal_found_after_an_outage_holds_up_nobody() -> None:
    wire = Wire()
    wire.away = True
    wire.refusals = {"2": NO_FLOAT}
    outbox = Outbox(wire.send, 100)
    for number in range(5):
        assert await outbox.put(0, "add", (str(number),)) is Outcome.QUEUED
    wire.away = False
    await drained(outbox)
    assert (wire.arrived, outbox.dropped, outbox.offline) == (["0", "1", "3", "4"], 1, False)


async def test_results_come_in_the_order_of_the_events() -> None:
    wire = Wire()
    wire.refusals = {"1": NO_FLOAT}
    outbox = Outbox(wire.send, 10)
    assert await results_of([outbox.put(0, "add", (str(number),)) for number in range(3)]) == [1, Outcome.DROPPED, 1]
    assert await results_of([]) == []


async def test_an_error_of_many_events_is_told_once_and_asyncio_misses_no_other() -> None:
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))

    async def refuse(bucket: int, events: Sequence[Event]) -> list[int]:
        raise IndexMismatchError("Run: channelmem reindex")

    outbox = Outbox(refuse, 5000)
    with pytest.raises(IndexMismatchError):
        await results_of([outbox.put(0, "add", (str(number),)) for number in range(1000)])
    await drained(outbox)
    await until_true(lambda: outbox._lanes[0].task is None)  # which lets go of them
    gc.collect()
    assert complaints == []


async def test_a_caller_that_gave_up_on_many_events_takes_none_of_them_back() -> None:
    wire = Wire()
    wire.open.clear()
    outbox = Outbox(wire.send, 10)
    futures = [outbox.put(0, "add", (str(number),)) for number in range(5)]
    task = asyncio.create_task(results_of(futures))
    await wire.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(one.cancelled() for one in futures)
    wire.open.set()
    await drained(outbox)
    assert wire.arrived == ["0", "1", "2", "3", "4"]


async def test_an_error_that_nobody_foresaw_costs_one_event_and_its_words_reach_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(str(context)))
    wire = Wire()
    words = "a secret \ud800"
    wire.refusals = {words: UnicodeEncodeError("utf-8", words, 9, 10, "surrogates not allowed")}
    outbox = Outbox(wire.send, 100)
    results = await asyncio.wait_for(
        asyncio.gather(*[outbox.put(0, "add", (one,)) for one in ("1", words, "2")]), LIMIT_S
    )
    assert results == [1, Outcome.DROPPED, 1]
    assert await asyncio.wait_for(outbox.put(0, "add", ("3",)), LIMIT_S) == 1
    await until_true(lambda: outbox._lanes[0].task is None)
    gc.collect()
    assert (wire.arrived, outbox.dropped, complaints) == (["1", "2", "3"], 1, [])
    assert "UnicodeEncodeError" in caplog.text
    assert "secret" not in caplog.text


async def test_what_is_given_up_after_it_was_queued_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire()
    wire.away = True
    outbox = Outbox(wire.send, 100)
    for kind, name in (("add", "a secret"), ("delete", "7"), ("delete", "8")):
        assert await outbox.put(0, kind, (name,)) is Outcome.QUEUED
    wire.refusals = dict.fromkeys(("a secret", "7", "8"), IndexMismatchError("Run: channelmem reindex"))
    wire.away = False
    await drained(outbox)
    assert (wire.arrived, outbox.dropped) == ([], 3)
    assert "1 add, 2 delete" in caplog.text
    assert "secret" not in caplog.text


async def test_what_is_left_at_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire()
    wire.away = True
    outbox = Outbox(wire.send, 100)
    await outbox.put(0, "delete", ("7",))
    await outbox.close(0.0)
    assert outbox.dropped == 1
    assert "never got these queued events; dropping them: 1 delete" in caplog.text


async def test_a_change_that_is_repeated_while_it_waits_waits_once() -> None:
    wire = Wire()
    wire.away = True
    outbox = Outbox(wire.send, 100, same=lambda kind, values: (kind, *values))
    for kind in ("add", "delete", "add", "delete"):
        assert await outbox.put(0, kind, ("1",)) is Outcome.QUEUED
    await outbox.put(1, "delete", ("1",))
    assert len(outbox) == 3
    wire.away = False
    await drained(outbox)
    assert await outbox.put(0, "delete", ("1",)) == 1
    assert wire.arrived.count("1") == 4
