"""The Discord bot on a service instead of a memory of its own: the same behaviour, and processes of their own."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import test_bot_dashboards as dashboards_tests
import test_bot_e2e as e2e
from conftest import CACHE_DIR, FakeEmbedder
from dashboards import Desk, make_desk
from llm_server import llm_server
from loopback.bots import BotProcess, running, unhurried
from loopback.scene import Scene
from pydantic import SecretStr
from serving import EVERYTHING, serving
from test_bot_outages import QUESTION, TURTLES, eventually
from test_cli_serve import service

from bot.client import Bot, open_memory
from bot.history import DiscordHistory
from bot.metrics import Metrics
from channelmem.access import new_token
from channelmem.client import Client
from channelmem.embedding.embed import Embedder
from channelmem.llm.opening import open_responder
from channelmem.ops import open_access
from channelmem.settings import Settings

pytest_plugins = ["loopback.fixtures"]

SAME = (
    e2e.test_reptiles_find_turtles,
    e2e.test_an_edit_and_a_delete_are_seen_by_the_next_question,
    e2e.test_nothing_of_one_guild_or_channel_reaches_another,
    e2e.test_ones_own_words_can_be_forgotten_exported_and_kept_out,
    e2e.test_a_channel_can_be_paused_resumed_cleared_and_looked_at,
    e2e.test_why_tells_how_the_question_was_understood_with_hits_and_time,
)
SAME_AT_A_DESK = (
    dashboards_tests.test_a_channels_dashboard_from_opening_to_closing,
    dashboards_tests.test_a_channel_that_is_off_gives_the_model_the_question_alone,
)


@asynccontextmanager
async def on_a_service(settings: Settings, embedder: Embedder) -> AsyncIterator[Settings]:
    """Settings of a bot whose memory is a service; it knows no Redis."""
    async with serving(settings, embedder) as running_:
        changes = {"service_url": running_.url, "service_token": SecretStr(await running_.token()), "redis_url": None}
        yield settings.model_copy(update=changes)


@pytest.fixture
async def bot(scene: Scene, settings: Settings, embedder: Embedder) -> AsyncIterator[Bot]:
    async with on_a_service(unhurried(settings), embedder) as theirs:
        history = DiscordHistory(theirs)
        async with (
            open_memory(theirs, history, Metrics()) as memory,
            running(scene.server, theirs, memory, history) as bot,
        ):
            assert type(memory).__name__ == Client.__name__
            yield bot


@pytest.mark.parametrize("test", SAME, ids=lambda test: test.__name__)
async def test_the_bot_does_the_same(test: Callable[[Scene, Bot], Awaitable[None]], scene: Scene, bot: Bot) -> None:
    await test(scene, bot)


async def test_a_cold_start_answers_from_discords_history(scene: Scene, settings: Settings, embedder: Embedder) -> None:
    cold = unhurried(settings).model_copy(update={"backfill": False})
    scene.server.wrote(scene.general, scene.mark, TURTLES, ago_s=60)
    async with on_a_service(cold, embedder) as theirs:
        history = DiscordHistory(theirs)
        async with open_memory(theirs, history, Metrics()) as memory, running(scene.server, theirs, memory, history):
            assert TURTLES in await scene.server.ask(scene.general, scene.mark, "what did I just say about turtles?")
            held = [message.content async for message in memory.export(scene.mark.id)]
            assert TURTLES not in held


@dataclass
class RemoteDesk(Desk):
    @asynccontextmanager
    async def started(self) -> AsyncIterator[Bot]:
        async with on_a_service(self.settings, self.embedder) as theirs:
            history = DiscordHistory(theirs)
            async with open_memory(theirs, history, Metrics()) as memory:
                responder = open_responder(theirs, memory)
                async with running(self.scene.server, theirs, memory, history, responder) as bot:
                    yield bot


@pytest.fixture
async def desk(scene: Scene, settings: Settings, tmp_path: Path) -> AsyncIterator[Desk]:
    scene.server.world.grant(scene.guild, scene.mark, manage_channels=True, manage_guild=True)
    async with llm_server() as model:
        made = make_desk(scene, settings, model, tmp_path)
        remote = RemoteDesk(made.scene, made.settings, made.model, FakeEmbedder())
        async with remote.started():
            yield remote


@pytest.mark.parametrize("test", SAME_AT_A_DESK, ids=lambda test: test.__name__)
async def test_dashboards_and_the_model_do_the_same(
    test: Callable[[Desk, Scene], Awaitable[None]], desk: Desk, scene: Scene
) -> None:
    await test(desk, scene)


@pytest.mark.process
async def test_a_bot_and_its_service_as_processes_and_the_service_restarts(
    scene: Scene, settings: Settings, tmp_path: Path
) -> None:
    assert settings.redis_url is not None
    async with open_access(settings) as tokens:
        text, kept = new_token("bot", EVERYTHING, None, now=0.0)
        await tokens.add(kept)
    server = {
        "REDIS_URL": settings.redis_url.get_secret_value(),
        "CHANNELMEM_KEY_PREFIX": settings.key_prefix,
        "CHANNELMEM_CACHE_DIR": str(CACHE_DIR),
        "CHANNELMEM_DATA_DIR": str(settings.data_dir),
    }
    own = tmp_path / "bot"
    own.mkdir()
    with service(server, tmp_path) as (first, url):
        client = {
            "CHANNELMEM_SERVICE_URL": url,
            "CHANNELMEM_SERVICE_TOKEN": text,
            "CHANNELMEM_DATA_DIR": str(own / "data"),
            "CHANNELMEM_COOLDOWN_USER_S": "0",
            "CHANNELMEM_COOLDOWN_CHANNEL_S": "0",
            "CHANNELMEM_LOG_JSON": "true",
            "CHANNELMEM_LOG_LEVEL": "DEBUG",
        }
        async with BotProcess(scene.server, client) as process:
            await process.start(own)
            await scene.server.ready()
            await scene.server.say(scene.general, scene.mark, TURTLES)
            await eventually(scene, QUESTION, TURTLES)
            first.send_signal(signal.SIGTERM)
            first.wait(60)
            await scene.server.say(scene.general, scene.mark, "the rabbit sits on the moon")
            away = await scene.server.ask(scene.general, scene.mark, QUESTION)
            assert away == "I can't reach my memory right now."
            with service(server, tmp_path, "--port", url.rpartition(":")[2]):
                await eventually(scene, "what did I say about the rabbit?", "moon")
                await eventually(scene, QUESTION, TURTLES)
                code, log = await process.terminate()
        assert code == 0
        assert text.rpartition("_")[2] not in log
        assert not (own / "data").exists(), "it needs no Redis of its own"
