"""Names of guilds and channels over HTTP, and by a bot that runs on a service."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from conftest import CHANNEL, GUILD, FakeEmbedder
from pydantic import SecretStr
from serving import Running, serving

from channelmem import Settings
from channelmem.access import Scope
from channelmem.client import Client


@pytest.fixture
async def service(settings: Settings, fake_embedder: FakeEmbedder) -> AsyncIterator[Running]:
    async with serving(settings, fake_embedder) as running:
        yield running


async def test_names_are_told_over_http(service: Running) -> None:
    http = await service.operator()
    path = f"/v1/guilds/{GUILD}/names"
    body = {"guild": "Turtle Club", "channels": [{"id": str(CHANNEL), "name": "general"}]}
    assert (await http.put(path, json=body)).status_code == 200
    assert (await http.put(path, json={"channels": [{"id": str(CHANNEL + 1), "name": "lunch"}]})).status_code == 200
    told = await service.memory.overview.channel(GUILD, CHANNEL)
    assert (told.guild, told.name) == ("Turtle Club", "general")
    assert (await service.memory.overview.channel(GUILD, CHANNEL + 1)).name == "lunch"


async def test_telling_names_needs_the_write_scope_in_that_guild(service: Running) -> None:
    path, body = f"/v1/guilds/{GUILD}/names", {"guild": "mine now"}
    for token in (await service.token("r", [Scope.READ]), await service.token("w", [Scope.WRITE], GUILD + 1)):
        assert (await service.caller(token).put(path, json=body)).status_code == 403
    assert (await service.memory.overview.channel(GUILD, CHANNEL)).guild == ""


async def test_a_client_tells_names_like_a_memory(service: Running, settings: Settings) -> None:
    token = SecretStr(await service.token("bot", [Scope.READ, Scope.WRITE], GUILD))
    here = settings.model_copy(update={"service_url": service.url, "service_token": token})
    async with Client.open(here) as client:
        await client.overview.tell_names(GUILD, "Turtle Club", {CHANNEL: "general"})
    told = await service.memory.overview.channel(GUILD, CHANNEL)
    assert (told.guild, told.name) == ("Turtle Club", "general")
