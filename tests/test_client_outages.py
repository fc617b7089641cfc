"""A client whose service goes away, comes back, refuses or is busy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from clock import wall_now
from conftest import CHANNEL, GUILD, FakeEmbedder, OwnServer, make_settings
from fastapi import FastAPI
from processes import quiet_port
from pydantic import SecretStr
from serving import Running, listening, serving
from test_client import ANN, CY, HERE, Platform, using
from waiting import until, until_true

from channelmem import Message, Outcome, Past, Person, Question, Settings
from channelmem.access import Scope
from channelmem.client import Client, levels
from channelmem.errors import ConfigError, RedisUnavailableError, ServiceUnavailableError
from channelmem.types import SourceReport


def message(number: int, text: str = "turtles are slow") -> Message:
    return Message(GUILD, CHANNEL, number, ANN.id, ANN.name, text, wall_now() - 60 + number)


def question(text: str) -> Question:
    return Question(GUILD, CHANNEL, 900, CY.id, CY.name, text, wall_now(), bot=Person(99, "Bot"))


@asynccontextmanager
async def fixed(settings: Settings, port: int) -> AsyncIterator[Running]:
    """A service on a port of its own, so that it can come back there."""
    async with serving(settings, FakeEmbedder(), port=port) as running:
        yield running


async def test_while_the_service_is_away_writes_wait_in_order_and_questions_are_told(settings: Settings) -> None:
    port = quiet_port()
    async with fixed(settings, port) as running:
        theirs = await using(running, settings)
    async with Client.open(theirs, patient=True) as client:
        assert not client.available
        assert await client.remember(message(1)) is Outcome.QUEUED
        assert await client.remember_many([message(2), message(3)]) == [Outcome.QUEUED] * 2
        assert await client.edit(replace(message(1), content="hares are fast", revision=wall_now())) is Outcome.QUEUED
        assert await client.delete(GUILD, CHANNEL, [2]) == 0
        assert client.queued == 5
        answer = await client.ask(question("what did Ann say about turtles?"))
        assert answer.text == "I can't reach my memory right now."
        assert not answer.found
        assert [type(one) for one in answer.tried] == [SourceReport]
        with pytest.raises(RedisUnavailableError):
            await client.recent(GUILD, CHANNEL, 10)
        with pytest.raises(ServiceUnavailableError):
            await client.forget(ANN.id)
        assert await client.context(question("hi"), answer) == ""
        assert not await client.flush(0.0)
        async with fixed(settings, port):
            await until_true(lambda: client.queued == 0)
            assert [one.content for one in await client.recent(GUILD, CHANNEL, 10)] == [
                "hares are fast",
                "turtles are slow",
            ]
            await until_true(lambda: client.available)
            assert await client.remember(message(4)) is Outcome.STORED


async def test_the_queue_is_bounded_and_drops_the_oldest_messages_never_the_removals(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("channelmem.client.client.DRAIN_S", 0.0)
    nowhere = settings.model_copy(update={"service_url": f"http://127.0.0.1:{quiet_port()}", "queue_size": 3})
    async with Client.open(nowhere, patient=True) as client:
        await client.delete(GUILD, CHANNEL, [1])
        for number in range(2, 9):
            await client.remember(message(number))
        await until_true(lambda: client.queued <= 3)
        assert client.dropped == 5


async def test_without_patience_a_service_that_is_away_is_an_error(settings: Settings) -> None:
    nowhere = settings.model_copy(update={"service_url": f"http://127.0.0.1:{quiet_port()}"})
    with pytest.raises(ServiceUnavailableError, match="does not answer"):
        async with Client.open(nowhere):
            pass


@pytest.mark.parametrize("url", ["", "ftp://x", "nonsense", "http://", "http://ann:secret@127.0.0.1:1"])
async def test_a_url_that_is_none_is_named(settings: Settings, url: str) -> None:
    with pytest.raises(ConfigError, match="CHANNELMEM_SERVICE_URL") as caught:
        async with Client.open(settings.model_copy(update={"service_url": url or None})):
            pass
    assert "secret" not in str(caught.value)


async def test_something_else_at_that_address_is_told_apart(
    settings: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("channelmem.client.client.DRAIN_S", 0.0)
    other = FastAPI(openapi_url=None)
    async with listening(other) as url:
        theirs = settings.model_copy(update={"service_url": url})
        async with Client.open(theirs, patient=True) as client:
            assert "not as a memory service does" in caplog.text
            assert await client.remember(message(1)) is Outcome.QUEUED


async def test_a_wrong_token_is_named_even_by_a_patient_client(settings: Settings, fake_embedder: FakeEmbedder) -> None:
    async with serving(settings, fake_embedder) as running:
        wrong = {"service_url": running.url, "service_token": SecretStr("cm_000000000000_" + "x" * 43)}
        with pytest.raises(ConfigError, match="CHANNELMEM_SERVICE_TOKEN") as caught:
            async with Client.open(settings.model_copy(update=wrong), patient=True):
                pass
        assert "xxx" not in str(caught.value)


async def test_a_message_that_the_service_rejects_is_dropped_alone(
    settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    async with serving(settings, fake_embedder) as running, Client.open(await using(running, settings)) as client:
        outcomes = await client.remember_many([message(1), message(2, "x" * 20_000), message(3)])
        assert outcomes == [Outcome.STORED, Outcome.DROPPED, Outcome.STORED]
        assert client.dropped == 1


async def test_while_the_services_redis_is_away_history_answers(
    own_server: OwnServer, fake_embedder: FakeEmbedder
) -> None:
    settings = make_settings(own_server.url, own_server.folder, redis_timeout_s=1.0)
    platform = Platform()
    async with (
        serving(settings, fake_embedder) as running,
        Client.open(await using(running, settings), history=platform) as client,
    ):
        await client.remember(message(1))
        platform.past = Past((message(1),))
        own_server.kill()
        answer = await client.ask(question("what did Ann say about turtles?"))
        assert "turtles are slow" in answer.text
        assert await client.remember(message(2)) is Outcome.QUEUED
        with pytest.raises(RedisUnavailableError):
            await client.forget(ANN.id)
        assert not client.available
        own_server.start()

        async def back() -> bool:
            try:
                return len(await client.recent(GUILD, CHANNEL, 10)) == 2
            except RedisUnavailableError:
                return False

        await until(back)


async def test_settings_of_others_reach_a_client_and_defaults_are_the_services(
    settings: Settings, fake_embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(levels, "FOLLOW_S", 0.01)
    longer = settings.model_copy(update={"archive_days": 3.0, "context_messages": 33})
    async with serving(longer, fake_embedder) as running:
        theirs = (await using(running, settings)).model_copy(update={"cross_channel": True})
        async with Client.open(theirs) as client:
            policy = client.policy(GUILD, CHANNEL)
            assert (policy.limits.archive_s, policy.context_messages) == (3 * 86_400, 33)
            assert policy.cross_channel, "who may read what is for the adapter to know"
            await running.memory.policies.set(HERE, "max_messages", 7)
            await until_true(lambda: client.policy(GUILD, CHANNEL).context_messages == 7)


async def test_a_bound_client_acts_in_its_guilds_only(settings: Settings, fake_embedder: FakeEmbedder) -> None:
    async with serving(settings, fake_embedder) as running:
        theirs = await using(running, settings, GUILD)
        await running.memory.remember(replace(message(1), guild_id=GUILD + 1))
        async with Client.open(theirs) as client:
            await client.remember(message(1))
            assert [one.guild_id async for one in client.export(ANN.id)] == [GUILD]
            await client.opt_out(ANN.id)
            assert (await client.pending(), await client.lag_s()) == (0, 0.0)
            with pytest.raises(ConfigError, match="bound to other guilds"):
                await client.recent(GUILD + 1, CHANNEL, 10)
        assert len(await running.memory.recent(GUILD + 1, CHANNEL, 10)) == 1
        assert await running.memory.recent(GUILD, CHANNEL, 10) == []


async def test_a_busy_service_is_asked_again(settings: Settings, fake_embedder: FakeEmbedder) -> None:
    few = settings.model_copy(update={"service_max_asks": 2})
    async with serving(few, fake_embedder) as running, Client.open(await using(running, few)) as client:
        await client.remember(message(1))
        answers = await asyncio.gather(*(client.ask(question("what did Ann say about turtles?")) for _ in range(4)))
        assert all(one.text for one in answers)
        assert any("turtles are slow" in one.text for one in answers)


async def test_a_client_that_may_only_read_says_so(settings: Settings, fake_embedder: FakeEmbedder) -> None:
    async with serving(settings, fake_embedder) as running:
        token = await running.token("reader", [Scope.READ])
        theirs = settings.model_copy(update={"service_url": running.url, "service_token": SecretStr(token)})
        async with Client.open(theirs) as client:
            with pytest.raises(ConfigError, match="lacks the write scope"):
                await client.remember(message(1))
