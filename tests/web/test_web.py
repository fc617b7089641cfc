"""The inspector's pages over HTTP: who gets in, what they see, and what pages send along."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from typing import Any

import pytest
from conftest import CHANNEL, GUILD, FakeEmbedder, OwnServer, make_settings
from serving import Running, serving
from visiting import ELSEWHERE, HERE, PAGES, THERE, VIEWS, form_of, inspected, said, visitor

from channelmem import Settings
from channelmem.access import OpenDoor, Scope
from channelmem.policy.cascade import Place
from channelmem.web.session import COOKIE


@pytest.fixture
async def service(settings: Settings, fake_embedder: FakeEmbedder) -> AsyncIterator[Running]:
    async with inspected(settings, fake_embedder) as running:
        yield running


# --- who gets in ---


async def test_every_page_asks_for_a_log_in(service: Running) -> None:
    client = service.caller()
    for path in ("/health/now", *PAGES):
        reply = await client.get(path)
        assert reply.status_code == 303, path
        assert reply.headers["location"].startswith("/login?next=/")
        assert "release" not in reply.text


async def test_a_token_logs_in_with_a_cookie_that_scripts_and_other_sites_cannot_use(service: Running) -> None:
    client, token = service.caller(), await service.token("me", [Scope.READ])
    reply = await client.post("/login", data={"token": f" {token} ", "next": HERE})
    assert reply.status_code == 303
    assert reply.headers["location"] == HERE
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "max-age" not in cookie.lower()
    assert "the release is on Friday" in (await client.get(HERE)).text


async def test_logging_in_never_leads_to_another_site(service: Running) -> None:
    client, token = service.caller(), await service.token()
    for wanted in ("//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil", "/a\nb"):
        reply = await client.post("/login", data={"token": token, "next": wanted})
        assert reply.headers["location"] == "/", wanted


async def test_a_wrong_token_is_refused_without_being_repeated(service: Running) -> None:
    wrong = "cm_000000000000_" + "a" * 43
    blind = await service.token("blind", [Scope.WRITE])
    for token, reason in ((wrong, "unknown, revoked or expired"), (blind, "read scope")):
        reply = await service.caller().post("/login", data={"token": token})
        assert reply.status_code == 403
        assert reason in reply.text
        assert token not in reply.text
        assert "set-cookie" not in reply.headers


async def test_a_revoked_token_ends_the_visit(service: Running) -> None:
    client = await visitor(service)
    for kept in await service.tokens.all():
        await service.tokens.remove(kept.id)
    assert (await client.get("/")).status_code == 303


async def test_logging_out_needs_the_form_and_removes_the_cookie(service: Running) -> None:
    client = await visitor(service)
    assert (await client.post("/logout")).status_code == 403
    reply = await client.post("/logout", data={"form": form_of(await client.get("/"))})
    assert reply.status_code == 303
    assert COOKIE not in client.cookies
    assert (await client.get("/")).status_code == 303


async def test_without_tokens_the_pages_are_for_this_machine_only(
    settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    async with serving(settings, fake_embedder, door=OpenDoor()) as running:
        client = running.caller()
        assert (await client.get("/")).status_code == 200
        assert (await client.get("/", headers={"Host": "evil.example"})).status_code == 403


# --- what every page sends along ---

INLINE = re.compile(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|javascript:", re.IGNORECASE)


async def test_every_page_is_strict_about_what_may_run(service: Running) -> None:
    client = await visitor(service)
    for path in ("/login", "/health/now", f"/g/x/c/{CHANNEL}", *PAGES):
        reply = await client.get(path)
        assert reply.status_code == (404 if "/x/" in path else 200), path
        policy = reply.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'"), path
        assert "unsafe" not in policy
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["referrer-policy"] == "same-origin"
        assert reply.headers["x-frame-options"] == "DENY"
        if "html" in reply.headers["content-type"]:
            assert not INLINE.search(reply.text), path


async def test_files_may_be_kept_since_their_address_changes_with_them(service: Running) -> None:
    client = service.caller()
    page = (await client.get("/login")).text
    addresses = re.findall(r'"(/static/[^"]+)"', page)
    assert {address.partition("?")[0] for address in addresses} == {
        "/static/icon.svg",
        "/static/inspector.css",
        "/static/inspector.js",
    }
    for address in addresses:
        reply = await client.get(unescape(address))
        assert reply.status_code == 200
        assert "immutable" in reply.headers["cache-control"]
    assert (await client.get("/static/../pages.py")).status_code == 404


async def test_the_pages_are_not_part_of_the_api(service: Running) -> None:
    paths = (await service.caller().get("/openapi.json")).json()["paths"]
    assert not [path for path in paths if not path.startswith(("/v1/", "/healthz", "/readyz", "/metrics"))]


# --- what they see ---


async def test_the_first_page_lists_guilds_and_channels_by_name(service: Running) -> None:
    page = (await (await visitor(service)).get("/")).text
    assert "Turtle Club" in page
    assert "#general" in page
    assert "Cat Club" in page


async def test_a_guild_bound_token_sees_only_its_guild(service: Running) -> None:
    client = await visitor(service, GUILD)
    for path in ("/", "/health", *(HERE + view for view in VIEWS)):
        reply = await client.get(path)
        assert reply.status_code == 200
        for word in ("Cat Club", "secrets", "Eve", "4711", str(ELSEWHERE)):
            assert word not in reply.text, (path, word)


async def test_the_pages_of_another_guild_look_as_if_they_did_not_exist(service: Running) -> None:
    client = await visitor(service, GUILD)
    for view in VIEWS:
        reply = await client.get(THERE + view)
        made_up = await client.get(f"/g/12345/c/{CHANNEL}{view}")
        assert reply.status_code == made_up.status_code == 404, view
        assert reply.text == made_up.text
        assert "4711" not in reply.text


async def test_what_concerns_all_guilds_is_not_for_bound_tokens(service: Running) -> None:
    client = await visitor(service, GUILD)
    assert (await client.get("/health/now")).status_code == 404
    assert (await client.get("/settings")).status_code == 404
    assert "Lag" not in (await client.get("/health")).text
    assert "Lag" in (await (await visitor(service)).get("/health")).text


async def test_an_address_that_makes_no_sense_is_a_page_that_says_so(service: Running) -> None:
    client = await visitor(service)
    for path in ("/g/x/c/1", "/g/1/c/-1", f"/g/{2**63}/c/1", f"{HERE}?before=soon", f"{HERE}?before=nan_1"):
        reply = await client.get(path)
        assert reply.status_code == 404, path
        assert "There is no such page." in reply.text


async def test_a_channel_without_messages_says_so(service: Running) -> None:
    client = await visitor(service)
    page = (await client.get(f"/g/{GUILD}/c/77")).text
    assert "Nothing is remembered of this channel." in page
    assert "No vectors yet." in (await client.get(f"/g/{GUILD}/c/77/map")).text
    assert "No summaries yet." in (await client.get(f"/g/{GUILD}/c/77/summaries")).text


async def test_a_channel_whose_memory_is_off_shows_nothing(service: Running) -> None:
    await service.memory.policies.set(Place.channel(GUILD, CHANNEL), "enabled", False)
    client = await visitor(service)
    for view in ("", "/summaries", "/ask?q=cake", "/map"):
        page = (await client.get(HERE + view)).text
        assert "Memory is off in this channel." in page, view
        assert "Friday" not in page
        assert "Bob" not in page


async def test_older_messages_are_reached_page_by_page(service: Running) -> None:
    await service.memory.remember_many([said(number, f"line {number}.") for number in range(100, 180)])
    client = await visitor(service)
    first = await client.get(HERE)
    (older,) = re.findall(r'href="(\?before=[^"]+)"', first.text)
    second = await client.get(HERE + unescape(older))
    assert "line 179." in first.text
    assert "line 110." not in first.text
    assert "line 110." in second.text
    assert "the release is on Friday" in second.text
    assert "data-live" not in second.text


async def test_rows_are_sent_again_only_if_something_changed(service: Running) -> None:
    client = await visitor(service)
    rows = (await client.get(f"{HERE}/rows")).json()
    assert [row["text"] for row in rows["rows"]] == ["who brings the cake?", "the release is on Friday"]
    same = (await client.get(f"{HERE}/rows", params={"version": rows["version"]})).json()
    assert same == {"version": rows["version"]}
    await service.memory.delete(GUILD, CHANNEL, [2])
    changed = (await client.get(f"{HERE}/rows", params={"version": rows["version"]})).json()
    assert [row["id"] for row in changed["rows"]] == ["1"]
    assert changed["messages"] == "1"


async def test_an_answer_shows_its_route_its_candidates_and_its_milliseconds(service: Running) -> None:
    client = await visitor(service)
    page = unescape((await client.get(f"{HERE}/ask", params={"q": "what did Ann say about the release?"})).text)
    assert "“the release is on Friday”" in page
    assert re.search(r"<dt>By</dt><dd>Ann</dd>", page)
    assert "<p>It asks for Ann's words about “the release”. It is clearly about this channel.</p>" in page
    assert "Reasons" in page
    assert "Candidates" in page
    assert re.search(r"[\d.]+ ms</h2>", page)
    assert "history was not sent" not in page


async def test_the_asker_can_be_somebody_of_the_channel(service: Running) -> None:
    client = await visitor(service)
    page = unescape((await client.get(f"{HERE}/ask", params={"q": "what did I say?", "as": "6"})).text)
    assert "You said" in page
    assert "“who brings the cake?”" in page


# --- while Redis is away ---


async def test_while_redis_is_away_pages_say_so_and_health_still_tells(
    own_server: OwnServer, tmp_path: Any, fake_embedder: FakeEmbedder
) -> None:
    settings = make_settings(own_server.url, tmp_path, redis_timeout_s=1.0)
    async with serving(settings, fake_embedder, door=OpenDoor()) as running:
        await running.memory.remember(said(1, "hello"))
        own_server.kill()
        client = running.caller()
        page = await client.get(HERE)
        health = await client.get("/health")
    assert page.status_code == 503
    assert "Redis does not answer" in page.text
    assert health.status_code == 200
    assert "away" in health.text
