"""What callers say about a thread's channel: it may close something, and opens nothing that is set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest
from clock import wall_now
from conftest import CHANNEL, GUILD
from serving import EVERYTHING, Running

from channelmem.access import Scope
from channelmem.policy.cascade import Place
from channelmem.types import MEMORY_OFF, Message, Outcome

pytest_plugins = ["serving_fixtures"]

OPEN, SECRET = CHANNEL + 1, "the vault code is 4711"
PLACE = {"guild_id": str(GUILD), "channel_id": str(CHANNEL)}
CLAIM = PLACE | {"thread_of": str(OPEN)}
ASK = CLAIM | {"text": "what did Ann say about the vault code?", "asker_id": "7", "asker": "Cy"}
ORIGINS = [{"channel_id": str(CHANNEL), "id": "1"}]
BODIES: dict[str, dict[str, Any]] = {
    "ask": ASK,
    "context": ASK,
    "look": ASK | {"query": "vault"},
    "recap": ASK | {"start": wall_now() - 86_400, "end": wall_now()},
    "breakdown": ASK,
    "standing": CLAIM | {"origins": ORIGINS},
}
SETTINGS = f"/v1/settings/guilds/{GUILD}/channels/{CHANNEL}"


def message(id_: int, text: str = SECRET, **changes: Any) -> Message:
    return replace(Message(GUILD, CHANNEL, id_, 5, "Ann", text, wall_now() - 60 + id_), **changes)


async def nothing_shown(http: httpx.AsyncClient, path: str) -> bool:
    answered = await http.post(f"/v1/{path}", json=BODIES[path])
    assert answered.is_success, answered.text
    told = answered.json()
    return "4711" not in answered.text and not told.get("origins") and not told.get("raw")


@pytest.fixture
async def closed(service: Running) -> Running:
    """A channel that was switched off, with a message in it, beside one that is on."""
    assert await service.memory.remember(message(1)) is Outcome.STORED
    await service.memory.policies.set(Place.channel(GUILD, OPEN), "enabled", True)
    await service.memory.policies.set(Place.channel(GUILD, CHANNEL), "enabled", False)
    return service


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("scopes", [[Scope.READ], EVERYTHING])
async def test_a_closed_channel_is_not_opened_by_calling_it_a_thread(
    closed: Running, path: str, scopes: list[Scope]
) -> None:
    assert await nothing_shown(closed.caller(await closed.token("one", scopes)), path)


async def test_a_closed_channel_stays_closed_when_it_becomes_a_thread_and_opens_by_its_own_setting(
    closed: Running,
) -> None:
    memory, http = closed.memory, await closed.operator()
    said = CLAIM | {"id": "2", "author_id": "5", "author": "Ann", "content": "more"}
    reply = (await http.post("/v1/messages", json=said)).json()
    assert [one["outcome"] for one in reply["outcomes"]] == ["ignored"]
    await memory.policies.learn_threads([message(3, thread_of=OPEN)])
    assert not memory.policies.of(GUILD, CHANNEL).enabled
    assert await memory.remember(message(4, thread_of=OPEN)) is Outcome.IGNORED
    assert (await http.patch(SETTINGS, json={"enabled": True})).is_success
    assert memory.policies.of(GUILD, CHANNEL).enabled
    assert await memory.remember(message(int(wall_now()), ts=wall_now() + 1)) is Outcome.STORED


async def test_who_may_only_write_cannot_make_a_channel_follow_another(service: Running) -> None:
    writer = service.caller(await service.token("writer", [Scope.READ, Scope.WRITE]))
    said = CLAIM | {"id": "2", "author_id": "5", "author": "Ann", "content": SECRET}
    assert (await writer.post("/v1/messages", json=said)).json()["outcomes"][0]["outcome"] == "stored"
    edited = {"content": "edited", "thread_of": str(OPEN)}
    assert (await writer.patch(f"/v1/guilds/{GUILD}/channels/{CHANNEL}/messages/2", json=edited)).is_success
    http = await service.operator()
    assert (await http.get("/v1/settings/documents")).json()["threads"] == {}
    await http.patch(SETTINGS, json={"enabled": False})
    assert not service.memory.policies.of(GUILD, CHANNEL).enabled
    assert service.memory.policies.of(GUILD, OPEN).enabled
    assert await nothing_shown(writer, "ask")


async def test_a_claim_closes_what_is_said_and_nothing_else(service: Running) -> None:
    writer = service.caller(await service.token("writer", [Scope.READ, Scope.WRITE]))
    await service.memory.policies.set(Place.channel(GUILD, OPEN), "enabled", False)
    said = CLAIM | {"id": "2", "author_id": "5", "author": "Ann", "content": SECRET}
    assert (await writer.post("/v1/messages", json=said)).json()["outcomes"][0]["outcome"] == "ignored"
    assert (await writer.post("/v1/ask", json=ASK)).json()["text"] == MEMORY_OFF
    assert (await service.memory.remember(message(3))) is Outcome.STORED
    assert service.memory.policies.of(GUILD, CHANNEL).enabled, "for everybody else it is open"


async def test_the_channel_of_a_thread_is_noted_once(service: Running) -> None:
    http, memory = await service.operator(), service.memory
    said = CLAIM | {"id": "2", "author_id": "5", "author": "Ann", "content": SECRET}
    await http.post("/v1/messages", json=said)
    await http.post("/v1/messages", json=said | {"id": "3", "thread_of": str(OPEN + 1)})
    noted = {f"{GUILD}c{CHANNEL}": f"{GUILD}c{OPEN}"}
    assert (await http.get("/v1/settings/documents")).json()["threads"] == noted
    memory._store.levels.threads.clear()  # another process, which has not read it yet
    await memory.policies.learn_threads([message(4, thread_of=OPEN + 1)])
    assert memory._store.levels.threads == noted
    await memory.policies.set(Place.channel(GUILD, OPEN), "enabled", False)
    assert not memory.policies.of(GUILD, CHANNEL, thread_of=OPEN + 1).enabled


async def test_redis_refuses_both_for_a_closed_thread_and_for_a_closed_channel(service: Running) -> None:
    """For processes that have not heard of the change yet."""
    memory = service.memory
    policy = memory.policies.storing(GUILD, CHANNEL)
    await memory.policies.learn_threads([message(1, thread_of=OPEN)])
    for place in (CHANNEL, OPEN):
        at = Place.channel(GUILD, place)
        await memory.policies.set(at, "enabled", False)
        assert await memory._store.add([message(10 + place % 7)], [policy]) == [Outcome.IGNORED]
        await memory.policies.reset(at)
    assert await memory._store.add([message(30, ts=wall_now() + 1)], [policy]) == [Outcome.STORED]
