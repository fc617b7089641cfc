"""Visits of the inspector over HTTP: clients that have logged in."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from clock import wall_now
from conftest import CHANNEL, GUILD, FakeEmbedder
from serving import Running, serving

from channelmem import Message, Settings
from channelmem.access import Scope

ELSEWHERE = GUILD + (1 << 22)
HERE, THERE = f"/g/{GUILD}/c/{CHANNEL}", f"/g/{ELSEWHERE}/c/{CHANNEL}"
VIEWS = ("", "/summaries", "/ask?q=what+did+Ann+say", "/map", "/settings", "/rows")
PAGES = ("/", "/health", "/settings", *(HERE + view for view in VIEWS))
SECRET = "the vault code is 4711"
FORM = re.compile(r'name="form" value="([^"]+)"')


def said(number: int, text: str, **changes: Any) -> Message:
    given: dict[str, Any] = {"guild_id": GUILD, "channel_id": CHANNEL, "author_id": 5, "author": "Ann", **changes}
    return Message(id=number, content=text, ts=wall_now() - 600 + number, **given)


@asynccontextmanager
async def inspected(settings: Settings, embedder: FakeEmbedder) -> AsyncIterator[Running]:
    """A service that holds messages of two guilds."""
    async with serving(settings, embedder) as running:
        await running.memory.remember_many(
            [
                said(1, "the release is on Friday"),
                said(2, "who brings the cake?", author_id=6, author="Bob"),
                said(3, SECRET, guild_id=ELSEWHERE, author="Eve", author_id=7),
            ]
        )
        await running.memory.overview.tell_names(GUILD, "Turtle Club", {CHANNEL: "general"})
        await running.memory.overview.tell_names(ELSEWHERE, "Cat Club", {CHANNEL: "secrets"})
        await running.memory.flush()
        yield running


async def visitor(service: Running, *guild_ids: int, scopes: tuple[Scope, ...] = tuple(Scope)) -> httpx.AsyncClient:
    """A browser that has logged in."""
    client = service.caller()
    token = await service.token("somebody", scopes, *guild_ids)
    reply = await client.post("/login", data={"token": token})
    assert reply.status_code == 303, reply.text
    return client


def form_of(reply: httpx.Response) -> str:
    found = FORM.search(reply.text)
    assert found is not None
    return found[1]
