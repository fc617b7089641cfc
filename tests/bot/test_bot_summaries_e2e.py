"""The bot end to end: ten hours of talk that it missed, and a question whose prompt has the morning in it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from clock import wall_now
from conftest import FakeEmbedder
from llm_server import LlmServer, Reply, llm_server, say, status
from loopback.bots import running, unhurried
from loopback.scene import Scene
from waiting import until

from bot.client import Bot
from bot.history import DiscordHistory
from channelmem.ids import ChannelId
from channelmem.llm.opening import open_responder, summariser_of
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.summaries import update
from channelmem.summaries.extractive import MODEL

pytest_plugins = ["loopback.fixtures"]

HOUR_S, DAY_S = 3600.0, 86_400.0
FACTS = {
    9.8: "the venue for the summer party is the old mill in Lyon",
    8.4: "we decided to order 45 folding chairs from Petersen",
    7.1: "Marta has the key of the back door until Sunday",
}
FILLER = (
    "has anybody seen the {} today? I thought that it was next to the big {} in the hallway",
    "I had a look at the {}, it is fine, but somebody has to clean the {} before the weekend",
    "let's talk about the {} later, first the {} has to work again, it makes strange noises",
)
THINGS = ("printer", "ladder", "kettle", "projector", "lamp", "bicycle", "trolley", "heater", "fridge", "door bell")
Start = Callable[..., AbstractAsyncContextManager[Bot]]


@pytest.fixture(autouse=True)
def quick_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "POLL_S", 0.05)


@pytest.fixture
async def model() -> AsyncIterator[LlmServer]:
    async with llm_server() as server:
        yield server


@pytest.fixture
def start(scene: Scene, settings: Settings, fake_embedder: FakeEmbedder, model: LlmServer) -> Start:
    """Starts our bot; `summarised` lets the model write summaries too."""

    @asynccontextmanager
    async def started(*, summarised: bool = False, **changes: Any) -> AsyncIterator[Bot]:
        llm = {"llm_model": "openai:gpt-5-mini", "llm_base_url": model.openai_url, "llm_retries": 0}
        own = {"summary_model": "openai:gpt-5-mini"} if summarised else {}
        fetch = {"backfill_messages": 1_000, "context_max_age_hours": None, "summary_debounce_s": 0.0}
        values = {**llm, **own, **fetch, "llm_grounded": False, "llm_timeout_s": 20.0, **changes}
        given = unhurried(settings).model_copy(update=values)
        history = DiscordHistory(given)
        async with (
            summariser_of(given) as summariser,
            Memory.open(given, history=history, embedder=fake_embedder, summariser=summariser) as memory,
        ):
            if summariser is not None:
                summariser.attach(memory.spending)
            async with running(scene.server, given, memory, history, open_responder(given, memory)) as bot:
                yield bot

    return started


def talk(scene: Scene, count: int, hours: float, facts: dict[float, str]) -> None:
    """Was written while the bot was away."""
    chance = random.Random(7)  # noqa: S311  (no secret)
    lines = [(hours * (1 - n / count), chance.choice(FILLER).format(*chance.sample(THINGS, 2))) for n in range(count)]
    for ago_h, text in sorted([*lines, *facts.items()], reverse=True):
        author = scene.mark if chance.random() < 0.5 else scene.ann
        scene.server.wrote(scene.general, author, text, ago_s=ago_h * HOUR_S + 60)


async def summarised_until(bot: Bot, scene: Scene, reached: float) -> None:
    """Until summaries reach back from about now to this time."""

    async def covered() -> bool:
        found = await bot.memory.summaries.of(scene.guild.id, scene.general.id)
        return bool(found) and found[0].start <= reached and max(one.end for one in found) >= wall_now() - HOUR_S

    await until(covered)


async def asked(scene: Scene, model: LlmServer, text: str = "what should we do next?") -> str:
    """The prompt that the model was sent for a question."""
    model.will(say("Let's see."))
    await scene.server.ask(scene.general, scene.mark, text)
    return next(one.user for one in reversed(model.requests) if "<question>" in one.user)


async def test_the_morning_is_in_the_prompt_of_the_evening(scene: Scene, start: Start, model: LlmServer) -> None:
    talk(scene, 300, 10.0, FACTS)
    async with start() as bot:
        await summarised_until(bot, scene, wall_now() - 10 * HOUR_S)
        prompt = await asked(scene, model)
    context = prompt.partition("<channel_context>")[2].partition("</channel_context>")[0]
    assert len(context) <= 10_000 + 2
    for fact in FACTS.values():
        assert fact in context
    assert "[summarized " in context


async def test_a_recap_in_the_models_words_rests_on_the_summaries(scene: Scene, start: Start, model: LlmServer) -> None:
    talk(scene, 300, 10.0, FACTS)
    async with start(llm_grounded=True, llm_stream=False) as bot:
        await summarised_until(bot, scene, wall_now() - 10 * HOUR_S)
        model.will(say("You decided to order 45 folding chairs from Petersen."))
        said = await scene.server.ask(scene.general, scene.mark, "summarise the last 11 hours")
    assert said == "You decided to order 45 folding chairs from Petersen."
    quoting = model.requests[-1].user.partition("<answer>")[2]
    assert "in 5 parts:" in quoting
    assert "https://discord.com/channels/" in quoting


async def test_a_sparse_channel_keeps_its_messages(scene: Scene, start: Start, model: LlmServer) -> None:
    for day in range(6):
        scene.server.wrote(scene.general, scene.ann, f"weekly note number {day}", ago_s=(6 - day) * DAY_S)
    async with start() as bot:
        await until(lambda: _count(bot, scene, 6))
        prompt = await asked(scene, model)
    assert all(f"weekly note number {day}" in prompt for day in range(6))
    assert "days of silence]" in prompt or "day later" in prompt or "hours of silence]" in prompt


async def _count(bot: Bot, scene: Scene, least: int) -> bool:
    found = await bot.memory.summaries.of(scene.guild.id, scene.general.id)
    return sum(one.level == 1 for one in found) >= least


async def test_a_busy_channel_stays_within_the_limit(scene: Scene, start: Start, model: LlmServer) -> None:
    talk(scene, 800, 4.0, {3.9: FACTS[9.8], 2.0: FACTS[8.4]})
    async with start() as bot:
        await summarised_until(bot, scene, wall_now() - 4 * HOUR_S)
        prompt = await asked(scene, model)
    context = prompt.partition("<channel_context>")[2].partition("</channel_context>")[0]
    assert len(context) <= 10_000 + 2
    assert FACTS[9.8] in context
    assert FACTS[8.4] in context


async def test_pictures_are_counted(scene: Scene, start: Start, model: LlmServer) -> None:
    image = {"filename": "a.png", "size": 5, "content_type": "image/png", "url": "https://cdn.example/a.png"}
    files = [{**image, "id": str(n), "proxy_url": image["url"]} for n in range(1, 4)]
    at = wall_now() - 3 * HOUR_S
    scene.server.world.post(scene.general, scene.ann, "the new hall", extra={"attachments": files}, at=at)
    talk(scene, 60, 2.0, {})  # enough to push it out of what is shown as it was said
    async with start() as bot:
        await summarised_until(bot, scene, at)
        prompt = await asked(scene, model)
    assert "[3 images shared]" in prompt


MINUTES = "Ann and Mark talked about the printer, the ladder and the kettle in the hallway; Marta has the key."
BROKEN = {
    "fails": status(500),
    "hangs": say("late", gate=asyncio.Event()),
    "returns garbage": Reply(raw=b"<html>no</html>"),
    "invents": say("Zebras paint purple submarines beneath volcanic Jupiter while accordions dream."),
}


async def test_a_model_writes_the_summaries_if_it_is_asked_to(scene: Scene, start: Start, model: LlmServer) -> None:
    model.will(say(MINUTES))
    talk(scene, 60, 3.0, {})
    async with start(summarised=True) as bot:
        await summarised_until(bot, scene, wall_now() - 2 * HOUR_S)
        found = await bot.memory.summaries.of(scene.guild.id, scene.general.id)
        assert any(one.text == MINUTES for one in found)
        today, channel = int(wall_now() // DAY_S), ChannelId(scene.guild.id, scene.general.id)
        spent = [await bot.memory.spending.by_channel(day) for day in (today - 1, today)]  # midnight may have passed
        assert any(one.get(channel, 0) > 0 for one in spent)
    assert any("<conversation>" in one.user for one in model.requests)


@pytest.mark.parametrize("reply", BROKEN.values(), ids=list(BROKEN))
async def test_a_model_that_is_no_help_costs_no_summary(
    scene: Scene, start: Start, model: LlmServer, reply: Reply
) -> None:
    model.will(reply)
    talk(scene, 60, 3.0, {2.5: FACTS[7.1]})
    async with start(summarised=True, llm_timeout_s=1.0) as bot:
        await summarised_until(bot, scene, wall_now() - 2 * HOUR_S)
        found = await bot.memory.summaries.of(scene.guild.id, scene.general.id)
        assert {one.model for one in found} == {MODEL}
        assert any(FACTS[7.1] in one.text for one in found)
    asked_for = [one for one in model.requests if "<conversation>" in one.user or "_minutes>" in one.user]
    assert len(asked_for) == 1  # after a failure the model rests
