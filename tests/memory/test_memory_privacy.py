"""What people and managers decide holds for every source, with Redis and without it, before and after a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Clock, FakeEmbedder, OwnServer, make_settings
from test_memory import ANN, BOB, CHANNEL, GUILD, MARK, OTHER, Shelf, Talk

from channelmem import ContextRequest, Memory, Message, Outcome, Past, Person, Settings
from channelmem.browse import UNKNOWN
from channelmem.policy.cascade import Place
from channelmem.types import MEMORY_OFF

VAULT = "the vault code is 4711"
ASKED = "who mentioned the vault code?"


@asynccontextmanager
async def opened(
    settings: Settings, clock: Clock, embedder: FakeEmbedder, *past: Message
) -> AsyncIterator[tuple[Talk, Shelf]]:
    """A process, started with or without Redis, on a platform that remembers everything."""
    shelf = Shelf(past)
    async with Memory.open(settings, clock=clock, embedder=embedder, history=shelf, patient=True) as memory:
        yield Talk(memory, clock), shelf


@pytest.fixture
def frail(own_server: OwnServer, tmp_path: Path) -> Settings:
    return make_settings(own_server.url, tmp_path, redis_timeout_s=0.5)


def said(clock: Clock, number: int, text: str, ago_s: float = 60, **changes: object) -> Message:
    plain = {"author_id": BOB.id, "author": BOB.name}
    return Message(GUILD, CHANNEL, number, content=text, ts=clock() - ago_s, **{**plain, **changes})  # type: ignore[arg-type]


# --- opt-outs, without Redis ---


@pytest.mark.parametrize("way", ["opt_out", "forget"])
async def test_who_opted_out_stays_hidden_after_a_restart_without_redis(
    own_server: OwnServer, frail: Settings, clock: Clock, fake_embedder: FakeEmbedder, way: str
) -> None:
    past = said(clock, 1, VAULT), said(clock, 2, "a vault code, hm", author_id=ANN.id, author=ANN.name)
    async with opened(frail, clock, fake_embedder) as (talk, _):
        await getattr(talk.memory, way)(BOB.id)
    own_server.kill()
    async with opened(frail, clock, fake_embedder, *past) as (talk, _):
        answer = await talk.ask(MARK, ASKED)
        assert {hit.message.author for hit in answer.hits} == {"Ann"}
        assert "4711" not in answer.text
        context = (await talk.memory.context(talk.question(MARK, "what does that mean?", reply_to=1), answer)).text
        assert "4711" not in context


async def test_without_redis_and_copy_nothing_is_quoted_and_the_answer_says_why(
    own_server: OwnServer, frail: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    own_server.kill()
    async with opened(frail, clock, fake_embedder, said(clock, 1, VAULT)) as (talk, _):
        answer = await talk.ask(MARK, ASKED)
        assert not answer.found
        assert UNKNOWN in answer.text
        assert "4711" not in (await talk.memory.context(talk.question(MARK, ASKED, reply_to=1), answer)).text


async def test_a_copy_from_before_the_restart_lets_questions_go_on_without_redis(
    own_server: OwnServer, frail: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    async with opened(frail, clock, fake_embedder) as (talk, _):
        await talk.memory.opt_out(ANN.id)
    own_server.kill()
    async with opened(frail, clock, fake_embedder, said(clock, 1, VAULT)) as (talk, _):
        assert "4711" in (await talk.ask(MARK, ASKED)).text


# --- clear, pause and off, for every source ---


async def everything(talk: Talk, asked: str, reply_to: int) -> str:
    """All that an answer, a language model and its tool would be told."""
    question = talk.question(MARK, asked, reply_to=reply_to)
    answer = await talk.memory.ask(question)
    looked = (await talk.memory.look(ContextRequest(question, query="vault code"))).text
    newest = (await talk.memory.look(ContextRequest(question))).text
    context = await talk.memory.context(question, answer)
    return f"{answer.text}\n{context.text}\n{looked}\n{newest}"


async def test_what_was_cleared_is_not_fetched_from_the_platforms_history(
    settings: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    async with opened(settings, clock, fake_embedder, said(clock, 1, VAULT)) as (talk, shelf):
        assert "4711" in await everything(talk, ASKED, 1)
        await talk.memory.clear(GUILD, CHANNEL)
        assert "4711" not in await everything(talk, ASKED, 1)
        clock.now += 60
        shelf.past = Past((*shelf.past.messages, said(clock, 2, "the vault code is new", ago_s=30)))
        told = await everything(talk, ASKED, 1)
        assert "4711" not in told
        assert "the vault code is new" in told


async def test_a_clear_that_waits_for_redis_already_holds_for_the_platforms_history(
    own_server: OwnServer, frail: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    async with opened(frail, clock, fake_embedder, said(clock, 1, VAULT)) as (talk, _):
        await talk.memory.opt_out(ANN.id)
        own_server.kill()
        await talk.memory.clear(GUILD, CHANNEL)
        assert not (await talk.ask(MARK, ASKED)).found
    async with opened(frail, clock, fake_embedder, said(clock, 1, VAULT)) as (talk, _):
        assert not (await talk.ask(MARK, ASKED)).found


async def test_words_said_while_paused_are_quoted_from_no_source(
    settings: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    old = said(clock, 1, "the vault code is old")
    async with opened(settings, clock, fake_embedder, old) as (talk, shelf):
        await talk.memory.pause(GUILD, CHANNEL)
        clock.now += 60
        new = said(clock, 2, VAULT, ago_s=30)
        assert await talk.memory.remember(new) is Outcome.IGNORED
        shelf.past = Past((old, new))
        told = await everything(talk, ASKED, 2)
        assert "4711" not in told
        assert "the vault code is old" in told, "what was known before a pause stays known"


async def test_an_edit_made_while_paused_is_not_quoted(
    settings: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    async with opened(settings, clock, fake_embedder) as (talk, shelf):
        await talk.memory.pause(GUILD, CHANNEL)
        shelf.past = Past((said(clock, 1, VAULT, revision=clock() + 5),))
        assert "4711" not in await everything(talk, ASKED, 1)


async def test_with_memory_off_nothing_is_fetched_or_recalled(
    settings: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    async with opened(settings, clock, fake_embedder, said(clock, 1, VAULT)) as (talk, shelf):
        await talk.say(BOB, "the vault code is stored")
        await talk.memory.policies.set(Place.channel(GUILD, CHANNEL), "enabled", False)
        told = await everything(talk, ASKED, 1)
        assert "4711" not in told
        assert "stored" not in told
        assert shelf.fetches == 0
        assert shelf.singles == 0
        assert MEMORY_OFF in (await talk.ask(MARK, ASKED)).text
        assert (await talk.ask(MARK, "what did Bob say?")).route.speakers == ()


async def test_a_question_reaches_no_other_channel_whose_memory_is_off(
    settings: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    async with opened(settings, clock, fake_embedder) as (talk, _):
        await talk.say(BOB, VAULT, channel_id=OTHER)
        asked = talk.question(MARK, ASKED, readable_channel_ids=(OTHER,))
        assert "4711" in (await talk.memory.ask(asked)).text
        await talk.memory.policies.set(Place.channel(GUILD, OTHER), "enabled", False)
        answer = await talk.memory.ask(asked)
        assert "4711" not in answer.text
        assert "4711" not in (await talk.memory.context(asked, answer)).text
        assert "4711" not in (await talk.memory.look(ContextRequest(asked, query="vault code"))).text


# --- the bot's own answers ---


async def test_what_a_language_model_is_shown_because_of_a_question_is_noted_by_id(
    settings: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    async with opened(settings, clock, fake_embedder) as (talk, _):
        near = await talk.say(ANN, "good morning")
        replied, found = await talk.say(ANN, "is it safe?"), await talk.say(BOB, VAULT)
        question = talk.question(MARK, "what does that mean?", reply_to=replied.id)
        answer = replace(await talk.memory.ask(question), hits=(), threads=())
        context = await talk.memory.context(question, answer)
        assert "good morning" in context.text
        assert {replied.origin, near.origin} <= context.given
        assert replied.origin in context.shown
        assert near.origin not in context.shown, "an answer does not go with all that was near it"
        looked = await talk.memory.look(ContextRequest(question, query="vault code"))
        assert found.origin in looked.shown
        assert {replied.origin, found.origin} <= (context + looked).shown


async def test_an_answer_of_the_bot_is_not_fetched_from_the_platform(
    settings: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    """Its sources are unknown there, and may be gone."""
    own = said(clock, 1, f"Bob said: {VAULT}", author_id=99, author="Bot", own=True)
    async with opened(settings, clock, fake_embedder, own) as (talk, _):
        assert "4711" not in await everything(talk, "what did you say about the vault code?", 1)


async def test_words_are_gone_from_own_answers_in_context_and_tool_too(
    settings: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    async with opened(settings, clock, fake_embedder) as (talk, _):
        secret = await talk.say(BOB, VAULT)
        answer = await talk.ask(MARK, ASKED)
        bot = Person(99, "Bot")
        own = await talk.say(bot, answer.text, ago_s=5, own=True, derived_from=answer.origins)
        again = await talk.ask(MARK, "what did you just say?")
        assert [hit.message.id for hit in again.hits] == [own.id]
        await talk.say(bot, again.text, ago_s=1, own=True, derived_from=again.origins)
        await talk.memory.delete(GUILD, CHANNEL, [secret.id])
        assert "4711" not in await everything(talk, "what did you just say?", own.id)
        late = talk.message(bot, again.text, ago_s=0, own=True, derived_from=again.origins)
        assert await talk.memory.remember(late) is Outcome.IGNORED
