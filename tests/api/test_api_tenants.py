"""Two bots that share a service: the second tries every endpoint of the OpenAPI document with the first one's ids.

A new endpoint needs no new test. A new kind of body needs an entry in BODIES, or the test fails.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import httpx
import pytest
from clock import wall_now
from conftest import GUILD
from serving import EVERYTHING, Running, described

pytest_plugins = ["serving_fixtures"]

OURS, CHANNEL, SECRET = GUILD, 933_333_333_333_333_333, "the vault code is 4711"
THEIRS = GUILD + (1 << 22)
AUTHOR, MESSAGE = 55_555_555, 944_444_444_444_444_444
HERE = f"/v1/guilds/{OURS}/channels/{CHANNEL}"
PLACE = {"guild_id": str(OURS), "channel_id": str(CHANNEL)}
ASK = PLACE | {"text": "what did Ann say about the vault code?", "asker_id": "7", "asker": "Cy"}
TOLD = {"id": str(MESSAGE), "author_id": str(AUTHOR), "author": "Ann", "content": "overwritten"}

BODIES: dict[str, Any] = {
    "body": [PLACE | TOLD],  # of POST /messages: one or many
    "MessageBody": PLACE | TOLD,
    "EditBody": {"content": "overwritten", "author_id": str(AUTHOR), "author": "Ann", "ts": wall_now()},
    "DeleteBody": {"ids": [str(MESSAGE)]},
    "EnrichBody": {"text": "overwritten"},
    "AskBody": ASK,
    "ContextBody": ASK,
    "LookBody": ASK | {"query": "vault"},
    "StandingBody": PLACE | {"origins": [{"channel_id": str(CHANNEL), "id": str(MESSAGE)}]},
    "SearchBody": {"guild_id": str(OURS), "channels": [str(CHANNEL)], "query": "vault"},
    "ClearBody": {},
    "AbsorbBody": {"messages": [PLACE | TOLD]},
    "QuestionBody": ASK,
    "BoundaryBody": {"at": wall_now()},
    "GapBody": {"oldest_id": "1"},
    "NamesBody": {"guild": "overwritten", "channels": [{"id": str(CHANNEL), "name": "overwritten"}]},
    "RecapBody": ASK | {"start": wall_now() - 86_400, "end": wall_now()},
    "LoadBody": {"start_id": "1", "done_id": "5", "end_id": "9"},
    "SpendBody": PLACE | {"day": 20_000, "micros": -500, "cap_micros": 1_000_000},
    "FlushBody": {"timeout_s": 0.0},
    "GlobalSettings": {"context_messages": 3},
    "ChannelSettings": {"context_messages": 3},
    "CharacterSettings": {"context_messages": 3},
}
PARAMETERS = {
    "guild_id": OURS,
    "channel_id": CHANNEL,
    "message_id": MESSAGE,
    "attachment_id": 9,
    "author_id": AUTHOR,
    "name": "frodo",
    "channel": CHANNEL,
    "day": 20_000,
}

Operation = dict[str, Any]
OPERATIONS: list[tuple[str, str, Operation]] = [
    (path, method, operation)
    for path, operations in cast("dict[str, dict[str, Operation]]", described()["paths"]).items()
    for method, operation in operations.items()
]


@pytest.fixture
async def victim(service: Running) -> httpx.AsyncClient:
    http = service.caller(await service.token("victim", EVERYTHING, OURS))
    said = PLACE | TOLD | {"content": SECRET, "attachments": [{"id": "9", "name": "a.png"}]}
    quoting = said | {"id": str(MESSAGE + 1), "own": True, "derived_from": [{"channel_id": CHANNEL, "id": MESSAGE + 2}]}
    await http.post("/v1/messages", json=[said, said | {"id": str(MESSAGE + 2)}, quoting])
    await http.delete(f"{HERE}/messages/{MESSAGE + 2}")  # so that there is something to redact
    await http.patch(f"/v1/settings/guilds/{OURS}/channels/{CHANNEL}", json={"max_images": 2})
    await http.put(f"/v1/settings/guilds/{OURS}/characters/frodo", json={"max_images": 1})
    await http.put(f"{HERE}/gap", json={"newest_id": "20", "oldest_id": "10"})
    await http.post(f"{HERE}/load", json={"start_id": "1", "done_id": "1", "end_id": "9"})
    spent = PLACE | {"day": 20_000, "micros": 900, "cap_micros": 1_000_000}
    await http.post("/v1/spending/reserve", json=spent)
    await http.post("/v1/flush", json={})
    return http


def body_of(operation: Operation) -> Any:
    content = operation.get("requestBody", {}).get("content", {})
    if not content:
        return None
    schema = content["application/json"]["schema"]
    return BODIES[schema["$ref"].rpartition("/")[2] if "$ref" in schema else "body"]


def requests_of(path: str, method: str, operation: Operation) -> list[dict[str, Any]]:
    """The request with our ids; where a guild may be named in the query, also with it."""
    wanted = {one["name"]: one["in"] for one in operation.get("parameters", ())}
    url = path.format(**{name: PARAMETERS[name] for name, where in wanted.items() if where == "path"})
    query = {name: str(PARAMETERS[name]) for name, where in wanted.items() if where == "query" and name in PARAMETERS}
    plain = {"method": method.upper(), "url": url, "json": body_of(operation)}
    return [plain, plain | {"params": query}] if query else [plain]


async def state(victim: httpx.AsyncClient) -> list[Any]:
    """Everything that somebody else could have changed."""
    paths = (
        f"{HERE}/messages",
        f"{HERE}/stats",
        f"{HERE}/known",
        f"/v1/guilds/{OURS}/gaps",
        f"/v1/guilds/{OURS}/loads",
        f"/v1/settings/guilds/{OURS}/channels/{CHANNEL}",
        f"/v1/settings/guilds/{OURS}/characters/frodo",
        "/v1/settings/global",
        "/v1/settings/documents",
        "/v1/redactions",
        f"/v1/people/{AUTHOR}/export",
        f"/v1/people/{AUTHOR}/returning",
        "/v1/spending/20000",
    )
    answered = [await victim.get(path) for path in paths]
    assert {one.status_code for one in answered} == {200}
    return [one.text for one in answered]


async def test_no_endpoint_shows_or_changes_what_belongs_to_another_tenant(
    service: Running, victim: httpx.AsyncClient
) -> None:
    thief = service.caller(await service.token("thief", EVERYTHING, THEIRS))
    before = await state(victim)
    assert SECRET in before[0]
    assert str(MESSAGE + 1) in before[9], "there is something to redact"
    for path, method, operation in OPERATIONS:
        for request in requests_of(path, method, operation):
            answered = await thief.request(**request)
            assert answered.status_code < 500, request
            for what in (SECRET, "vault code is", str(CHANNEL), str(OURS), str(MESSAGE)):
                assert what not in answered.text, request
            named = "{guild_id}" in path or "guild_id" in request.get("params", {}) or _names_guild(request["json"])
            assert not named or answered.status_code == 403, request
    assert await state(victim) == before


def _names_guild(body: Any) -> bool:
    return "guild_id" in (body[0] if isinstance(body, list) else body or {})


async def test_the_first_tenant_can_use_every_endpoint_that_is_not_about_all_guilds(
    service: Running, victim: httpx.AsyncClient
) -> None:
    """Otherwise the test above could pass because its requests are wrong."""
    last = ("/forget", "/opt-out", "/v1/guilds/{guild_id}", "/v1/guilds/{guild_id}/channels/{channel_id}")
    ordered = sorted(OPERATIONS, key=lambda one: (one[1] == "delete", one[0].endswith(last), one[0]))
    for path, method, operation in ordered:
        unbound = path == "/metrics" or (path == "/v1/settings/global" and method != "get")
        for request in requests_of(path, method, operation):
            answered = await victim.request(**request)
            gone = path.endswith("/messages/{message_id}") and answered.status_code == 404
            assert answered.is_success or gone or (unbound and answered.status_code == 403), (request, answered.text)


async def test_a_batch_with_one_message_of_another_guild_stores_nothing(
    service: Running, victim: httpx.AsyncClient
) -> None:
    thief = service.caller(await service.token("thief", EVERYTHING, THEIRS))
    own = PLACE | TOLD | {"guild_id": str(THEIRS), "id": "1", "content": "mine"}
    assert (await thief.post("/v1/messages", json=[own, PLACE | TOLD | {"id": "2"}])).status_code == 403
    assert (await thief.get(f"/v1/guilds/{THEIRS}/channels/{CHANNEL}/messages")).json()["messages"] == []
    assert SECRET in (await victim.get(f"{HERE}/messages")).text


async def test_the_same_channel_and_message_ids_in_another_guild_are_other_messages(
    service: Running, victim: httpx.AsyncClient
) -> None:
    thief = service.caller(await service.token("thief", EVERYTHING, THEIRS))
    await thief.post("/v1/messages", json=PLACE | TOLD | {"guild_id": str(THEIRS), "content": "mine"})
    asked = ASK | {"guild_id": str(THEIRS), "text": "what did Ann say?", "readable_channel_ids": [str(CHANNEL)]}
    answers = await asyncio.gather(*(thief.post("/v1/ask", json=asked) for _ in range(10)))
    assert all("mine" in one.json()["text"] and "vault" not in one.text for one in answers)
    context = (await thief.post("/v1/context", json=asked)).text
    assert "vault" not in context


async def test_a_token_for_two_guilds_reaches_both_and_no_third(service: Running, victim: httpx.AsyncClient) -> None:
    both = service.caller(await service.token("both", EVERYTHING, OURS, THEIRS))
    assert (await both.get(f"{HERE}/messages")).status_code == 200
    assert (await both.get(f"/v1/guilds/{THEIRS}/channels/1/messages")).status_code == 200
    assert (await both.get(f"/v1/guilds/{THEIRS + 1}/channels/1/messages")).status_code == 403
    assert (await both.get("/v1/guilds/0/channels")).status_code == 403
