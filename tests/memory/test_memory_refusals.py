"""`ask` never raises for what Redis does: refusals, broken keys, a lost index; and what people decide is not lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from conftest import CHANNEL, GUILD, Clock, FakeEmbedder, OwnServer, make_settings, message, open_store
from redis import exceptions as redis_errors
from redis.asyncio import Redis
from refusals import busy, disk_full
from waiting import LIMIT_S, until

from bot.commands import command_sentence
from channelmem.errors import DecisionDelayedError, RedisUnavailableError
from channelmem.memory import Memory
from channelmem.recalling.recall import OUTDATED
from channelmem.settings import Settings
from channelmem.store import outbox
from channelmem.store.decisions import Recorded
from channelmem.store.keys import keys_of, room
from channelmem.store.redis import connect
from channelmem.types import Answer, History, Message, Outcome, Past, Question, Source

QUESTIONS = ["what did Ann say about turtles?", "what did Ann just say?", "catch me up", "what did Ann say yesterday?"]
BROKEN = {
    "the order of the channel": ("chan", room(GUILD, CHANNEL)),
    "the people": ("people", room(GUILD, CHANNEL)),
    "the opt-outs": ("optout", ""),
    "the policy": ("policy", ""),
    "the meta key": ("meta", ""),
}


class Platform(History):
    """A history that still has everything."""

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        return Past((message(1),))

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        return None

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return ""


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


async def test_an_index_that_is_lost_on_a_full_disk_counts_as_unavailable(
    memory: Memory, own_server: OwnServer
) -> None:
    async with disk_full(own_server), Redis.from_url(own_server.url) as client:
        await client.config_set("stop-writes-on-bgsave-error", "no")
        for name in await client.execute_command("FT._LIST"):  # type: ignore[no-untyped-call]
            await client.execute_command("FT.DROPINDEX", name)  # type: ignore[no-untyped-call]
        await client.config_set("stop-writes-on-bgsave-error", "yes")
        with pytest.raises(RedisUnavailableError):
            assert [one async for one in memory.export(5)]
    assert len([one async for one in memory.export(5)]) == 3


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


# --- what people decide while Redis cannot take it ---

DECISIONS: dict[str, Callable[[Memory], Awaitable[None]]] = {
    "an opt-out": lambda memory: memory.opt_out(5),
    "an opt-out of one guild": lambda memory: memory.opt_out(5, GUILD),
    "forget me": lambda memory: memory.forget(5),
    "forget me in one guild": lambda memory: memory.forget(5, GUILD),
}


async def delivered(memory: Memory) -> bool:
    return not memory._store.buckets.undelivered


@pytest.mark.parametrize("decide", DECISIONS.values(), ids=DECISIONS)
async def test_a_decision_on_a_full_disk_is_told_holds_here_at_once_and_is_delivered(
    memory: Memory, own_server: OwnServer, decide: Callable[[Memory], Awaitable[None]]
) -> None:
    async with disk_full(own_server):
        with pytest.raises(DecisionDelayedError, match="cannot write to its disk") as told:
            await decide(memory)
        assert "save it as soon as I can" in command_sentence(told.value, "1f")
        assert not (await ask(memory)).found
        assert await memory.remember(message(9)) is Outcome.IGNORED
    await until(lambda: delivered(memory))
    assert await memory._store.consent.opted_out(5, GUILD)
    assert not (await ask(memory)).found
    assert await memory.flush(LIMIT_S)


@pytest.mark.parametrize("decide", DECISIONS.values(), ids=DECISIONS)
async def test_a_decision_that_a_busy_redis_does_not_hear_changes_nothing(
    memory: Memory, own_server: OwnServer, decide: Callable[[Memory], Awaitable[None]]
) -> None:
    async with busy(own_server):
        with pytest.raises(RedisUnavailableError) as told:
            await decide(memory)
        assert "nothing was changed" in command_sentence(told.value, "1f")
    assert await delivered(memory)
    assert (await ask(memory)).found


async def ask_without_redis(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> Answer:
    async def away(*_arguments: object, **_options: object) -> None:
        raise redis_errors.ConnectionError("away")

    with monkeypatch.context() as patched:
        patched.setattr(memory._store.buckets.redis.connection_pool, "get_connection", away)
        return await ask(memory)


async def test_a_decision_on_a_full_disk_holds_for_the_history_if_redis_then_goes_away(
    own_server: OwnServer, alone: Settings, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Memory.open(alone, clock=clock, embedder=FakeEmbedder(), history=Platform()) as memory:
        await memory.remember(message(1))
        assert "turtles are slow" in (await ask_without_redis(memory, monkeypatch)).text
        async with disk_full(own_server):
            with pytest.raises(DecisionDelayedError):
                await memory.forget(5)
            assert "turtles are slow" not in (await ask_without_redis(memory, monkeypatch)).text
        await until(lambda: delivered(memory))
        assert "turtles are slow" not in (await ask_without_redis(memory, monkeypatch)).text


async def test_a_delayed_opt_out_stays_in_the_copy_whatever_redis_holds(memory: Memory, own_server: OwnServer) -> None:
    decisions = memory._store.decisions
    async with disk_full(own_server):
        with pytest.raises(DecisionDelayedError):
            await memory.opt_out(5)
        await decisions.sync()
        assert await decisions.allowed(GUILD, CHANNEL, [message(1)]) == []
        assert decisions._copy.of(["5"]) == Recorded({"5"})


async def test_a_delayed_opt_out_refuses_what_was_said_since_the_decision(
    memory: Memory, own_server: OwnServer, clock: Clock
) -> None:
    async with disk_full(own_server):
        with pytest.raises(DecisionDelayedError):
            await memory.opt_out(5)
        decided, clock.now = clock.now, clock.now + 60
    await until(lambda: delivered(memory))
    await memory.opt_in(5)
    clock.now += 60
    said = [message(number, ts=decided + after_s) for number, after_s in ((20, -30), (21, 30), (22, 90))]
    assert await memory.remember_many(said) == [Outcome.STORED, Outcome.IGNORED, Outcome.STORED]


async def test_a_delayed_forget_me_removes_everything_in_the_end(memory: Memory, own_server: OwnServer) -> None:
    async with disk_full(own_server):
        with pytest.raises(DecisionDelayedError):
            await memory.forget(5)
    await until(lambda: delivered(memory))
    await memory._store.swept()
    assert [one async for one in memory.export(5)] == []


@pytest.mark.parametrize("text", QUESTIONS)
async def test_who_waits_to_be_forgotten_is_in_no_answer(memory: Memory, own_server: OwnServer, text: str) -> None:
    await memory.remember(message(5, "zebras are fast", author_id=6, author="Cid"))
    async with disk_full(own_server):
        with pytest.raises(DecisionDelayedError):
            await memory.forget(5)
        answer = await ask(memory, text)
        assert "turtles are slow" not in answer.text
        assert (
            "turtles are slow"
            not in (await memory.context(Question(GUILD, CHANNEL, 99, 7, "Bob", text, Clock().now), answer)).text
        )


async def test_an_opt_in_waits_until_the_opt_out_before_it_is_delivered(memory: Memory, own_server: OwnServer) -> None:
    async with disk_full(own_server):
        with pytest.raises(DecisionDelayedError):
            await memory.opt_out(5)
        with pytest.raises(DecisionDelayedError, match="try again in a minute"):
            await memory.opt_in(5)
    await until(lambda: delivered(memory))
    await memory.opt_in(5)
    assert (await ask(memory)).found


async def test_a_decision_in_many_buckets_is_delivered_to_all(
    own_server: OwnServer, alone: Settings, clock: Clock
) -> None:
    settings = alone.model_copy(update={"buckets": 3})
    guilds = [number << 22 for number in range(1, 4)]
    async with Memory.open(settings, clock=clock, embedder=FakeEmbedder()) as memory:
        await memory.remember_many([message(number, guild_id=guild) for number, guild in enumerate(guilds, 1)])
        async with disk_full(own_server):
            with pytest.raises(DecisionDelayedError):
                await memory.forget(5)
        await until(lambda: delivered(memory))
        assert [await memory._store.consent.opted_out(5, guild) for guild in guilds] == [True] * 3


async def test_a_decision_that_ends_with_the_process_is_logged(
    own_server: OwnServer, alone: Settings, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    store = await open_store(connect(own_server.url, alone), alone, clock)
    async with disk_full(own_server):
        with pytest.raises(DecisionDelayedError):
            await store.consent.opt_out(5)
        await store.close(wait_s=0.1)
    assert "1 opt-outs never reached Redis" in caplog.text
    await store.buckets.redis.aclose()
