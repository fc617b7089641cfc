"""`ask` never raises for what Redis does: refusals, broken keys, a lost index; and what people decide is not lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from conftest import CHANNEL, GUILD, Clock, FakeEmbedder, OwnServer, make_settings, message
from redis.asyncio import Redis
from refusals import busy, disk_full
from waiting import LIMIT_S

from channelmem.memory import Memory
from channelmem.recalling.recall import OUTDATED
from channelmem.settings import Settings
from channelmem.store import outbox
from channelmem.store.keys import keys_of, room
from channelmem.types import Answer, Outcome, Question, Source

QUESTIONS = ["what did Ann say about turtles?", "what did Ann just say?", "catch me up", "what did Ann say yesterday?"]
BROKEN = {
    "the order of the channel": ("chan", room(GUILD, CHANNEL)),
    "the people": ("people", room(GUILD, CHANNEL)),
    "the opt-outs": ("optout", ""),
    "the policy": ("policy", ""),
    "the meta key": ("meta", ""),
}


@pytest.fixture
def alone(own_server: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(outbox, "LAST_RETRY_S", 0.1)
    return make_settings(own_server.url, tmp_path, redis_timeout_s=LIMIT_S)


@pytest.fixture
async def memory(alone: Settings, clock: Clock) -> AsyncIterator[Memory]:
    async with Memory.open(alone, clock=clock, embedder=FakeEmbedder()) as opened:
        for number in range(1, 4):
            assert await opened.remember(message(number)) is Outcome.STORED
        assert await opened.flush(LIMIT_S)
        yield opened


async def ask(memory: Memory, text: str = QUESTIONS[0]) -> Answer:
    return await memory.ask(Question(GUILD, CHANNEL, 99, 7, "Bob", text, Clock().now))


@pytest.mark.parametrize("text", QUESTIONS)
async def test_a_busy_redis_is_an_answer_without_it(memory: Memory, own_server: OwnServer, text: str) -> None:
    async with busy(own_server):
        answer = await ask(memory, text)
    assert [one.problem for one in answer.tried] == ["Redis does not answer."] * len(answer.tried)
    assert (await ask(memory)).found


async def test_a_full_disk_still_answers_and_keeps_what_is_said_for_later(
    memory: Memory, own_server: OwnServer
) -> None:
    async with disk_full(own_server):
        assert (await ask(memory)).found
        assert await memory.remember(message(4)) is Outcome.QUEUED
    assert await memory.flush(LIMIT_S)


async def test_a_memory_that_opens_on_a_full_disk_answers_without_it(
    own_server: OwnServer, alone: Settings, clock: Clock
) -> None:
    async with (
        disk_full(own_server),
        Memory.open(alone, clock=clock, embedder=FakeEmbedder(), patient=True) as memory,
    ):
        assert not (await ask(memory)).found


@pytest.mark.parametrize("key", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("text", QUESTIONS)
async def test_a_key_of_a_wrong_type_is_an_answer_without_redis(
    own_server: OwnServer, alone: Settings, clock: Clock, key: tuple[str, str], text: str
) -> None:
    keys = keys_of(alone.key_prefix, 0)
    name = keys.of(*key) if key[1] else keys.one(key[0])
    async with Memory.open(alone, clock=clock, embedder=FakeEmbedder()) as memory:
        await memory.remember(message(1))
        async with Redis.from_url(own_server.url) as client:
            await client.delete(name)
            await client.set(name, "somebody else's")
        await ask(memory, text)


async def test_an_index_that_was_rebuilt_for_another_model_is_an_answer_that_says_so(
    memory: Memory, own_server: OwnServer, alone: Settings
) -> None:
    meta = keys_of(alone.key_prefix, 0).one("meta")
    async with Redis.from_url(own_server.url) as client:
        await client.hset(meta, mapping={"model": "another", "version": 2})
    answer = await ask(memory, "what did Ann say about turtles last week?")
    assert [one.problem for one in answer.tried if one.source is Source.ARCHIVE] == [OUTDATED]
