"""Messages that are on no stream get their vectors, on a Redis that returns only so much at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from conftest import Clock, FakeEmbedder, OwnServer, make_settings, message, open_store
from test_worker import PickyEmbedder
from waiting import LIMIT_S, until_true

from channelmem.ingest.worker import Worker
from channelmem.store.redis import command, connect
from channelmem.store.store import Store
from channelmem.tasks import cancel_all

pytestmark = pytest.mark.process

MOST = 40
"""What this server returns at most: a few messages show what 10,000 would."""
LOST = 130


@pytest.fixture
async def narrow(own_server: OwnServer, tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    settings = make_settings(own_server.url, tmp_path, redis_timeout_s=LIMIT_S)
    redis = connect(own_server.url, settings)
    for name in ("MAXSEARCHRESULTS", "MAXAGGREGATERESULTS"):
        await command(redis, "FT.CONFIG", "SET", name, MOST)
    store = await open_store(redis, settings, clock)
    yield store
    await store.close(wait_s=0.5)
    await redis.aclose()


async def lose(store: Store, *texts: str) -> None:
    """Messages that are on no stream."""
    await store.add([message(number, text) for number, text in enumerate(texts, 1)])
    await store.buckets.redis.xtrim(store.buckets.keys(0).one("ingest"), maxlen=0)


async def repaired(store: Store, embedder: FakeEmbedder) -> Worker:
    """A worker that has looked for lost messages, and embedded what it found."""
    worker = Worker(store, embedder)
    task = asyncio.create_task(worker.run())
    await until_true(lambda: worker._opened and not worker._unchecked)
    assert await store.flush(LIMIT_S)
    await cancel_all([task])
    return worker


async def test_more_lost_messages_than_redis_returns_at_once_are_repaired(narrow: Store) -> None:
    await lose(narrow, *["turtles"] * LOST)
    worker = await repaired(narrow, FakeEmbedder())
    assert (worker.progress.embedded, worker.progress.errors) == (LOST, 0)


async def test_texts_that_the_model_fails_on_keep_no_others_from_being_repaired(narrow: Store) -> None:
    await lose(narrow, *["poison"] * 2 * MOST, *["turtles"] * MOST)
    worker = await repaired(narrow, PickyEmbedder())
    assert (worker.progress.embedded, worker.progress.given_up, worker.progress.errors) == (MOST, 2 * MOST, 0)


async def test_an_export_names_more_messages_than_redis_returns_at_once(narrow: Store) -> None:
    await narrow.add([message(number) for number in range(1, LOST + 1)])
    assert [one.id async for one in narrow.consent.export(5)] == list(range(1, LOST + 1))


async def test_new_messages_do_not_wait_for_a_repair_that_redis_refuses(
    narrow: Store, caplog: pytest.LogCaptureFixture
) -> None:
    await lose(narrow, "turtles")
    await command(narrow.buckets.redis, "ACL", "SETUSER", "default", "-ft.aggregate")
    worker = Worker(narrow, FakeEmbedder())
    task = asyncio.create_task(worker.run())
    await until_true(lambda: "Could not look for lost messages" in caplog.text)
    await narrow.add([message(2)])
    await until_true(lambda: worker.progress.embedded == 1)
    await cancel_all([task])
    assert worker.progress.errors == 0
