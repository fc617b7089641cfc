"""Corners of asking: somebody is forgotten meanwhile, Redis goes away, ambient context is off."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Clock, FakeEmbedder, OwnServer, make_settings
from test_memory import ANN, BOB, CHANNEL, GUILD, MARK, Shelf, Talk

from channelmem import ContextRequest, Memory, Message, Person, Settings, tool
from channelmem.embedding.embed import Embedder
from channelmem.policy.policy import Policy

DAY_S = 86_400


@pytest.fixture
async def talk(settings: Settings, fake_embedder: FakeEmbedder, clock: Clock) -> AsyncIterator[Talk]:
    async with Memory.open(settings, clock=clock, embedder=fake_embedder) as memory:
        yield Talk(memory, clock)


@pytest.fixture
async def frail(
    own_server: OwnServer, fake_embedder: FakeEmbedder, clock: Clock, tmp_path: Path
) -> AsyncIterator[Talk]:
    """On a Redis that the test may kill."""
    settings = make_settings(own_server.url, tmp_path, redis_timeout_s=0.3)
    async with Memory.open(settings, clock=clock, embedder=fake_embedder) as memory:
        yield Talk(memory, clock)


# --- somebody is forgotten ---


async def test_who_is_forgotten_while_a_question_is_asked_is_not_known_afterwards(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk.say(BOB, "grub is broken")
    await talk.say(ANN, "the deploy is green")
    forget = talk.memory._store.consent.forget

    async def forgetting(author_id: int, guild_id: int | None = None) -> None:
        await talk.ask(MARK, "what did Bob say about grub?")
        await forget(author_id, guild_id)

    monkeypatch.setattr(talk.memory._store.consent, "forget", forgetting)
    await talk.memory.forget(BOB.id)
    answer = await talk.ask(MARK, "what did Bob say about grub?")
    assert answer.text.startswith("Nobody called Bob has written here")  # the asker's word, nobody's name
    assert BOB not in answer.route.speakers


async def test_a_list_of_people_read_before_somebody_is_forgotten_is_not_kept(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk.say(BOB, "grub is broken")
    await talk.say(ANN, "the deploy is green")
    roster = talk.memory._store.channels.roster

    async def late(guild_id: int, channel_id: int, policy: Policy) -> object:
        seen = await roster(guild_id, channel_id, policy)
        await talk.memory.forget(BOB.id)
        return seen

    monkeypatch.setattr(talk.memory._store.channels, "roster", late)
    await talk.ask(MARK, "what did Bob say about grub?")
    monkeypatch.setattr(talk.memory._store.channels, "roster", roster)
    assert BOB not in (await talk.ask(MARK, "what did Bob say about grub?")).route.speakers


async def test_the_people_of_a_guild_that_is_left_meanwhile_are_not_kept(
    talk: Talk, settings: Settings, fake_embedder: FakeEmbedder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk.say(BOB, "grub is broken")
    async with Memory.open(settings, clock=clock, embedder=fake_embedder) as memory:  # which has heard nothing yet
        roster = memory._store.channels.roster

        async def late(guild_id: int, channel_id: int, policy: Policy) -> object:
            seen = await roster(guild_id, channel_id, policy)
            await memory.delete_guild(GUILD)
            return seen

        monkeypatch.setattr(memory._store.channels, "roster", late)
        await memory.ask(talk.question(MARK, "what did Bob say about grub?"))
        monkeypatch.setattr(memory._store.channels, "roster", roster)
        assert (await memory.ask(talk.question(MARK, "what did Bob say about grub?"))).route.speakers == ()


async def test_the_people_of_a_channel_are_known_while_something_is_removed_elsewhere(
    settings: Settings, fake_embedder: FakeEmbedder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf([Message(GUILD, CHANNEL, 900, BOB.id, BOB.name, "good morning", clock() - 5)])
    async with Memory.open(settings, clock=clock, embedder=fake_embedder, history=shelf) as memory:
        talk = Talk(memory, clock)
        await talk.say(ANN, "the deploy is green", ago_s=2 * DAY_S)
        roster, removals = memory._store.channels.roster, [memory.delete(GUILD, CHANNEL + 1, [1])]

        async def meanwhile(guild_id: int, channel_id: int, policy: Policy) -> object:
            seen = await roster(guild_id, channel_id, policy)
            while removals:
                await removals.pop()
            return seen

        monkeypatch.setattr(memory._store.channels, "roster", meanwhile)
        told = (await memory.look(ContextRequest(talk.question(MARK, "?"), speaker="Ann"))).text
        assert "the deploy is green" in told
        assert shelf.fetches == 0


@pytest.mark.parametrize("who", [BOB, MARK])
async def test_a_follow_up_does_not_lean_on_what_somebody_who_is_forgotten_said_or_asked(
    talk: Talk, who: Person
) -> None:
    await talk.say(BOB, "grub is broken")
    await talk.say(ANN, "grub works here")
    assert (await talk.ask(MARK, "what did Bob say about grub?")).route.speakers == (BOB,)
    await talk.memory.forget(who.id)
    answer = await talk.ask(MARK, "and yesterday?")
    assert "Bob" not in answer.text
    assert "grub" not in answer.text


async def test_a_follow_up_does_not_lean_on_a_channel_that_was_cleared(talk: Talk) -> None:
    await talk.say(BOB, "grub is broken")
    await talk.ask(MARK, "what did Bob say about grub?")
    await talk.memory.clear(GUILD, CHANNEL)
    assert (await talk.ask(MARK, "and yesterday?")).route.topic == ""


async def test_who_opted_out_through_this_process_stays_hidden_while_redis_is_away(
    own_server: OwnServer, fake_embedder: FakeEmbedder, clock: Clock, tmp_path: Path
) -> None:
    settings = make_settings(own_server.url, tmp_path, redis_timeout_s=0.3)
    said = Message(GUILD, CHANNEL, 1, BOB.id, BOB.name, "a secret pelican", clock() - 60)
    shelf = Shelf([said, replace(said, id=2, author_id=ANN.id, author=ANN.name, content="a pelican landed")])
    async with Memory.open(settings, clock=clock, embedder=fake_embedder, history=shelf) as memory:
        talk = Talk(memory, clock)
        await memory.opt_out(BOB.id)
        own_server.kill()
        answer = await talk.ask(MARK, "did anyone mention a pelican?")
        assert {hit.message.author for hit in answer.hits} == {"Ann"}


# --- something changes between the answer and its context ---


@pytest.mark.parametrize("text", ["what did Ann say about grub?", "what did Ann just say?", "catch me up"])
async def test_the_context_tells_nothing_that_was_changed_or_removed_since_the_answer(talk: Talk, text: str) -> None:
    changed, gone = (
        await talk.say(ANN, "grub is at sea", ago_s=40),
        await talk.say(ANN, "grub eats swordfish", ago_s=30),
    )
    hidden = await talk.say(BOB, "grub is secret", ago_s=20)
    question = talk.question(MARK, text)
    answer = await talk.memory.ask(question)
    assert answer.found
    await talk.memory.edit(replace(changed, content="grub is ashore", revision=talk.clock()))
    await talk.memory.delete(GUILD, CHANNEL, [gone.id])
    await talk.memory.opt_out(hidden.author_id)
    context = (await talk.memory.context(question, answer)).text
    assert "ashore" in context
    for word in ("sea", "swordfish", "secret"):
        assert word not in context


async def test_the_context_keeps_what_only_the_platforms_history_has(
    settings: Settings, fake_embedder: FakeEmbedder, clock: Clock
) -> None:
    shelf = Shelf([Message(GUILD, CHANNEL, 1, ANN.id, ANN.name, "the pelican landed", clock() - 60)])
    async with Memory.open(settings, clock=clock, embedder=fake_embedder, history=shelf) as memory:
        question = Talk(memory, clock).question(MARK, "did anyone mention a pelican?")
        assert "the pelican landed" in (await memory.context(question, await memory.ask(question))).text


# --- Redis is away ---


async def test_a_tool_call_that_could_not_look_does_not_say_that_there_is_nothing(
    frail: Talk, own_server: OwnServer
) -> None:
    await frail.say(ANN, "the trip to Rome was lovely")
    own_server.kill()
    for arguments in ({"query": "rome"}, {"speaker": "Ann"}, {}):
        assert await tool.call(frail.memory, frail.question(MARK, ""), arguments) == tool.UNREACHABLE


async def test_a_tool_call_knows_people_of_the_platforms_history(
    settings: Settings, fake_embedder: FakeEmbedder, clock: Clock
) -> None:
    shelf = Shelf([Message(GUILD, CHANNEL, 1, ANN.id, ANN.name, "the pelican landed", clock() - 60)])
    async with Memory.open(settings, clock=clock, embedder=fake_embedder, history=shelf) as memory:
        question = Talk(memory, clock).question(MARK, "")
        assert "the pelican landed" in await tool.call(memory, question, {"speaker": "Ann"})


async def test_people_whose_messages_were_heard_are_known_while_redis_is_away(
    frail: Talk, own_server: OwnServer
) -> None:
    await frail.say(ANN, "the trip to Rome was lovely")
    own_server.kill()
    answer = await frail.ask(MARK, "what did Ann say about Rome?")
    assert answer.route.speakers == (ANN,)
    assert answer.text == "I couldn't look it up. Redis does not answer."


async def test_members_are_not_told_where_redis_is(
    frail: Talk, own_server: OwnServer, caplog: pytest.LogCaptureFixture
) -> None:
    await frail.say(ANN, "the trip to Rome was lovely")
    own_server.kill()
    answer = await frail.ask(MARK, "did anyone mention Rome?")
    assert answer.text == "I couldn't look it up. Redis does not answer."
    assert str(own_server.port) in caplog.text


# --- what is not there ---


@pytest.mark.parametrize("text", ["what did I ask you?", "did anyone mention grub?", "catch me up"])
async def test_a_question_alone_in_its_channel_is_no_message_that_was_looked_at(talk: Talk, text: str) -> None:
    question = talk.question(MARK, text)
    await talk.say(MARK, text, id=question.id, ts=question.ts, addressed=True)
    assert (await talk.memory.ask(question)).text in {"I have no messages here yet.", "I found no messages by you."}


async def test_one_emoji_is_not_found_by_another(settings: Settings, embedder: Embedder, clock: Clock) -> None:
    async with Memory.open(settings, clock=clock, embedder=embedder) as memory:
        talk = Talk(memory, clock)
        assert not (await talk.ask(MARK, "did anyone mention 🍕?")).found
        party = await talk.say(ANN, "🎉🎉🎉")
        heart = await talk.say(BOB, "we all ❤️ this release, it has been a long time coming", ago_s=3 * DAY_S)
        assert await memory.flush()
        assert not (await talk.ask(MARK, "did anyone mention 🍕?")).found
        assert (await talk.ask(MARK, "did anyone mention 🎉?")).hits[0].message.id == party.id
        assert (await talk.ask(MARK, "did anyone mention ❤?")).hits[0].message.id == heart.id


@pytest.mark.parametrize("ago_s", [60, 5 * DAY_S])
async def test_a_question_that_the_model_fails_on_is_answered_by_its_words(
    talk: Talk, fake_embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch, ago_s: float
) -> None:
    class OfItsLibrary(Exception):  # noqa: N818  (theirs are called Fail and the like)
        pass

    async def failing(text: str) -> None:
        raise OfItsLibrary(text)

    said = await talk.say(ANN, "grub is broken", ago_s=ago_s)
    assert await talk.memory.flush()
    monkeypatch.setattr(fake_embedder, "embed_question", failing)
    assert (await talk.ask(MARK, "what did Ann say about grub?")).hits[0].message.id == said.id
    assert not (await talk.ask(MARK, "what did Ann say about llamas?")).found
    assert not (await talk.ask(MARK, "what did Ann say about 🦙?")).found


# --- what the tool is asked for ---


async def test_the_tools_arguments_bind_beyond_the_buffer_too(talk: Talk) -> None:
    await talk.say(BOB, "Rome was not built in a day", ago_s=5 * DAY_S)
    await talk.say(ANN, "the trip to Rome was lovely", ago_s=7_200)
    await talk.say(BOB, "Rome is too hot in summer", ago_s=7_000)
    assert await talk.memory.flush()
    question = talk.question(MARK, "")
    by_ann = (await talk.memory.look(ContextRequest(question, query="Rome", speaker="Ann", since_s=DAY_S))).text
    assert "lovely" in by_ann
    assert "Bob" not in by_ann
    today = (await talk.memory.look(ContextRequest(question, query="Rome", since_s=DAY_S))).text
    assert "too hot" in today
    assert "built" not in today


# --- ambient context is switched off ---


@pytest.mark.parametrize("off", ["context_messages", "context_threads"])
async def test_a_recap_is_told_where_ambient_context_is_off(
    settings: Settings, fake_embedder: FakeEmbedder, clock: Clock, off: str
) -> None:
    settings = settings.model_copy(update={off: 0})
    async with Memory.open(settings, clock=clock, embedder=fake_embedder) as memory:
        talk = Talk(memory, clock)
        await talk.say(ANN, "the deploy is green")
        question = talk.question(MARK, "catch me up")
        answer = await memory.ask(question)
        assert "the deploy is green" in answer.text
        assert "the deploy is green" in (await memory.context(question, answer)).text
        assert "the deploy is green" in (await memory.look(ContextRequest(question))).text
        other = replace(question, text="what is a turtle?")
        assert "the deploy is green" not in (await memory.context(other, await memory.ask(other))).text


async def test_a_recap_of_what_was_told_to_the_bot_does_not_count_the_question_as_left_out(talk: Talk) -> None:
    await talk.say(MARK, "the deploy is green", ago_s=120, addressed=True)
    question = talk.question(MARK, "recap what I told you today")
    asked = talk.message(MARK, question.text, ago_s=0, id=question.id, addressed=True)
    await talk.memory.remember(asked)
    answer = await talk.memory.ask(question)
    assert answer.text.startswith("Since 07:58, 1 message:")
