"""The whole product over real sockets: unmodified discord.py, real Redis, real MiniLM, a loopback Discord."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from clock import wall_now
from loopback import Json
from loopback.bots import backfilled, running, unhurried
from loopback.payloads import Member
from loopback.scene import Scene

from bot.client import Bot
from bot.history import DiscordHistory
from channelmem.memory import Memory
from channelmem.settings import Settings

pytest_plugins = ["loopback.fixtures"]

TURTLES = "It's turtles. All the way down it is recursive spirals of turtles!"


@pytest.fixture
def eager(settings: Settings) -> Settings:
    return unhurried(settings)


@pytest.fixture
async def bot(scene: Scene, eager: Settings) -> AsyncIterator[Bot]:
    history = DiscordHistory(eager)
    async with Memory.open(eager, history=history) as memory, running(scene.server, eager, memory, history) as bot:
        yield bot


def link(message: Json, scene: Scene) -> str:
    return f"https://discord.com/channels/{scene.guild.id}/{message['channel_id']}/{message['id']}"


async def test_the_scenario_of_the_first_page_word_for_word(scene: Scene, bot: Bot) -> None:
    said = await scene.server.say(scene.general, scene.mark, TURTLES)
    answer = await scene.server.ask(scene.general, scene.mark, "what did I just say about turtles?")
    assert "You said" in answer
    assert TURTLES in answer
    assert link(said, scene) in answer
    assert scene.server.calls("GET", r"/messages$") == []  # the memory knew; Discord was not asked


async def test_reptiles_find_turtles(scene: Scene, bot: Bot) -> None:
    await scene.server.say(scene.general, scene.mark, TURTLES)
    await scene.server.say(scene.general, scene.ann, "I had pasta for lunch")
    answer = await scene.server.ask(scene.general, scene.ann, "what did Mark say about reptiles?")
    assert "recursive spirals of turtles" in answer
    assert "pasta" not in answer


async def test_what_was_somebody_talking_about(scene: Scene, bot: Bot) -> None:
    await scene.server.say(scene.general, scene.mark, TURTLES)
    await scene.server.say(scene.general, scene.ann, "I had pasta for lunch")
    answer = await scene.server.ask(scene.general, scene.ann, "what was Mark talking about earlier?")
    assert "recursive spirals of turtles" in answer
    follow_up = await scene.server.ask(scene.general, scene.mark, "what did Ann just say?")
    assert "pasta" in follow_up


async def test_a_follow_up_inherits_the_topic(scene: Scene, bot: Bot) -> None:
    await scene.server.say(scene.general, scene.mark, "I want turtles on the logo")
    await scene.server.say(scene.general, scene.ann, "turtles are fine, but make them green")
    await scene.server.ask(scene.general, scene.mark, "what did I say about turtles?")
    answer = await scene.server.ask(scene.general, scene.mark, "and Ann?")
    assert "make them green" in answer
    assert "on the logo" not in answer


async def test_nothing_found_is_said_honestly(scene: Scene, bot: Bot) -> None:
    await scene.server.say(scene.general, scene.ann, "good morning")
    answer = await scene.server.ask(scene.general, scene.mark, "what did Ann say about quantum chess?")
    assert "good morning" not in answer
    assert "quantum chess" in answer


async def test_words_that_became_a_command_go_and_may_come_back(scene: Scene, bot: Bot) -> None:
    said = await scene.server.say(scene.general, scene.mark, "the password is swordfish")
    await scene.server.edit(said, "!play the password song")
    gone = await scene.server.ask(scene.general, scene.ann, "what did Mark say about the password?")
    assert "swordfish" not in gone
    assert "song" not in gone
    await scene.server.edit(said, "the password is herring")
    back = await scene.server.ask(scene.general, scene.ann, "what did Mark say about the password?")
    assert "herring" in back


async def test_an_edit_and_a_delete_are_seen_by_the_next_question(scene: Scene, bot: Bot) -> None:
    said = await scene.server.say(scene.general, scene.mark, "the password is swordfish")
    assert "swordfish" in await scene.server.ask(scene.general, scene.ann, "what did Mark just say?")
    await scene.server.edit(said, "the password is a secret")
    edited = await scene.server.ask(scene.general, scene.ann, "what did Mark say about the password?")
    assert "swordfish" not in edited
    assert "a secret" in edited
    await scene.server.delete(scene.general, int(said["id"]))
    gone = await scene.server.ask(scene.general, scene.ann, "what did Mark say about the password?")
    assert "a secret" not in gone


async def test_nothing_of_one_guild_or_channel_reaches_another(scene: Scene, bot: Bot) -> None:
    world = scene.server.world
    other_guild = world.add_guild("Other", scene.mark)
    other = world.add_channel(other_guild, "general")
    side = world.add_channel(scene.guild, "side")
    await scene.server.invite_bot(other_guild)
    await scene.server.invite_bot(scene.guild)
    await scene.server.say(scene.general, scene.mark, TURTLES)
    await scene.server.ask(scene.general, scene.mark, "what did I just say about turtles?")
    for elsewhere in (other, side):
        assert "spirals" not in await scene.server.ask(elsewhere, scene.mark, "what did I say about turtles?")
        assert "spirals" not in await scene.server.ask(elsewhere, scene.mark, "catch me up")


async def test_cold_start_answers_from_discords_history_and_stores_nothing_of_it(scene: Scene, eager: Settings) -> None:
    cold = eager.model_copy(update={"backfill": False})
    scene.server.wrote(scene.general, scene.mark, TURTLES, ago_s=60)
    history = DiscordHistory(cold)
    async with Memory.open(cold, history=history) as memory, running(scene.server, cold, memory, history):
        answer = await scene.server.ask(scene.general, scene.mark, "what did I just say about turtles?")
        assert TURTLES in answer
        assert "reptiles" not in answer
        reptiles = await scene.server.ask(scene.general, scene.ann, "what did Mark say about reptiles?")
        assert "recursive spirals" in reptiles
        held = [message.content async for message in memory.export(scene.mark.id)]
    assert TURTLES not in held
    assert len(scene.server.calls("GET", r"/messages$")) == 1


async def test_backfill_makes_the_past_answerable(scene: Scene, eager: Settings) -> None:
    scene.server.wrote(scene.general, scene.mark, TURTLES, ago_s=3 * 3600)
    history = DiscordHistory(eager)
    async with Memory.open(eager, history=history) as memory, running(scene.server, eager, memory, history):
        await backfilled()
        await memory.flush()
        answer = await scene.server.ask(scene.general, scene.mark, "what did I say about turtles this morning?")
        status = await memory.status(scene.guild.id, scene.general.id)
    assert status.messages >= 1
    assert answer


async def test_ones_own_words_can_be_forgotten_exported_and_kept_out(scene: Scene, bot: Bot) -> None:
    server = scene.server
    await server.say(scene.general, scene.mark, TURTLES)
    await server.ask(scene.general, scene.ann, "what did Mark just say?")
    export = await server.slash(scene.general, scene.mark, "memory export me")
    await server.answered(export)
    assert TURTLES in export.files["my-messages.jsonl"].decode()
    await server.answered(await server.slash(scene.general, scene.mark, "memory forget me"))
    assert "spirals" not in await server.ask(scene.general, scene.ann, "what did Mark say about turtles?")
    assert "spirals" not in await server.ask(scene.general, scene.ann, "did anyone mention turtles?")
    assert "spirals" not in await server.ask(scene.general, scene.ann, "catch me up")
    await server.say(scene.general, scene.mark, "and another turtle")
    assert "another" not in await server.ask(scene.general, scene.ann, "what did Mark say about turtles?")
    await server.answered(await server.slash(scene.general, scene.mark, "memory opt-in"))
    await server.say(scene.general, scene.mark, "a third turtle")
    assert "third turtle" in await server.ask(scene.general, scene.ann, "what did Mark say about turtles?")


async def test_a_channel_can_be_paused_resumed_cleared_and_looked_at(scene: Scene, bot: Bot) -> None:
    server = scene.server

    async def manage(command: str) -> str:
        return await server.answered(await server.slash(scene.general, server.world.owner, f"memory-channel {command}"))

    await server.say(scene.general, scene.mark, "first turtle")
    await server.ask(scene.general, scene.mark, "what did I just say?")
    await manage("pause")
    assert "paused" in await manage("status")
    await server.say(scene.general, scene.mark, "second turtle")
    assert "second" not in await server.ask(scene.general, scene.ann, "what did Mark say about turtles?")
    await manage("resume")
    await server.say(scene.general, scene.mark, "third turtle")
    assert "third" in await server.ask(scene.general, scene.ann, "what did Mark say about turtles?")
    assert "I forgot this channel" in await manage("clear")
    assert "third" not in await server.ask(scene.general, scene.ann, "what did Mark say about turtles?")


@pytest.mark.parametrize("slash", [False, True])
async def test_a_mention_of_one_of_two_namesakes_means_that_one_only(scene: Scene, bot: Bot, slash: bool) -> None:
    server = scene.server
    other = server.world.add_user("ann_the_second", "Ann")
    scene.guild.members[other.id] = Member(other)
    await server.say(scene.general, scene.ann, "my turtle is green")
    await server.say(scene.general, other, "my turtle is purple")
    for asked in (f"what did {scene.ann.mention} say about turtles?", f"what was {scene.ann.mention}'s last message?"):
        if slash:
            answer = await server.answered(await server.slash(scene.general, scene.mark, "ask", question=asked))
        else:
            answer = await server.ask(scene.general, scene.mark, asked)
        assert "green" in answer
        assert "purple" not in answer
    assert "purple" in await server.ask(scene.general, scene.mark, "what did Ann say about turtles?")


async def test_after_a_clear_by_a_clock_that_is_ahead_messages_are_still_remembered(
    scene: Scene, eager: Settings
) -> None:
    history = DiscordHistory(eager)
    ahead = Memory.open(eager, history=history, clock=lambda: wall_now() + 3600)
    async with ahead as memory, running(scene.server, eager, memory, history):
        await scene.server.say(scene.general, scene.mark, "first turtle")
        clear = await scene.server.slash(scene.general, scene.server.world.owner, "memory-channel clear")
        await scene.server.answered(clear)
        said = await scene.server.say(scene.general, scene.mark, "second turtle")
        await scene.server.ask(scene.general, scene.mark, "what did I say about turtles?")
        assert int(said["id"]) in await memory.known(scene.guild.id, scene.general.id, 10)


async def test_why_tells_how_the_question_was_understood_with_hits_and_time(scene: Scene, bot: Bot) -> None:
    said = await scene.server.say(scene.general, scene.mark, TURTLES)
    await scene.server.ask(scene.general, scene.mark, "what did I just say about turtles?")
    why = await scene.server.answered(await scene.server.slash(scene.general, scene.mark, "why"))
    assert "**Understood** It asks for your words about “turtles”, in the last " in why
    assert "**Clues**" not in why
    assert link(said, scene) in why
    assert " ms (route " in why
    assert TURTLES not in why


async def test_the_bots_own_words_and_questions_are_no_hits(scene: Scene, bot: Bot) -> None:
    await scene.server.say(scene.general, scene.mark, TURTLES)
    for _ in range(3):
        answer = await scene.server.ask(scene.general, scene.mark, "what did I just say about turtles?")
        assert answer.count("spirals of turtles") == 1
    assert "what did I just say" not in answer
