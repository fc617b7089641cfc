"""Logs that operators can read and that hold nobody's words; a health answer that tells degraded from dead."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
import structlog
from loopback.recorder import Recorder
from loopback.scene import Scene

from bot.client import Bot, configure_logging
from bot.metrics import Metrics, StatusServer
from channelmem.settings import Settings
from channelmem.types import Answer, Kind, Mode, Question, Route, Timing

pytest_plugins = ["loopback.fixtures"]


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_our_lines_and_those_of_libraries_have_one_shape(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(Settings(log_json=True))
    with structlog.contextvars.bound_contextvars(request_id="abc"):
        structlog.get_logger("bot.asking").info("answered", hits=3)
    logging.getLogger("discord.gateway").warning("shard %s lost", 1)
    ours, theirs = map(json.loads, capsys.readouterr().err.splitlines())
    assert (ours["event"], ours["hits"], ours["request_id"], ours["level"]) == ("answered", 3, "abc", "info")
    assert (theirs["event"], theirs["logger"], theirs["level"]) == ("shard 1 lost", "discord.gateway", "warning")


@pytest.mark.parametrize("level", ["DEBUG", "INFO"])
async def test_what_people_write_is_never_logged(
    scene: Scene, recording: Bot, recorder: Recorder, capsys: pytest.CaptureFixture[str], level: str
) -> None:
    configure_logging(Settings(log_level=level))
    message = await scene.server.say(scene.general, scene.mark, "swordfish")
    await scene.server.edit(message, "swordfish again")
    await scene.server.ask(scene.general, scene.mark, "what about the swordfish?")
    await scene.server.delete(scene.general, int(message["id"]))
    await scene.server.until(lambda: recorder.named("delete"))
    written = ""

    def answer_was_logged() -> bool:
        nonlocal written
        captured = capsys.readouterr()
        written += captured.err + captured.out
        return "answered" in written

    await scene.server.until(answer_was_logged)
    assert "swordfish" not in written


@pytest.mark.parametrize("as_json", [False, True])
async def test_a_failure_of_ours_is_logged_with_its_place_and_without_anybodys_words(
    scene: Scene,
    recording: Bot,
    recorder: Recorder,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    as_json: bool,
) -> None:
    configure_logging(Settings(log_json=as_json))

    async def broken(question: Question) -> Answer:
        words = question.text
        raise ZeroDivisionError(len(words))

    monkeypatch.setattr(recorder, "ask", broken)
    await scene.server.ask(scene.general, scene.mark, "what about the swordfish?")
    captured = capsys.readouterr()
    assert "ZeroDivisionError" in captured.err
    assert "in broken" in captured.err
    assert "swordfish" not in captured.err + captured.out


async def test_a_lost_gateway_is_no_health_until_it_is_back(scene: Scene, recording: Bot) -> None:
    await scene.server.until(lambda: recording.health()["discord"])
    await scene.server.gateway.cut(resumable=True)
    await scene.server.until(lambda: not recording.health()["discord"])
    await scene.server.until(lambda: recording.health()["discord"])


@pytest.fixture
async def status_server() -> AsyncIterator[tuple[StatusServer, Metrics, dict[str, bool]]]:
    metrics, health = Metrics(), {"discord": True, "redis": False}

    async def refresh() -> None:
        metrics.queued.set(7)

    opened = StatusServer(metrics, lambda: health, refresh)
    await opened.start(0, "127.0.0.1")
    yield opened, metrics, health
    await opened.stop()


async def test_without_redis_the_bot_is_degraded_without_discord_it_is_down(
    status_server: tuple[StatusServer, Metrics, dict[str, bool]],
) -> None:
    opened, _, health = status_server
    async with aiohttp.ClientSession(f"http://127.0.0.1:{opened.port}") as http:
        async with http.get("/healthz") as answer:
            assert (answer.status, await answer.json()) == (200, {"discord": True, "redis": False})
        health["discord"] = False
        async with http.get("/healthz") as answer:
            assert answer.status == 503


async def test_figures_are_counted_by_route_and_stage(
    status_server: tuple[StatusServer, Metrics, dict[str, bool]],
) -> None:
    opened, metrics, _ = status_server
    metrics.answered(Answer("", Route(Kind.CHANNEL, Mode.RECAP), ms=Timing(total=20.0)))
    async with (
        aiohttp.ClientSession(f"http://127.0.0.1:{opened.port}") as http,
        http.get("/metrics") as answer,
    ):
        text = await answer.text()
    assert 'channelmem_asks_total{kind="channel",mode="recap",outcome="nothing"} 1.0' in text
    assert 'channelmem_stage_seconds_bucket{le="0.025",stage="total"} 1.0' in text
    assert 'channelmem_stage_seconds_bucket{le="0.01",stage="total"} 0.0' in text
    assert "channelmem_queue_depth 7.0" in text
