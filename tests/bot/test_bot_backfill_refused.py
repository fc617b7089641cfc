"""A restart with back-fill brings back nothing that somebody refused at the time, though Discord still has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from conftest import FakeEmbedder
from loopback import Channel
from loopback.bots import backfilled, running, unhurried
from loopback.scene import Scene
from waiting import until

from bot.history import DiscordHistory
from channelmem.memory import Memory
from channelmem.policy.cascade import AUTO, Place
from channelmem.settings import Settings
from channelmem.types import MEMORY_OFF

pytest_plugins = ["loopback.fixtures"]

SECRET = "the vault code is 4711"


@asynccontextmanager
async def started(scene: Scene, settings: Settings, embedder: FakeEmbedder) -> AsyncIterator[Memory]:
    quick = unhurried(settings)
    history = DiscordHistory(quick)
    async with (
        Memory.open(quick, history=history, embedder=embedder) as memory,
        running(scene.server, quick, memory, history),
    ):
        yield memory


async def stored(memory: Memory, scene: Scene) -> list[str]:
    return [message.content async for message in memory.export(scene.mark.id)]


async def is_stored(memory: Memory, scene: Scene, text: str) -> bool:
    return text in await stored(memory, scene)


async def say_and_wait(memory: Memory, scene: Scene, text: str) -> None:
    await scene.server.say(scene.general, scene.mark, text)
    await until(lambda: is_stored(memory, scene, text))


async def after_a_restart(scene: Scene, settings: Settings, embedder: FakeEmbedder) -> list[str]:
    """What is stored once the bot has fetched everything that it missed."""
    scene.server.wrote(scene.general, scene.mark, "said while the bot was away")
    async with started(scene, settings, embedder) as memory:
        await backfilled()
        return await stored(memory, scene)


async def lose_what_is_stored(memory: Memory, scene: Scene) -> None:
    """So that back-fill begins with the first message of the channel."""
    known = await memory.known(scene.guild.id, scene.general.id, 100)
    await memory._store.buckets.redis.delete(
        *[memory._store.buckets.keys(0).message(scene.guild.id, scene.general.id, one) for one in known],
        memory._store.buckets.keys(0).of("chan", f"{scene.guild.id}c{scene.general.id}"),
    )


@pytest.mark.parametrize("way", ["pause", "opt out"])
async def test_what_was_said_during_a_refusal_stays_out(
    scene: Scene, settings: Settings, fake_embedder: FakeEmbedder, way: str
) -> None:
    place = (scene.guild.id, scene.general.id)
    scene.server.wrote(scene.general, scene.mark, "said before", ago_s=30)
    async with started(scene, settings, fake_embedder) as memory:
        await backfilled()
        await (memory.pause(*place) if way == "pause" else memory.opt_out(scene.mark.id))
        await scene.server.say(scene.general, scene.mark, SECRET)
        if way == "pause":
            assert "4711" not in (await scene.server.ask(scene.general, scene.ann, "who said the vault code?"))
        await (memory.resume(*place) if way == "pause" else memory.opt_in(scene.mark.id))
        await say_and_wait(memory, scene, "said later")
        await lose_what_is_stored(memory, scene)
    assert await after_a_restart(scene, settings, fake_embedder) == [
        "said before",
        "said later",
        "said while the bot was away",
    ]


async def test_what_was_said_before_a_forget_me_stays_out(
    scene: Scene, settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    async with started(scene, settings, fake_embedder) as memory:
        await say_and_wait(memory, scene, SECRET)
        await memory.forget(scene.mark.id)
        await memory.opt_in(scene.mark.id)
        await memory._store.swept()  # then the opt-in takes effect
        await say_and_wait(memory, scene, "said later")
        await lose_what_is_stored(memory, scene)
    assert await after_a_restart(scene, settings, fake_embedder) == ["said later", "said while the bot was away"]


def fetches(scene: Scene, *places: Channel) -> int:
    """How often somebody asked Discord for what was said there."""
    return sum(len(scene.server.calls("GET", rf"/channels/{place.id}/messages")) for place in places)


async def test_a_channel_that_is_off_is_neither_stored_recalled_nor_fetched(
    scene: Scene, settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    other = scene.server.world.add_channel(scene.guild, "other")
    thread = await scene.server.add_thread(scene.general, "side talk")
    for place in (scene.general, thread, other):
        scene.server.wrote(place, scene.mark, SECRET, ago_s=30)
    async with started(scene, settings, fake_embedder) as memory:
        await backfilled()
        await memory.policies.set(Place.channel(scene.guild.id, scene.general.id), "enabled", False)
    scene.server.wrote(scene.general, scene.mark, "said while the bot was away")
    before = fetches(scene, scene.general, thread)
    assert before
    async with started(scene, settings, fake_embedder) as memory:
        await backfilled()
        for place in (scene.general, thread):
            told = await scene.server.ask(place, scene.ann, "who said the vault code?")
            assert told == MEMORY_OFF
            await scene.server.say(place, scene.mark, "said while it is off")
            assert await memory.recent(scene.guild.id, place.id, 10) == []
        assert "4711" in await scene.server.ask(other, scene.ann, "who said the vault code?")
        assert fetches(scene, scene.general, thread) == before
        await memory.policies.set(Place.channel(scene.guild.id, scene.general.id), "enabled", AUTO)
        for place in (scene.general, thread):
            assert [one.content for one in await memory.recent(scene.guild.id, place.id, 10)] == [SECRET]
