"""`channelmem worker` as a process: shared work, and nothing lost when one of them is killed outright."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import psutil
import pytest
from clock import wall_now
from conftest import message
from processes import started
from redis.asyncio import Redis

from channelmem.embedding.embed import Embedder
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.store.keys import GROUP, keys_of
from channelmem.store.store import Store
from channelmem.types import Message

GUILD, CHANNEL = 5, 50
MESSAGES = 600
"""Some seconds of work for the model."""
LIMIT_S = 300.0
"""Against a hang only: the model's threads run at low priority, so beside busy cores they take their time."""
pytestmark = [pytest.mark.process, pytest.mark.timeout(3 * LIMIT_S)]

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(settings: Settings) -> Iterator[Start]:
    """Starts workers; none of them outlives the test."""
    assert settings.redis_url is not None
    env = {**os.environ, "REDIS_URL": settings.redis_url.get_secret_value(), "CHANNELMEM_REDIS_TIMEOUT_S": "60"}
    env |= {"CHANNELMEM_KEY_PREFIX": settings.key_prefix, "CHANNELMEM_CACHE_DIR": str(settings.cache_dir)}
    with ExitStack() as running:

        def begin(*arguments: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", "channelmem", "worker", *arguments]
            return running.enter_context(started(command, env=env, stderr=subprocess.PIPE, text=True))

        yield begin


async def until(reached: Callable[[], Awaitable[bool]]) -> None:
    end = time.monotonic() + LIMIT_S
    while not await reached():
        assert time.monotonic() < end, "this never happened"
        await asyncio.sleep(0.02)


async def joined(redis: Redis, stream: str) -> None:
    """Waits until a worker has read the stream. On a cluster it reads only what holds something, so this puts an entry
    there that leads to no message."""

    async def is_there() -> bool:
        return bool(await redis.exists(stream) and await redis.xinfo_groups(stream))

    async def has_read() -> bool:
        return bool(await redis.xinfo_consumers(stream, GROUP)) and await redis.xlen(stream) == 0

    await until(is_there)
    await redis.xadd(stream, {"m": f"{GUILD}c{CHANNEL}:{1:020d}", "r": ""})
    await until(has_read)


def said_by_ann(count: int, first: int) -> list[Message]:
    now = wall_now()
    return [
        Message(GUILD, CHANNEL, n, 7, "Ann", f"number {n} of the things that Ann had to say about it", now - 1)
        for n in range(first, first + count)
    ]


async def freeze(worker: subprocess.Popen[str], redis: Redis) -> None:
    """When this returns, the worker does nothing any more and Redis has done all that it asked for."""

    async def is_stopped() -> bool:
        return psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED

    worker.send_signal(signal.SIGSTOP)
    await until(is_stopped)
    await redis.ping()


async def test_a_worker_process_that_is_killed_loses_nothing(
    settings: Settings, redis: Redis, embedder: Embedder, start: Start
) -> None:
    leaving = settings.model_copy(update={"embed_in_process": False})
    stream = keys_of(settings.key_prefix, 0).one("ingest")
    async with Memory.open(leaving, embedder=embedder) as memory:
        sent, victim = 0, start()

        async def has_done_some() -> bool:
            return await memory.pending() < sent

        taken = 0
        while not taken:  # once more where it was quicker than this test and had nothing left in its hands
            await memory.remember_many(said_by_ann(MESSAGES, first=1 + sent))
            sent += MESSAGES
            victim.send_signal(signal.SIGCONT)
            await until(has_done_some)
            await freeze(victim, redis)
            taken = (await redis.xpending(stream, GROUP))["pending"]
        left = await memory.pending()
        victim.kill()
        assert 0 < taken <= left, "killed with work in its hands"
        heir = start("--until-done")
        _, complaint = await asyncio.to_thread(heir.communicate, timeout=LIMIT_S)
        assert heir.returncode == 0, complaint
        assert await memory.pending() == 0
    documents = {key async for key in redis.scan_iter(f"{settings.key_prefix}:*msg:*", count=2000)}
    assert len(documents) == sent
    for key in documents:
        assert await redis.hexists(key, "vec1") or await redis.hexists(key, "vec0"), key


async def test_a_worker_process_that_cannot_go_on_ends_with_an_error(
    settings: Settings, redis: Redis, embedder: Embedder, start: Start
) -> None:
    process, keys = start(), keys_of(settings.key_prefix, 0)
    await joined(redis, keys.one("ingest"))
    store = await Store.open(redis, settings, dims=embedder.dims, identity=embedder.identity, clock=wall_now)
    await redis.hset(keys.one("meta"), mapping={"model": "another", "version": 2})  # as the switch of a reindex does
    await store.add([message(1, ts=wall_now())])
    _, said = await asyncio.to_thread(process.communicate, timeout=LIMIT_S)
    assert process.returncode == 1, said
    assert "channelmem reindex" in said
    await store.close()


async def test_a_worker_process_that_is_told_to_end_does_so_without_an_error(
    settings: Settings, redis: Redis, start: Start
) -> None:
    process, stream = start(), keys_of(settings.key_prefix, 0).one("ingest")
    await joined(redis, stream)
    process.terminate()
    _, said = await asyncio.to_thread(process.communicate, timeout=LIMIT_S)
    assert process.returncode == 0, said
    assert await redis.xinfo_consumers(stream, GROUP) == []


async def test_a_worker_process_summarises_what_is_due_before_it_ends(
    settings: Settings, embedder: Embedder, start: Start
) -> None:
    leaving = settings.model_copy(update={"embed_in_process": False, "summary_debounce_s": 0})
    async with Memory.open(leaving, embedder=embedder) as memory:
        old = [replace(one, ts=one.ts - 7_200) for one in said_by_ann(5, 1)]
        await memory.remember_many(old)
        worker = start("--until-done")
        assert await asyncio.to_thread(worker.wait, LIMIT_S) == 0
        [summary] = await memory.summaries.of(GUILD, CHANNEL)
        assert summary.message_count == 5
