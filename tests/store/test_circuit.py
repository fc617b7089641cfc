"""A Redis that is stopped (SIGSTOP): it accepts connections and answers nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from conftest import CHANNEL, GUILD, Clock, FakeEmbedder, OwnServer, make_settings, message
from redis.asyncio import Redis
from waiting import until, until_true

from channelmem.errors import RedisUnavailableError
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.store.redis import CircuitPool, connect
from channelmem.types import Answer, Outcome, Question

TIMEOUT_S = 3.0
"""Long enough to tell one wait from two, and a wait from none, on a busy machine."""


@pytest.fixture
def alone(own_server: OwnServer, tmp_path: Path) -> Settings:
    return make_settings(own_server.url, tmp_path, redis_timeout_s=TIMEOUT_S)


@pytest.fixture
async def memory(alone: Settings, clock: Clock) -> AsyncIterator[Memory]:
    async with Memory.open(alone, clock=clock, embedder=FakeEmbedder()) as opened:
        assert await opened.remember(message(1)) is Outcome.STORED
        yield opened


@pytest.fixture
async def client(own_server: OwnServer, alone: Settings) -> AsyncIterator[Redis]:
    redis = connect(own_server.url, alone)
    yield redis
    await redis.aclose()


def pool_of(redis: Redis) -> CircuitPool:
    assert isinstance(redis.connection_pool, CircuitPool)
    return redis.connection_pool


async def ask(memory: Memory) -> tuple[Answer, float]:
    started = time.perf_counter()
    question = Question(GUILD, CHANNEL, 99, 7, "Bob", "what did Ann say about turtles?", Clock().now)
    return await memory.ask(question), time.perf_counter() - started


async def test_a_question_waits_for_a_stopped_redis_once_and_the_next_one_not_at_all(
    memory: Memory, own_server: OwnServer
) -> None:
    own_server.freeze()
    (first, first_s), (second, second_s) = await ask(memory), await ask(memory)
    own_server.thaw()
    assert not first.found
    assert first.tried[0].problem == second.tried[0].problem == "Redis does not answer."
    assert first_s < 1.6 * TIMEOUT_S, "one timeout, where each command used to wait for its own"
    assert second_s < 0.5 * TIMEOUT_S, "no timeout at all"


async def test_a_redis_that_is_back_answers_the_next_questions(memory: Memory, own_server: OwnServer) -> None:
    own_server.freeze()
    await ask(memory)
    own_server.thaw()

    async def found() -> bool:
        return (await ask(memory))[0].found

    await until(found)


async def test_messages_sent_to_a_stopped_redis_are_stored_when_it_is_back(
    memory: Memory, own_server: OwnServer
) -> None:
    own_server.freeze()
    await ask(memory)
    assert await memory.remember(message(2)) is Outcome.QUEUED
    own_server.thaw()
    assert await memory.flush(60)


async def test_by_default_a_question_waits_a_second_for_redis() -> None:
    assert Settings(_env_file=None).redis_timeout_s == 1.0


async def test_commands_fail_at_once_while_redis_is_silent(client: Redis, own_server: OwnServer) -> None:
    own_server.freeze()
    with pytest.raises(RedisUnavailableError, match="Timeout"):
        await client.ping()
    assert pool_of(client).is_open
    started = time.perf_counter()
    for _ in range(50):
        with pytest.raises(RedisUnavailableError, match="not replied"):
            await client.ping()
    assert time.perf_counter() - started < TIMEOUT_S
    own_server.thaw()
    await until_true(lambda: not pool_of(client).is_open)
    assert await client.ping()


async def test_a_redis_that_refuses_is_not_silent(own_server: OwnServer, client: Redis) -> None:
    assert await client.ping()
    own_server.kill()
    with pytest.raises(RedisUnavailableError):
        await client.ping()
    assert not pool_of(client).is_open


async def test_a_silent_redis_that_dies_closes_the_circuit(own_server: OwnServer, client: Redis) -> None:
    own_server.freeze()
    with pytest.raises(RedisUnavailableError, match="Timeout"):
        await client.ping()
    own_server.kill()
    await until_true(lambda: not pool_of(client).is_open)
    own_server.start()
    assert await client.ping()


async def test_closing_a_client_ends_its_asking(own_server: OwnServer, client: Redis) -> None:
    own_server.freeze()
    with pytest.raises(RedisUnavailableError, match="Timeout"):
        await client.ping()
    await client.aclose()
    own_server.thaw()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "channelmem circuit"]
