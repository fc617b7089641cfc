"""The bot's answers quote people; when the quoted words go, they go from the bot's memory and from its answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from conftest import FakeEmbedder
from loopback.bots import backfilled, running, unhurried
from loopback.payloads import Json
from loopback.scene import Scene
from waiting import until

from bot import answers
from bot.answers import REMOVED, OwnAnswers
from bot.history import DiscordHistory
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.types import Origin

pytest_plugins = ["loopback.fixtures"]

SECRET = "the password is swordfish"
ASKED = "what did Mark say about the password?"
REPEATED = "what did you just say?"


@asynccontextmanager
async def started(scene: Scene, settings: Settings, embedder: FakeEmbedder, **changes: object) -> AsyncIterator[Memory]:
    quick = unhurried(settings.model_copy(update=changes))
    history = DiscordHistory(quick)
    async with (
        Memory.open(quick, history=history, embedder=embedder) as memory,
        running(scene.server, quick, memory, history),
    ):
        yield memory


def told(scene: Scene) -> list[str]:
    """What people can read of the bot's answers."""
    return [str(one["content"]) for one in scene.server.sent(scene.general)]


async def own_words(memory: Memory, scene: Scene) -> list[str]:
    return [one.content async for one in memory.export(scene.server.world.bot.id)]


async def quoted_twice(memory: Memory, scene: Scene) -> Json:
    """Somebody's words, an answer that quotes them, and one that repeats that answer."""
    said = await scene.server.say(scene.general, scene.mark, SECRET)
    assert "swordfish" in await scene.server.ask(scene.general, scene.ann, ASKED)
    assert "swordfish" in await scene.server.ask(scene.general, scene.ann, REPEATED)
    await until(lambda: _both_stored(memory, scene))
    return said


async def _both_stored(memory: Memory, scene: Scene) -> bool:
    return len(await own_words(memory, scene)) == 2


async def lose(memory: Memory, scene: Scene, said: Json, way: str) -> None:
    if way == "delete":
        await scene.server.delete(scene.general, int(said["id"]))
    elif way == "edit":
        await scene.server.edit(said, "good morning")
    else:
        await getattr(memory, way)(scene.mark.id)


@pytest.mark.parametrize("way", ["forget", "opt_out", "delete", "edit"])
async def test_words_that_are_gone_are_not_repeated_from_the_bots_own_answers(
    scene: Scene, settings: Settings, fake_embedder: FakeEmbedder, way: str
) -> None:
    async with started(scene, settings, fake_embedder) as memory:
        await lose(memory, scene, await quoted_twice(memory, scene), way)
        if way in {"delete", "edit"}:
            await until(lambda: _none_stored(memory, scene))
        for question in (REPEATED, ASKED, "what did you say about the password?"):
            assert "swordfish" not in await scene.server.ask(scene.general, scene.ann, question)
        assert not [one for one in await own_words(memory, scene) if "swordfish" in one]


async def _none_stored(memory: Memory, scene: Scene) -> bool:
    return not await own_words(memory, scene)


@pytest.mark.parametrize("way", ["memory forget me", "delete"])
async def test_answers_that_quote_what_is_deleted_or_forgotten_are_replaced_on_discord(
    scene: Scene, settings: Settings, fake_embedder: FakeEmbedder, way: str
) -> None:
    async with started(scene, settings, fake_embedder) as memory:
        said = await quoted_twice(memory, scene)
        await scene.server.say(scene.general, scene.ann, "the train is late")
        other = await scene.server.ask(scene.general, scene.ann, "what did I say about the train?")
        if way == "delete":
            await scene.server.delete(scene.general, int(said["id"]))
        else:
            await scene.server.answered(await scene.server.slash(scene.general, scene.mark, way))
        await scene.server.until(lambda: told(scene).count(REMOVED) == 2)
        assert other in told(scene), "answers that quote others stay"
        await until(lambda: _is_dealt_with(memory))
        assert REMOVED not in await own_words(memory, scene)


async def _is_dealt_with(memory: Memory) -> bool:
    return not await memory.to_redact()


async def test_an_answer_by_slash_command_is_replaced_too(
    scene: Scene, settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    async with started(scene, settings, fake_embedder) as memory:
        said = await scene.server.say(scene.general, scene.mark, SECRET)
        slash = await scene.server.slash(scene.general, scene.ann, "ask", question=ASKED)
        assert "swordfish" in await scene.server.answered(slash)
        await until(lambda: own_words(memory, scene))
        await scene.server.delete(scene.general, int(said["id"]))
        await until(lambda: _none_stored(memory, scene))
        await scene.server.until(lambda: REMOVED in told(scene))


async def test_switched_off_answers_stay_on_discord_but_not_in_memory(
    scene: Scene, settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    async with started(scene, settings, fake_embedder, redact_answers=False) as memory:
        said = await quoted_twice(memory, scene)
        await scene.server.delete(scene.general, int(said["id"]))
        await until(lambda: _none_stored(memory, scene))
        assert "swordfish" not in await scene.server.ask(scene.general, scene.ann, REPEATED)
    assert REMOVED not in told(scene)


async def test_what_discord_refuses_is_tried_again(
    scene: Scene, settings: Settings, fake_embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "REDACT_EVERY_S", 0.05)
    async with started(scene, settings, fake_embedder) as memory:
        said = await quoted_twice(memory, scene)
        scene.server.fail("PATCH", r"/messages/\d+$", 400, times=2)
        await scene.server.delete(scene.general, int(said["id"]))
        await scene.server.until(lambda: told(scene).count(REMOVED) == 2)
        await until(lambda: _is_dealt_with(memory))


async def test_an_answer_that_somebody_removed_needs_no_more_attention(
    scene: Scene, settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    async with started(scene, settings, fake_embedder) as memory:
        said = await quoted_twice(memory, scene)
        scene.server.fail("PATCH", r"/messages/\d+$", 404, times=2)
        await scene.server.delete(scene.general, int(said["id"]))
        await until(lambda: _none_stored(memory, scene))
        await scene.server.until(lambda: len(scene.server.calls("PATCH", r"/messages/\d+$")) == 2)
        await until(lambda: _is_dealt_with(memory))


async def test_back_fill_does_not_bring_back_the_bots_own_answers(
    scene: Scene, settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    async with started(scene, settings, fake_embedder, redact_answers=False) as memory:
        await quoted_twice(memory, scene)
        await memory.forget(scene.mark.id)
    scene.server.wrote(scene.general, scene.ann, "said while the bot was away")
    async with started(scene, settings, fake_embedder, redact_answers=False) as memory:
        await backfilled()
        assert await own_words(memory, scene) == []
        assert "swordfish" not in await scene.server.ask(scene.general, scene.ann, REPEATED)


async def test_a_message_waits_for_the_delivery_that_knows_its_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    own, source = OwnAnswers(), Origin(2, 3)
    assert await own.origins(1, 10) == (), "no answer is being delivered"
    with own.delivering(1):
        monkeypatch.setattr("bot.answers.WAIT_S", 0.0)
        assert await own.origins(1, 10) is None
        assert await own.origins(7, 10) == (), "another channel"
        own.sent(10, lambda: (source,))
        assert await own.origins(1, 10) == (source,)
    assert await own.origins(1, 11) == ()
