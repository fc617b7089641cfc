"""Settings over HTTP, made from their declaration: levels, sources, changes, and one more setting without new code."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from clock import wall_now
from conftest import CHANNEL, GUILD, FakeEmbedder, message
from serving import EVERYTHING, Running, listening, serving

from channelmem import Settings
from channelmem.access import Scope
from channelmem.api.app import create_app
from channelmem.policy.cascade import SETTINGS, Number, Setting

pytest_plugins = ["serving_fixtures"]

GLOBAL = "/v1/settings/global"
HERE = f"/v1/settings/guilds/{GUILD}/channels/{CHANNEL}"
FRODO = f"/v1/settings/guilds/{GUILD}/characters/Frodo"


def row(level: httpx.Response, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in level.json()["settings"] if one["name"] == name)
    return found


async def test_what_is_set_is_in_force_with_its_source(http: httpx.AsyncClient) -> None:
    await http.put(GLOBAL, json={"context_messages": 30})
    changed = await http.patch(HERE, json={"context_messages": 7, "context_max_age": "2h"}, params={"by": "5"})
    assert [(one["setting"], one["old"], one["new"], one["by"]) for one in changed.json()["changes"]] == [
        ("context_messages", None, 7, "5"),
        ("context_max_age", None, 7200.0, "5"),
    ]
    found = row(await http.get(f"{HERE}/effective"), "context_messages")
    assert (found["own"], found["effective"], found["source"]) == (7, 7, "channel")
    elsewhere = await http.get(f"/v1/settings/guilds/{GUILD}/channels/1/effective")
    found = row(elsewhere, "context_messages")
    assert (found["effective"], found["source"]) == (30, "global")
    assert row(elsewhere, "context_max_age")["source"] == "default"


async def test_a_character_is_capped_by_its_channel(http: httpx.AsyncClient) -> None:
    await http.patch(HERE, json={"context_messages": 7})
    assert (await http.put(FRODO, json={"context_messages": 9})).status_code == 200
    found = row(await http.get(f"{HERE}/effective", params={"character": "Frodo"}), "context_messages")
    assert (found["effective"], found["source"], found["why"]) == (7, "channel", "capped by the channel")
    same = row(await http.get(f"{FRODO}/effective", params={"channel": str(CHANNEL)}), "context_messages")
    assert (same["own"], same["effective"]) == (9, 7)


async def test_settings_can_be_named_as_before(http: httpx.AsyncClient) -> None:
    changed = await http.patch(HERE, json={"max_messages": 7, "max_age": "2h"})
    assert [one["setting"] for one in changed.json()["changes"]] == ["context_messages", "context_max_age"]
    assert row(await http.get(f"{HERE}/effective"), "context_messages")["effective"] == 7


async def test_put_replaces_a_level_and_patch_changes_what_it_names(http: httpx.AsyncClient) -> None:
    await http.put(HERE, json={"context_messages": 7, "max_images": 2})
    await http.patch(HERE, json={"max_images": None})
    level = await http.get(HERE)
    assert (row(level, "context_messages")["own"], row(level, "max_images")["own"]) == (7, None)
    await http.put(HERE, json={"summaries": False})
    level = await http.get(HERE)
    assert (row(level, "context_messages")["own"], row(level, "summaries")["own"]) == (None, False)
    assert level.json()["changes"][0]["setting"] in {"context_messages", "summaries"}
    await http.patch(HERE, json={"summaries": "auto"})
    assert row(await http.get(HERE), "summaries")["own"] is None


@pytest.mark.parametrize(
    "body",
    [
        {"context_messages": 0},
        {"context_messages": "7"},
        {"context_max_age": "soon"},
        {"enabled": "on"},
        {"pace": 1},
        {"context_messages": 7, "max_messages": 8},
        [],
        7,
        None,
    ],
)
async def test_a_wrong_value_changes_nothing_and_is_explained(http: httpx.AsyncClient, body: Any) -> None:
    answered = await http.patch(HERE, json=body)
    assert answered.status_code == 422
    assert answered.json()["detail"].startswith("body")
    assert (await http.get(HERE)).json()["changes"] == []


async def test_what_cannot_be_set_at_a_level_is_refused_there(http: httpx.AsyncClient) -> None:
    assert (await http.patch(FRODO, json={"archive": False})).status_code == 422
    assert not row(await http.get(FRODO), "archive")["settable"]


async def test_global_settings_need_an_admin_that_is_not_bound(service: Running, http: httpx.AsyncClient) -> None:
    bound = service.caller(await service.token("bound", EVERYTHING, GUILD))
    assert (await bound.patch(HERE, json={"context_messages": 7})).status_code == 200
    for method in ("PUT", "PATCH"):
        refused = await bound.request(method, GLOBAL, json={"context_messages": 7})
        assert refused.status_code == 403
    assert row(await http.get(GLOBAL), "context_messages")["own"] is None
    assert (await bound.get(GLOBAL)).status_code == 200, "what applies to them may be read"


async def test_the_copy_for_clients_has_no_other_guilds_and_nobody_who_changed_something(
    service: Running, http: httpx.AsyncClient
) -> None:
    bound = service.caller(await service.token("bound", EVERYTHING, GUILD))
    for guild in (GUILD, GUILD + 1):
        await http.patch(f"/v1/settings/guilds/{guild}/channels/1", json={"context_messages": 7}, params={"by": "55"})
        await http.put(f"/v1/settings/guilds/{guild}/characters/frodo", json={"context_messages": 7})
        await http.put(f"/v1/guilds/{guild}/channels/1/boundary", json={"at": 5.0})
    await http.put(GLOBAL, json={"context_messages": 30})
    copied = (await bound.get("/v1/settings/documents")).json()
    assert set(copied["documents"]) == {
        "global", f"channel:{GUILD}c1", f"character:{GUILD}:frodo", f"boundary:{GUILD}c1",
    }  # fmt: skip
    assert "changes" not in copied["documents"][f"channel:{GUILD}c1"]
    assert copied["defaults"]["context_messages"] == 20


async def test_one_more_declared_setting_needs_no_new_code(settings: Settings, fake_embedder: FakeEmbedder) -> None:
    pace = Setting("pace", "Pace", "How fast.", Number(1, 5), lambda _: 2, lambda policy, value: policy)
    async with serving(settings, fake_embedder) as running:
        running.memory.policies.declared = (*SETTINGS, pace)
        running.memory.policies.__dict__.pop("_by_name", None)
        app = create_app(running.memory, running.tokens, settings)
        async with listening(app) as url:
            running.url = url
            http = await running.operator()
            assert row(await http.get(HERE), "pace")["effective"] == 2
            assert (await http.patch(HERE, json={"pace": 6})).status_code == 422
            assert row(await http.patch(HERE, json={"pace": 4}), "pace")["own"] == 4
            described = (await http.get("/openapi.json")).json()["components"]["schemas"]["ChannelSettings"]
            assert described["properties"]["pace"]["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 5}


async def test_a_preview_says_what_a_change_would_take_away_and_changes_nothing(
    service: Running, http: httpx.AsyncClient
) -> None:
    await service.memory.remember(message(1, ts=wall_now() - 7200))
    for method, body in (("PATCH", {"archive": False}), ("PUT", {"archive": False})):
        previewed = await http.request(method, HERE, json=body, params={"preview": "true"})
        assert previewed.json()["loss"] == {
            "messages": 1, "channels": 1, "newest": 50, "kept_s": 1800.0, "undo_s": 3600.0,
        }  # fmt: skip
        assert (previewed.json()["changes"], row(previewed, "archive")["own"]) == ([], None)
    changed = await http.patch(HERE, json={"archive": False})
    assert (changed.json()["loss"]["messages"], row(changed, "archive")["own"]) == (1, False)
    assert (await http.patch(HERE, json={"archive": True})).json()["loss"] is None
    reader = service.caller(await service.token("reader", (Scope.READ,)))
    assert (await reader.patch(HERE, json={"archive": False}, params={"preview": "true"})).status_code == 403
