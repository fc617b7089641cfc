"""People over HTTP: forgetting, opting out and in, and exports, everywhere or in the guilds of a token."""

from __future__ import annotations

import json

import httpx
import pytest
from conftest import CHANNEL, GUILD, FakeEmbedder, OwnServer, make_settings
from serving import EVERYTHING, Running, serving
from test_api_messages import HERE, said
from waiting import until

from channelmem.access import Scope

pytest_plugins = ["serving_fixtures"]

OTHER_GUILD = GUILD + (1 << 22)
THERE = f"/v1/guilds/{OTHER_GUILD}/channels/{CHANNEL}"


@pytest.fixture
async def http(service: Running) -> httpx.AsyncClient:
    client = await service.operator()
    await client.post("/v1/messages", json=[said(1), said(2, guild_id=str(OTHER_GUILD)), said(3, author_id="6")])
    await client.post("/v1/flush", json={})
    return client


async def ids(http: httpx.AsyncClient, path: str) -> list[str]:
    return [one["id"] for one in (await http.get(f"{path}/messages")).json()["messages"]]


async def exported(http: httpx.AsyncClient, **params: str) -> list[str]:
    answered = await http.get("/v1/people/5/export", params=params)
    assert answered.headers["content-type"].startswith("application/jsonl")
    return [json.loads(line)["id"] for line in answered.text.splitlines()]


async def test_somebody_who_is_forgotten_is_gone_everywhere_and_stays_out(http: httpx.AsyncClient) -> None:
    assert (await http.post("/v1/people/5/forget")).status_code == 200
    assert await ids(http, HERE) == ["3"]
    assert await ids(http, THERE) == []
    assert (await http.post("/v1/messages", json=said(4))).json()["outcomes"][0]["outcome"] == "ignored"

    async def gone() -> bool:
        return await exported(http) == []

    await until(gone)


async def test_a_person_can_be_forgotten_in_one_guild(http: httpx.AsyncClient) -> None:
    await http.post("/v1/people/5/forget", params={"guild_id": str(GUILD)})
    assert (await ids(http, HERE), await ids(http, THERE)) == (["3"], ["2"])


async def test_an_opt_out_hides_and_an_opt_in_shows_again(http: httpx.AsyncClient) -> None:
    await http.post("/v1/people/5/opt-out")
    assert await ids(http, HERE) == ["3"]
    assert await exported(http) == ["1", "2"], "they may still read what is stored of them"
    assert (await http.post("/v1/people/5/opt-in")).json() == {"returning": False, "left": None}
    assert await ids(http, HERE) == ["3", "1"]
    assert (await http.get("/v1/people/5/returning")).json() == {"returning": False, "left": None}


async def test_an_export_is_one_json_object_per_line_with_ids_as_strings(http: httpx.AsyncClient) -> None:
    answered = await http.get("/v1/people/5/export", params={"guild_id": str(GUILD)})
    (line,) = answered.text.splitlines()
    found = json.loads(line)
    assert (found["guild_id"], found["id"], found["content"]) == (str(GUILD), "1", "turtles are slow")


async def test_a_bound_token_forgets_and_exports_in_its_guilds_only(service: Running, http: httpx.AsyncClient) -> None:
    bound = service.caller(await service.token("bound", EVERYTHING, GUILD))
    assert await exported(bound) == ["1"]
    assert (await bound.get("/v1/people/5/export", params={"guild_id": str(OTHER_GUILD)})).status_code == 403
    assert (await bound.post("/v1/people/5/forget")).status_code == 200
    assert (await ids(http, HERE), await ids(http, THERE)) == (["3"], ["2"])
    back = (await bound.post("/v1/people/5/opt-in")).json()
    assert back["left"] is None, "how much is left is counted over all guilds"


async def test_a_removal_elsewhere_is_not_told_to_a_bound_token(service: Running, http: httpx.AsyncClient) -> None:
    bound = service.caller(await service.token("bound", EVERYTHING, GUILD))
    await http.post("/v1/people/5/forget", params={"guild_id": str(OTHER_GUILD)})
    await http.post("/v1/people/5/opt-in", params={"guild_id": str(OTHER_GUILD)})
    assert not (await bound.get("/v1/people/5/returning")).json()["returning"]


async def test_while_redis_is_away_decisions_and_exports_are_refused_with_a_time_to_come_back(
    own_server: OwnServer, fake_embedder: FakeEmbedder
) -> None:
    settings = make_settings(own_server.url, own_server.folder, redis_timeout_s=1.0)
    async with serving(settings, fake_embedder) as running:
        http = await running.operator()
        await http.post("/v1/messages", json=said(1))
        own_server.kill()
        for answered in (
            await http.post("/v1/people/5/forget"),
            await http.get("/v1/people/5/export"),
            await http.get(f"{HERE}/messages"),
            await http.get("/readyz"),
            await http.put("/v1/settings/global", json={"context_messages": 7}),
            await http.post("/v1/search", json={"guild_id": GUILD, "channels": [CHANNEL], "query": "turtles"}),
        ):
            assert answered.status_code == 503
            assert answered.json()["type"] == "urn:channelmem:redis-unavailable"
            assert int(answered.headers["retry-after"]) >= 1
        assert (await http.get("/healthz")).status_code == 200
        assert (await http.post("/v1/messages", json=said(2))).json()["outcomes"][0]["outcome"] == "queued"
        asked = {"guild_id": GUILD, "channel_id": CHANNEL, "text": "what did Ann say about turtles?"}
        answer = (await http.post("/v1/ask", json=asked)).json()
        assert (answer["text"], answer["needs_history"]) == ("I couldn't look it up. Redis does not answer.", True)
        own_server.start()

        async def stored() -> bool:
            return (await http.get(f"{HERE}/messages/2")).status_code == 200

        await until(stored)


# --- what a token that may only read sees of them ---


async def reader(service: Running) -> httpx.AsyncClient:
    return service.caller(await service.token("reader", [Scope.READ]))


async def test_an_export_needs_a_scope_of_its_own(service: Running, http: httpx.AsyncClient) -> None:
    everything_else = service.caller(await service.token("bot", EVERYTHING - {Scope.EXPORT}))
    refused = await everything_else.get("/v1/people/5/export")
    assert refused.status_code == 403
    assert "export scope" in refused.json()["detail"]
    clerk = service.caller(await service.token("clerk", [Scope.EXPORT], GUILD))
    assert await exported(clerk) == ["1"]
    assert (await clerk.get("/v1/people/5/export", params={"guild_id": str(OTHER_GUILD)})).status_code == 403
    assert (await clerk.get(f"{HERE}/messages")).status_code == 403


async def test_a_reader_counts_nothing_of_people_who_opted_out(service: Running, http: httpx.AsyncClient) -> None:
    looking = await reader(service)
    before = (await looking.get(f"{HERE}/stats")).json()
    assert (before["messages"], before["newest_id"]) == (2, "3")
    await http.post("/v1/people/6/opt-out")
    after = (await looking.get(f"{HERE}/stats")).json()
    (left,) = (await looking.get(f"{HERE}/messages")).json()["messages"]
    assert (after["messages"], after["newest_id"], after["newest_ts"]) == (1, "1", left["ts"])
    assert (await http.get(f"{HERE}/stats")).json()["newest_id"] == "3", "back-fill goes on behind it"


async def test_a_reader_learns_nothing_of_a_closed_channel(service: Running, http: httpx.AsyncClient) -> None:
    looking = await reader(service)
    await http.patch(f"/v1/settings/guilds/{GUILD}/channels/{CHANNEL}", json={"enabled": False})
    stats = (await looking.get(f"{HERE}/stats")).json()
    shown = ("messages", "pending", "oldest_ts", "newest_ts", "newest_id")
    assert [stats[name] for name in shown] == [0, 0, None, None, None]


async def test_ids_and_revisions_of_everything_are_for_who_may_write(service: Running, http: httpx.AsyncClient) -> None:
    assert (await (await reader(service)).get(f"{HERE}/known")).status_code == 403
    assert len((await http.get(f"{HERE}/known")).json()["messages"]) == 2
