"""Summaries of related channels: added where a channel names them, never where somebody reads who may not read them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from clock import wall_now
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder
from llm_server import LlmServer, llm_server, say
from loopback import Channel
from loopback.bots import running, unhurried
from loopback.scene import Scene

from bot.client import Bot
from bot.history import DiscordHistory
from channelmem.llm.opening import open_responder
from channelmem.memory import Memory
from channelmem.policy.cascade import Boundary, Place
from channelmem.settings import Settings
from channelmem.types import Answer, Kind, Message, Question, RelatedChannel, Route

pytest_plugins = ["loopback.fixtures"]

OTHER = CHANNEL + 1
HOUR_S = 3600.0
SECRET = "the safe opens with 4711 at the old mill"
NOTHING = Answer("", Route(Kind.NONE))


def said(channel_id: int, guild_id: int = GUILD, now: float = NOW, text: str = SECRET) -> list[Message]:
    """Four half hours, the newest an hour ago."""
    return [
        Message(guild_id, channel_id, 1000 + n, 5, "Ann", f"{text} number {n}", now - 3 * HOUR_S + 1800.0 * n)
        for n in range(4)
    ]


def ask(*related: RelatedChannel) -> Question:
    return Question(GUILD, CHANNEL, 9_999, 7, "Bob", "what now?", NOW, related_channels=related)


# --- in Memory ---


@pytest.fixture
async def memory(settings: Settings, fake_embedder: FakeEmbedder) -> AsyncIterator[Memory]:
    async with Memory.open(settings, clock=Clock(NOW), embedder=fake_embedder) as memory:
        await memory.remember_many(said(OTHER))
        await memory.summaries.update(GUILD, OTHER)
        await memory.policies.set(Place.channel(GUILD, CHANNEL), "related_channels", (OTHER,))
        yield memory


SAFE = RelatedChannel(OTHER, "safe] talk")


async def test_the_newest_summaries_of_a_related_channel_come_first(memory: Memory) -> None:
    text = (await memory.context(ask(SAFE), NOTHING)).text
    assert text.startswith("[related channel: #safe talk]\n[summarized ")
    assert SECRET in text
    assert len(text) <= 10_000


async def test_policy_and_adapter_must_both_allow_it(memory: Memory) -> None:
    assert SECRET not in (await memory.context(ask(), NOTHING)).text
    await memory.policies.set(Place.channel(GUILD, CHANNEL), "related_channels", (OTHER + 1,))
    assert SECRET not in (await memory.context(ask(SAFE), NOTHING)).text


@pytest.mark.parametrize("name", ["enabled", "summaries"])
async def test_what_is_off_there_is_not_given_here(memory: Memory, name: str) -> None:
    await memory.policies.set(Place.channel(GUILD, OTHER), name, value=False)
    assert SECRET not in (await memory.context(ask(SAFE), NOTHING)).text


async def test_a_fresh_start_there_counts_here(memory: Memory) -> None:
    await memory.policies.begin(GUILD, OTHER, Boundary(NOW - 60), by=1)
    assert SECRET not in (await memory.context(ask(SAFE), NOTHING)).text


async def test_a_source_that_goes_there_outdates_what_was_given_here(memory: Memory) -> None:
    question = ask(SAFE)
    context = await memory.context(question, NOTHING)
    before = await memory.standing(question, NOTHING, context)
    assert {one.channel_id for one in before} == {OTHER}
    await memory.delete(GUILD, OTHER, [1000])
    assert not before <= await memory.standing(question, NOTHING, context)
    assert f"{SECRET} number 0" not in (await memory.context(replace(question, id=9_998), NOTHING)).text


async def test_the_channel_itself_keeps_most_of_the_room(memory: Memory, settings: Settings) -> None:
    many = [
        Message(
            GUILD,
            OTHER,
            2000 + n,
            5,
            "Ann",
            f"{SECRET} and {n} more words that nobody needs {n * 7}",
            NOW - 2e4 + 60 * n,
        )
        for n in range(300)
    ]
    await memory.remember_many(many)
    await memory.summaries.update(GUILD, OTHER)
    text = (await memory.context(ask(SAFE), NOTHING)).text
    assert len(text.partition("[question]")[0]) <= 2_100


# --- in the bot ---


@pytest.fixture
async def model() -> AsyncIterator[LlmServer]:
    async with llm_server() as server:
        server.will(say("Let's see."))
        yield server


@pytest.fixture
async def bot(scene: Scene, settings: Settings, fake_embedder: FakeEmbedder, model: LlmServer) -> AsyncIterator[Bot]:
    llm = {"llm_model": "openai:gpt-5-mini", "llm_base_url": model.openai_url, "llm_retries": 0, "llm_grounded": False}
    given = unhurried(settings).model_copy(update={**llm, "backfill": False})
    history = DiscordHistory(given)
    async with (
        Memory.open(given, history=history, embedder=fake_embedder) as memory,
        running(scene.server, given, memory, history, open_responder(given, memory)) as started,
    ):
        yield started


async def prompt(scene: Scene, bot: Bot, model: LlmServer, other: Channel) -> str:
    """What the model is sent for a question in #general, which names the other channel as related."""
    await bot.memory.remember_many(said(other.id, scene.guild.id, wall_now()))
    await bot.memory.summaries.update(scene.guild.id, other.id)
    place = Place.channel(scene.guild.id, scene.general.id)
    await bot.memory.policies.set(place, "related_channels", (other.id,))
    await scene.server.ask(scene.general, scene.mark, "what should we do next?")
    return model.requests[-1].user


@pytest.fixture
def other(scene: Scene) -> Channel:
    return scene.server.world.add_channel(scene.guild, "safe")


async def test_a_related_channel_that_everybody_reads_is_in_the_prompt(
    scene: Scene, other: Channel, bot: Bot, model: LlmServer
) -> None:
    assert "[related channel: #safe]" in await prompt(scene, bot, model, other)


@pytest.fixture
def hidden(scene: Scene, other: Channel) -> Channel:
    """Mark may read it, Ann may not."""
    scene.server.world.hide_from_everyone(other)
    scene.server.world.allow(other, scene.mark, view_channel=True, read_message_history=True)
    scene.server.world.allow(other, scene.server.world.bot, view_channel=True, read_message_history=True)
    return other


async def test_a_channel_that_somebody_may_not_read_is_not_in_a_public_answer(
    scene: Scene, hidden: Channel, bot: Bot, model: LlmServer
) -> None:
    sent = await prompt(scene, bot, model, hidden)
    assert SECRET not in sent
    assert "related channel" not in sent
