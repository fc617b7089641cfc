"""A reindex that stops at any of its steps, or meets a text that the model fails on: what comes next ends well."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from conftest import CHANNEL, GUILD, Clock, FakeEmbedder, OwnServer, make_settings, message, open_store
from numpy.typing import NDArray
from redis.asyncio import Redis
from stops import killed_after
from typer.testing import CliRunner
from waiting import LIMIT_S

from channelmem.cli import app, upkeep
from channelmem.errors import ModelError, RedisUnavailableError
from channelmem.ingest import reindex as reindex_module
from channelmem.ingest.reindex import Done, reindex
from channelmem.ingest.worker import Worker
from channelmem.settings import Settings
from channelmem.store.index import shape
from channelmem.store.redis import command, connect
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.tasks import cancel_all
from channelmem.types import Source

MESSAGES = 12


class ModelB(FakeEmbedder):
    dims = 48
    identity = "fake-hash-48"


class ModelC(FakeEmbedder):
    dims = 24
    identity = "fake-hash-24"


async def open_for(redis: Redis, settings: Settings, embedder: FakeEmbedder, clock: Clock) -> Store:
    return await Store.open(redis, settings, dims=embedder.dims, identity=embedder.identity, clock=clock)


async def embed(store: Store, embedder: FakeEmbedder) -> None:
    task = asyncio.create_task(Worker(store, embedder).run())
    assert await store.flush(LIMIT_S)
    await cancel_all([task])


async def is_killed_after(commands: int, settings: Settings, embedder: FakeEmbedder) -> bool:
    """Whether the reindex was still at work by then."""
    assert settings.redis_url is not None
    redis = connect(settings.redis_url.get_secret_value(), settings)
    return await killed_after(commands, redis, reindex(redis, settings, embedder))


async def go_on_talking(store: Store, embedder: FakeEmbedder) -> None:
    """The bot with the old model, as long as it may."""
    await store.add([message(20, "a new one")])
    await store.edit(message(3, "changed", revision=5.0))
    await store.delete(GUILD, CHANNEL, [4])
    model = await store.buckets.redis.hget(store.buckets.keys(0).one("meta"), "model")
    if model == embedder.identity.encode():
        await embed(store, embedder)


async def left_over(store: Store, redis: Redis) -> list[str]:
    """What is not as a bucket that never knew another model or shape."""
    keys, settings = store.buckets.keys(0), store.buckets.settings
    version = (await store.buckets.ready(0)).version
    meta = await redis.hgetall(keys.one("meta"))
    found = [name.decode() for name in meta if name in {b"old", b"next_model", b"next_shape"}]
    if meta[b"shape"] != shape(settings).encode():
        found.append(f"shape {meta[b'shape']!r}")
    names = [name.decode() for name in await command(redis, "FT._LIST")]
    found += [name for name in names if name.startswith(settings.key_prefix) and name != keys.index(version)]
    info = await command(redis, "FT.INFO", keys.one("idx"))
    facts = dict(zip(info[::2], info[1::2], strict=False))
    if facts[b"index_name"] != keys.index(version).encode():
        found.append(f"serves {facts[b'index_name']!r}")
    vector = next(one for one in facts[b"attributes"] if b"algorithm" in one)
    if vector[vector.index(b"algorithm") + 1].decode().lower() != settings.index_algorithm:
        found.append(f"is {vector!r}")
    async for key in redis.scan_iter(f"{keys.one('msg')}*"):
        vectors = [str(name, "ascii") for name in await redis.hkeys(key) if bytes(name).startswith(b"vec")]  # type: ignore[arg-type]
        if vectors != [f"vec{version}"]:
            found.append(f"{key!r} has {vectors}")
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """A reindex, or (bot) a start of the bot."""

    embedder: type[FakeEmbedder]
    algorithm: str = "hnsw"
    bot: bool = False


HISTORIES = {
    "the same again": [Step(ModelB), Step(ModelB)],
    "another model instead": [Step(ModelB), Step(ModelC)],
    "back to the old model": [Step(ModelB), Step(FakeEmbedder)],
    "back to the old model and on to a third": [Step(ModelB), Step(FakeEmbedder), Step(ModelC)],
    "the same in another shape": [Step(ModelB), Step(ModelB, "flat")],
    "a shape again": [Step(FakeEmbedder, "flat"), Step(FakeEmbedder, "flat")],
    "the old shape instead": [Step(FakeEmbedder, "flat"), Step(FakeEmbedder)],
    "the bot of the old shape meanwhile": [
        Step(FakeEmbedder, "flat"),
        Step(FakeEmbedder, bot=True),
        Step(FakeEmbedder),
    ],
    "the bot of the new shape meanwhile": [
        Step(FakeEmbedder, "flat"),
        Step(FakeEmbedder, "flat", bot=True),
        Step(FakeEmbedder, "flat"),
    ],
    "a model instead of a shape": [Step(FakeEmbedder, "flat"), Step(ModelB)],
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("steps", HISTORIES.values(), ids=HISTORIES)
async def test_a_reindex_killed_before_any_command_leaves_nothing_behind_after_the_next(
    steps: list[Step], redis: Redis, settings: Settings, clock: Clock
) -> None:
    wrong: dict[int, list[str]] = {}
    working, commands = True, 0
    while working:
        own = settings.model_copy(update={"key_prefix": f"{settings.key_prefix}x{commands}"})
        store = await open_store(redis, own, clock)
        await store.add([message(number, f"word{number}") for number in range(1, MESSAGES + 1)])
        await embed(store, FakeEmbedder())
        changed = own.model_copy(update={"index_algorithm": steps[0].algorithm})
        working = await is_killed_after(commands, changed, steps[0].embedder())
        await redis.delete(store.buckets.keys(0).one("rebuilding"))  # its lock has expired by then
        await go_on_talking(store, FakeEmbedder())
        await store.close()
        for step in steps[1:] if working else ():
            changed, embedder = own.model_copy(update={"index_algorithm": step.algorithm}), step.embedder()
            if step.bot:
                await (await open_for(redis, changed, embedder, clock)).close()
            else:
                await reindex(redis, changed, embedder)
        if working:
            store = await open_for(redis, changed, embedder, clock)
            await embed(store, embedder)
            wrong[commands] = await left_over(store, redis)
            for source in (Source.BUFFER, Source.ARCHIVE):
                query = Query(GUILD, (CHANNEL,), vector=embedder.vector("word7"), source=source)
                hits = (await Search(store.buckets).nearest(query)).hits
                assert (hits[0].message.id, len(hits)) == (7, 10 if source is Source.ARCHIVE else MESSAGES)
            await store.close()
        commands += 1
    assert commands > 8, "it was killed in the middle of its work"
    assert {at: what for at, what in wrong.items() if what} == {}


class PickyModel(ModelB):
    """Fails on some texts."""

    async def embed_messages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if any("poison" in text for text in texts):
            raise RuntimeError("what the model says of a poison")
        return await super().embed_messages(texts)


async def test_a_text_that_the_new_model_fails_on_is_given_up_alone_and_counted(
    store: Store, redis: Redis, settings: Settings, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    bad = {3: "a poison", 70: "more poison", 99: "poison again"}
    await store.add([message(number, bad.get(number, f"word{number}")) for number in range(1, 151)])
    await embed(store, FakeEmbedder())
    steps: list[tuple[int, int]] = []

    def show(step: str, done: int, total: int) -> None:
        if step == "embed":
            steps.append((done, total))

    embedder = PickyModel()
    assert await reindex(redis, settings, embedder, progress=show) == Done(147, 3)
    assert steps[-1] == (150, 150)
    assert "The model fails on message" in caplog.text
    assert "poison" not in caplog.text
    new = await open_for(redis, settings, embedder, clock)
    await embed(new, embedder)
    search = Search(new.buckets)
    found = await search.nearest(Query(GUILD, (CHANNEL,), vector=embedder.vector("word7"), source=Source.ARCHIVE))
    assert found.hits[0].message.id == 7
    found = await search.nearest(Query(GUILD, (CHANNEL,), words=("poison",), source=Source.ARCHIVE))
    assert {hit.message.id for hit in found.hits} == set(bad)
    await new.close()


async def test_a_model_that_fails_on_too_many_texts_ends_the_reindex_and_the_old_one_serves(
    store: Store, search: Search, redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reindex_module, "MOST_FAILED", 5)
    await store.add([message(number, "poison" if number <= 6 else "word7") for number in range(1, 8)])
    await embed(store, FakeEmbedder())
    with pytest.raises(ModelError, match="more than 5 messages"):
        await reindex(redis, settings, PickyModel())
    query = Query(GUILD, (CHANNEL,), vector=FakeEmbedder().vector("word7"), source=Source.ARCHIVE)
    assert (await search.nearest(query)).hits[0].message.id == 7


class BrokenModel(ModelB):
    async def embed_messages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise ModelError("It fails on everything.")


async def test_a_model_that_fails_on_everything_ends_the_reindex_and_the_old_one_serves(
    store: Store, worker: Worker, search: Search, redis: Redis, settings: Settings, clock: Clock
) -> None:
    await store.add([message(1), message(2, "word2")])
    assert await store.flush(LIMIT_S)
    with pytest.raises(ModelError, match="everything"):
        await reindex(redis, settings, BrokenModel())
    query = Query(GUILD, (CHANNEL,), vector=FakeEmbedder().vector("word2"), source=Source.ARCHIVE)
    assert (await search.nearest(query)).hits[0].message.id == 2


def test_the_command_says_how_many_texts_the_model_failed_on(
    settings: Settings, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill() -> None:
        assert settings.redis_url is not None
        redis = connect(settings.redis_url.get_secret_value(), settings)
        store = await open_store(redis, settings, clock)
        await store.add([message(1, "a poison"), message(2, "word2")])
        await store.close()
        await redis.aclose()

    asyncio.run(fill())
    monkeypatch.setattr(upkeep, "load_settings", lambda: settings)
    monkeypatch.setattr(upkeep, "open_embedder", lambda _settings, _progress: PickyModel())
    said = CliRunner().invoke(app, ["reindex"])
    assert said.exit_code == 0, said.output
    assert "Re-embedded 1 messages." in said.output
    assert "The model failed on 1 more" in said.output


async def test_a_reindex_without_redis_says_so(own_server: OwnServer, tmp_path: Path, clock: Clock) -> None:
    settings = make_settings(own_server.url, tmp_path, redis_timeout_s=1)
    redis = connect(own_server.url, settings)
    store = await open_store(redis, settings, clock)
    await store.add([message(1)])
    await store.close()
    own_server.kill()
    with pytest.raises(RedisUnavailableError):
        await reindex(redis, settings, ModelB())
    await redis.aclose()
