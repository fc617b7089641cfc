"""What was edited or deleted while the bot was away is noticed; nothing else is harmed, and Discord is asked once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from clock import wall_now
from conftest import FakeEmbedder, OwnServer, make_settings
from loopback import Json, payloads
from loopback.bots import backfilled, running, unhurried
from loopback.rest import Fault
from loopback.scene import Scene
from loopback.server import PATIENCE_S
from structlog.testing import capture_logs

from bot import backfill
from bot.client import Bot
from bot.history import DiscordHistory
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.types import Message

pytest_plugins = ["loopback.fixtures"]

PAGES = r"/messages$"


@pytest.fixture
def quick(settings: Settings) -> Settings:
    return unhurried(settings)


@pytest.fixture
async def memory(quick: Settings, fake_embedder: FakeEmbedder) -> AsyncIterator[Memory]:
    async with Memory.open(quick, embedder=fake_embedder) as opened:
        yield opened


def start(scene: Scene, settings: Settings, memory: Memory) -> AbstractAsyncContextManager[Bot]:
    return running(scene.server, settings, memory, DiscordHistory(settings))


def asked(scene: Scene) -> int:
    return len(scene.server.calls("GET", PAGES))


def wrote(scene: Scene, text: str, ago_s: float = 60) -> Json:
    return scene.server.wrote(scene.general, scene.mark, text, ago_s=ago_s)


def stored(scene: Scene, message: Json) -> Message:
    """A message as an earlier process has stored it."""
    id_ = int(message["id"])
    at = ((id_ >> 22) + payloads.EPOCH_MS) / 1000
    return Message(scene.guild.id, int(message["channel_id"]), id_, scene.mark.id, "Mark", message["content"], at)


def rewrite(message: Json, text: str, ago_s: float = 5) -> None:
    """An edit that nobody hears of."""
    message |= {"content": text, "edited_timestamp": payloads.iso(wall_now() - ago_s)}


def erase(scene: Scene, *messages: Json) -> None:
    """A deletion that nobody hears of."""
    for message in messages:
        del scene.server.world.messages[int(message["channel_id"])][int(message["id"])]


async def held(scene: Scene, memory: Memory) -> set[str]:
    return {message.content async for message in memory.export(scene.mark.id)}


async def test_what_was_deleted_while_away_is_not_quoted(scene: Scene, quick: Settings, memory: Memory) -> None:
    async with start(scene, quick, memory):
        first = await scene.server.say(scene.general, scene.mark, "good morning")
        secret = await scene.server.say(scene.general, scene.mark, "the password is swordfish")
        answer = await scene.server.ask(scene.general, scene.ann, "what did Mark just say?")
    assert "swordfish" in answer
    erase(scene, secret)
    async with start(scene, quick, memory):
        await backfilled()
        answer = await scene.server.ask(scene.general, scene.ann, "what did Mark just say?")
    assert "swordfish" not in answer
    assert await held(scene, memory) == {first["content"]}


async def test_what_was_edited_while_away_is_quoted_as_it_is_now(scene: Scene, quick: Settings, memory: Memory) -> None:
    async with start(scene, quick, memory):
        said = await scene.server.say(scene.general, scene.mark, "the password is swordfish")
        await scene.server.ask(scene.general, scene.ann, "what did Mark just say?")
    rewrite(said, "the password is a secret", ago_s=0)
    async with start(scene, quick, memory):
        await backfilled()
        answer = await scene.server.ask(scene.general, scene.ann, "what did Mark say about the password?")
    assert "a secret" in answer
    assert "swordfish" not in answer
    assert await held(scene, memory) == {"the password is a secret"}


async def test_an_edit_that_is_known_already_changes_nothing(scene: Scene, quick: Settings, memory: Memory) -> None:
    async with start(scene, quick, memory):
        said = await scene.server.say(scene.general, scene.mark, "first words")
        await scene.server.edit(said, "second words")
        await scene.server.ask(scene.general, scene.ann, "what did Mark just say?")
    said["content"] = "words that Discord would never show under the same time of edit"
    async with start(scene, quick, memory):
        await backfilled()
    assert await held(scene, memory) == {"second words"}


@pytest.mark.parametrize("now", ["", "!play something"])
async def test_words_that_were_emptied_or_turned_into_a_command_go(
    scene: Scene, quick: Settings, memory: Memory, now: str
) -> None:
    said = wrote(scene, "the password is swordfish")
    await memory.remember(stored(scene, said))
    rewrite(said, now)
    async with start(scene, quick, memory):
        await backfilled()
    assert await held(scene, memory) == set()


async def test_what_was_deleted_during_a_lost_session_goes(scene: Scene, quick: Settings, memory: Memory) -> None:
    async with start(scene, quick, memory):
        secret = await scene.server.say(scene.general, scene.mark, "the password is swordfish")
        await scene.server.say(scene.general, scene.mark, "good morning")
        await scene.server.ask(scene.general, scene.ann, "what did Mark just say?")
        before = asked(scene)
        await scene.server.gateway.cut(resumable=False)
        erase(scene, secret)
        await scene.server.until(lambda: asked(scene) > before)
        await backfilled()
        assert await held(scene, memory) == {"good morning"}
        assert asked(scene) == before + 1


async def test_what_happens_while_the_page_is_on_its_way_wins(scene: Scene, quick: Settings, memory: Memory) -> None:
    kept, edited, deleted, gone = [wrote(scene, f"line {n}", ago_s=60 - n) for n in range(4)]
    await memory.remember_many([stored(scene, one) for one in (kept, edited, deleted, gone)])
    erase(scene, gone)
    rewrite(edited, "an edit that the page shows")
    rewrite(deleted, "an edit of what is deleted a moment later")

    async def meanwhile() -> None:
        await scene.server.edit(edited, "a newer edit")
        await scene.server.delete(scene.general, int(deleted["id"]))
        await scene.server.say(scene.general, scene.mark, "said meanwhile")
        async with asyncio.timeout(PATIENCE_S):
            while await held(scene, memory) != {"line 0", "a newer edit", "line 3", "said meanwhile"}:
                pass

    scene.server.rest.on_the_way[PAGES] = meanwhile
    async with start(scene, quick, memory):
        await backfilled()
        assert await held(scene, memory) == {"line 0", "a newer edit", "said meanwhile"}


async def test_a_message_older_than_the_page_stays(scene: Scene, quick: Settings, memory: Memory) -> None:
    lines = [wrote(scene, f"line {n}", ago_s=500 - n) for n in range(104)]
    await memory.remember_many([stored(scene, one) for one in lines])
    erase(scene, lines[2], lines[50])  # the page holds 102 down to 3, and then some
    async with start(scene, quick, memory):
        await backfilled()
    assert await held(scene, memory) == {f"line {n}" for n in range(104) if n != 50}
    assert asked(scene) == 1


async def test_a_page_that_is_not_full_reaches_down_to_the_beginning(
    scene: Scene, quick: Settings, memory: Memory
) -> None:
    lines = [wrote(scene, f"line {n}", ago_s=900 - n) for n in range(250)]
    await memory.remember_many([stored(scene, one) for one in lines])
    erase(scene, *lines[:-1])
    async with start(scene, quick, memory):
        await backfilled()
    assert await held(scene, memory) == {"line 249"}


async def test_the_pages_of_a_gap_serve_for_comparing_too(scene: Scene, quick: Settings, memory: Memory) -> None:
    kept, secret = wrote(scene, "good morning", ago_s=300), wrote(scene, "the password is swordfish", ago_s=299)
    await memory.remember_many([stored(scene, one) for one in (kept, secret)])
    erase(scene, secret)
    missed = [wrote(scene, f"line {n}", ago_s=200 - n) for n in range(120)]
    async with start(scene, quick, memory):
        await backfilled()
    assert await held(scene, memory) == {"good morning", *(str(one["content"]) for one in missed)}
    assert asked(scene) == 2


async def test_commands_bots_and_webhooks_on_the_page_are_neither_stored_nor_in_the_way(
    scene: Scene, quick: Settings, memory: Memory
) -> None:
    said = wrote(scene, "good morning", ago_s=30)
    await memory.remember(stored(scene, said))
    world, robot = scene.server.world, scene.server.world.add_user("robot", bot=True)
    rewrite(wrote(scene, "!play something", ago_s=40), "!stop")
    rewrite(world.post(scene.general, robot, "playing", at=wall_now() - 39), "stopped")
    hook = world.post(scene.general, scene.mark, "build 7 passed", at=wall_now() - 38)
    hook["webhook_id"] = str(world.snowflake())
    async with start(scene, quick, memory):
        await backfilled()
        status = await memory.status(scene.guild.id, scene.general.id)
    assert status.messages == 1
    assert await held(scene, memory) == {"good morning"}


async def test_it_works_without_back_fill_and_then_stores_nothing_new(
    scene: Scene, quick: Settings, memory: Memory
) -> None:
    secret, said = wrote(scene, "the password is swordfish"), wrote(scene, "good morning", ago_s=59)
    await memory.remember_many([stored(scene, one) for one in (secret, said)])
    erase(scene, secret)
    wrote(scene, "never heard", ago_s=30)
    async with start(scene, quick.model_copy(update={"backfill": False}), memory):
        await backfilled()
    assert await held(scene, memory) == {"good morning"}
    assert asked(scene) == 1


async def test_a_channel_that_the_bot_may_not_read_keeps_what_is_stored(
    scene: Scene, quick: Settings, memory: Memory
) -> None:
    said = wrote(scene, "good morning")
    await memory.remember(stored(scene, said))
    scene.server.world.deny(scene.general, scene.server.world.bot, read_message_history=True)
    async with start(scene, quick, memory):
        await backfilled()
    assert await held(scene, memory) == {"good morning"}
    assert asked(scene) == 0


async def test_a_channel_that_is_closed_while_it_is_asked_keeps_what_is_stored(
    scene: Scene, quick: Settings, memory: Memory
) -> None:
    """Discord answers with an empty page then, which looks as if everything had been deleted."""
    said = wrote(scene, "good morning")
    await memory.remember(stored(scene, said))
    erase(scene, said)
    empty = Fault("GET", re.compile(PAGES), 200, cast("Json", []), {}, times=1, spare=0)
    scene.server.rest.faults.append(empty)
    async with start(scene, quick, memory) as bot:
        await backfilled()
        assert await held(scene, memory) == set()  # that is how it would be

        await memory.remember(stored(scene, wrote(scene, "good evening", ago_s=1)))
        empty.times = 1

        async def close() -> None:
            scene.server.world.deny(scene.general, scene.server.world.bot, read_message_history=True)
            await scene.server.gateway.dispatch("CHANNEL_UPDATE", payloads.channel(scene.general), scene.guild.id)
            guild = bot.get_guild(scene.guild.id)
            assert guild is not None
            here = guild.get_channel(scene.general.id)
            assert here is not None
            await scene.server.until(lambda: not here.permissions_for(guild.me).read_message_history)

        scene.server.rest.on_the_way[PAGES] = close
        await scene.server.gateway.cut(resumable=False)
        await scene.server.until(lambda: asked(scene) == 2)
        await backfilled()
    assert await held(scene, memory) == {"good evening"}


async def test_an_unexpectedly_empty_page_is_ignored_while_discord_still_has_the_message(
    scene: Scene, quick: Settings, memory: Memory
) -> None:
    """The right to read may have gone before the gateway says so; the page is empty then, and nothing was deleted."""
    await memory.remember(stored(scene, wrote(scene, "good morning")))
    scene.server.rest.faults.append(Fault("GET", re.compile(PAGES), 200, cast("Json", []), {}, times=1, spare=0))
    with capture_logs() as logs:
        async with start(scene, quick, memory):
            await backfilled()
            assert await held(scene, memory) == {"good morning"}
    assert [one for one in logs if one["event"] == "ignoring an unexpectedly empty page"]


async def test_when_discord_refuses_nothing_is_lost_and_it_is_asked_again(
    scene: Scene, quick: Settings, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "ATTEMPTS_AFTER_S", (0.0, 0.0))
    secret, said = wrote(scene, "the password is swordfish"), wrote(scene, "good morning", ago_s=59)
    await memory.remember_many([stored(scene, one) for one in (secret, said)])
    erase(scene, secret)
    scene.server.fail("GET", PAGES, 403)
    second_attempt = scene.server.hold(PAGES)
    with capture_logs() as logs:
        async with start(scene, quick, memory):
            await scene.server.until_held(PAGES)
            assert await held(scene, memory) == {"the password is swordfish", "good morning"}
            second_attempt.set()
            await backfilled()
    assert [(line["event"], line["problem"]) for line in logs if "problem" in line] == [
        ("backfill interrupted", "Forbidden")
    ]
    assert [call.status for call in scene.server.calls("GET", PAGES)] == [403, 200]
    assert await held(scene, memory) == {"good morning"}


async def test_when_redis_is_away_at_the_start_it_is_done_when_redis_is_back(
    scene: Scene,
    own_server: OwnServer,
    tmp_path: Path,
    fake_embedder: FakeEmbedder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backfill, "REDIS_RETRY_S", 0.1)
    settings = make_settings(own_server.url, tmp_path, redis_timeout_s=5)
    secret, said = wrote(scene, "the password is swordfish"), wrote(scene, "good morning", ago_s=59)
    async with Memory.open(settings, embedder=fake_embedder) as before:
        await before.remember_many([stored(scene, one) for one in (secret, said)])
    erase(scene, secret)
    own_server.kill()
    with capture_logs() as logs:
        async with (
            Memory.open(settings, embedder=fake_embedder, patient=True) as memory,
            start(scene, settings, memory),
        ):
            await scene.server.until(lambda: any(line["event"] == "backfill postponed" for line in logs))
            assert asked(scene) == 0
            own_server.start()
            await backfilled()
            assert await held(scene, memory) == {"good morning"}
    assert asked(scene) == 1


async def test_the_stored_are_known_with_their_revisions_also_those_that_are_hidden(
    scene: Scene, memory: Memory
) -> None:
    """Who opted out may come back: a message deleted meanwhile must not come back with them."""
    first, second, third = [stored(scene, wrote(scene, f"line {n}", ago_s=60 - n)) for n in range(3)]
    await memory.remember_many([first, second, third])
    await memory.edit(replace(second, content="new words", revision=1_800_000_000.125))
    await memory.opt_out(scene.mark.id)
    known = await memory.known(scene.guild.id, scene.general.id, 2)
    assert known == {third.id: 0.0, second.id: 1_800_000_000.125}
    assert await memory.known(scene.guild.id, 12345, 2) == {}
