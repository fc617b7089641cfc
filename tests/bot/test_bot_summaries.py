"""/summary and /history export with a real memory: a span in words, how summaries stand, a file to keep."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest
from clock import wall_now
from conftest import FakeEmbedder
from loopback.bots import running, unhurried
from loopback.interactions import Interaction
from loopback.scene import Scene

from bot import past
from bot.client import Bot
from bot.contexts import MODERATORS_ONLY
from bot.history import DiscordHistory
from channelmem.context_window import UNREADABLE
from channelmem.interface import ChannelMemory
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.types import Message

pytest_plugins = ["loopback.fixtures"]

HOUR_S = 3600.0
TOPICS = ("release", "oven", "garden", "invoice")


@pytest.fixture
async def bot(scene: Scene, settings: Settings, fake_embedder: FakeEmbedder) -> AsyncIterator[Bot]:
    quick = unhurried(settings).model_copy(update={"backfill": False})
    history = DiscordHistory(quick)
    scene.server.world.grant(scene.guild, scene.mark, manage_messages=True)
    async with (
        Memory.open(quick, history=history, embedder=fake_embedder) as memory,
        running(scene.server, quick, memory, history) as started,
    ):
        yield started


async def ten_hours(scene: Scene, memory: ChannelMemory) -> list[Message]:
    """Back-dated talk, ten hours of it up to half an hour ago."""
    chance, now = random.Random(1), wall_now()  # noqa: S311  (no secret)
    messages = [
        Message(
            scene.guild.id,
            scene.general.id,
            n + 1,
            scene.ann.id if n % 2 else scene.mark.id,
            "Ann" if n % 2 else "Mark",
            f"the {TOPICS[n // 30]} needs {chance.randint(10, 999)} parts, @everyone <b>note</b> [this](x)",
            now - 10 * HOUR_S + 285.0 * n,
        )
        for n in range(120)
    ]
    await memory.remember_many(messages)
    await memory.summaries.update(scene.guild.id, scene.general.id)
    return messages


async def run(scene: Scene, path: str, **options: object) -> Interaction:
    used = await scene.server.slash(scene.general, scene.mark, path, **options)
    await scene.server.until(lambda: used.text)
    assert used.ephemeral
    return used


async def test_a_span_is_summed_up_for_whoever_asks(scene: Scene, bot: Bot) -> None:
    messages = await ten_hours(scene, bot.memory)
    used = await run(scene, "summary now", span="24h")
    heading, *parts = used.text.splitlines()
    assert heading.startswith("120 messages from ")
    assert all("https://discord.com/channels/" in part for part in parts)
    assert f"/{messages[0].id}" in parts[0]
    assert "@everyone" not in used.text
    assert used.messages[0]["_allowed_mentions"] == {"parse": []}
    less = await run(scene, "summary now", span="3h")
    assert int(less.text.split()[0]) < 40


async def test_what_is_no_time_or_holds_nothing_is_said(scene: Scene, bot: Bot) -> None:
    assert (await run(scene, "summary now", span="banana")).text == UNREADABLE
    assert (await run(scene, "summary now", span="24h")).text == past.NOTHING_SAID


async def test_how_summaries_stand(scene: Scene, bot: Bot) -> None:
    await ten_hours(scene, bot.memory)
    said = (await run(scene, "summary status")).text
    assert "raw messages" in said
    assert "of 10,000 characters" in said
    assert "of level " in said
    assert "Nothing had to be left out." in said
    window = (await run(scene, "context show")).text
    assert "summaries, " in window


async def test_a_rebuild_asks_once(scene: Scene, bot: Bot) -> None:
    await ten_hours(scene, bot.memory)
    place = scene.guild.id, scene.general.id
    before = await bot.memory.summaries.of(*place)
    asked = await run(scene, "summary rebuild")
    assert asked.text == past.ASK
    await scene.server.click(asked.messages[0], scene.mark, past.CANCEL)
    await scene.server.until(lambda: asked.text == past.CANCELLED)
    assert await bot.memory.summaries.of(*place) == before
    again = await run(scene, "summary rebuild")
    await scene.server.click(again.messages[0], scene.mark, past.CONFIRM)
    await scene.server.until(lambda: "I rebuilt" in again.text and "…" not in again.text)
    after = await bot.memory.summaries.of(*place)
    assert [one.id for one in after] == [one.id for one in before]
    assert all(new.created > old.created for new, old in zip(after, before, strict=True))


async def test_an_export_is_readable_and_has_no_effect(scene: Scene, bot: Bot) -> None:
    await ten_hours(scene, bot.memory)
    used = await run(scene, "history export")
    assert "120 messages and " in used.text
    [(name, data)] = used.files.items()
    text = data.decode()
    assert name == "channel-history.md"
    assert text.startswith("# #general of Turtle Club\n")
    assert text.count("- **") == 120
    assert text.count("> **Summary, ") >= 10
    for effect in ("@everyone", "<b>", "[this]("):
        assert effect not in text
    first = text.index("> **Summary, ")
    assert first < text.index("- **")  # a summary stands before its messages


async def test_an_export_may_be_of_a_part(scene: Scene, bot: Bot) -> None:
    await ten_hours(scene, bot.memory)
    used = await run(scene, "history export", **{"from": "6h", "to": "3h"})
    [data] = used.files.values()
    assert 30 <= data.decode().count("- **") <= 45
    assert (await run(scene, "history export", **{"from": "3h", "to": "6h"})).text.startswith("`from` is later")
    assert (await run(scene, "history export", **{"from": "6 days", "to": "5 days"})).text == past.NOTHING_THERE


async def test_what_was_deleted_is_in_no_export_and_in_no_summary(scene: Scene, bot: Bot) -> None:
    messages = await ten_hours(scene, bot.memory)
    gone = next(one for one in messages if one.ts < wall_now() - 5 * HOUR_S)
    await bot.memory.delete(scene.guild.id, scene.general.id, [gone.id])
    words = gone.content.split(" parts")[0]
    [data] = (await run(scene, "history export")).files.values()
    assert words not in data.decode()
    assert words not in (await run(scene, "summary now", span="24h")).text


@pytest.mark.parametrize("path", ["summary now", "summary status", "summary rebuild", "history export", "history load"])
async def test_only_people_who_manage_messages_may_use_it(scene: Scene, bot: Bot, path: str) -> None:
    used = await scene.server.slash(scene.general, scene.ann, path)
    assert await scene.server.answered(used) == MODERATORS_ONLY


async def test_the_help_lists_them(scene: Scene, bot: Bot) -> None:
    used = await scene.server.slash(scene.general, scene.mark, "help")
    said = await scene.server.answered(used)
    assert "`/summary` This channel's past in few words: " in said
    assert "`load`" in said
    assert "`export`" in said
