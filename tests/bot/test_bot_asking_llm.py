"""The bot with a language model: discord.py, Memory and the providers' SDKs over real sockets, on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from clock import wall_now
from conftest import FakeEmbedder
from llm_server import INPUT_TOKENS, OUTPUT_TOKENS, LlmServer, call, llm_server, say, status
from loopback.bots import BotProcess, running, unhurried
from loopback.scene import Scene
from loopback.server import PATIENCE_S
from prometheus_client import generate_latest
from waiting import until

from bot.answers import MOST_MESSAGES, REMOVED
from bot.client import Bot
from bot.history import DiscordHistory
from channelmem.llm import CUT
from channelmem.llm.opening import open_responder
from channelmem.memory import Memory
from channelmem.policy.cascade import OFF, Place
from channelmem.settings import Settings
from channelmem.types import Message

pytest_plugins = ["loopback.fixtures"]

TURTLES = "It's turtles. All the way down it is recursive spirals of turtles!"
QUESTION = "what did I just say about turtles?"


@pytest.fixture
async def model() -> AsyncIterator[LlmServer]:
    async with llm_server() as server:
        yield server


@pytest.fixture
async def bot(scene: Scene, settings: Settings, fake_embedder: FakeEmbedder, model: LlmServer) -> AsyncIterator[Bot]:
    """A bot that speaks through the model."""
    llm = {"llm_model": "openai:gpt-5-mini", "llm_base_url": model.openai_url, "llm_retries": 0}
    spoken = unhurried(settings).model_copy(update={**llm, "backfill": False})
    history = DiscordHistory(spoken)
    async with (
        Memory.open(spoken, history=history, embedder=fake_embedder) as memory,
        running(scene.server, spoken, memory, history, open_responder(spoken, memory)) as started,
    ):
        yield started


@pytest.fixture
def talking(scene: Scene, bot: Bot) -> Scene:
    """The scene with that bot in it."""
    return scene


async def answer(scene: Scene, text: str, expected: str) -> str:
    """What the reply ends up as: it may be edited while it grows."""
    asked = await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention} {text}")
    reply = await scene.server.reply(asked)
    await scene.server.until(lambda: expected in reply["content"])
    return str(reply["content"])


async def test_the_models_words_reach_the_channel(talking: Scene, model: LlmServer) -> None:
    model.will(say("You said it's turtles all the way down - recursive spirals of turtles!"))
    await talking.server.say(talking.general, talking.mark, TURTLES)
    said = await answer(talking, QUESTION, "spirals of turtles!")
    assert said == "You said it's turtles all the way down - recursive spirals of turtles!"
    sent = model.requests[0]
    assert "#general of Turtle Club" in sent.system
    assert TURTLES in sent.user
    assert sent.user.endswith(f"<question>\n{QUESTION}\n</question>")
    assert len(talking.server.sent(talking.general)) == 1


async def test_a_model_that_writes_without_end_makes_four_messages_at_most(talking: Scene, model: LlmServer) -> None:
    model.will(say("You said it's turtles. " * 5_000))
    await talking.server.say(talking.general, talking.mark, TURTLES)
    await talking.server.say(talking.general, talking.mark, f"{talking.server.world.bot.mention} {QUESTION}")
    await talking.server.until(lambda: any(CUT in one["content"] for one in talking.server.sent(talking.general)))
    assert len(talking.server.sent(talking.general)) <= MOST_MESSAGES


async def test_a_models_link_shows_where_it_leads(talking: Scene, model: LlmServer) -> None:
    model.will(
        say("You said it's \u202eturtles all the way down, recursive spirals: [the rules](https://evil.example)")
    )
    await talking.server.say(talking.general, talking.mark, f"{TURTLES} https://evil.example")
    said = await answer(talking, QUESTION, "evil.example")
    assert said == "You said it's turtles all the way down, recursive spirals: [the rules] (https://evil.example)"


async def test_what_the_model_costs_is_counted_for_the_channel(talking: Scene, model: LlmServer, bot: Bot) -> None:
    model.will(say("You said it's turtles all the way down."))
    await talking.server.say(talking.general, talking.mark, TURTLES)
    await answer(talking, QUESTION, "turtles all the way down.")
    await bot._refresh_metrics()
    cost_usd = (INPUT_TOKENS * 1.0 + OUTPUT_TOKENS * 5.0) / 1e6
    figures = generate_latest(bot.metrics.registry).decode()
    assert f'channelmem_llm_spent_usd{{channel_id="{talking.general.id}"}} {cost_usd:g}' in figures


async def test_the_model_may_look_into_the_channel(talking: Scene, model: LlmServer) -> None:
    model.will(call({"query": "turtles"}), say("Mark said it's turtles."))
    await talking.server.say(talking.general, talking.mark, TURTLES)
    assert await answer(talking, QUESTION, "Mark said it's turtles.")
    assert "All the way down" in model.requests[1].results[0]


async def test_when_the_model_fails_the_bot_quotes(talking: Scene, model: LlmServer) -> None:
    model.will(status(500))
    await talking.server.say(talking.general, talking.mark, TURTLES)
    assert "You said" in await answer(talking, QUESTION, TURTLES)


async def test_what_was_deleted_while_the_model_failed_is_not_quoted(
    talking: Scene, bot: Bot, model: LlmServer
) -> None:
    gate = asyncio.Event()
    model.will(replace(status(500), gate=gate))
    said = await talking.server.say(talking.general, talking.mark, TURTLES)
    asked = await talking.server.say(talking.general, talking.mark, f"{talking.server.world.bot.mention} {QUESTION}")
    await talking.server.until(lambda: model.requests)
    await talking.server.delete(talking.general, int(said["id"]))
    async with asyncio.timeout(PATIENCE_S):
        while TURTLES in [message.content async for message in bot.memory.export(talking.mark.id)]:
            pass
    gate.set()
    assert "All the way down" not in (await talking.server.reply(asked))["content"]


async def test_a_follow_up_is_still_one_when_the_model_fails(talking: Scene, model: LlmServer) -> None:
    await talking.server.say(talking.general, talking.mark, TURTLES)
    await talking.server.say(talking.general, talking.ann, "Turtles bite, as I found out.")
    model.will(status(500))
    assert "You said" in await answer(talking, "what did I say about turtles?", "All the way down")
    assert "Ann said" in await answer(talking, "and Ann?", "Turtles bite")


async def test_when_the_model_breaks_off_its_half_sentence_is_replaced(talking: Scene, model: LlmServer) -> None:
    model.will(say("You said something about cats and dogs and", breaks=True))
    await talking.server.say(talking.general, talking.mark, TURTLES)
    said = await answer(talking, QUESTION, TURTLES)
    assert "cats" not in said
    assert len(talking.server.sent(talking.general)) == 1


@pytest.mark.parametrize("change", ["deleted", "edited"])
async def test_what_was_deleted_while_the_model_wrote_does_not_reach_the_channel(
    talking: Scene, bot: Bot, model: LlmServer, change: str
) -> None:
    gate = asyncio.Event()
    model.will(say("Recursive spirals of turtles, you said!", gate=gate))
    said = await talking.server.say(talking.general, talking.mark, TURTLES)
    asked = await talking.server.say(talking.general, talking.mark, f"{talking.server.world.bot.mention} {QUESTION}")
    await talking.server.until(lambda: model.requests)
    if change == "deleted":
        await talking.server.delete(talking.general, int(said["id"]))
    else:
        await talking.server.edit(said, "It's tortoises.")
    await until(lambda: is_gone(bot, talking))
    gate.set()
    reply = await talking.server.reply(asked)
    await talking.server.until(lambda: "ecursive" not in reply["content"])
    assert len(talking.server.sent(talking.general)) == 1


async def is_gone(bot: Bot, scene: Scene) -> bool:
    return TURTLES not in [message.content async for message in bot.memory.export(scene.mark.id)]


async def test_an_invention_is_replaced_by_the_quote(talking: Scene, model: LlmServer) -> None:
    model.will(say("You adopted three kittens from a shelter in Oslo."))
    await talking.server.say(talking.general, talking.mark, TURTLES)
    assert "kittens" not in await answer(talking, QUESTION, TURTLES)
    assert len(talking.server.sent(talking.general)) == 1


async def test_marks_of_the_prompt_do_not_reach_the_channel(talking: Scene, model: LlmServer) -> None:
    model.will(say("<answer>\nYou said it is spirals of turtles.\n</answer>", piece=3))
    await talking.server.say(talking.general, talking.mark, TURTLES)
    said = await answer(talking, QUESTION, "turtles.")
    assert said == "You said it is spirals of turtles."


@pytest.mark.process
async def test_python_m_bot_with_a_model_configured_by_environment(
    scene: Scene, settings: Settings, model: LlmServer, tmp_path: Path
) -> None:
    assert settings.redis_url is not None
    model.will(say("Turtles, you said."))
    environment = {
        "REDIS_URL": settings.redis_url.get_secret_value(),
        "CHANNELMEM_KEY_PREFIX": settings.key_prefix,
        "CHANNELMEM_CACHE_DIR": str(settings.cache_dir),
        "CHANNELMEM_LLM_MODEL": "anthropic:claude-haiku-4-5",
        "CHANNELMEM_LLM_BASE_URL": model.url,
        "CHANNELMEM_LLM_API_KEY": "sk-secret-of-the-operator",
        "CHANNELMEM_LOG_LEVEL": "DEBUG",
    }
    async with BotProcess(scene.server, environment) as process:
        await process.start(tmp_path)
        # The packages of a provider take their time to load on a busy machine.
        await scene.server.until(lambda: scene.server.gateway.connected)
        await scene.server.say(scene.general, scene.mark, TURTLES)
        assert await answer(scene, QUESTION, "Turtles, you said.")
        code, log = await process.terminate()
    assert code == 0
    assert "sk-secret-of-the-operator" not in log
    assert "spirals" not in log
    assert "sk-secret-of-the-operator" in model.requests[0].key


@pytest.mark.process
async def test_a_model_that_cannot_be_had_stops_the_start_with_a_sentence(
    scene: Scene, settings: Settings, tmp_path: Path
) -> None:
    assert settings.redis_url is not None
    environment = {
        "REDIS_URL": settings.redis_url.get_secret_value(),
        "CHANNELMEM_KEY_PREFIX": settings.key_prefix,
        "CHANNELMEM_LLM_MODEL": "anthropic:claude-haiku-4-5",
        "ANTHROPIC_API_KEY": "",
    }
    async with BotProcess(scene.server, environment) as process:
        await process.start(tmp_path)
        code, log = await process.finished()
    assert code == 1
    assert "ANTHROPIC_API_KEY" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("question", [QUESTION, "tell me about the weather"], ids=["found by recall", "by its tool"])
async def test_an_answer_in_the_models_words_goes_with_what_it_was_shown(
    talking: Scene, bot: Bot, model: LlmServer, question: str
) -> None:
    model.will(call({"query": "turtles"}), say("Mark: recursive spirals of turtles!"))
    said = await talking.server.say(talking.general, talking.mark, TURTLES)
    await answer(talking, question, "recursive spirals of turtles!")
    await until(lambda: own_words(bot, talking))
    await talking.server.delete(talking.general, int(said["id"]))
    await talking.server.until(lambda: [one["content"] for one in talking.server.sent(talking.general)] == [REMOVED])
    assert await own_words(bot, talking) == []


async def own_words(bot: Bot, scene: Scene) -> list[str]:
    return [one.content async for one in bot.memory.export(scene.server.world.bot.id)]


# --- a long day ---

FACT = "we decided: the demo is on Thursday at 15:00 in room Bristol"


def ten_hours(scene: Scene) -> list[Message]:
    """300 messages, back-dated, with one fact in the first of them."""
    first = wall_now() - 10 * 3_600
    texts = [FACT, *(f"parcel {number} left dock {number % 13}" for number in range(1, 300))]
    place, people = (scene.guild.id, scene.general.id), ((scene.mark.id, "Mark"), (scene.ann.id, "Ann"))
    return [
        Message(*place, number, *people[number % 2], text, first + number * 119) for number, text in enumerate(texts, 1)
    ]


async def test_the_morning_reaches_the_model_within_the_limit(talking: Scene, bot: Bot, model: LlmServer) -> None:
    await bot.memory.policies.set(Place.everywhere(), "context_max_age", OFF)
    await bot.memory.remember_many(ten_hours(talking))
    await bot.memory.summaries.update(talking.guild.id, talking.general.id)
    model.will(say("Hello! The demo is on Thursday."))
    assert await answer(talking, "good evening, vivy", "Thursday")
    sent = model.requests[0].user
    assert FACT in sent
    assert "parcel 299 " in sent
    assert len(sent[sent.index("[summarized ") : sent.index("</channel_context>")]) <= 10_000 + 1  # and its line end
