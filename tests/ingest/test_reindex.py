"""Changing the model: a clear refusal, the old vectors serving meanwhile, a switch, and going on after a stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock, patch

import numpy as np
import pytest
from conftest import CHANNEL, GUILD, Clock, FakeEmbedder, message, open_store
from numpy.typing import NDArray
from redis.asyncio import Redis
from stored import commit
from waiting import LIMIT_S, until, until_true

from channelmem.errors import IndexMismatchError
from channelmem.ingest.reindex import Done, Reindex, reindex, turn
from channelmem.ingest.worker import Worker
from channelmem.settings import Settings
from channelmem.store import index as schema
from channelmem.store.buckets import Buckets
from channelmem.store.redis import command
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.tasks import cancel_all
from channelmem.types import Source


class OtherEmbedder(FakeEmbedder):
    dims = 48
    identity = "fake-hash-48"


class DyingEmbedder(OtherEmbedder):
    """Its process ends after two batches."""

    async def embed_messages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.embedded >= 128:
            raise KeyboardInterrupt
        return await super().embed_messages(texts)


async def open_other(redis: Redis, settings: Settings, clock: Clock) -> Store:
    return await Store.open(redis, settings, dims=48, identity="fake-hash-48", clock=clock)


async def fill(store: Store, count: int) -> None:
    await store.add([message(number, f"word{number} turtles") for number in range(1, count + 1)])
    assert await store.flush(LIMIT_S)


async def test_another_model_is_refused_with_the_command_that_helps(
    store: Store, redis: Redis, settings: Settings, clock: Clock
) -> None:
    with pytest.raises(IndexMismatchError, match="channelmem reindex"):
        await open_other(redis, settings, clock)


async def test_another_bucket_count_is_refused_with_the_setting_that_helps(
    store: Store, redis: Redis, settings: Settings, clock: Clock
) -> None:
    with pytest.raises(IndexMismatchError, match="CHANNELMEM_BUCKETS=1"):
        await open_store(redis, settings.model_copy(update={"buckets": 4}), clock)


async def test_after_a_reindex_the_new_model_finds_what_was_stored(
    store: Store, worker: Worker, redis: Redis, settings: Settings, clock: Clock
) -> None:
    await fill(store, 30)
    steps: list[tuple[str, int, int]] = []
    other = OtherEmbedder()
    done = await reindex(redis, settings, other, progress=lambda *step: steps.append(step))
    assert done == Done(30)
    assert list(dict.fromkeys(step for step, _, _ in steps)) == ["build", "embed", "clean"]
    assert steps[-1] == ("clean", 1, 1)
    new = await open_other(redis, settings, clock)
    for source in Source.BUFFER, Source.ARCHIVE:
        vector = other.vector("word7 turtles")
        found = await Search(new.buckets).nearest(Query(GUILD, (CHANNEL,), vector=vector, source=source))
        assert found.hits[0].message.id == 7
    await new.close()


async def test_the_old_field_and_index_are_gone_afterwards(
    store: Store, worker: Worker, redis: Redis, settings: Settings, clock: Clock
) -> None:
    await fill(store, 10)
    await reindex(redis, settings, OtherEmbedder())
    fields = await redis.hkeys(store.buckets.keys(0).message(GUILD, CHANNEL, 3))
    assert b"vec2" in fields
    assert b"vec1" not in fields
    names = await command(redis, "FT._LIST")
    assert [name for name in names if name.startswith(settings.key_prefix.encode())] == [
        store.buckets.keys(0).index(2).encode()
    ]


async def test_an_interrupted_reindex_serves_the_old_model_and_goes_on_where_it_stopped(
    store: Store,
    worker: Worker,
    search: Search,
    fake_embedder: FakeEmbedder,
    redis: Redis,
    settings: Settings,
    clock: Clock,
) -> None:
    await fill(store, 200)
    with pytest.raises(KeyboardInterrupt):
        await reindex(redis, settings, DyingEmbedder())
    vector = fake_embedder.vector("word190 turtles")
    found = await search.nearest(Query(GUILD, (CHANNEL,), vector=vector, source=Source.ARCHIVE))
    assert found.hits[0].message.id == 190
    other = OtherEmbedder()
    assert await reindex(redis, settings, other) == Done(200 - 128)
    assert other.embedded == 200 - 128


async def test_a_process_with_the_old_model_is_told_so_after_the_switch(
    store: Store,
    worker: Worker,
    search: Search,
    fake_embedder: FakeEmbedder,
    redis: Redis,
    settings: Settings,
    clock: Clock,
) -> None:
    await fill(store, 3)
    await reindex(redis, settings, OtherEmbedder())
    with pytest.raises(IndexMismatchError, match="rebuilt"):
        await search.nearest(Query(GUILD, (CHANNEL,), vector=fake_embedder.vector("turtles")))
    with pytest.raises(IndexMismatchError, match="rebuilt"):
        await commit(store, [(message(1), fake_embedder.vector("x"))])


async def test_messages_stored_during_the_reindex_are_embedded_by_the_new_model(
    store: Store, redis: Redis, settings: Settings, clock: Clock
) -> None:
    await store.add([message(1)])  # no worker: it never had an old vector
    await reindex(redis, settings, OtherEmbedder())
    new = await open_other(redis, settings, clock)
    await new.add([message(2)])
    running = Worker(new, OtherEmbedder())
    task = asyncio.create_task(running.run())
    assert await new.flush(LIMIT_S)
    running.stop()
    await task
    found = await Search(new.buckets).nearest(Query(GUILD, (CHANNEL,), vector=OtherEmbedder().vector("turtles")))
    assert found.pending == ()
    assert len(found.hits) == 2
    await new.close()


async def test_a_second_reindex_to_the_same_model_does_nothing(
    store: Store, worker: Worker, redis: Redis, settings: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    await fill(store, 5)
    assert await reindex(redis, settings, fake_embedder) == Done()


async def test_the_first_question_to_a_bucket_knows_that_it_was_rebuilt(
    redis: Redis, settings: Settings, clock: Clock
) -> None:
    settings = settings.model_copy(update={"buckets": 4})
    before = await open_store(redis, settings, clock)
    guild = next(guild for guild in (number << 22 for number in range(1, 100)) if before.buckets.bucket(guild) == 3)
    await before.add([message(1, guild_id=guild)])
    await before.close()
    other = OtherEmbedder()
    assert await reindex(redis, settings, other) == Done(1)
    for source in (Source.BUFFER, Source.ARCHIVE):
        buckets = Buckets(redis, settings, dims=other.dims, identity=other.identity, clock=clock)
        query = Query(guild, (CHANNEL,), vector=other.vector("turtles"), source=source)
        (hit,) = (await Search(buckets).nearest(query)).hits
        assert hit.similarity is not None


# --- another shape of the index ---


async def indexes(redis: Redis, settings: Settings) -> list[str]:
    names = [name.decode() for name in await command(redis, "FT._LIST")]
    return [name for name in names if name.startswith(settings.key_prefix)]


async def algorithm(redis: Redis, store: Store) -> object:
    info = await command(redis, "FT.INFO", store.buckets.keys(0).one("idx"))
    fields = dict(zip(info[::2], info[1::2], strict=False))[b"attributes"]
    return next(field[field.index(b"algorithm") + 1].decode() for field in fields if b"algorithm" in field)


async def test_an_index_of_another_kind_is_built_anew_from_the_same_vectors(
    store: Store, worker: Worker, redis: Redis, settings: Settings, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(store, 130)
    assert await algorithm(redis, store) == "HNSW"
    flat = settings.model_copy(update={"index_algorithm": "flat"})
    reopened = await open_store(redis, flat, clock)
    assert "channelmem reindex" in caplog.text
    steps: list[str] = []
    embedder = FakeEmbedder()
    assert await reindex(redis, flat, embedder, progress=lambda step, *_: steps.append(step)) == Done()
    assert embedder.embedded == 0
    assert set(steps) == {"build"}
    assert await algorithm(redis, store) == "FLAT"
    query = Query(GUILD, (CHANNEL,), vector=embedder.vector("word77 turtles"), limit=1, source=Source.ARCHIVE)
    found = await Search(reopened.buckets).nearest(query)
    assert found.hits[0].message.content == "word77 turtles"
    assert await indexes(redis, settings) == [store.buckets.keys(0).index(1)]


async def test_an_index_that_is_as_the_settings_say_is_left_alone(
    store: Store, redis: Redis, settings: Settings, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await open_store(redis, settings, clock)
    steps: list[str] = []
    await reindex(redis, settings, FakeEmbedder(), progress=lambda step, *_: steps.append(step))
    assert not steps
    assert not caplog.text


async def test_a_rebuild_that_was_interrupted_ends_well(
    store: Store, worker: Worker, redis: Redis, settings: Settings, clock: Clock
) -> None:
    await fill(store, 20)
    flat = settings.model_copy(update={"index_algorithm": "flat"})

    def stop(_step: str, _done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await reindex(redis, flat, FakeEmbedder(), progress=stop)
    assert len(
        (await Search(store.buckets).nearest(Query(GUILD, (CHANNEL,), words=("turtles",), source=Source.ARCHIVE))).hits
    )
    await reindex(redis, flat, FakeEmbedder())
    assert await algorithm(redis, store) == "FLAT"


# --- an index that fits the size of its bucket ---


@asynccontextmanager
async def embedding(store: Store) -> AsyncIterator[Worker]:
    """A running worker that looks at the size of buckets only when it is told to."""
    worker = Worker(store, FakeEmbedder())
    with patch.object(Worker, "_fit_indexes", AsyncMock()):
        task = asyncio.create_task(worker.run())
        yield worker
        await cancel_all([task])


@pytest.fixture
def by_size(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Small enough to be outgrown: a graph from 100 messages on."""
    monkeypatch.setattr(schema, "GRAPH_FROM", 100)
    return settings.model_copy(update={"index_algorithm": "auto"})


async def test_a_bucket_that_grows_gets_a_graph_and_loses_it_again(
    redis: Redis, by_size: Settings, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    store = await open_store(redis, by_size, clock)
    async with embedding(store) as worker:
        await fill(store, 99)
        await worker._fit(0)
        assert await algorithm(redis, store) == "FLAT"
        await fill(store, 120)
        await worker._fit(0)
        assert await algorithm(redis, store) == "HNSW"
        await open_store(redis, by_size, clock)
        assert "channelmem reindex" not in caplog.text  # both kinds are as the settings say
        for kept, expected in ((60, "HNSW"), (40, "FLAT")):  # it does not change at the limit again and again
            await store.delete(GUILD, CHANNEL, range(kept + 1, 121))
            await store.swept()
            await worker._fit(0)
            assert await algorithm(redis, store) == expected
        query = Query(GUILD, (CHANNEL,), vector=FakeEmbedder().vector("word7 turtles"), limit=1, source=Source.ARCHIVE)
        assert (await Search(store.buckets).nearest(query)).hits[0].message.content == "word7 turtles"


async def test_a_worker_looks_at_the_size_of_its_buckets_by_itself(
    redis: Redis, by_size: Settings, clock: Clock
) -> None:
    store = await open_store(redis, by_size, clock)
    async with embedding(store):
        await fill(store, 120)
    task = asyncio.create_task(Worker(store, FakeEmbedder()).run())
    await until(lambda: _has_graph(redis, store))
    await cancel_all([task])
    assert await algorithm(redis, store) == "HNSW"


async def _has_graph(redis: Redis, store: Store) -> bool:
    meta: Any = await redis.hgetall(store.buckets.keys(0).one("meta"))
    return bool(meta.get(b"shape", b"").startswith(b"hnsw"))


async def test_a_lost_index_is_made_again_as_it_was(redis: Redis, by_size: Settings, clock: Clock) -> None:
    store = await open_store(redis, by_size, clock)
    async with embedding(store) as worker:
        await fill(store, 120)
        await worker._fit(0)
    await command(redis, "FT.DROPINDEX", store.buckets.keys(0).index(1))
    await Search(store.buckets).nearest(Query(GUILD, (CHANNEL,), words=("turtles",), source=Source.ARCHIVE))
    assert await algorithm(redis, store) == "HNSW"


async def test_one_process_rebuilds_an_index_and_none_while_a_reindex_runs(
    redis: Redis, by_size: Settings, clock: Clock
) -> None:
    store = await open_store(redis, by_size, clock)
    keys = store.buckets.keys(0)
    async with embedding(store) as worker:
        await fill(store, 120)
        async with turn(redis, keys, wait=False) as ours:
            assert ours
            await worker._fit(0)
            assert await algorithm(redis, store) == "FLAT"
        await redis.hset(keys.one("meta"), "next_model", "another 32")
        await worker._fit(0)
        assert await algorithm(redis, store) == "FLAT"
        await redis.hdel(keys.one("meta"), "next_model")
        await worker._fit(0)
        assert await algorithm(redis, store) == "HNSW"
        assert not await redis.exists(keys.one("rebuilding"))


async def test_a_reindex_waits_for_whoever_rebuilds_the_index(
    store: Store, worker: Worker, redis: Redis, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(store, 20)
    keys = store.buckets.keys(0)
    async with turn(redis, keys, wait=False):
        waiting = asyncio.create_task(reindex(redis, settings, OtherEmbedder()))
        await until_true(lambda: "waiting for it" in caplog.text)
        assert await redis.hget(keys.one("meta"), "next_model") is None
    assert await waiting == Done(20)


async def test_a_worker_of_another_model_leaves_the_index_alone(redis: Redis, by_size: Settings, clock: Clock) -> None:
    store = await open_store(redis, by_size, clock)
    async with embedding(store) as worker:
        await fill(store, 90)
        await reindex(redis, by_size, OtherEmbedder())
        await store.add([message(number) for number in range(200, 240)])
        await worker._fit(0)  # it still has the old model, and does not know of the new one
        assert await algorithm(redis, store) == "FLAT"
        new = await open_other(redis, by_size, clock)
        await Worker(new, OtherEmbedder())._fit(0)
        assert await algorithm(redis, store) == "HNSW"
        query = Query(GUILD, (CHANNEL,), vector=OtherEmbedder().vector("word7 turtles"), limit=1, source=Source.ARCHIVE)
        assert (await Search(new.buckets).nearest(query)).hits[0].message.content == "word7 turtles"


async def test_a_rebuild_that_was_interrupted_goes_on_where_it_stopped(
    redis: Redis, by_size: Settings, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_store(redis, by_size, clock)
    keys, made = store.buckets.keys(0), list[str]()
    make = Reindex._make

    async def noting(self: Reindex, version: int, name: str) -> None:
        made.append(name)
        await make(self, version, name)
        if len(made) == 2:
            raise asyncio.CancelledError

    monkeypatch.setattr(Reindex, "_make", noting)
    async with embedding(store) as worker:
        await fill(store, 120)
        with pytest.raises(asyncio.CancelledError):
            await worker._fit(0)
        assert not await redis.exists(keys.one("rebuilding"))
        await worker._fit(0)
    assert made == [f"{keys.index(1)}:spare", keys.index(1), keys.index(1)]
    assert await algorithm(redis, store) == "HNSW"
    assert await indexes(redis, by_size) == [keys.index(1)]


async def test_an_index_of_an_older_layout_serves_and_is_renewed_by_a_reindex(
    store: Store, worker: Worker, redis: Redis, settings: Settings, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    keys = store.buckets.keys(0)
    await command(redis, "FT.DROPINDEX", keys.index(1))
    await redis.hdel(keys.one("meta"), "layout")
    today = schema.create_command(schema.make_schema(settings, keys, dims=store.buckets.dims, version=1))
    older = [part for part in today if part != "NOFIELDS"]
    at = older.index("ts") + older[older.index("ts") :].index("NUMERIC")
    await command(redis, *older[: at + 1], "SORTABLE", *older[at + 1 :])
    await command(redis, "FT.ALIASUPDATE", keys.one("idx"), keys.index(1))
    await fill(store, 20)
    await open_store(redis, settings, clock)
    assert not caplog.text
    wide = Query(GUILD, (), limit=3, source=Source.ARCHIVE)
    for _ in range(2):
        assert [one.id for one in await Search(store.buckets).newest(wide)] == [20, 19, 18]
        assert (await Search(store.buckets).nearest(replace(wide, words=("turtles",)))).hits
        await reindex(redis, settings, FakeEmbedder())
    assert await redis.hget(keys.one("meta"), "layout") == schema.LAYOUT.encode()
    attributes = await command(redis, "FT.INFO", keys.one("idx"))
    assert "SORTABLE" not in repr(attributes)
