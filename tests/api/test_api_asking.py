"""Questions over HTTP: answers with their reasons, the platform's history on request, context, the tool, and search."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from clock import wall_now
from conftest import CHANNEL, GUILD
from serving import Running
from test_api_messages import HERE, said

pytest_plugins = ["serving_fixtures"]

BOB = {"author_id": "6", "author": "Bob"}


@pytest.fixture
async def http(service: Running) -> httpx.AsyncClient:
    client = await service.operator()
    talk = [said(1, "turtles are slow"), said(2, "the deploy is green again", **BOB), said(3, "lunch at noon?")]
    await client.post("/v1/messages", json=talk)
    await client.post("/v1/flush", json={})
    return client


def question(text: str, **changes: Any) -> dict[str, Any]:
    return {"guild_id": str(GUILD), "channel_id": str(CHANNEL), "asker_id": "7", "asker": "Cy", "text": text} | changes


async def test_an_answer_comes_with_route_reasons_scores_sources_and_milliseconds(http: httpx.AsyncClient) -> None:
    answer = (await http.post("/v1/ask", json=question("what did Ann say about turtles?"))).json()
    assert "turtles are slow" in answer["text"]
    assert answer["found"]
    assert answer["route"]["kind"] == "channel"
    assert answer["route"]["topic"] == "turtles"
    assert answer["route"]["speakers"] == [{"id": "5", "name": "Ann", "aliases": []}]
    assert answer["route"]["why"]
    hit = answer["hits"][0]
    assert (hit["message"]["id"], hit["source"]) == ("1", "buffer")
    assert 0 < hit["similarity"] <= 1
    assert hit["score"] > 0
    assert answer["tried"][0]["source"] == "buffer"
    assert answer["ms"]["total"] >= answer["ms"]["route"] > 0
    assert not answer["needs_history"]


async def test_an_honest_no_says_what_was_looked_at_and_nothing_of_a_history_that_nobody_sent(
    http: httpx.AsyncClient,
) -> None:
    answer = (await http.post("/v1/ask", json=question("what did people say about llamas?"))).json()
    assert not answer["found"]
    assert answer["text"] == "Nobody has mentioned llamas in the 3 messages I have seen."
    assert "history" not in answer["text"]
    assert {one["source"] for one in answer["tried"]} == {"buffer", "archive"}
    assert answer["needs_history"]


async def test_history_that_is_sent_answers_once_and_is_never_stored(http: httpx.AsyncClient) -> None:
    asked = question("what did people say about llamas?")
    first = (await http.post("/v1/ask", json=asked)).json()
    assert first["needs_history"]
    past = said(50, "llamas spit", author_id="8", author="Dora", ts=wall_now() - 300)
    answer = (await http.post("/v1/ask", json=asked | {"history": [past], "members": []})).json()
    assert "llamas spit" in answer["text"]
    assert answer["hits"][0]["source"] == "history"
    assert not answer["needs_history"]
    assert (await http.get(f"{HERE}/messages/50")).status_code == 404
    again = (await http.post("/v1/ask", json=asked)).json()
    assert "spit" not in again["text"]


async def test_what_is_sent_of_another_channel_or_guild_is_left_out(http: httpx.AsyncClient) -> None:
    asked = question("what did people say about llamas?")
    for elsewhere in ({"guild_id": str(GUILD + 1)}, {"channel_id": str(CHANNEL + 1)}):
        past = said(50, "llamas spit", author_id="8", author="Dora") | elsewhere
        answer = (await http.post("/v1/ask", json=asked | {"history": [past], "members": []})).json()
        assert "spit" not in answer["text"]


async def test_people_who_opted_out_are_left_out_of_history_too(http: httpx.AsyncClient) -> None:
    await http.post("/v1/people/8/opt-out")
    past = said(50, "llamas spit", author_id="8", author="Dora")
    asked = question("what did people say about llamas?", history=[past], members=[])
    assert "spit" not in (await http.post("/v1/ask", json=asked)).json()["text"]


async def test_why_the_platform_gave_no_history_is_told_to_the_person(http: httpx.AsyncClient) -> None:
    asked = question("what did people say about llamas?", history_problem="I may not read this channel's past.")
    answer = (await http.post("/v1/ask", json=asked)).json()
    assert answer["text"].endswith("I may not read this channel's past.")
    assert not answer["needs_history"]


async def test_members_whom_nobody_heard_are_asked_for_by_name(http: httpx.AsyncClient) -> None:
    asked = question("what did Zed say about turtles?")
    first = (await http.post("/v1/ask", json=asked)).json()
    assert first["needs_members"] == ["Zed"]
    assert first["route"]["stranger"]
    answer = (await http.post("/v1/ask", json=asked | {"members": [{"id": "77", "name": "Zed"}], "history": []})).json()
    assert answer["needs_members"] == []
    assert [one["id"] for one in answer["route"]["speakers"]] == ["77"]


async def test_quotes_have_links_if_the_caller_says_what_they_look_like(http: httpx.AsyncClient) -> None:
    asked = question("what did Ann say about turtles?", link="https://chat.example/{guild_id}/{channel_id}/{id}")
    assert f"https://chat.example/{GUILD}/{CHANNEL}/1" in (await http.post("/v1/ask", json=asked)).json()["text"]


async def test_context_is_a_block_and_chat_messages_and_says_what_it_is_made_of(http: httpx.AsyncClient) -> None:
    block = (await http.post("/v1/context", json=question("what did Ann say about turtles?"))).json()
    assert "turtles are slow" in block["text"]
    system, user = block["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert block["text"] in system["content"]
    assert user["content"] == "what did Ann say about turtles?"
    assert {"channel_id": str(CHANNEL), "id": "1", "revision": 0.0} in block["shown"]
    assert {one["id"] for one in block["given"]} == {"1", "2", "3"}


async def test_context_of_a_given_answer_asks_no_second_time(http: httpx.AsyncClient) -> None:
    asked = question("what did Bob say about the deploy?", id="900")
    answer = (await http.post("/v1/ask", json=asked)).json()
    block = (await http.post("/v1/context", json=asked | {"answer": answer})).json()
    assert "Bob (" in block["text"]
    await http.delete(f"{HERE}/messages/2")
    block = (await http.post("/v1/context", json=asked | {"answer": answer})).json()
    assert "deploy is green" not in block["text"], "a message deleted since must not come back with the answer"


async def test_what_was_given_stands_until_it_changes(http: httpx.AsyncClient) -> None:
    block = (await http.post("/v1/context", json=question("what did Ann say about turtles?"))).json()
    body = {"guild_id": str(GUILD), "channel_id": str(CHANNEL), "origins": block["given"]}
    assert (await http.post("/v1/standing", json=body)).json()["origins"] == block["given"]
    await http.patch(f"{HERE}/messages/1", json={"content": "hares are fast"})
    await http.delete(f"{HERE}/messages/2")
    assert [one["id"] for one in (await http.post("/v1/standing", json=body)).json()["origins"]] == ["3"]


async def test_the_tool_looks_by_topic_speaker_and_time(http: httpx.AsyncClient) -> None:
    looked = (await http.post("/v1/look", json=question("", query="turtles", speaker="Ann", since_s=3600))).json()
    assert "turtles are slow" in looked["text"]
    assert "1" in {one["id"] for one in looked["shown"]}
    unknown = (await http.post("/v1/look", json=question("", speaker="Nobody"))).json()
    assert "Nobody" in unknown["text"]


async def test_search_filters_by_query_speakers_window_and_channels(http: httpx.AsyncClient) -> None:
    await http.post("/v1/messages", json=said(4, "turtles again", channel_id=str(CHANNEL + 1), **BOB))
    here = {"guild_id": str(GUILD), "channels": [str(CHANNEL)]}

    async def ids(**terms: Any) -> list[str]:
        found = (await http.post("/v1/search", json=here | terms)).json()
        return [hit["message"]["id"] for hit in found["hits"]]

    assert (await ids(query="turtles"))[0] == "1"
    assert await ids() == ["3", "2", "1"]
    assert await ids(speakers=["6"]) == ["2"]
    assert await ids(mode="first", limit=1) == ["1"]
    assert await ids(window={"start": wall_now() + 5}) == []
    both = await ids(query="turtles", channels=[str(CHANNEL), str(CHANNEL + 1)])
    assert set(both) >= {"1", "4"}
    recap = (await http.post("/v1/search", json=here | {"mode": "recap"})).json()
    assert [one["id"] for one in recap["messages"]] == ["1", "2", "3"]


async def test_a_channel_whose_memory_is_off_is_neither_searched_nor_shown(http: httpx.AsyncClient) -> None:
    await http.patch(f"/v1/settings/guilds/{GUILD}/channels/{CHANNEL}", json={"enabled": False})
    assert (await http.post("/v1/ask", json=question("what did Ann say?"))).json()["text"] == (
        "Memory is off in this channel."
    )
    found = (await http.post("/v1/search", json={"guild_id": GUILD, "channels": [CHANNEL]})).json()
    assert found["hits"] == []
    assert (await http.get(f"{HERE}/messages")).json() == {"messages": [], "next": None}
    assert (await http.get(f"{HERE}/messages/1")).status_code == 404
