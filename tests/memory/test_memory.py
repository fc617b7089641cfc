"""The two flows through the public API, on real Redis with the real model: what a bot's author relies on."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from conftest import NOW, Clock, FakeEmbedder, OwnServer, make_settings
from numpy.typing import NDArray
from waiting import until

import channelmem
from channelmem import (
    ContextRequest,
    Gap,
    History,
    Kind,
    Memory,
    Message,
    Mode,
    Outcome,
    Past,
    Person,
    Question,
    Settings,
    Source,
)
from channelmem import text as line
from channelmem.embedding.embed import Embedder
from channelmem.errors import ModelError
from channelmem.store import documents

MARK, ANN, BOB = Person(7, "Mark"), Person(8, "Ann"), Person(9, "Bob")
GUILD, CHANNEL, OTHER = 5 << 22, 10, 11


class Talk:
    """Writes messages and questions with as few words as the tests need."""

    def __init__(self, memory: Memory, clock: Clock) -> None:
        self.memory, self.clock, self.last = memory, clock, 100

    def message(self, who: Person, text: str, *, ago_s: float = 60, **changes: object) -> Message:
        self.last += 1
        plain = Message(GUILD, CHANNEL, self.last, who.id, who.name, text, self.clock() - ago_s)
        return replace(plain, **changes)  # type: ignore[arg-type]  # (fields of Message)

    async def say(self, who: Person, text: str, *, ago_s: float = 60, **changes: object) -> Message:
        message = self.message(who, text, ago_s=ago_s, **changes)
        assert await self.memory.remember(message) is Outcome.STORED
        return message

    def question(self, who: Person, text: str, **changes: object) -> Question:
        self.last += 1
        plain = Question(GUILD, CHANNEL, self.last, who.id, who.name, text, self.clock(), bot=Person(99, "Bot"))
        return replace(plain, **changes)  # type: ignore[arg-type]

    async def ask(self, who: Person, text: str, **changes: object) -> channelmem.Answer:
        return await self.memory.ask(self.question(who, text, **changes))


@pytest.fixture
async def talk(settings: Settings, embedder: Embedder, clock: Clock) -> AsyncIterator[Talk]:
    async with Memory.open(settings, clock=clock, embedder=embedder) as memory:
        yield Talk(memory, clock)


async def test_the_seed_scenario_is_answered_with_a_quote(talk: Talk) -> None:
    said = await talk.say(MARK, "It's turtles. All the way down it is recursive spirals of turtles!")
    answer = await talk.ask(MARK, "what did I just say about turtles?")
    assert answer.hits[0].message.id == said.id
    assert answer.text.startswith("You said, 1 minute ago: ")
    assert "recursive spirals of turtles" in answer.text
    assert (answer.route.kind, answer.route.mode, answer.route.topic) == (Kind.CHANNEL, Mode.TOPIC, "turtles")
    assert answer.found


async def test_reptiles_find_the_turtles(talk: Talk) -> None:
    said = await talk.say(MARK, "It's turtles. All the way down it is recursive spirals of turtles!")
    await talk.say(BOB, "the deploy is green again")
    answer = await talk.ask(ANN, "did anyone mention reptiles?")
    assert answer.hits[0].message.id == said.id


async def test_a_message_sent_a_moment_before_the_question_is_seen_by_topic_and_by_time(talk: Talk) -> None:
    for n in range(30):
        await talk.say(ANN, f"filler number {n} about the weather", ago_s=300 - n)
    said = await talk.say(BOB, "the llama escaped from the zoo", ago_s=1)
    assert (await talk.ask(ANN, "what did Bob say about the llama?")).hits[0].message.id == said.id
    assert (await talk.ask(ANN, "what did Bob just say?")).hits[0].message.id == said.id


async def test_nothing_found_is_said_with_what_was_looked_at(talk: Talk) -> None:
    await talk.say(BOB, "the deploy is green again")
    answer = await talk.ask(ANN, "what did people say about llamas?")
    assert answer.hits == ()
    assert not answer.found
    assert "llamas" in answer.text
    assert [looked.source for looked in answer.tried] == [Source.BUFFER, Source.ARCHIVE]


async def test_a_question_that_is_not_about_the_channel_looks_nothing_up(talk: Talk) -> None:
    await talk.say(BOB, "a poem about the deploy")
    answer = await talk.ask(ANN, "write a poem about turtles")
    assert (answer.route.kind, answer.hits, answer.tried) == (Kind.NONE, (), ())


async def test_the_question_itself_is_never_its_own_answer(talk: Talk) -> None:
    question = talk.question(ANN, "what did I say about pelicans?")
    await talk.memory.remember(
        replace(talk.message(ANN, question.text, ago_s=0), id=question.id, addressed=True, author_id=ANN.id)
    )
    assert (await talk.memory.ask(question)).hits == ()


async def test_an_edit_replaces_what_is_found(talk: Talk) -> None:
    said = await talk.say(BOB, "lunch is at twelve")
    assert await talk.memory.edit(replace(said, content="the meeting moved to Oslo", revision=NOW)) is Outcome.STORED
    assert (await talk.ask(ANN, "what did Bob say about lunch?")).hits == ()
    assert (await talk.ask(ANN, "what did Bob say about Oslo?")).hits[0].message.id == said.id


async def test_a_deleted_message_is_never_recalled(talk: Talk) -> None:
    said = await talk.say(BOB, "my secret password is swordfish")
    await talk.memory.delete(GUILD, CHANNEL, [said.id])
    assert (await talk.ask(ANN, "what did Bob say about swordfish?")).hits == ()
    assert await talk.memory.remember(said) is Outcome.IGNORED


async def test_channels_and_guilds_do_not_leak_into_each_other(talk: Talk) -> None:
    await talk.say(BOB, "the pelican is ours", channel_id=OTHER)
    await talk.say(BOB, "the pelican is theirs", guild_id=6 << 22)
    assert (await talk.ask(ANN, "did anyone mention a pelican?")).hits == ()
    allowed = await talk.ask(ANN, "did anyone mention a pelican?", readable_channel_ids=(OTHER,))
    assert [hit.message.content for hit in allowed.hits] == ["the pelican is ours"]


async def test_a_follow_up_inherits_what_it_leaves_out(talk: Talk) -> None:
    await talk.say(ANN, "I would take the train to Berlin")
    await talk.say(BOB, "I prefer the night bus to Berlin")
    await talk.ask(MARK, "what did Ann say about Berlin?")
    assert "night bus" in (await talk.ask(MARK, "and Bob?")).text


async def test_speaking_to_the_bot_does_not_count_as_having_caught_up(
    settings: Settings, embedder: Embedder, clock: Clock
) -> None:
    async with Memory.open(settings, clock=clock, embedder=embedder) as memory:
        talk = Talk(memory, clock)
        await talk.say(MARK, "brb", ago_s=600)
        await talk.say(ANN, "the release is out", ago_s=300)
        await talk.say(MARK, "hello bot", ago_s=10, addressed=True)
    async with Memory.open(settings, clock=clock, embedder=embedder) as memory:  # a restart: only Redis knows
        answer = await Talk(memory, clock).ask(MARK, "catch me up", id=999)
        assert "the release is out" in answer.text


async def test_what_was_missed_starts_where_the_asker_last_spoke(talk: Talk) -> None:
    await talk.say(BOB, "before lunch", ago_s=900)
    await talk.say(MARK, "brb", ago_s=600)
    await talk.say(ANN, "the release is out", ago_s=300)
    answer = await talk.ask(MARK, "what did I miss")
    assert answer.route.mode is Mode.RECAP
    assert "the release is out" in answer.text
    assert "before lunch" not in answer.text


async def test_what_left_the_buffer_is_found_in_the_archive(talk: Talk) -> None:
    said = await talk.say(BOB, "the invoice number is 4711")
    talk.clock.now += 2 * 3600
    answer = await talk.ask(ANN, "what did Bob say about the invoice?")
    assert answer.hits[0].message.id == said.id
    assert answer.hits[0].source is Source.ARCHIVE


async def test_forgetting_a_person_hides_and_keeps_out_everything_of_theirs(talk: Talk) -> None:
    await talk.say(BOB, "the pelican is mine")
    await talk.memory.forget(BOB.id)
    assert (await talk.ask(ANN, "did anyone mention a pelican?")).hits == ()
    assert await talk.memory.remember(talk.message(BOB, "another pelican")) is Outcome.IGNORED
    assert [message async for message in talk.memory.export(BOB.id)] == []
    await talk.memory.opt_in(BOB.id)

    async def is_back() -> bool:
        return await talk.memory.returning(BOB.id) is None

    await until(is_back)
    assert await talk.memory.remember(talk.message(BOB, "said before")) is Outcome.IGNORED
    talk.clock.now += 1
    await talk.say(BOB, "a third pelican", ago_s=0)


async def test_a_paused_channel_takes_nothing_in(talk: Talk) -> None:
    await talk.memory.pause(GUILD, CHANNEL)
    assert await talk.memory.remember(talk.message(BOB, "unheard")) is Outcome.IGNORED
    await talk.memory.resume(GUILD, CHANNEL)
    await talk.say(BOB, "heard")
    assert (await talk.memory.status(GUILD, CHANNEL)).messages == 1


async def test_flush_returns_when_everything_is_searchable(talk: Talk) -> None:
    for n in range(20):
        await talk.say(BOB, f"message number {n}")
    assert await talk.memory.flush()
    assert (await talk.memory.status(GUILD, CHANNEL)).pending == 0


async def test_the_longest_wait_for_a_vector_is_known(settings: Settings, embedder: Embedder, clock: Clock) -> None:
    idle = settings.model_copy(update={"embed_in_process": False})
    async with Memory.open(idle, clock=clock, embedder=embedder) as memory:
        assert await memory.lag_s() == 0.0
        await Talk(memory, clock).say(BOB, "nobody embeds this yet")
        await asyncio.sleep(0.02)
        assert await memory.lag_s() > 0.01
        assert await memory.pending() == 1


async def test_replies_are_linked_when_they_arrive(talk: Talk) -> None:
    asked = await talk.say(ANN, "where is the key of the bike shed?", ago_s=120)
    await talk.say(BOB, "Ann: under the flower pot", ago_s=60)
    answer = await talk.ask(MARK, "what did Bob say about the bike shed?")
    assert "flower pot" in answer.hits[0].message.content
    assert answer.hits[0].message.parents[0][0] == asked.id


async def test_gaps_of_back_fill_outlive_the_process(settings: Settings, embedder: Embedder, clock: Clock) -> None:
    async with Memory.open(settings, clock=clock, embedder=embedder) as memory:
        await memory.note_gap(GUILD, CHANNEL, None, 5)
        await memory.note_gap(GUILD, OTHER, 2**60 + 1, 7)
    async with Memory.open(settings, clock=clock, embedder=embedder) as memory:
        assert await memory.gaps(GUILD) == [Gap(CHANNEL, None, 5), Gap(OTHER, 2**60 + 1, 7)]
        await memory.close_gap(GUILD, CHANNEL)
        assert await memory.gaps(GUILD) == [Gap(OTHER, 2**60 + 1, 7)]


async def test_the_context_for_a_model_has_threads_hits_references_and_the_question(talk: Talk) -> None:
    root = await talk.say(ANN, "shall we move the server to Oslo?", ago_s=240)
    await talk.say(BOB, "yes, Oslo is cheap", ago_s=200, reply_to=root.id)
    question = talk.question(MARK, "what did Bob say about Oslo?", reply_to=root.id)
    context = (await talk.memory.context(question, await talk.memory.ask(question))).text
    assert "Oslo is cheap" in context
    assert "shall we move the server" in context
    assert "what did Bob say about Oslo?" in context


async def test_the_tool_looks_by_topic_speaker_and_time(talk: Talk) -> None:
    await talk.say(ANN, "the train to Berlin is late", ago_s=3 * 3600)
    await talk.say(BOB, "Berlin has good bread", ago_s=60)
    question = talk.question(MARK, "")
    assert "good bread" in (await talk.memory.look(ContextRequest(question, query="Berlin", speaker="bob"))).text
    assert "train" in (await talk.memory.look(ContextRequest(question, query="train", since_s=6 * 3600))).text
    assert "Nobody called zoe" in (await talk.memory.look(ContextRequest(question, speaker="zoe"))).text
    assert (
        "No relevant recent messages"
        in (await talk.memory.look(ContextRequest(question, query="quantum chromodynamics"))).text
    )
    assert "good bread" in (await talk.memory.look(ContextRequest(question))).text


class Shelf(History):
    """A platform's history with fixed contents."""

    def __init__(self, messages: Sequence[Message] = (), problem: str = "") -> None:
        self.past, self.fetches, self.singles = Past(tuple(messages), problem), 0, 0

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        self.fetches += 1
        return self.past

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        self.singles += 1
        return next((one for one in self.past.messages if one.id == message_id), None)

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return f"https://example.test/{guild_id}/{channel_id}/{message_id}"


async def test_a_cold_channel_is_answered_from_the_platforms_history(
    settings: Settings, embedder: Embedder, clock: Clock
) -> None:
    past = Message(GUILD, CHANNEL, 1, ANN.id, ANN.name, "the pelican landed", clock() - 120)
    shelf = Shelf([past])
    async with Memory.open(settings, clock=clock, embedder=embedder, history=shelf) as memory:
        talk = Talk(memory, clock)
        answer = await talk.ask(MARK, "what did Ann say about the pelican?")
        assert answer.hits[0].source is Source.HISTORY
        assert f"https://example.test/{GUILD}/{CHANNEL}/1" in answer.text
        assert (await memory.status(GUILD, CHANNEL)).messages == 0, "what is fetched for an answer is never stored"


async def test_a_name_is_known_as_it_is_stored(settings: Settings, fake_embedder: FakeEmbedder, clock: Clock) -> None:
    async with Memory.open(settings, clock=clock, embedder=fake_embedder) as memory:
        talk = Talk(memory, clock)
        await talk.say(ANN, "hello")
        await talk.ask(MARK, "what did Ann say?")  # from here on the process follows who speaks
        await talk.say(Person(BOB.id, "Bo\x00b"), "the pelican landed")
        answer = await talk.ask(MARK, "what did Bob say?")
        assert [person.name for person in answer.route.speakers] == ["Bob"]


async def test_a_question_that_wants_no_memory_fetches_nothing(
    settings: Settings, fake_embedder: FakeEmbedder, clock: Clock
) -> None:
    shelf = Shelf([Message(GUILD, CHANNEL, 1, ANN.id, ANN.name, "the pelican landed", clock() - 120)])
    async with Memory.open(settings, clock=clock, embedder=fake_embedder, history=shelf) as memory:
        asked = Talk(memory, clock).question(MARK, "what did Ann say about the pelican?")
        assert (await memory.ask(replace(asked, kind=Kind.NONE))).route.kind is Kind.NONE
        assert shelf.fetches == 0


async def test_an_opt_out_holds_for_fetched_history_too(settings: Settings, embedder: Embedder, clock: Clock) -> None:
    past = [
        Message(GUILD, CHANNEL, 1, ANN.id, ANN.name, "the pelican landed", clock() - 120),
        Message(GUILD, CHANNEL, 2, BOB.id, BOB.name, "a second pelican landed", clock() - 60),
    ]
    async with Memory.open(settings, clock=clock, embedder=embedder, history=Shelf(past)) as memory:
        await memory.opt_out(ANN.id)
        talk = Talk(memory, clock)
        answer = await talk.ask(MARK, "did anyone mention a pelican?")
        assert {hit.message.author for hit in answer.hits} == {"Bob"}
        question = talk.question(MARK, "what does that mean?", reply_to=1)
        assert "the pelican landed" not in (await memory.context(question, answer)).text


async def test_events_of_a_channel_keep_their_order_however_they_are_awaited(talk: Talk) -> None:
    first, second = talk.message(ANN, "draft of the plan", ago_s=20), talk.message(BOB, "Ann: good plan", ago_s=10)
    final = replace(first, content="final plan", revision=NOW)
    await asyncio.gather(
        talk.memory.remember(first),
        talk.memory.remember(second),
        talk.memory.edit(final),
        talk.memory.delete(GUILD, CHANNEL, [second.id]),
    )
    answer = await talk.ask(MARK, "what was just said?")
    assert [hit.message.content for hit in answer.hits] == ["final plan"]


async def test_without_redis_messages_queue_and_questions_go_to_history(
    own_server: OwnServer, embedder: Embedder, clock: Clock, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = make_settings(own_server.url, tmp_path_factory.mktemp("data"), redis_timeout_s=0.3)
    shelf = Shelf([Message(GUILD, CHANNEL, 1, ANN.id, ANN.name, "the pelican landed", clock() - 120)])
    async with Memory.open(settings, clock=clock, embedder=embedder, history=shelf) as memory:
        talk = Talk(memory, clock)
        await talk.say(BOB, "stored before the outage")
        own_server.kill()
        assert await memory.remember(talk.message(BOB, "said during the outage")) is Outcome.QUEUED
        assert not memory.available
        answer = await talk.ask(MARK, "what did Ann say about the pelican?")
        assert "the pelican landed" in answer.text
        own_server.start()
        assert await memory.flush()
        contents = {hit.message.content for hit in (await talk.ask(MARK, "what did Bob just say?")).hits}
        assert contents == {"stored before the outage", "said during the outage"}


async def test_a_patient_memory_opens_without_redis(
    embedder: Embedder, clock: Clock, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = make_settings("redis://127.0.0.1:1/0", tmp_path_factory.mktemp("data"), redis_timeout_s=0.2)
    async with Memory.open(settings, clock=clock, embedder=embedder, patient=True) as memory:
        talk = Talk(memory, clock)
        assert await memory.remember(talk.message(BOB, "anyone there?")) is Outcome.QUEUED
        answer = await talk.ask(MARK, "what did I just say?")
        assert not answer.found


async def test_switched_off_nothing_is_remembered(settings: Settings, embedder: Embedder, clock: Clock) -> None:
    off = settings.model_copy(update={"enabled": False})
    async with Memory.open(off, clock=clock, embedder=embedder) as memory:
        assert await memory.remember(Talk(memory, clock).message(BOB, "hello")) is Outcome.IGNORED


async def test_of_what_is_removed_no_text_stays_in_the_process(talk: Talk) -> None:
    await talk.say(BOB, "the password is swordfish")
    await talk.ask(ANN, "what did Bob say about the password?")
    caches = (documents.to_message, line.read_chunk, line.stems, line.stem, line._split)
    assert all(cache.cache_info().currsize for cache in caches)
    await talk.memory.forget(BOB.id)
    assert not any(cache.cache_info().currsize for cache in caches)


def test_the_public_names_are_these() -> None:
    assert {"Memory", "Message", "Question", "Settings", "Answer", "Hit", "Route"} <= set(channelmem.__all__)
    for name in channelmem.__all__:
        assert getattr(channelmem, name)


class BrokenEmbedder(FakeEmbedder):
    async def embed_messages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise ModelError("The model is gone. Install it again.")


async def test_when_embedding_ends_it_is_said_at_once(
    settings: Settings, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async def talk_with_a_broken_model() -> None:
        async with Memory.open(settings, clock=clock, embedder=BrokenEmbedder()) as memory, asyncio.timeout(20):
            await Talk(memory, clock).say(ANN, "good morning")
            while "The model is gone" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    with pytest.raises(ModelError, match="gone"):
        await talk_with_a_broken_model()
