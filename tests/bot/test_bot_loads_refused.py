"""/history load with a real memory: what was refused at its time stays out, and what is too old is summarised only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from conftest import FakeEmbedder
from loopback.bots import running, unhurried
from loopback.scene import Scene
from redis.asyncio import Redis
from waiting import until

from bot.client import Bot
from bot.history import DiscordHistory
from channelmem.memory import Memory
from channelmem.settings import Settings

pytest_plugins = ["loopback.fixtures"]

DAY_S = 86_400.0
OLD, NEW = "the old mill has a leaking roof", "the new hall has a wooden floor"


@pytest.fixture
async def bot(scene: Scene, settings: Settings, fake_embedder: FakeEmbedder) -> AsyncIterator[Bot]:
    given = unhurried(settings).model_copy(update={"backfill": False})
    history = DiscordHistory(given)
    scene.server.world.grant(scene.guild, scene.mark, manage_messages=True)
    async with (
        Memory.open(given, history=history, embedder=fake_embedder) as memory,
        running(scene.server, given, memory, history) as started,
    ):
        yield started


def wrote(scene: Scene) -> None:
    for n in range(6):
        author = scene.ann if n % 2 else scene.mark
        scene.server.wrote(scene.general, author, f"{author.username}: {OLD} {n}", ago_s=20 * DAY_S - 60 * n)
        scene.server.wrote(scene.general, author, f"{author.username}: {NEW} {n}", ago_s=2 * DAY_S - 60 * n)


async def load(scene: Scene, bot: Bot) -> None:
    await scene.server.slash(scene.general, scene.mark, "history load", days=30)

    async def done() -> bool:
        return not await bot.memory.loads.open(scene.guild.id)

    await scene.server.until(lambda: scene.server.calls("GET", r"/messages$"))
    await until(done)
    await bot.memory.summaries.update(scene.guild.id, scene.general.id)


async def known(scene: Scene, bot: Bot) -> tuple[str, str]:
    """What is stored, and what summaries say."""
    place = scene.guild.id, scene.general.id
    stored = await bot.memory.recent(*place, 100)
    return " ".join(one.content for one in stored), " ".join(one.text for one in await bot.memory.summaries.of(*place))


async def test_what_is_too_old_is_in_summaries_and_nowhere_else(scene: Scene, bot: Bot, redis: Redis) -> None:
    wrote(scene)
    await load(scene, bot)
    stored, summed = await known(scene, bot)
    assert NEW in stored
    assert OLD not in stored
    assert OLD in summed
    assert NEW in summed
    holding = [
        key
        async for key in redis.scan_iter(f"{bot.settings.key_prefix}:*msg:*")
        if OLD.encode() in await dump(redis, key)
    ]
    assert holding == []


async def dump(redis: Redis, key: bytes) -> bytes:
    fields: Any = await redis.hgetall(key)
    return b" ".join(fields.values())


async def test_people_who_opted_out_stay_out(scene: Scene, bot: Bot) -> None:
    wrote(scene)
    await bot.memory.opt_out(scene.ann.id)
    await load(scene, bot)
    for text in await known(scene, bot):
        assert "ann:" not in text
        assert "mark_77:" in text


async def test_what_was_cleared_stays_out(scene: Scene, bot: Bot) -> None:
    wrote(scene)
    await bot.memory.clear(scene.guild.id, scene.general.id)
    await load(scene, bot)
    assert await known(scene, bot) == ("", "")


async def test_what_was_said_during_a_pause_stays_out(scene: Scene, bot: Bot) -> None:
    place = scene.guild.id, scene.general.id
    wrote(scene)
    await bot.memory.pause(*place)
    scene.server.wrote(scene.general, scene.ann, "off the record")
    await bot.memory.resume(*place)
    await load(scene, bot)
    stored, _ = await known(scene, bot)
    assert NEW in stored
    assert "off the record" not in stored


async def test_loading_twice_changes_nothing(scene: Scene, bot: Bot) -> None:
    wrote(scene)
    await load(scene, bot)
    before = await bot.memory.summaries.of(scene.guild.id, scene.general.id)
    stored = await bot.memory.recent(scene.guild.id, scene.general.id, 100)
    await load(scene, bot)
    assert [one.id for one in await bot.memory.summaries.of(scene.guild.id, scene.general.id)] == [
        one.id for one in before
    ]
    assert await bot.memory.recent(scene.guild.id, scene.general.id, 100) == stored
