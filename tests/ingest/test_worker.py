"""Workers on real Redis: every stored message gets its vector, whoever dies; nothing removed comes back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from conftest import CHANNEL, GUILD, Clock, FakeEmbedder, message
from numpy.typing import NDArray
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from redis.asyncio import Redis
from stored import commit
from waiting import LIMIT_S, until

from channelmem.embedding.embed import Embedder, LaneEmbedder
from channelmem.errors import ModelError, RedisUnavailableError
from channelmem.ingest import streams
from channelmem.ingest import worker as worker_module
from channelmem.ingest.worker import EMBEDDING, Worker
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.store.buckets import Buckets
from channelmem.store.keys import GROUP
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.tasks import cancel_all
from channelmem.types import Question, Source

BUFFER = Query(GUILD, (CHANNEL,), limit=100)


async def without_vector(search: Search, embedder: FakeEmbedder) -> list[int]:
    found = await search.nearest(replace(BUFFER, vector=embedder.vector("turtles")))
    return sorted(one.id for one in found.pending)


async def consumers(store: Store, redis: Redis) -> list[str]:
    found = await redis.xinfo_consumers(store.buckets.keys(0).one("ingest"), GROUP)
    return [one["name"].decode() for one in found]


async def taken(store: Store, redis: Redis) -> int:
    summary = await redis.xpending(store.buckets.keys(0).one("ingest"), GROUP)
    return int(summary["pending"])


async def test_every_message_gets_its_vector_and_leaves_the_stream(
    store: Store, search: Search, worker: Worker, fake_embedder: FakeEmbedder, redis: Redis
) -> None:
    await store.add([message(number) for number in range(1, 201)])
    assert await store.flush(LIMIT_S)
    assert await without_vector(search, fake_embedder) == []
    assert fake_embedder.embedded == 200
    assert await redis.xlen(store.buckets.keys(0).one("ingest")) == 0
    assert (await store.channels.status(GUILD, CHANNEL)).pending == 0


async def test_flush_says_when_it_takes_too_long(store: Store) -> None:
    await store.add([message(1)])
    assert not await store.flush(0.05)


async def test_a_worker_killed_between_store_and_embed_loses_nothing(
    store: Store, search: Search, fake_embedder: FakeEmbedder, redis: Redis
) -> None:
    fake_embedder.gate.clear()
    victim = asyncio.create_task(Worker(store, fake_embedder, name="victim").run())
    await store.add([message(number) for number in range(1, 31)])
    await until(lambda: taken(store, redis))
    await cancel_all([victim])
    fake_embedder.gate.set()
    other = asyncio.create_task(Worker(store, fake_embedder, name="heir", claim_idle_s=0.05).run())
    assert await store.flush(LIMIT_S)
    await cancel_all([other])
    assert await without_vector(search, fake_embedder) == []


async def test_a_graceful_stop_hands_over_at_once(
    store: Store, search: Search, fake_embedder: FakeEmbedder, redis: Redis
) -> None:
    fake_embedder.gate.clear()
    stopping = Worker(store, fake_embedder, name="stopping", batch=10)
    task = asyncio.create_task(stopping.run())
    await store.add([message(number) for number in range(1, 41)])
    await until(lambda: _is_more_than(store, redis, 10 * EMBEDDING))
    stopping.stop()
    fake_embedder.gate.set()
    await asyncio.wait_for(task, LIMIT_S)
    assert fake_embedder.embedded == 10 * EMBEDDING  # what was being embedded is finished, the rest is not begun
    assert await store.pending() == 40 - 10 * EMBEDDING
    heir = Worker(store, fake_embedder, name="heir", claim_idle_s=600)  # would wait ten minutes for a dead one
    other = asyncio.create_task(heir.run())
    assert await store.flush(LIMIT_S)
    assert heir.progress.claimed > 0
    await cancel_all([other])
    assert await without_vector(search, fake_embedder) == []


async def _is_more_than(store: Store, redis: Redis, count: int) -> bool:
    return await taken(store, redis) > count


async def test_an_idle_worker_leaves_the_group_when_it_stops(
    store: Store, fake_embedder: FakeEmbedder, redis: Redis
) -> None:
    await store.add([message(1)])  # on a cluster, a worker joins the groups of streams that hold something
    worker = Worker(store, fake_embedder, name="idle")
    task = asyncio.create_task(worker.run())
    await until(lambda: _has(store, redis, "idle"))
    assert await store.flush(LIMIT_S)
    worker.stop()
    await asyncio.wait_for(task, LIMIT_S)
    assert await consumers(store, redis) == []


async def test_consumers_of_killed_workers_leave_the_group_unless_they_hold_something(
    store: Store, fake_embedder: FakeEmbedder, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = store.buckets.keys(0).one("ingest")
    for name in ("dead", "dead too"):
        await redis.xgroup_createconsumer(stream, GROUP, name)
    await store.add([message(1)])
    await redis.xreadgroup(GROUP, "holding", {stream: ">"}, count=1)
    monkeypatch.setattr(streams, "DISMISS_S", 0.1)  # as if an hour had passed
    monkeypatch.setattr(worker_module, "DISMISS_EVERY_S", 0)

    async def idle() -> bool:
        return all(one["idle"] >= 100 for one in await redis.xinfo_consumers(stream, GROUP))

    await until(idle)
    task = asyncio.create_task(Worker(store, fake_embedder, name="alive", claim_idle_s=600).run())

    async def tidy() -> bool:
        return await consumers(store, redis) == ["alive", "holding"]

    await until(tidy)
    await cancel_all([task])
    assert await taken(store, redis) == 1


async def test_a_consumer_that_was_heard_of_lately_stays(
    store: Store, fake_embedder: FakeEmbedder, redis: Redis
) -> None:
    await store.add([message(1)])
    await redis.xgroup_createconsumer(store.buckets.keys(0).one("ingest"), GROUP, "resting")
    worker = Worker(store, fake_embedder, name="alive")
    await worker._claimed()
    assert await consumers(store, redis) == ["alive", "resting"]


async def _has(store: Store, redis: Redis, name: str) -> bool:
    return name in await consumers(store, redis)


async def test_workers_have_names_of_their_own(store: Store, fake_embedder: FakeEmbedder) -> None:
    names = {Worker(store, fake_embedder).name for _ in range(20)}
    assert len(names) == 20
    assert all(str(os.getpid()) in name for name in names)


async def test_several_workers_share_the_work_and_embed_nothing_twice(store: Store, search: Search) -> None:
    embedders = [FakeEmbedder() for _ in range(3)]
    tasks = [asyncio.create_task(Worker(store, one, batch=8).run()) for one in embedders]
    for at in range(0, 300, 20):
        await store.add([message(number) for number in range(at, at + 20)])
    assert await store.flush(LIMIT_S)
    await cancel_all(tasks)
    assert sum(one.embedded for one in embedders) == 300
    assert await without_vector(search, embedders[0]) == []


async def test_a_message_removed_or_edited_while_it_is_embedded_keeps_no_old_vector(
    store: Store, search: Search, fake_embedder: FakeEmbedder, redis: Redis
) -> None:
    fake_embedder.gate.clear()
    task = asyncio.create_task(Worker(store, fake_embedder).run())
    await store.add([message(1), message(2), message(3)])
    await until(lambda: taken(store, redis))
    await store.delete(GUILD, CHANNEL, [1])
    await store.edit(message(2, "bicycles", revision=1.0))
    fake_embedder.gate.set()
    assert await store.flush(LIMIT_S)
    await cancel_all([task])
    for source in (Source.BUFFER, Source.ARCHIVE):
        query = replace(BUFFER, vector=fake_embedder.vector("bicycles"), source=source)
        hits = (await search.nearest(query)).hits
        assert [hit.message.id for hit in hits] == [2, 3]
        assert hits[0].similarity == pytest.approx(1, abs=0.01)


async def test_what_was_embedded_without_a_worker_is_not_embedded_again(
    store: Store, fake_embedder: FakeEmbedder, search: Search
) -> None:
    await store.add([message(1), message(2)])
    assert await commit(store, [(message(1), fake_embedder.vector(message(1).content))]) == 1
    assert await commit(store, [(message(1), fake_embedder.vector(message(1).content))]) == 0
    task = asyncio.create_task(Worker(store, fake_embedder).run())
    assert await store.flush(LIMIT_S)
    await cancel_all([task])
    assert fake_embedder.embedded == 1


async def test_a_lost_stream_and_group_are_made_again_and_refilled(
    store: Store, search: Search, worker: Worker, fake_embedder: FakeEmbedder, redis: Redis
) -> None:
    await store.add([message(1)])
    assert await store.flush(LIMIT_S)
    fake_embedder.gate.clear()
    await store.add([message(number) for number in range(2, 12)])
    await redis.delete(store.buckets.keys(0).one("ingest"))
    fake_embedder.gate.set()

    async def complete() -> bool:
        return await without_vector(search, fake_embedder) == []

    await until(complete)
    assert await store.flush(LIMIT_S)


async def test_messages_that_fell_off_the_stream_are_found_when_a_worker_starts(
    store: Store, search: Search, fake_embedder: FakeEmbedder, redis: Redis
) -> None:
    await store.add([message(number) for number in range(1, 6)])
    await redis.xtrim(store.buckets.keys(0).one("ingest"), maxlen=0, approximate=False)
    task = asyncio.create_task(Worker(store, fake_embedder).run())

    async def complete() -> bool:
        return await without_vector(search, fake_embedder) == []

    await until(complete)
    await cancel_all([task])


class BrokenEmbedder(FakeEmbedder):
    async def embed_messages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise ModelError("The model is gone. Install it again.")


async def test_a_broken_model_ends_the_worker_with_its_own_error(store: Store, redis: Redis) -> None:
    await store.add([message(1)])
    with pytest.raises(ModelError, match="gone"):
        await asyncio.wait_for(Worker(store, BrokenEmbedder()).run(), LIMIT_S)
    assert await store.pending() == 1


class BreakingEmbedder(FakeEmbedder):
    """Fails at once; some texts never come back."""

    async def embed_messages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if any("never" in text for text in texts):
            await asyncio.Event().wait()
        raise ModelError("The model is gone. Install it again.")


async def test_a_broken_model_leaves_no_task_behind(store: Store) -> None:
    await store.add([message(number, "never" if number >= 10 else "at once") for number in range(30)])
    with pytest.raises(ModelError, match="gone"):
        await asyncio.wait_for(Worker(store, BreakingEmbedder(), batch=10).run(), LIMIT_S)
    assert not [task for task in asyncio.all_tasks() if "Worker." in repr(task.get_coro())]


class PickyEncoder:
    """Fails on some texts in its own way: where it reads them, or where it embeds them."""

    dims, identity = FakeEmbedder.dims, FakeEmbedder.identity

    def tokenise_question(self, text: str) -> list[str]:
        return [text]

    def tokenise_messages(self, texts: Sequence[str]) -> list[str]:
        if any("unreadable" in text for text in texts):
            raise Exception("what the tokenizer says")  # noqa: TRY002  (it has no class of its own)
        return list(texts)

    def infer(self, rows: Sequence[str]) -> NDArray[np.float32]:
        if any("poison" in row for row in rows):
            raise InvalidArgument("what the model says of a poison")
        return np.stack([FakeEmbedder.vector(FakeEmbedder(), row) for row in rows])


class PickyEmbedder(FakeEmbedder):
    """Somebody else's, with the errors of its library."""

    async def embed_messages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if any("poison" in text or "unreadable" in text for text in texts):
            raise RuntimeError("what the model says of a poison")
        return await super().embed_messages(texts)


@pytest.mark.parametrize("make", [PickyEmbedder, lambda: LaneEmbedder(PickyEncoder(), 2)])
async def test_a_text_that_the_model_fails_on_is_given_up_alone(
    store: Store, search: Search, make: Callable[[], Embedder], caplog: pytest.LogCaptureFixture
) -> None:
    bad = {50: "a poison", 80: "unreadable words"}
    await store.add([message(number, bad.get(number, f"turtle {number}")) for number in range(1, 91)])
    embedder = make()
    worker = Worker(store, embedder)
    task = asyncio.create_task(worker.run())
    assert await store.flush(LIMIT_S)
    await until(lambda: _is_checked(worker))
    assert await store.flush(LIMIT_S)
    assert not task.done()
    await cancel_all([task])
    embedder.close()
    assert await without_vector(search, FakeEmbedder()) == sorted(bad)  # visible, but not by meaning
    assert (worker.progress.embedded, (await store.channels.status(GUILD, CHANNEL)).pending) == (88, 0)
    found = await search.nearest(Query(GUILD, (CHANNEL,), words=("poison",), source=Source.ARCHIVE))
    assert [hit.message.id for hit in found.hits] == [50]
    assert "The model fails on message" in caplog.text
    assert "poison" not in caplog.text


async def test_a_question_near_a_text_that_was_given_up_is_answered(store: Store) -> None:
    embedder = PickyEmbedder()
    memory = Memory(store, embedder)
    task = asyncio.create_task(Worker(store, embedder).run())
    await memory.remember_many([message(1, "a poison"), message(2, "turtles are slow")])
    assert await store.flush(LIMIT_S)
    question = Question(GUILD, CHANNEL, 9, 7, "Bob", "what did Ann say about turtles?", store.buckets.clock())
    answer = await memory.ask(question)
    await cancel_all([task])
    assert [hit.message.id for hit in answer.hits][:1] == [2]


async def _is_checked(worker: Worker) -> bool:
    return not worker._unchecked  # the repair scan puts it back once


async def test_a_text_that_was_given_up_is_tried_again_when_it_was_edited(store: Store, search: Search) -> None:
    task = asyncio.create_task(Worker(store, PickyEmbedder()).run())
    await store.add([message(1, "poison"), message(2)])
    assert await store.flush(LIMIT_S)
    await store.edit(message(1, "an apple", revision=1.0))
    assert await store.flush(LIMIT_S)
    await cancel_all([task])
    assert await without_vector(search, FakeEmbedder()) == []


class HoldingEmbedder(FakeEmbedder):
    """Keeps some texts for as long as its gate is closed."""

    async def embed_messages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if any("slow" in text for text in texts):
            await self.gate.wait()
        self.embedded += len(texts)
        return np.stack([self.vector(text) for text in texts])


async def test_what_a_failed_commit_dropped_is_found_behind_what_is_still_in_hand(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder, commit_rows = HoldingEmbedder(), store.commit_rows
    embedder.gate.clear()
    failures = iter([RedisUnavailableError("away for a moment")])

    async def fail_once(bucket: int, rows: Sequence[tuple[str, str, str, bytes]]) -> int:
        for error in failures:
            raise error
        return await commit_rows(bucket, rows)

    monkeypatch.setattr(store, "commit_rows", fail_once)
    await store.add([message(number, "slow" if number <= 4 else "quick") for number in range(1, 9)])
    # Others' work is claimed after ten minutes; this worker's own must not wait for that.
    task = asyncio.create_task(Worker(store, embedder, batch=4, claim_idle_s=600).run())
    await until(lambda: _waiting(store, 4))
    embedder.gate.set()
    assert await store.flush(LIMIT_S)
    await cancel_all([task])


async def _waiting(store: Store, count: int) -> bool:
    return await store.pending() == count


async def test_buckets_that_nobody_used_yet_hold_up_nobody(
    redis: Redis, settings: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    buckets = Buckets(redis, settings.model_copy(update={"buckets": 4}), dims=32, identity="fake-hash-32", clock=clock)
    store, worker = Store(buckets), Worker(Store(buckets), fake_embedder)
    task = asyncio.create_task(worker.run())
    await store.add([message(1)])
    assert await store.flush(LIMIT_S)
    assert worker.progress.errors == 0
    await cancel_all([task])
    await store.close()


async def test_a_buckets_streams_are_all_read(redis: Redis, settings, clock, fake_embedder: FakeEmbedder) -> None:  # type: ignore[no-untyped-def]
    changed = settings.model_copy(update={"buckets": 4})
    store = await Store.open(redis, changed, dims=32, identity="fake-hash-32", clock=clock)
    await store.add([message(number, guild_id=number << 22) for number in range(1, 13)])
    task = asyncio.create_task(Worker(store, fake_embedder).run())
    assert await store.flush(LIMIT_S)
    assert fake_embedder.embedded == 12
    await cancel_all([task])
    await store.close()


async def test_a_message_that_expires_before_it_is_embedded_is_not_pending_for_ever(
    store: Store, redis: Redis, fake_embedder: FakeEmbedder
) -> None:
    await store.add([message(1), message(2)])
    await redis.delete(store.buckets.keys(0).message(GUILD, CHANNEL, 1))  # as Redis does when its time has come
    task = asyncio.create_task(Worker(store, fake_embedder).run())
    assert await store.flush(LIMIT_S)
    await cancel_all([task])
    assert (await store.channels.status(GUILD, CHANNEL)).pending == 0
    assert fake_embedder.embedded == 1
