"""What breaks in production: Redis killed and back, the gateway cut, the bot killed, two shards, wrong set-ups."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from conftest import CACHE_DIR, OwnServer, make_settings
from loopback import Loopback
from loopback.bots import BotProcess, running, unhurried
from loopback.scene import Scene
from loopback.server import PATIENCE_S
from processes import quiet_port

from bot.client import INTENT_DISABLED, LOGIN_MISSING, LOGIN_REJECTED
from bot.history import DISCORD_DOWN, DiscordHistory
from channelmem.memory import Memory
from channelmem.settings import Settings

pytestmark = pytest.mark.process

pytest_plugins = ["loopback.fixtures"]

TURTLES = "It's turtles. All the way down it is recursive spirals of turtles!"
QUESTION = "what did I just say about turtles?"


def eager(url: str, folder: Path, **changes: object) -> Settings:
    return unhurried(make_settings(url, folder, redis_timeout_s=5, **changes))


async def eventually(scene: Scene, question: str, wanted: str) -> None:
    """Asks until the answer holds the words, as people would."""
    async with asyncio.timeout(PATIENCE_S):
        answer = ""
        while wanted not in answer:
            answer = await scene.server.ask(scene.general, scene.mark, question)


async def test_redis_killed_and_restarted_in_the_middle_of_a_conversation(
    scene: Scene, own_server: OwnServer, tmp_path: Path
) -> None:
    settings = eager(own_server.url, tmp_path)
    history = DiscordHistory(settings)
    async with Memory.open(settings, history=history) as memory, running(scene.server, settings, memory, history):
        await scene.server.say(scene.general, scene.mark, TURTLES)
        assert TURTLES in await scene.server.ask(scene.general, scene.mark, QUESTION)
        own_server.kill()
        await scene.server.say(scene.general, scene.mark, "the rabbit sits on the moon")
        during = await scene.server.ask(scene.general, scene.mark, "what did I just say about the rabbit?")
        assert "sits on the moon" in during  # from Discord's history
        assert scene.server.calls("GET", r"/messages$")
        forget = await scene.server.slash(scene.general, scene.mark, "memory opt-out")
        assert "nothing was changed" in await scene.server.answered(forget)
        own_server.start()
        await scene.server.until(lambda: memory.available and memory.queued == 0)
        requests = len(scene.server.calls("GET", r"/messages$"))
        assert "sits on the moon" in await scene.server.ask(
            scene.general, scene.mark, "what did I say about the rabbit?"
        )
        assert TURTLES in await scene.server.ask(scene.general, scene.mark, "what did I say about turtles?")
        assert len(scene.server.calls("GET", r"/messages$")) == requests  # the memory knows again


async def test_a_bot_that_starts_without_redis_answers_from_history_and_takes_redis_when_it_comes(
    scene: Scene, own_server: OwnServer, tmp_path: Path
) -> None:
    settings = eager(own_server.url, tmp_path)
    history = DiscordHistory(settings)
    async with Memory.open(settings) as earlier:  # leaves a copy of who opted out
        await earlier.opt_out(scene.server.world.add_user("zoe").id)
    own_server.kill()
    scene.server.wrote(scene.general, scene.mark, TURTLES, ago_s=30)
    async with (
        Memory.open(settings, history=history, patient=True) as memory,
        running(scene.server, settings, memory, history),
    ):
        assert TURTLES in await scene.server.ask(scene.general, scene.mark, QUESTION)
        await scene.server.say(scene.general, scene.ann, "a purple submarine")
        own_server.start()
        await scene.server.until(lambda: memory.available and memory.queued == 0)
        held = [message.content async for message in memory.export(scene.ann.id)]
    assert held == ["a purple submarine"]


async def test_discord_errors_during_a_cold_start_are_said_plainly(
    scene: Scene, own_server: OwnServer, tmp_path: Path
) -> None:
    own_server.kill()
    settings = eager(own_server.url, tmp_path, backfill=False)
    history = DiscordHistory(settings)
    scene.server.fail("GET", r"/messages$", 503, times=10)
    async with (
        Memory.open(settings, history=history, patient=True) as memory,
        running(scene.server, settings, memory, history),
    ):
        answer = await scene.server.ask(scene.general, scene.mark, QUESTION)
    assert DISCORD_DOWN in answer


async def test_messages_missed_by_a_lost_session_are_answerable_after_it(scene: Scene, settings: Settings) -> None:
    quick = unhurried(settings)
    history = DiscordHistory(quick)
    async with Memory.open(quick, history=history) as memory, running(scene.server, quick, memory, history):
        await scene.server.say(scene.general, scene.mark, "hello there")
        assert "hello there" in await scene.server.ask(scene.general, scene.mark, "what did I just say?")
        await scene.server.gateway.cut(resumable=False)
        await scene.server.say(scene.general, scene.mark, TURTLES)
        await scene.server.until(lambda: scene.server.gateway.connected)
        await scene.server.until(lambda: scene.server.calls("GET", r"/messages$"))
        await eventually(scene, "what did I say about turtles?", TURTLES)
        await scene.server.gateway.cut(resumable=True)
        await scene.server.say(scene.general, scene.mark, "the rabbit sits on the moon")
        await scene.server.until(lambda: scene.server.gateway.resumed)
        await eventually(scene, "what did I say about the rabbit?", "moon")


async def test_a_rate_limited_answer_arrives_once_and_late(scene: Scene, settings: Settings) -> None:
    quick = unhurried(settings)
    history = DiscordHistory(quick)
    async with Memory.open(quick, history=history) as memory, running(scene.server, quick, memory, history):
        await scene.server.say(scene.general, scene.mark, TURTLES)
        scene.server.fail("POST", r"/messages$", 429, times=2)
        assert TURTLES in await scene.server.ask(scene.general, scene.mark, QUESTION)
    assert [c.status for c in scene.server.calls("POST", r"/messages$")] == [429, 429, 200]


async def test_two_shards_share_one_memory_and_keep_guilds_apart(settings: Settings) -> None:
    quick = unhurried(settings)
    async with Loopback(shards=2) as server:
        mark = server.world.add_user("mark", "Mark")
        guilds = [server.world.add_guild(f"Guild {n}", mark, id_=(1000 + n) << 22) for n in range(2)]
        rooms = [server.world.add_channel(guild, "general") for guild in guilds]
        history = DiscordHistory(quick)
        async with Memory.open(quick, history=history) as memory, running(server, quick, memory, history) as bot:
            assert sorted(data["shard"] for data in server.gateway.identified) == [[0, 2], [1, 2]]
            assert bot.shard_count == 2
            for n, room in enumerate(rooms):
                await server.say(room, mark, f"turtle number {n}")
                assert f"turtle number {n}" in await server.ask(room, mark, QUESTION)
            for n, room in enumerate(rooms):
                assert f"number {1 - n}" not in await server.ask(room, mark, "what did I say about turtles?")
        assert server.rest.violations == []


# --- the bot as a process of its own ---


def environment(settings: Settings, **more: str) -> dict[str, str]:
    assert settings.redis_url is not None
    return {
        "REDIS_URL": settings.redis_url.get_secret_value(),
        "CHANNELMEM_KEY_PREFIX": settings.key_prefix,
        "CHANNELMEM_CACHE_DIR": str(CACHE_DIR),
        "CHANNELMEM_DATA_DIR": str(settings.data_dir),
        "CHANNELMEM_COOLDOWN_USER_S": "0",
        "CHANNELMEM_COOLDOWN_CHANNEL_S": "0",
        "CHANNELMEM_LOG_JSON": "true",
        **more,
    }


@pytest.fixture
async def process(scene: Scene, settings: Settings) -> AsyncIterator[BotProcess]:
    async with BotProcess(scene.server, environment(settings)) as made:
        yield made


async def test_killed_and_restarted_it_remembers_and_fetches_what_it_missed(
    scene: Scene, process: BotProcess, tmp_path: Path
) -> None:
    await process.start(tmp_path)
    await scene.server.ready()
    await scene.server.say(scene.general, scene.mark, TURTLES)
    await eventually(scene, QUESTION, TURTLES)
    await process.kill()
    await scene.server.until(lambda: not scene.server.gateway.connected)
    scene.server.gateway.sessions.clear()
    await scene.server.say(scene.general, scene.mark, "the rabbit sits on the moon")
    await process.start(tmp_path)
    await scene.server.ready()
    await eventually(scene, "what did I say about turtles?", TURTLES)
    await eventually(scene, "what did I say about the rabbit?", "moon")
    code, log = await process.terminate()
    assert code == 0
    assert "turtles" not in log  # nobody's words
    assert "rabbit" not in log
    assert scene.server.rest.token not in log
    events = [json.loads(line) for line in log.splitlines()]
    answered = [event for event in events if event["event"] == "answered"]
    assert answered
    assert all(re.fullmatch(r"[0-9a-f]{8}", event["request_id"]) for event in answered)
    names = [event["event"] for event in events]
    assert "shutting down" in names
    assert names[-1] == "stopped"


async def test_sigterm_finishes_the_answer_that_is_under_way(scene: Scene, process: BotProcess, tmp_path: Path) -> None:
    await process.start(tmp_path)
    await scene.server.ready()
    await scene.server.say(scene.general, scene.mark, TURTLES)
    await eventually(scene, QUESTION, TURTLES)
    answer = scene.server.hold(r"/messages$")
    asked = await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention} {QUESTION}")
    await scene.server.until_held(r"/messages$")
    process.signal()
    await process.until_logged("shutting down")
    answer.set()
    code, _ = await process.finished()
    assert code == 0
    assert TURTLES in (await scene.server.reply(asked))["content"]


async def test_metrics_and_health_are_served_on_the_port(scene: Scene, settings: Settings, tmp_path: Path) -> None:
    port = quiet_port()
    async with BotProcess(scene.server, environment(settings, CHANNELMEM_METRICS_PORT=str(port))) as process:
        await process.start(tmp_path)
        await scene.server.ready()
        await scene.server.say(scene.general, scene.mark, TURTLES)
        await scene.server.ask(scene.general, scene.mark, QUESTION)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:
            status, parts = 503, {}
            async with asyncio.timeout(PATIENCE_S):
                while status == 503:  # until every guild has arrived
                    async with http.get("/healthz") as health:
                        status, parts = health.status, await health.json()
            assert (status, parts) == (200, {"discord": True, "redis": True})
            async with http.get("/metrics") as metrics:
                text = await metrics.text()
    assert 'channelmem_asks_total{kind="channel",mode="topic",outcome="found"} 1.0' in text
    assert 'channelmem_stage_seconds_count{stage="total"} 1.0' in text
    assert 'channelmem_discord_requests_total{method="POST",status="200"} 1.0' in text
    assert "channelmem_queue_depth 0.0" in text


async def test_without_a_token_it_says_where_to_get_one(server: Loopback, settings: Settings, tmp_path: Path) -> None:
    async with BotProcess(server, environment(settings, DISCORD_TOKEN="")) as process:
        await process.start(tmp_path)
        assert await process.finished() == (1, f"{LOGIN_MISSING}\n")


async def test_a_wrong_token_is_said_to_be_wrong(server: Loopback, settings: Settings, tmp_path: Path) -> None:
    async with BotProcess(server, environment(settings, DISCORD_TOKEN="wrong")) as process:
        await process.start(tmp_path)
        code, log = await process.finished()
    assert code == 1
    assert log.splitlines()[-1] == LOGIN_REJECTED
    assert "Traceback" not in log


async def test_a_missing_intent_is_named_with_the_switch_to_flip(
    server: Loopback, settings: Settings, tmp_path: Path
) -> None:
    server.gateway.refuse_privileged = True
    async with BotProcess(server, environment(settings)) as process:
        await process.start(tmp_path)
        code, log = await process.finished()
    assert code == 1
    assert log.splitlines()[-1] == INTENT_DISABLED
    assert "Traceback" not in log


async def test_an_unreachable_discord_is_one_sentence(server: Loopback, settings: Settings, tmp_path: Path) -> None:
    nowhere = f"http://127.0.0.1:{quiet_port()}/api/v10"
    async with BotProcess(server, environment(settings, DISCORD_API_BASE=nowhere)) as process:
        await process.start(tmp_path)
        code, log = await process.finished()
    assert code == 1
    assert "Can't reach Discord" in log.splitlines()[-1]


@pytest.mark.parametrize(
    ("code", "words"), [(4004, LOGIN_REJECTED), (4011, "permanently closed the connection (code 4011)")]
)
async def test_a_connection_that_discord_ends_for_good_is_one_sentence(
    server: Loopback, settings: Settings, tmp_path: Path, code: int, words: str
) -> None:
    async with BotProcess(server, environment(settings)) as process:
        await process.start(tmp_path)
        await server.ready()
        for session in server.gateway.connected:
            assert session.socket is not None
            await session.socket.close(code=code)  # such as when the token is reset while the bot runs
        status, log = await process.finished()
    assert status == 1
    assert words in log.splitlines()[-1]
    assert "Traceback" not in log


async def test_a_metrics_port_that_is_taken_is_named(server: Loopback, settings: Settings, tmp_path: Path) -> None:
    taken = environment(settings, CHANNELMEM_METRICS_PORT=str(server.port))
    async with BotProcess(server, taken) as process:
        await process.start(tmp_path)
        status, log = await process.finished()
    assert status == 1
    assert f"Can't open CHANNELMEM_METRICS_PORT {server.port}" in log.splitlines()[-1]


@pytest.mark.parametrize("path", ["/users/@me", "/gateway/bot"])
async def test_sigterm_during_the_log_in_is_no_failure(
    server: Loopback, settings: Settings, tmp_path: Path, path: str
) -> None:
    async with BotProcess(server, environment(settings)) as process:

        async def terminate() -> None:
            process.process.terminate()
            await process.process.wait()  # the answer to this request comes too late

        server.rest.on_the_way[path] = terminate
        await process.start(tmp_path)
        status, log = await process.finished()
    assert status == 0
    assert [json.loads(line)["event"] for line in log.splitlines()][-2:] == ["shutting down", "stopped"]


@pytest.mark.parametrize("words", ["", TURTLES])
async def test_sigterm_while_redis_is_away_ends_in_order(
    scene: Scene, own_server: OwnServer, tmp_path: Path, words: str
) -> None:
    async with BotProcess(scene.server, environment(make_settings(own_server.url, tmp_path))) as process:
        await process.start(tmp_path)
        await scene.server.ready()
        await scene.server.ask(scene.general, scene.mark, QUESTION)
        own_server.kill()
        if words:  # something is left that cannot be stored
            await scene.server.say(scene.general, scene.mark, words)
        # A bound for a bot that hangs; by itself it takes ten seconds at most.
        async with asyncio.timeout(PATIENCE_S):
            status, log = await process.terminate()
    assert status == 0
    assert json.loads(log.splitlines()[-1])["event"] == "stopped"
