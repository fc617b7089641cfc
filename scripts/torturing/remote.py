"""A process of a history whose bot has its memory in a service. It takes the steps of an `Actor`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from channelmem.client import Client
from channelmem.errors import ChannelmemError, DecisionDelayedError
from channelmem.memory import Memory
from channelmem.settings import Settings
from scripts.torturing.actor import SETTLE_S, Actor, Platform, acting, tokens
from scripts.torturing.steps import ROOMS, Reply, Result, Step

PAGE = 200
FOUND = 50


class RemoteActor(Actor):
    def __init__(self, client: Client, platform: Platform) -> None:
        super().__init__(cast("Memory", client), platform)
        self._client = client
        self._delayed = False
        """Whether the service keeps a decision for us that Redis could not write."""

    async def _decide(self, step: Step) -> Reply:
        try:
            return await super()._decide(step)
        except DecisionDelayedError:
            self._delayed = True
            raise

    async def _queued(self) -> int:
        return self._client.queued + await self._kept()

    async def _kept(self) -> int:
        """What the service still has to deliver."""
        if not self._delayed:
            return 0
        try:
            left = (await self._client._status()).queued or 0  # noqa: SLF001  (no bot asks for it)
        except ChannelmemError:
            return 1
        self._delayed = bool(left)
        return left

    async def _settle(self, step: Step) -> Reply:
        del step
        async with asyncio.timeout(SETTLE_S):
            while await self._queued():  # noqa: ASYNC110  (the outbox sends no event)
                await asyncio.sleep(0.01)
        return Reply(Result.DONE)

    async def _list(self, step: Step) -> Reply:
        path, cursor, words = f"/v1/guilds/{step.guild}/channels/{step.channel}/messages", "", ""
        while True:
            page = await self._read("GET", path, params={"limit": PAGE, "cursor": cursor})
            words += " ".join(one["content"] for one in page["messages"]) + " "
            if (cursor := page["next"]) is None:
                break
        return Reply(Result.DONE, seen=tokens(words))

    async def _search(self, step: Step) -> Reply:
        rooms = [str(channel) for guild, channel in ROOMS if guild == step.guild]
        body = {"guild_id": str(step.guild), "channels": rooms, "query": step.text, "limit": FOUND}
        found = await self._read("POST", "/v1/search", body)
        messages = [*(hit["message"] for hit in found["hits"]), *found["messages"]]
        return Reply(Result.DONE, seen=tokens(" ".join(one["content"] for one in messages)))

    async def _read(self, method: str, path: str, body: object = None, **options: Any) -> Any:
        return (await self._client._connection.read(method, path, body, **options)).json()  # noqa: SLF001


@asynccontextmanager
async def acting_anywhere(settings: Settings) -> AsyncIterator[Actor]:
    """In this process, or on the service that the settings name."""
    if settings.service_url is None:
        async with acting(settings) as actor:
            yield actor
        return
    platform = Platform()
    async with Client.open(settings, history=platform, patient=True) as client:
        yield RemoteActor(client, platform)
