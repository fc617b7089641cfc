"""The bot with a language model, both on loopback: its own words if it can, else the quote, never silence."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from llm_server import LlmServer, call, llm_server, say, status
from loopback.bots import running
from loopback.scene import Scene
from pydantic import SecretStr

from bot.client import Bot
from bot.history import DiscordHistory
from bot.llm import open_llm
from channelmem.memory import Memory
from channelmem.settings import Settings

pytest_plugins = ["loopback.fixtures"]

TURTLES = "It's turtles. All the way down it is recursive spirals of turtles!"
QUESTION = "what did I just say about turtles?"


@pytest.fixture
async def model() -> AsyncIterator[LlmServer]:
    async with llm_server() as server:
        yield server


@pytest.fixture
async def bot(scene: Scene, settings: Settings, model: LlmServer) -> AsyncIterator[Bot]:
    chosen: dict[str, object] = {
        "llm_model": "openai:loopback",
        "llm_base_url": model.openai_url,
        "llm_api_key": SecretStr("sk-test"),
        "llm_retries": 0,
        "llm_timeout_s": 3.0,
        "cooldown_user_s": 0.0,
        "cooldown_channel_s": 0.0,
    }
    speaking = settings.model_copy(update=chosen)
    history = DiscordHistory(speaking)
    async with Memory.open(speaking, history=history) as memory:
        llm = open_llm(speaking, memory)
        async with running(scene.server, speaking, memory, history, llm) as started:
            yield started


async def test_the_models_words_reach_the_channel_and_the_quote_reaches_the_model(
    scene: Scene, bot: Bot, model: LlmServer
) -> None:
    model.will(say("You said it is turtles all the way down."))
    await scene.server.say(scene.general, scene.mark, TURTLES)
    asked = await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention} {QUESTION}")
    reply = await scene.server.reply(asked)
    await scene.server.until(lambda: reply["content"] == "You said it is turtles all the way down.")
    assert "recursive spirals of turtles" in model.requests[0].system + model.requests[0].user
    assert reply["_allowed_mentions"] == {"parse": []}


async def test_the_model_may_look_at_the_channel_itself(scene: Scene, bot: Bot, model: LlmServer) -> None:
    model.will(call({"query": "turtles"}), say("Turtles, I see."))
    await scene.server.say(scene.general, scene.mark, TURTLES)
    asked = await scene.server.say(scene.general, scene.ann, f"{scene.server.world.bot.mention} tell me a joke")
    reply = await scene.server.reply(asked)
    await scene.server.until(lambda: reply["content"] == "Turtles, I see.")
    assert "spirals of turtles" in model.requests[-1].results[0]


async def test_a_model_that_fails_leaves_the_quoting_answer(scene: Scene, bot: Bot, model: LlmServer) -> None:
    await scene.server.say(scene.general, scene.mark, TURTLES)
    for failure in (status(500), say("half of it", breaks=True), say("", raw=b"garbage")):
        model.will(failure)
        asked = await scene.server.say(scene.general, scene.mark, f"{scene.server.world.bot.mention} {QUESTION}")
        reply = await scene.server.reply(asked)
        await scene.server.until(lambda reply=reply: TURTLES in reply["content"])  # type: ignore[misc]
        assert len(scene.server.replies(asked)) == 1


async def test_a_slow_model_shows_typing_and_private_answers_stay_private(
    scene: Scene, bot: Bot, model: LlmServer
) -> None:
    model.will(say("Sorry for the wait.", wait_s=1.5))
    await scene.server.say(scene.general, scene.mark, TURTLES)
    await scene.server.ask(scene.general, scene.mark, QUESTION)
    assert scene.server.calls("POST", "/typing")
    slash = await scene.server.slash(scene.general, scene.mark, "ask", question=QUESTION, private=True)
    await scene.server.until(lambda: slash.text == "Sorry for the wait.")  # it grew by edits
    assert slash.ephemeral
