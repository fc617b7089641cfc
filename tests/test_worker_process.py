"""`channelmem worker` as a process: shared work, and nothing lost when one of them is killed outright."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import pytest
from conftest import message
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


def start(settings: Settings, *arguments: str) -> subprocess.Popen[str]:
    assert settings.redis_url is not None
    env = {**os.environ, "REDIS_URL": settings.redis_url.get_secret_value()}
    env |= {"CHANNELMEM_KEY_PREFIX": settings.key_prefix, "CHANNELMEM_CACHE_DIR": str(settings.cache_dir)}
    command = [sys.executable, "-m", "channelmem", "worker", *arguments]
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)


async def until(reached: Callable[[], Awaitable[bool]], within_s: float = 60.0) -> None:
    end = time.monotonic() + within_s
    while not await reached():
        assert time.monotonic() < end, "this never happened"
        await asyncio.sleep(0.02)


@pytest.mark.timeout(180)
async def test_a_worker_process_that_is_killed_loses_nothing(
    settings: Settings, redis: Redis, embedder: Embedder
) -> None:
    leaving = settings.model_copy(update={"embed_in_process": False})
    async with Memory.open(leaving, embedder=embedder) as memory:
        now = time.time()
        said = [
            Message(GUILD, CHANNEL, 1 + n, 7, "Ann", f"number {n} of the things that Ann had to say about it", now - 1)
            for n in range(MESSAGES)
        ]
        await memory.remember_many(said)

        async def is_at_work() -> bool:
            return 0 < await memory.pending() < MESSAGES

        victim = start(settings)
        await until(is_at_work)
        victim.kill()
        victim.communicate(timeout=30)
        left = await memory.pending()
        taken = await redis.xpending(keys_of(settings.key_prefix, 0).one("ingest"), GROUP)
        assert 0 < taken["pending"] <= left, "killed with work in its hands"
        heir = start(settings, "--until-done")
        _, complaint = await asyncio.to_thread(heir.communicate, timeout=120)
        assert heir.returncode == 0, complaint
        assert await memory.pending() == 0
    documents = [key async for key in redis.scan_iter(f"{settings.key_prefix}:*msg:*", count=2000)]
    assert len(set(documents)) == MESSAGES
    for key in set(documents):
        assert await redis.hexists(key, "vec1") or await redis.hexists(key, "vec0"), key


@pytest.mark.timeout(120)
async def test_a_worker_process_that_cannot_go_on_ends_with_an_error(
    settings: Settings, redis: Redis, embedder: Embedder
) -> None:
    process = start(settings)
    keys = keys_of(settings.key_prefix, 0)

    async def is_at_work() -> bool:
        return bool(await redis.exists(keys.one("ingest")) and await redis.xinfo_consumers(keys.one("ingest"), GROUP))

    await until(is_at_work)
    store = await Store.open(redis, settings, dims=embedder.dims, identity=embedder.identity, clock=time.time)
    await redis.hset(keys.one("meta"), mapping={"model": "another", "version": 2})  # as the switch of a reindex does
    await store.add([message(1, ts=time.time())])
    _, said = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == 1, said
    assert "channelmem reindex" in said
    await store.close()


@pytest.mark.timeout(120)
async def test_a_worker_process_that_is_told_to_end_does_so_without_an_error(settings: Settings, redis: Redis) -> None:
    process = start(settings)
    keys = keys_of(settings.key_prefix, 0)

    async def is_at_work() -> bool:
        return bool(await redis.exists(keys.one("ingest")) and await redis.xinfo_consumers(keys.one("ingest"), GROUP))

    await until(is_at_work)
    process.terminate()
    _, said = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == 0, said
    assert await redis.xinfo_consumers(keys.one("ingest"), GROUP) == []
