"""Back-pressure over HTTP: too many questions, too many messages, a full queue."""

from __future__ import annotations

import asyncio

import numpy as np
from conftest import CHANNEL, GUILD, FakeEmbedder, OwnServer, make_settings
from numpy.typing import NDArray
from serving import EVERYTHING, serving
from test_api_messages import said
from waiting import until, until_true

from channelmem import Settings

ASK = {"guild_id": GUILD, "channel_id": CHANNEL, "text": "what did people say about turtles?"}


class Held(FakeEmbedder):
    """Questions wait until the test lets them go on."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0
        self.go_on = asyncio.Event()

    async def embed_question(self, text: str) -> NDArray[np.float32]:
        self.waiting += 1
        await self.go_on.wait()
        return self.vector(text)


async def test_too_many_questions_are_refused_at_once_first_of_one_token_then_of_all(settings: Settings) -> None:
    embedder = Held()
    few = settings.model_copy(update={"service_max_asks": 8})
    async with serving(few, embedder) as running:
        greedy, modest = [running.caller(await running.token(name)) for name in ("greedy", "modest")]
        await greedy.post("/v1/messages", json=said(1))
        asked = [asyncio.create_task(greedy.post("/v1/ask", json=ASK)) for _ in range(6)]
        await until_true(lambda: embedder.waiting == 6)
        refused = await greedy.post("/v1/ask", json=ASK)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        asked += [asyncio.create_task(modest.post("/v1/ask", json=ASK)) for _ in range(2)]
        await until_true(lambda: embedder.waiting == 8)
        refused = await modest.post("/v1/ask", json=ASK)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        embedder.go_on.set()
        assert {(await one).status_code for one in asked} == {200}
        assert (await greedy.post("/v1/ask", json=ASK)).status_code == 200, "nobody keeps a place"


async def test_who_hangs_up_leaves_their_place(settings: Settings) -> None:
    embedder = Held()
    few = settings.model_copy(update={"service_max_asks": 2})
    async with serving(few, embedder) as running:
        caller = await running.operator()
        await caller.post("/v1/messages", json=said(1))
        asked = asyncio.create_task(caller.post("/v1/ask", json=ASK))
        await until_true(lambda: embedder.waiting == 1)
        assert (await caller.post("/v1/ask", json=ASK)).status_code == 429
        embedder.go_on.set()
        asked.cancel()

        async def free() -> bool:
            return (await caller.post("/v1/ask", json=ASK)).status_code == 200

        await until(free)


async def test_messages_are_refused_while_too_many_wait_for_the_model(
    settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    fake_embedder.gate.clear()
    few = settings.model_copy(update={"service_max_pending": 3})
    async with serving(few, fake_embedder) as running:
        caller = running.caller(await running.token("one", EVERYTHING))
        assert (await caller.post("/v1/messages", json=[said(n) for n in range(1, 9)])).status_code == 202

        async def refused() -> bool:
            answered = await caller.post("/v1/messages", json=said(9))
            return answered.status_code == 429 and int(answered.headers["retry-after"]) >= 1

        await until(refused)
        fake_embedder.gate.set()

        async def taken() -> bool:
            return (await caller.post("/v1/messages", json=said(10))).status_code == 202

        await until(taken)


async def test_a_full_queue_refuses_instead_of_dropping(own_server: OwnServer, fake_embedder: FakeEmbedder) -> None:
    settings = make_settings(own_server.url, own_server.folder, redis_timeout_s=1.0, queue_size=5)
    async with serving(settings, fake_embedder) as running:
        caller = await running.operator()
        await caller.get("/v1/guilds")
        own_server.kill()
        first = await caller.post("/v1/messages", json=[said(n) for n in range(1, 5)])
        assert {one["outcome"] for one in first.json()["outcomes"]} == {"queued"}
        refused = await caller.post("/v1/messages", json=[said(5), said(6)])
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:channelmem:overloaded")
        assert (await caller.get("/v1/status")).json()["dropped"] == 0
        own_server.start()

        async def delivered() -> bool:
            return bool((await caller.get("/v1/status")).json()["queued"] == 0)

        await until(delivered)
