"""An update of summaries that is killed before any of its commands: the next one gives the same pyramid."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder, open_store
from redis.asyncio import Redis
from stops import killed_after

from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.store.keys import room
from channelmem.store.redis import connect
from channelmem.summaries import update
from channelmem.summaries.pyramid import Summary
from channelmem.types import Message

PEOPLE = ("Ann", "Bob", "Carol")
MESSAGES = [
    Message(GUILD, CHANNEL, n, 5 + n % 3, PEOPLE[n % 3], f"crate {n} goes to dock {n * 7}", NOW - n * 900)
    for n in range(1, 20)
]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"embed_in_process": False})


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several commits."""
    monkeypatch.setattr(update, "BATCH_MESSAGES", 6)


async def is_killed_after(commands: int, settings: Settings, clock: Clock, kind: str) -> bool:
    """Another process, with a client of its own."""
    assert settings.redis_url is not None
    redis, embedder = connect(settings.redis_url.get_secret_value(), settings), FakeEmbedder()
    store = await open_store(redis, settings, clock)
    await store.swept()
    return await killed_after(commands, redis, getattr(Memory(store, embedder).summaries, kind)(GUILD, CHANNEL))


async def pyramid(memory: Memory) -> list[Summary]:
    return [replace(one, created=0.0) for one in await memory.summaries.of(GUILD, CHANNEL)]


@pytest.mark.parametrize("kind", ["update", "rebuild"])
async def test_an_update_killed_before_any_command_is_finished_by_the_next(
    kind: str, settings: Settings, redis: Redis, fake_embedder: FakeEmbedder, clock: Clock
) -> None:
    place = room(GUILD, CHANNEL)
    async with Memory.open(settings, clock=clock, embedder=fake_embedder) as memory:
        await memory.remember_many(MESSAGES)
        await memory.summaries.update(GUILD, CHANNEL)
        wanted, commands, at_work = await pyramid(memory), 0, True
        assert len(wanted) > 12
        while at_work:
            keys = memory._store.buckets.keys(0)
            if kind == "update":
                await redis.unlink(keys.of("summaries", place), keys.of("into", place))
                await redis.zadd(keys.one("due"), {place: 1})
            at_work = await is_killed_after(commands, settings, clock, kind)
            for summary in await pyramid(memory):  # whatever is there is part of the whole
                assert kind == "rebuild" or summary in wanted
            await redis.unlink(keys.of("lock", place))  # as it expires
            clock.now += 301
            await memory.summaries.worker.finish()
            assert await pyramid(memory) == wanted, f"killed before command {commands + 1}"
            commands += 1
        assert commands > 10
