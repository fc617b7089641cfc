"""Settings on the inspector's pages: what is changed, by whom, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from html import unescape

import pytest
from clock import wall_now
from conftest import CHANNEL, GUILD, FakeEmbedder, message
from serving import Running
from visiting import ELSEWHERE, HERE, THERE, form_of, inspected, visitor

from channelmem import Settings
from channelmem.access import Scope


@pytest.fixture
async def service(settings: Settings, fake_embedder: FakeEmbedder) -> AsyncIterator[Running]:
    async with inspected(settings, fake_embedder) as running:
        yield running


async def test_a_setting_is_changed_and_in_force_at_once(service: Running) -> None:
    client = await visitor(service)
    page = await client.get(f"{HERE}/settings")
    values = {
        "form": form_of(page),
        "context_messages": "7",
        "context_max_age": "2h 30m",
        "summaries": "off",
        "enabled": "auto",
    }
    reply = await client.post(f"{HERE}/settings", data=values)
    assert reply.status_code == 303
    policy = service.memory.policy(GUILD, CHANNEL)
    assert (policy.context_messages, policy.context_max_age_s, policy.summaries) == (7, 9_000, False)
    shown = (await client.get(reply.headers["location"])).text
    assert "Saved." in shown
    assert "Context Messages: Auto → 7" in shown
    await client.post(f"{HERE}/settings", data={"form": values["form"], "context_messages": ""})
    assert service.memory.policy(GUILD, CHANNEL).context_messages == 20


async def test_a_form_that_was_open_before_settings_were_renamed_is_saved(service: Running) -> None:
    client = await visitor(service)
    values = {"form": form_of(await client.get(f"{HERE}/settings")), "max_messages": "7"}
    assert (await client.post(f"{HERE}/settings", data=values)).status_code == 303
    assert service.memory.policy(GUILD, CHANNEL).context_messages == 7


async def test_a_value_that_is_not_allowed_changes_nothing_and_is_explained(service: Running) -> None:
    client = await visitor(service)
    values = {"form": form_of(await client.get(f"{HERE}/settings")), "context_messages": "many", "summaries": "off"}
    reply = await client.post(f"{HERE}/settings", data=values)
    assert reply.status_code == 422
    assert "Context Messages must be a whole number from 1 to 100" in unescape(reply.text)
    assert 'value="many"' in reply.text
    assert service.memory.policy(GUILD, CHANNEL).summaries


async def test_settings_everywhere_and_of_a_character_are_levels_of_their_own(service: Running) -> None:
    client = await visitor(service)
    form = form_of(await client.get("/settings"))
    assert (await client.post("/settings", data={"form": form, "context_messages": "30"})).status_code == 303
    as_frodo = f"{HERE}/settings?character=Frodo"
    reply = await client.post(as_frodo, data={"form": form, "context_messages": "5"})
    assert reply.headers["location"] == f"{as_frodo}&saved=1"
    policies = service.memory.policies
    assert policies.of(GUILD, CHANNEL).context_messages == 30
    assert policies.of(GUILD, CHANNEL, "frodo").context_messages == 5


async def test_changes_need_the_admin_scope_and_the_whole_service_an_unbound_token(service: Running) -> None:
    reader = await visitor(service, scopes=(Scope.READ, Scope.WRITE))
    form = form_of(await reader.get("/"))
    page = (await reader.get(f"{HERE}/settings")).text
    assert "needs the admin scope" in page
    assert "Save</button>" not in page
    bound = await visitor(service, GUILD)
    bound_form = form_of(await bound.get("/"))
    for client, path, secret, status in (
        (reader, f"{HERE}/settings", form, 403),
        (reader, "/settings", form, 403),
        (bound, "/settings", bound_form, 403),
        (bound, f"{THERE}/settings", bound_form, 404),
    ):
        reply = await client.post(path, data={"form": secret, "context_messages": "3"})
        assert reply.status_code == status, path
    assert service.memory.policy(GUILD, CHANNEL).context_messages == 20
    assert service.memory.policy(ELSEWHERE, CHANNEL).context_messages == 20


async def test_forms_of_other_sites_are_refused(service: Running) -> None:
    client = await visitor(service)
    form = form_of(await client.get("/settings"))
    others = await visitor(service)
    for data, headers in (
        ({}, {}),
        ({"form": "guessed"}, {}),
        ({"form": form_of(await others.get("/settings"))}, {}),
        ({"form": form}, {"Origin": "http://evil.example"}),
        ({"form": form}, {"Origin": "null"}),
        ({"form": form}, {"Sec-Fetch-Site": "cross-site"}),
        ({"form": form}, {"Sec-Fetch-Site": "same-site"}),
    ):
        reply = await client.post("/settings", data={**data, "context_messages": "3"}, headers=headers)
        assert reply.status_code == 403, (data, headers)
    assert service.memory.policies.of(0, 0).context_messages == 20
    token = await service.token()
    foreign = await service.caller().post("/login", data={"token": token}, headers={"Origin": "http://evil.example"})
    assert foreign.status_code == 403


async def test_a_refused_form_does_not_say_that_it_was_saved(service: Running) -> None:
    client = await visitor(service)
    there = f"{HERE}/settings?saved=1"  # where a form is after it was saved once
    shown = await client.get(there)
    assert "Saved." in shown.text
    refused = await client.post(there, data={"form": form_of(shown), "context_messages": "many"})
    assert refused.status_code == 422
    assert "Saved." not in refused.text


async def test_what_takes_messages_away_is_saved_with_the_second_click(service: Running) -> None:
    await service.memory.remember(message(77, ts=wall_now() - 7200))
    client = await visitor(service)
    values = {"form": form_of(await client.get(f"{HERE}/settings")), "archive": "off", "context_messages": "7"}
    asked = await client.post(f"{HERE}/settings", data=values)
    assert (asked.status_code, service.memory.policy(GUILD, CHANNEL).limits.archive) == (200, True)
    assert "This hides 1 message, all but the newest 50 of the last 30m." in asked.text
    assert '<option value="off" selected>' in asked.text
    assert 'value="7"' in asked.text
    saved = await client.post(f"{HERE}/settings", data={**values, "confirmed": "yes"})
    assert saved.status_code == 303
    assert not service.memory.policy(GUILD, CHANNEL).limits.archive
