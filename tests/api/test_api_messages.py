"""Messages over HTTP: remembering, reading page by page, editing, deleting, and what is refused."""

from __future__ import annotations

from typing import Any

import httpx
from clock import wall_now
from conftest import CHANNEL, GUILD

pytest_plugins = ["serving_fixtures"]

HERE = f"/v1/guilds/{GUILD}/channels/{CHANNEL}"


def said(number: int, text: str = "turtles are slow", **changes: Any) -> dict[str, Any]:
    plain = {
        "guild_id": str(GUILD),
        "channel_id": str(CHANNEL),
        "id": str(number),
        "author_id": "5",
        "author": "Ann",
        "content": text,
        "ts": wall_now() - 60 + number / 1000,
    }
    return plain | changes


async def texts(http: httpx.AsyncClient) -> list[str]:
    return [one["content"] for one in (await http.get(f"{HERE}/messages")).json()["messages"]]


async def test_a_message_is_accepted_and_visible_at_once_with_its_ids_as_strings(http: httpx.AsyncClient) -> None:
    big = 2**62 + 1
    done = await http.post("/v1/messages", json=said(big, ts=wall_now()))
    assert done.status_code == 202
    (outcome,) = done.json()["outcomes"]
    assert outcome == {"guild_id": str(GUILD), "channel_id": str(CHANNEL), "id": str(big), "outcome": "stored"}
    (found,) = (await http.get(f"{HERE}/messages")).json()["messages"]
    assert found["id"] == str(big)
    assert found["content"] == "turtles are slow"


async def test_ids_may_be_numbers_and_time_may_be_absent(http: httpx.AsyncClient) -> None:
    body = {"guild_id": GUILD, "channel_id": CHANNEL, "id": 1, "author_id": 5, "author": "Ann", "content": "hello"}
    before = wall_now()
    assert (await http.post("/v1/messages", json=body)).json()["outcomes"][0]["outcome"] == "stored"
    (found,) = (await http.get(f"{HERE}/messages")).json()["messages"]
    assert before <= found["ts"] <= wall_now()


async def test_many_messages_have_an_outcome_each_in_order(http: httpx.AsyncClient) -> None:
    done = await http.post("/v1/messages", json=[said(1), said(2, "   "), said(3, "hares are fast")])
    assert [one["outcome"] for one in done.json()["outcomes"]] == ["stored", "ignored", "stored"]
    assert [one["id"] for one in done.json()["outcomes"]] == ["1", "2", "3"]


async def test_the_same_id_twice_is_one_message(http: httpx.AsyncClient) -> None:
    for _ in range(2):
        assert (await http.post("/v1/messages", json=said(1))).status_code == 202
    assert await texts(http) == ["turtles are slow"]


async def test_more_than_a_thousand_messages_are_refused_and_none_is_stored(http: httpx.AsyncClient) -> None:
    refused = await http.post("/v1/messages", json=[said(n) for n in range(1, 1_002)])
    assert refused.status_code == 422
    assert await texts(http) == []


async def test_a_channel_is_read_page_by_page_newest_first(http: httpx.AsyncClient) -> None:
    now = wall_now()
    same = [said(n, f"number {n}", ts=now - 30) for n in range(1, 8)]  # all of the same moment
    await http.post("/v1/messages", json=[*same, said(8, "number 8", ts=now - 20), said(9, "number 9", ts=now - 40)])
    found, cursor = list[str](), ""
    while True:
        page = (await http.get(f"{HERE}/messages", params={"limit": 2, "cursor": cursor})).json()
        assert len(page["messages"]) <= 2
        found += [one["content"] for one in page["messages"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == ["number 8", *(f"number {n}" for n in range(7, 0, -1)), "number 9"]


async def test_a_cursor_that_is_none_is_refused_politely(http: httpx.AsyncClient) -> None:
    for cursor in ("x", "1_", "nan_1", "_", "1e999_1", "1_99999999999999999999", "-1_1"):
        assert (await http.get(f"{HERE}/messages", params={"cursor": cursor})).status_code == 422, cursor


async def test_an_edit_replaces_the_text_and_an_older_one_changes_nothing(http: httpx.AsyncClient) -> None:
    await http.post("/v1/messages", json=said(1))
    now = wall_now()
    done = await http.patch(f"{HERE}/messages/1", json={"content": "hares are fast", "revision": now})
    assert (done.status_code, done.json()["outcome"]) == (200, "stored")
    await http.patch(f"{HERE}/messages/1", json={"content": "snails", "revision": now - 5})
    found = (await http.get(f"{HERE}/messages/1")).json()
    assert (found["content"], found["author"], found["revision"]) == ("hares are fast", "Ann", now)


async def test_an_edit_leaves_the_authors_other_names_known(http: httpx.AsyncClient) -> None:
    await http.post("/v1/messages", json=said(1, aliases=["turtle_friend"]))
    await http.patch(f"{HERE}/messages/1", json={"content": "hares are fast"})
    asked = {"guild_id": GUILD, "channel_id": CHANNEL, "text": "what did turtle_friend say?"}
    assert "hares are fast" in (await http.post("/v1/ask", json=asked)).json()["text"]


async def test_an_edit_of_an_unknown_message_needs_all_of_it(http: httpx.AsyncClient) -> None:
    missing = await http.patch(f"{HERE}/messages/1", json={"content": "hares are fast"})
    assert missing.status_code == 404
    whole = {"content": "hares are fast", "author_id": "5", "author": "Ann", "ts": wall_now()}
    assert (await http.patch(f"{HERE}/messages/1", json=whole)).json()["outcome"] == "stored"
    assert await texts(http) == ["hares are fast"]


async def test_deleted_messages_are_gone_and_do_not_come_back(http: httpx.AsyncClient) -> None:
    await http.post("/v1/messages", json=[said(n, f"number {n}") for n in range(1, 6)])
    assert (await http.delete(f"{HERE}/messages/1")).json() == {"removed": 1, "queued": False}
    assert (await http.delete(f"{HERE}/messages/1")).json() == {"removed": 0, "queued": False}
    assert (await http.get(f"{HERE}/messages/1")).status_code == 404
    assert (await http.post(f"{HERE}/messages/bulk-delete", json={"ids": [2, "3"]})).json() == {
        "removed": 2,
        "queued": False,
    }
    assert (await http.post("/v1/messages", json=said(1))).json()["outcomes"][0]["outcome"] == "ignored"
    assert await texts(http) == ["number 5", "number 4"]


async def test_a_channel_and_a_guild_can_be_deleted(http: httpx.AsyncClient) -> None:
    other = str(CHANNEL + 1)
    await http.post("/v1/messages", json=[said(1), said(2, channel_id=other), said(3, channel_id=str(CHANNEL + 2))])
    listed = (await http.get(f"/v1/guilds/{GUILD}/channels")).json()["channels"]
    assert [one["channel_id"] for one in listed] == [str(CHANNEL), other, str(CHANNEL + 2)]
    assert (await http.get("/v1/guilds")).json() == {"guilds": [str(GUILD)]}
    assert (await http.delete(HERE)).json() == {"removed": 1, "queued": False}
    assert await texts(http) == []
    assert (await http.delete(f"/v1/guilds/{GUILD}")).json() == {"removed": 2, "queued": False}
    assert (await http.get(f"/v1/guilds/{GUILD}/channels/{other}/messages")).json()["messages"] == []


async def test_stats_tell_what_a_channel_holds_and_whether_it_is_paused(http: httpx.AsyncClient) -> None:
    await http.post("/v1/messages", json=[said(1), said(2)])
    await http.post("/v1/flush", json={})
    assert (await http.put(f"{HERE}/pause")).status_code == 200
    assert (await http.post("/v1/messages", json=said(3))).json()["outcomes"][0]["outcome"] == "ignored"
    stats = (await http.get(f"{HERE}/stats")).json()
    assert (stats["messages"], stats["pending"], stats["newest_id"], stats["paused"]) == (2, 0, "2", True)
    await http.delete(f"{HERE}/pause")
    assert not (await http.get(f"{HERE}/stats")).json()["paused"]


async def test_a_cleared_channel_is_empty_and_goes_on(http: httpx.AsyncClient) -> None:
    await http.post("/v1/messages", json=said(1))
    assert (await http.post(f"{HERE}/clear", json={})).json() == {"removed": 1, "queued": False}
    assert (await http.post("/v1/messages", json=said(2, ts=wall_now() + 1))).json()["outcomes"][0][
        "outcome"
    ] == "stored"


async def test_a_description_of_an_attachment_makes_its_message_findable(http: httpx.AsyncClient) -> None:
    await http.post("/v1/messages", json=said(1, "look", attachments=[{"id": "9", "name": "a.png"}]))
    path = f"{HERE}/messages/1/attachments/9/text"
    assert (await http.put(path, json={"text": "a red bicycle"})).json() == {"added": True}
    found = (await http.post("/v1/search", json={"guild_id": GUILD, "channels": [CHANNEL], "query": "bicycle"})).json()
    assert [hit["message"]["id"] for hit in found["hits"]] == ["1"]
    assert (await http.put(f"{HERE}/messages/2/attachments/9/text", json={"text": "x"})).json() == {"added": False}


async def test_gaps_of_back_fill_are_kept_between_processes(http: httpx.AsyncClient) -> None:
    await http.put(f"{HERE}/gap", json={"newest_id": "20", "oldest_id": "10"})
    gaps = (await http.get(f"/v1/guilds/{GUILD}/gaps")).json()["gaps"]
    assert gaps == [{"channel_id": str(CHANNEL), "newest_id": "20", "oldest_id": "10"}]
    await http.delete(f"{HERE}/gap")
    assert (await http.get(f"/v1/guilds/{GUILD}/gaps")).json() == {"gaps": []}


async def test_known_messages_have_their_revisions(http: httpx.AsyncClient) -> None:
    await http.post("/v1/messages", json=[said(1), said(2, revision=7.5)])
    assert (await http.get(f"{HERE}/known")).json()["messages"] == [
        {"id": "2", "revision": 7.5},
        {"id": "1", "revision": 0.0},
    ]


async def test_an_answer_that_quotes_what_was_deleted_is_to_be_redacted(http: httpx.AsyncClient) -> None:
    await http.post("/v1/messages", json=said(1))
    quoting = said(2, "Ann said: turtles are slow", own=True, derived_from=[{"channel_id": CHANNEL, "id": 1}])
    await http.post("/v1/messages", json=quoting)
    await http.delete(f"{HERE}/messages/1")
    assert await texts(http) == []
    listed = (await http.get("/v1/redactions")).json()["answers"]
    assert listed == [{"guild_id": str(GUILD), "channel_id": str(CHANNEL), "id": "2"}]
    await http.delete(f"/v1/redactions/{GUILD}/{CHANNEL}/2")
    assert (await http.get("/v1/redactions")).json() == {"answers": []}
