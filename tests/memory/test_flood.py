"""FLUSHALL and FT.DROPINDEX at the worst moments: whoever meets the loss first makes it good, and nobody stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import CHANNEL, GUILD, Clock, FakeEmbedder, OwnServer, make_settings, message, open_store
from redis.asyncio import Redis
from waiting import LIMIT_S, until, until_true

from channelmem.errors import IndexMismatchError
from channelmem.ingest.reindex import reindex
from channelmem.ingest.worker import Worker
from channelmem.settings import Settings
from channelmem.store.keys import GROUP
from channelmem.store.redis import command, connect
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.tasks import cancel_all
from channelmem.types import Outcome, Source

ARCHIVE = Query(GUILD, (CHANNEL,), source=Source.ARCHIVE)


class OtherEmbedder(FakeEmbedder):
    dims = 48
    identity = "fake-hash-48"


@pytest.fixture
def alone(own_server: OwnServer, tmp_path: Path) -> Settings:
    return make_settings(own_server.url, tmp_path, redis_timeout_s=LIMIT_S)


@pytest.fixture
async def client(own_server: OwnServer, alone: Settings) -> AsyncIterator[Redis]:
    redis = connect(own_server.url, alone)
    yield redis
    await redis.aclose()


@asynccontextmanager
async def working(store: Store, embedder: FakeEmbedder) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(Worker(store, embedder, claim_idle_s=0.2).run())
    yield task
    await cancel_all([task])


async def taken(store: Store) -> int:
    """How many entries the worker holds."""
    waiting = await store.buckets.redis.xpending(store.buckets.keys(0).one("ingest"), GROUP)
    return int(waiting["pending"])


async def _ended_or_exists(task: asyncio.Task[None], client: Redis, key: str) -> bool:
    return task.done() or bool(await client.exists(key))


async def test_a_worker_that_commits_into_a_flushed_redis_goes_on(client: Redis, alone: Settings, clock: Clock) -> None:
    store, embedder = await open_store(client, alone, clock), FakeEmbedder()
    embedder.gate.clear()
    async with working(store, embedder) as task:
        await store.add([message(number) for number in range(1, 31)])
        await until(lambda: taken(store))
        await client.flushall()
        embedder.gate.set()
        # Nothing but the worker can make it again.
        await until(lambda: _ended_or_exists(task, client, store.buckets.keys(0).one("meta")))
        assert not task.done(), task.exception()
        assert await store.add([message(40, "after the flood")]) == [Outcome.STORED]
        assert await store.flush(LIMIT_S)
        query = replace(ARCHIVE, vector=embedder.vector("flood"))
        assert [hit.message.id for hit in (await Search(store.buckets).nearest(query)).hits] == [40]


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(ARCHIVE, id="archive"),
        pytest.param(Query(GUILD), id="guild"),
        pytest.param(Query(GUILD, (CHANNEL,)), id="buffer"),
    ],
)
async def test_the_first_question_to_a_flushed_redis_finds_nothing_and_makes_it_whole(
    client: Redis, alone: Settings, clock: Clock, query: Query
) -> None:
    store, vector = await open_store(client, alone, clock), FakeEmbedder().vector("turtles")
    await store.add([message(1)])
    await client.flushall()
    assert (await Search(store.buckets).nearest(replace(query, vector=vector))).hits == ()
    assert await client.hget(store.buckets.keys(0).one("meta"), "model") == b"fake-hash-32"


async def test_processes_of_a_model_that_was_changed_before_survive_a_flood_together(
    client: Redis, alone: Settings, clock: Clock
) -> None:
    before = await open_store(client, alone, clock)
    await before.add([message(1)])
    embedder = OtherEmbedder()
    await reindex(client, alone, embedder)
    first, second = [
        await Store.open(client, alone, dims=48, identity=OtherEmbedder.identity, clock=clock) for _ in range(2)
    ]
    embedder.gate.clear()
    async with working(second, embedder) as task:
        await first.add([message(2)])
        await until(lambda: taken(second))
        await client.flushall()
        await first.add([message(3, "after the flood")])  # makes all again, with the version that a new index has
        embedder.gate.set()
        assert await first.flush(LIMIT_S)
        assert not task.done(), task.exception()
        for store in (first, second):
            query = replace(ARCHIVE, vector=embedder.vector("flood"))
            (hit,) = (await Search(store.buckets).nearest(query)).hits
            assert hit.similarity is not None


async def test_after_a_flood_the_process_of_another_model_is_told_so_by_its_next_question(
    client: Redis, alone: Settings, clock: Clock
) -> None:
    late = await open_store(client, alone, clock)
    await client.flushall()
    other = await Store.open(client, alone, dims=48, identity=OtherEmbedder.identity, clock=clock)
    await client.hset(other.buckets.keys(0).one("meta"), "version", 2)
    with pytest.raises(IndexMismatchError, match="rebuilt"):
        await Search(late.buckets).nearest(replace(ARCHIVE, vector=FakeEmbedder().vector("turtles")))


async def test_a_worker_that_starts_without_an_index_makes_it_again(
    client: Redis, alone: Settings, clock: Clock
) -> None:
    store, embedder = await open_store(client, alone, clock), FakeEmbedder()
    await command(client, "FT.DROPINDEX", store.buckets.keys(0).index(1))
    async with working(store, embedder):
        await until_true(lambda: store.buckets.healed > 0)
        await store.add([message(1)])
        assert await store.flush(LIMIT_S)
        assert await store.buckets.indexed(0)
