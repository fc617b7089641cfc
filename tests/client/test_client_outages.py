"""A client whose service goes away, comes back, refuses or is busy."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import test_client
from clock import wall_now
from conftest import CHANNEL, GUILD, FakeEmbedder, OwnServer, make_settings
from fastapi import FastAPI
from processes import quiet_port
from pydantic import SecretStr
from refusals import disk_full
from serving import Running, listening, serving
from test_client import ANN, CY, HERE, Platform, using
from waiting import LIMIT_S, until, until_true

from channelmem import ContextRequest, Memory, Message, Outcome, Past, Person, Question, Settings
from channelmem.access import Scope
from channelmem.client import Client, levels
from channelmem.errors import ConfigError, RedisUnavailableError, RejectedError, ServiceUnavailableError
from channelmem.store import access, outbox
from channelmem.types import Aside, Attachment, SourceReport

memory, platform = test_client.memory, test_client.platform  # fixtures


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
        assert answer.route.aside is Aside.UNREACHABLE
        assert not answer.found
        assert [type(one) for one in answer.tried] == [SourceReport]
        with pytest.raises(RedisUnavailableError):
            await client.recent(GUILD, CHANNEL, 10)
        with pytest.raises(ServiceUnavailableError):
            await client.forget(ANN.id)
        assert (await client.context(question("hi"), answer)).text == ""
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
    monkeypatch.setattr("channelmem.client.DRAIN_S", 0.0)
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
    monkeypatch.setattr("channelmem.client.DRAIN_S", 0.0)
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
            await running.memory.policies.set(HERE, "context_messages", 7)
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


async def test_a_message_that_redis_can_never_store_blocks_neither_messages_nor_removals_behind_it(
    settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    async with serving(settings, fake_embedder) as running, Client.open(await using(running, settings)) as client:
        assert await client.remember(message(1)) is Outcome.STORED
        buckets = running.memory._store.buckets
        await buckets.redis.set(buckets.guild_keys(GUILD).channel(GUILD, CHANNEL + 1)[0], "no sorted set")
        broken, later = client.remember(replace(message(2), channel_id=CHANNEL + 1)), client.remember(message(3))
        gone = client.delete(GUILD, CHANNEL, [1])
        assert list(await asyncio.gather(broken, later, gone)) == [Outcome.DROPPED, Outcome.STORED, 1]
        assert [one.id for one in await client.recent(GUILD, CHANNEL, 10)] == [3]


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


# --- a removal is a promise ---


async def here(client: Client) -> set[int]:
    return {one.id for one in await client.recent(GUILD, CHANNEL, 100)}


def counted(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Grows with every request that the service answers, or refuses."""
    send, sent = client._connection._send, []

    async def counting(request: Any) -> Any:
        response = await send(request)
        sent.append(response.status_code)
        return response

    monkeypatch.setattr(client._connection, "_send", counting)
    return sent


@pytest.mark.process
async def test_deletes_of_an_outage_of_service_and_redis_all_arrive(
    own_server: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service comes back before its Redis answers, and knows no token then. Requests come in parallel."""
    monkeypatch.setattr(outbox, "LAST_RETRY_S", 0.01)
    settings, port = make_settings(own_server.url, own_server.folder, redis_timeout_s=LIMIT_S), quiet_port()
    guilds = [GUILD + (lane << 22) for lane in range(4)]
    places = [(guilds[number % 4], number) for number in range(1, 41)]
    async with AsyncExitStack() as stack:
        async with fixed(settings, port) as running:
            client = await stack.enter_async_context(Client.open(await using(running, settings)))
            said = [replace(message(number), guild_id=guild) for guild, number in places]
            assert set(await client.remember_many(said)) == {Outcome.STORED}
            own_server.kill()
        for guild, number in places:
            assert await client.delete(guild, CHANNEL, [number]) == 0
        assert client.queued == 40
        sent = counted(client, monkeypatch)
        own_server.start()
        own_server.freeze()
        async with fixed(settings.model_copy(update={"redis_timeout_s": 1.0}), port):
            await until_true(lambda: len(sent) > 20)
            own_server.thaw()
            await until_true(lambda: client.queued == 0)
            assert client.dropped == 0
            assert [await client.recent(guild, CHANNEL, 10) for guild in guilds] == [[]] * 4


@pytest.mark.process
async def test_what_a_service_was_only_told_survives_its_end(own_server: OwnServer) -> None:
    settings, port = make_settings(own_server.url, own_server.folder, redis_timeout_s=LIMIT_S), quiet_port()
    async with AsyncExitStack() as stack:
        async with fixed(settings, port) as running:
            client = await stack.enter_async_context(Client.open(await using(running, settings)))
            await client.remember_many([message(n) for n in range(1, 4)])
            own_server.kill()
            assert await client.delete(GUILD, CHANNEL, [1]) == 0
            assert await client.edit(replace(message(2), content="hares", revision=wall_now())) is Outcome.QUEUED
            assert await client.remember(message(4)) is Outcome.QUEUED
            await until_true(lambda: running.memory.is_queued(GUILD))
            assert client.queued == 3
            running.memory._store._outbox._lanes.clear()  # as kill -9 does
        own_server.start()
        async with fixed(settings, port):
            await until_true(lambda: client.queued == 0)
            found = {one.id: one.content for one in await client.recent(GUILD, CHANNEL, 10)}
            assert found == {2: "hares", 3: "turtles are slow", 4: "turtles are slow"}


@pytest.mark.process
async def test_what_is_repeated_while_redis_is_away_fills_no_queue(
    own_server: OwnServer, fake_embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "LAST_RETRY_S", 0.01)
    settings = make_settings(own_server.url, own_server.folder, redis_timeout_s=LIMIT_S)
    async with (
        serving(settings, fake_embedder) as running,
        Client.open(await using(running, settings)) as client,
    ):
        own_server.kill()
        await client.remember_many([message(n) for n in range(1, 6)])
        await client.edit(replace(message(2), content="hares", revision=wall_now()))
        await client.delete(GUILD, CHANNEL, [3])
        await client.delete_channel(GUILD, CHANNEL + 1)
        await client.delete_guild(GUILD + (4 << 22))
        await client.clear(GUILD, CHANNEL + 2)
        sent = counted(client, monkeypatch)
        await until_true(lambda: len(sent) > 100)
        assert running.memory.queued <= client.queued == 10
        own_server.start()
        await until_true(lambda: client.queued == 0)


@pytest.mark.process
async def test_what_was_deleted_while_the_service_was_away_is_not_shown_once_it_is_back(
    own_server: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although its Redis answers questions, it takes no changes, and the delete waits."""
    monkeypatch.setattr("channelmem.client.DRAIN_S", 0.0)
    settings, port = make_settings(own_server.url, own_server.folder, redis_timeout_s=LIMIT_S), quiet_port()
    async with AsyncExitStack() as stack:
        async with fixed(settings, port) as running:
            client = await stack.enter_async_context(Client.open(await using(running, settings)))
            await client.remember_many([message(n) for n in range(1, 41)])
            assert await client.flush()
        for name in ("FIRST_RETRY_S", "LAST_RETRY_S"):  # nothing is sent by itself from now on
            monkeypatch.setattr(outbox, name, 1e9)
        for number in range(1, 41):
            await client.delete(GUILD, CHANNEL, [number])
        async with fixed(settings, port) as told, disk_full(own_server):
            assert await here(client) == set()
            answer = await client.ask(question("what did Ann say about turtles?"))
            assert "turtles are slow" not in answer.text
            assert (client.queued, told.memory.queued) == (40, 40)
            told.memory._store._outbox._lanes.clear()  # as kill -9 does
        async with fixed(settings, port):
            assert await here(client) == set(), "the new process was told again"


@pytest.mark.parametrize("end", ["revoked", "expired"])
async def test_a_token_that_ends_keeps_removals_waiting_until_it_is_known_again(
    settings: Settings,
    fake_embedder: FakeEmbedder,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    end: str,
) -> None:
    for name in ("COPY_S", "UNKNOWN_S"):
        monkeypatch.setattr(access, name, 0.0)
    async with serving(settings, fake_embedder) as running, Client.open(await using(running, settings)) as client:
        await client.remember_many([message(1), message(2)])
        (token,) = await running.tokens.all()
        if end == "revoked":
            await running.tokens.remove(token.id)
        else:
            await running.tokens.add(replace(token, expires_at=1.0))
        assert await client.delete(GUILD, CHANNEL, [1]) == 0
        assert await client.remember(message(3, "frogs")) is Outcome.QUEUED
        assert (client.queued, client.dropped, client.available) == (2, 0, False)
        assert "CHANNELMEM_SERVICE_TOKEN" in caplog.text
        assert "frogs" not in caplog.text
        with pytest.raises(ConfigError, match="CHANNELMEM_SERVICE_TOKEN"):
            await client.recent(GUILD, CHANNEL, 10)
        await running.tokens.add(token)
        await until_true(lambda: client.queued == 0)
        assert await here(client) == {2, 3}


async def test_what_a_client_can_no_longer_deliver_is_counted_and_logged(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("channelmem.client.DRAIN_S", 0.0)
    nowhere = settings.model_copy(update={"service_url": f"http://127.0.0.1:{quiet_port()}"})
    async with Client.open(nowhere, patient=True) as client:
        await client.remember(message(1, "a secret"))
        await client.delete(GUILD, CHANNEL, [1])
    assert client.dropped == 2
    assert "never got these queued events; dropping them: 1 add, 1 remove" in caplog.text
    assert "secret" not in caplog.text


async def test_one_guild_that_a_token_may_not_reach_holds_up_no_other(
    settings: Settings, fake_embedder: FakeEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = replace(message(2, "a secret"), guild_id=GUILD + (4 << 22))  # the same lane
    async with (
        serving(settings, fake_embedder) as running,
        Client.open(await using(running, settings, GUILD)) as client,
    ):
        sent = [client.remember(one) for one in (message(1), foreign, message(3))]
        first, refused, last = await asyncio.gather(*sent, return_exceptions=True)
        assert (first, last) == (Outcome.STORED, Outcome.STORED)
        assert isinstance(refused, ConfigError)
        assert await here(client) == {1, 3}
    assert "secret" not in caplog.text


# --- values that cannot be sent ---

LONE = "bad \ud800 secret"


async def test_words_that_have_no_bytes_are_stored_as_in_process_and_hold_up_nobody(memory: Memory) -> None:
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(str(context)))
    odd = replace(message(2, LONE), author="Ann \udfff", aliases=("a\ud800",))
    attached = replace(message(3), attachments=(Attachment(9, name="x\ud800", alt="\ud800", duration_s=math.nan),))
    nul = message(4, "no\x00thing")
    some = [message(1), odd, attached, nul, message(5)]
    assert await asyncio.wait_for(memory.remember_many(some), LIMIT_S) == [Outcome.STORED] * 5
    found = {one.id: one for one in await memory.recent(GUILD, CHANNEL, 10)}
    assert (found[2].content, found[2].author, found[4].content) == ("bad \ufffd secret", "Ann \ufffd", "nothing")
    assert found[3].attachments[0].name == "x\ufffd"
    assert await memory.delete(GUILD, CHANNEL, [2]) == 1
    assert complaints == []


IMPOSSIBLE: list[dict[str, Any]] = [
    {"ts": math.nan},
    {"ts": math.inf},
    {"ts": -1.0},
    {"revision": math.nan},
    {"id": -1},
    {"id": 2**64},
    {"author_id": 2**64},
    {"channel_id": -5},
]


@pytest.mark.parametrize("wrong", IMPOSSIBLE, ids=str)
async def test_a_message_without_a_possible_time_or_id_is_ignored_alone(memory: Memory, wrong: dict[str, Any]) -> None:
    outcomes = await memory.remember_many([message(1), replace(message(2), **wrong), message(3)])
    assert outcomes == [Outcome.STORED, Outcome.IGNORED, Outcome.STORED]
    assert memory.dropped == 0


@pytest.mark.parametrize("name", ["ts", "revision"])
async def test_an_edit_with_an_impossible_time_removes_what_it_says_no_longer(memory: Memory, name: str) -> None:
    await memory.remember(message(1))
    changes: dict[str, Any] = {"content": "hares", "revision": wall_now(), name: math.nan}
    await memory.edit(replace(message(1), **changes))
    assert await memory.recent(GUILD, CHANNEL, 10) == []


async def test_impossible_parts_of_a_message_are_left_out(memory: Memory) -> None:
    odd = replace(message(1), reply_to=-1, mentions=(-7, 6), attachments=(Attachment(-9, "x"), Attachment(8, size=-5)))
    assert await memory.remember(replace(odd, thread_of=0)) is Outcome.STORED
    (found,) = await memory.recent(GUILD, CHANNEL, 1)
    assert found.reply_to is None
    assert [(one.id, one.size) for one in found.attachments] == [(8, 0)]


async def test_a_question_of_any_letters_is_answered(memory: Memory) -> None:
    await memory.remember(message(1))
    odd = replace(
        question("what did Ann say about turtles?\ud800"),
        asker="Cy \udfff",
        mentions=(Person(ANN.id, "Ann\ud800"),),
        attachments=(Attachment(3, name="\ud800"),),
    )
    assert "turtles are slow" in (await memory.ask(odd)).text
    assert "turtles" in (await memory.look(ContextRequest(odd, "turtles \ud800", "Ann"))).text
    assert await memory.enrich(GUILD, CHANNEL, 1, 2, "a \ud800") is False


async def test_a_message_of_the_platform_that_cannot_be_sent_is_left_out(
    settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    held = Platform()
    held.past = Past((replace(message(1), ts=math.nan), message(2, "llamas \ud800 spit")))
    async with (
        serving(settings, fake_embedder) as running,
        Client.open(await using(running, settings), history=held) as client,
    ):
        assert "spit" in (await client.ask(question("what did people say about llamas?"))).text


async def test_a_number_that_is_none_is_refused_without_its_words(
    settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    async with serving(settings, fake_embedder) as running, Client.open(await using(running, settings)) as client:
        with pytest.raises(RejectedError) as refused:
            await client.look(ContextRequest(question("secret"), "secret", since_s=math.nan))
        assert "secret" not in str(refused.value)
        assert refused.value.__cause__ is None
