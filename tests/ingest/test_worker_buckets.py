"""Many streams and one worker: all of them are read, and no more is taken at once than one batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

import pytest
from conftest import Clock, FakeEmbedder, message
from redis.asyncio import Redis
from waiting import LIMIT_S, until

from channelmem.embedding.embed import Group
from channelmem.ingest.worker import Worker
from channelmem.settings import Settings
from channelmem.store.keys import GROUP
from channelmem.store.store import Store
from channelmem.tasks import cancel_all

BUCKETS = 8
BATCH = 16
EACH = 30
CLAIM_IDLE_S = 0.01


class CountingEmbedder(FakeEmbedder):
    """Notes how many texts it is given at once."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    async def embed_as_ready(self, texts: Sequence[str]) -> AsyncGenerator[Group]:
        self.batches.append(len(texts))
        async for group in super().embed_as_ready(texts):
            yield group


@pytest.fixture
async def spread(redis: Redis, settings: Settings, clock: Clock) -> AsyncIterator[Store]:
    changed = settings.model_copy(update={"buckets": BUCKETS})
    store = await Store.open(redis, changed, dims=FakeEmbedder.dims, identity=FakeEmbedder.identity, clock=clock)
    yield store
    await store.close()


async def fill(store: Store, counts: Sequence[int]) -> int:
    """So many messages for each bucket."""
    await store.add(
        [message(n, guild_id=(1 + bucket) << 22) for bucket, count in enumerate(counts) for n in range(1, count + 1)]
    )
    return sum(counts)


async def embedded(store: Store) -> CountingEmbedder:
    embedder = CountingEmbedder()
    task = asyncio.create_task(Worker(store, embedder, batch=BATCH, claim_idle_s=CLAIM_IDLE_S).run())
    assert await store.flush(LIMIT_S)
    await cancel_all([task])
    return embedder


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param([EACH] * BUCKETS, id="all busy"),
        pytest.param([0, 100, 0, 0, 3, 0, 0, 1], id="one busy"),
        pytest.param([1] * BUCKETS, id="one message each"),
    ],
)
async def test_a_worker_takes_one_batch_from_all_streams_together(spread: Store, counts: list[int]) -> None:
    total = await fill(spread, counts)
    embedder = await embedded(spread)
    assert embedder.embedded == total
    assert max(embedder.batches) <= BATCH


async def test_a_stream_that_is_busy_alone_fills_the_batch(spread: Store) -> None:
    await fill(spread, [0, 0, 0, 100])
    assert BATCH in (await embedded(spread)).batches


async def test_of_what_a_dead_worker_held_one_batch_is_claimed_at_a_time(spread: Store, redis: Redis) -> None:
    total = await fill(spread, [EACH] * BUCKETS)
    streams = [spread.buckets.keys(bucket).one("ingest") for bucket in spread.buckets.all]
    for stream in streams:
        await redis.xreadgroup(GROUP, "dead", {stream: ">"}, count=EACH)

    async def idle() -> bool:
        (dead,) = await redis.xinfo_consumers(streams[-1], GROUP)
        return bool(dead["idle"] >= CLAIM_IDLE_S * 1000)

    await until(idle)
    embedder = await embedded(spread)
    assert embedder.embedded == total
    assert max(embedder.batches) <= BATCH
