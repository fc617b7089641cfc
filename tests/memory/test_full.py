"""A Redis that is full (maxmemory, noeviction): it can be asked, so what is removed or hidden must go there too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import CHANNEL, GUILD, Clock, FakeEmbedder, OwnServer, count_commands, make_settings, message, open_store
from redis.asyncio import Redis
from waiting import LIMIT_S, until, until_true

from channelmem.errors import RedisUnavailableError
from channelmem.ingest import worker as worker_module
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.store import outbox
from channelmem.store.channel_state import Bookmarks
from channelmem.store.redis import connect
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.tasks import cancel_all
from channelmem.types import Gap, Outcome, Question, Source

ARCHIVE = Query(GUILD, (CHANNEL,), limit=100, source=Source.ARCHIVE)
MESSAGES = 20


@pytest.fixture
def alone(own_server: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(outbox, "LAST_RETRY_S", 0.1)
    return make_settings(own_server.url, tmp_path, redis_timeout_s=LIMIT_S)


@pytest.fixture
async def client(own_server: OwnServer, alone: Settings) -> AsyncIterator[Redis]:
    redis = connect(own_server.url, alone)
    yield redis
    await redis.aclose()


@pytest.fixture
async def full(client: Redis, alone: Settings, clock: Clock) -> AsyncIterator[Store]:
    store = await open_store(client, alone, clock)
    await store.add([message(number) for number in range(1, MESSAGES + 1)])
    await client.config_set("maxmemory", 1)
    yield store
    await store.close(0.5)


async def ids(store: Store) -> list[int]:
    return sorted(one.id for one in await Search(store.buckets).newest(ARCHIVE))


REMOVALS: dict[str, tuple[Callable[[Store], Awaitable[object]], int]] = {
    "a delete": (lambda store: store.delete(GUILD, CHANNEL, [5]), MESSAGES - 1),
    "a bulk delete": (lambda store: store.delete(GUILD, CHANNEL, range(1, 16)), MESSAGES - 15),
    "an edit that leaves no text": (lambda store: store.edit(message(5, " ", revision=1.0)), MESSAGES - 1),
    "a clear": (lambda store: store.clear(GUILD, CHANNEL), 0),
    "a channel delete": (lambda store: store.delete_channel(GUILD, CHANNEL), 0),
    "a guild leave": (lambda store: store.delete_guild(GUILD), 0),
    "an opt-out": (lambda store: store.consent.opt_out(5), 0),
    "forget me": (lambda store: store.consent.forget(5), 0),
}


@pytest.mark.parametrize(("remove", "left"), REMOVALS.values(), ids=REMOVALS)
async def test_what_is_removed_from_a_full_redis_is_gone_at_once(
    full: Store, remove: Callable[[Store], Awaitable[object]], left: int
) -> None:
    await remove(full)
    assert len(await ids(full)) == left
    await asyncio.wait_for(full.swept(), LIMIT_S)
    assert len(await ids(full)) == left


async def test_a_removal_does_not_wait_behind_messages_that_a_full_redis_refuses(full: Store, client: Redis) -> None:
    assert await full.add([message(30), message(31)]) == [Outcome.QUEUED] * 2
    await full.delete(GUILD, CHANNEL, [5, 30])
    await full.edit(message(6, " ", revision=1.0))

    async def removed() -> bool:
        return not {5, 6} & set(await ids(full))

    await until(removed)
    assert full.queued == 4, "they keep their places"
    assert set(await ids(full)) == set(range(1, MESSAGES + 1)) - {5, 6}
    await client.config_set("maxmemory", 0)
    await until_true(lambda: full.queued == 0)
    assert set(await ids(full)) == {*range(1, MESSAGES + 1), 31} - {5, 6}


async def test_a_channel_of_a_full_redis_can_be_paused_and_lose_its_archive(full: Store, clock: Clock) -> None:
    await full.channels.pause(GUILD, CHANNEL)
    assert (await full.channels.status(GUILD, CHANNEL)).paused
    clock.now += full.buckets.settings.buffer_s
    default = full.buckets.policy
    off = replace(default, limits=default.limits._replace(archive=False))
    assert await full.channels.fit(GUILD, CHANNEL, off) == MESSAGES
    assert await ids(full) == []


async def test_a_message_that_waited_while_an_archive_was_off_removes_nothing_of_it(
    full: Store, client: Redis, clock: Clock
) -> None:
    default = full.buckets.policy
    off = replace(default, limits=default.limits._replace(archive=False, undo_until=clock.now + 60))
    clock.now += full.buckets.settings.buffer_s
    assert await full.add([message(30, ts=clock.now)], [off]) == [Outcome.QUEUED]
    await client.config_set("maxmemory", 0)
    await until_true(lambda: full.queued == 0)
    assert await ids(full) == [*range(1, MESSAGES + 1), 30]
    assert await full.channels.fit(GUILD, CHANNEL, off) == MESSAGES, "it is still off, and can't be undone any more"
    assert await ids(full) == [30]


async def test_a_memory_opens_on_a_full_redis_and_answers(full: Store, alone: Settings, clock: Clock) -> None:
    async with Memory.open(alone, clock=clock, embedder=FakeEmbedder()) as memory:
        question = Question(GUILD, CHANNEL, 99, 7, "Bob", "what did Ann say about turtles?", clock.now)
        assert (await memory.ask(question)).hits
        assert await memory.remember(message(30)) is Outcome.QUEUED


async def test_a_memory_opens_on_a_full_redis_that_it_never_used(client: Redis, alone: Settings, clock: Clock) -> None:
    await client.config_set("maxmemory", 1)
    async with Memory.open(alone, clock=clock, embedder=FakeEmbedder()) as memory:
        assert await memory.remember(message(1)) is Outcome.QUEUED
        await client.config_set("maxmemory", 0)
        assert await memory.flush(LIMIT_S)
        question = Question(GUILD, CHANNEL, 99, 7, "Bob", "what did Ann say about turtles?", clock.now)
        assert (await memory.ask(question)).hits


async def test_what_a_full_redis_cannot_note_is_said_in_our_own_words(full: Store) -> None:
    with pytest.raises(RedisUnavailableError, match="rejects this for now"):
        await Bookmarks(full.buckets).note(GUILD, Gap(CHANNEL, None, 1))


async def test_a_worker_pauses_before_it_embeds_anew_what_a_full_redis_refused(
    full: Store, client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "FIRST_RETRY_S", 3600.0)
    embedder = FakeEmbedder()
    worker = worker_module.Worker(full, embedder)
    task = asyncio.create_task(worker.run())
    await until_true(lambda: worker.progress.errors > 0)
    sent = count_commands(client, monkeypatch)
    await until_true(lambda: sent.count("XREADGROUP") > 3)  # it could have embedded them as often
    assert embedder.embedded <= 2 * MESSAGES, "once more, and that waits for the end of the pause"
    await cancel_all([task])


async def test_what_was_embedded_while_redis_was_full_gets_its_vector_afterwards(full: Store, client: Redis) -> None:
    worker = worker_module.Worker(full, FakeEmbedder())
    task = asyncio.create_task(worker.run())
    await until_true(lambda: worker.progress.errors >= 2)
    await client.config_set("maxmemory", 0)
    assert await full.flush(LIMIT_S)
    assert worker.progress.embedded == MESSAGES
    await cancel_all([task])
