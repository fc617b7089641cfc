"""Answers that people would call right, end to end, on real Redis with the real model."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from conftest import Clock
from test_memory import ANN, BOB, CHANNEL, GUILD, MARK, Shelf, Talk

from channelmem import Kind, Memory, Message, Mode, Person, Settings, Source
from channelmem.embedding.embed import Embedder
from scripts.eval_scenes import OWN, figures, judged
from scripts.scenes import read_scenes

ZOFIA = Person(20, "Zofia")


@pytest.fixture
async def talk(settings: Settings, embedder: Embedder, clock: Clock):  # type: ignore[no-untyped-def]
    async with Memory.open(settings, clock=clock, embedder=embedder) as memory:
        yield Talk(memory, clock)


async def test_a_direct_question_is_answered_from_the_channel(talk: Talk) -> None:
    await talk.say(ANN, "the wifi code is heron77")
    await talk.say(BOB, "lunch at noon?")
    answer = await talk.ask(MARK, "what's the wifi code?")
    assert answer.route.kind is Kind.CHANNEL
    assert "“the wifi code is heron77”" in answer.text


async def test_a_question_of_the_world_is_left_alone(talk: Talk) -> None:
    await talk.say(ANN, "the wifi code is heron77")
    answer = await talk.ask(MARK, "what is the capital of Mongolia?")
    assert (answer.route.kind, answer.hits) == (Kind.NONE, ())


async def test_what_nobody_told_is_an_honest_no(talk: Talk) -> None:
    await talk.say(ANN, "lunch at noon")
    answer = await talk.ask(MARK, "did anyone mention the insurance?")
    assert answer.route.kind is Kind.CHANNEL
    assert answer.text == "Nobody has mentioned the insurance in the one message I have seen."


async def test_the_answer_comes_before_the_question_it_answers(talk: Talk) -> None:
    asked = await talk.say(ANN, "who has the key for the petty cash box?", ago_s=90)
    await talk.say(BOB, "it's on the hook behind the mixer", ago_s=60, reply_to=asked.id)
    answer = await talk.ask(MARK, "where is the petty cash key?")
    assert answer.hits[0].message.author == "Bob"


async def test_a_correction_is_the_answer_and_not_what_it_corrects(talk: Talk) -> None:
    first = await talk.say(ANN, "the plumber comes at 14:00", ago_s=600)
    await talk.say(ANN, "correction, the plumber comes at 16:30", ago_s=300, reply_to=first.id)
    answer = await talk.ask(MARK, "what time does the plumber come?")
    assert "16:30" in answer.text
    assert "14:00" not in answer.text


async def test_a_correction_of_something_else_says_nothing_about_a_line(talk: Talk) -> None:
    await talk.say(MARK, "It's turtles, all the way down", ago_s=600)
    await talk.say(ANN, "I ordered pizza for everybody", ago_s=400)
    await talk.say(ANN, "correction: I moved the meeting to Thursday", ago_s=300)
    answer = await talk.ask(BOB, "what did someone say about turtles?")
    assert answer.text == "Mark said, 10 minutes ago: “It's turtles, all the way down”"


@pytest.mark.parametrize("text", ['who said "hi"?', "who said hi?"])
async def test_exact_words_are_matched_exactly(talk: Talk, text: str) -> None:
    await talk.say(ANN, "hi")
    await talk.say(BOB, "hello there, how is everybody")
    answer = await talk.ask(MARK, text)
    assert answer.text.startswith("Ann said")
    assert [hit.message.author for hit in answer.hits] == ["Ann"]


async def test_a_link_is_found_by_who_posted_it(talk: Talk) -> None:
    await talk.say(ANN, "here are the notes https://example.test/notes")
    await talk.say(ANN, "the notes are a mess, sorry")
    answer = await talk.ask(MARK, "what link did Ann post?")
    assert answer.hits[0].message.content.startswith("here are the notes")


async def test_a_day_in_the_question_may_be_the_day_of_the_thing(talk: Talk) -> None:
    await talk.say(ANN, "we moved the meeting to thursday")
    answer = await talk.ask(MARK, "what did they say about the meeting on thursday?")
    assert "moved the meeting" in answer.text


async def test_a_follow_up_keeps_what_was_asked(talk: Talk) -> None:
    await talk.say(ANN, "the market is open today", ago_s=100)
    await talk.say(ANN, "until six, on the old square", ago_s=90)
    await talk.ask(MARK, "is the market open?")
    answer = await talk.ask(MARK, "and until when?")
    assert "until six" in answer.text


async def test_before_that_is_what_was_said_before_the_last_answer(talk: Talk) -> None:
    for number, text in enumerate(["one", "two", "three"]):
        await talk.say(ANN, f"point {text}", ago_s=300 - number * 60)
    await talk.ask(MARK, "what did Ann just say?")
    answer = await talk.ask(MARK, "and before that?")
    assert answer.hits[0].message.content == "point two"


async def test_what_was_missed_starts_before_the_hello(talk: Talk) -> None:
    await talk.say(MARK, "see you later", ago_s=9_000)
    await talk.say(ANN, "the boat sank", ago_s=4_000)
    await talk.say(MARK, "hello again", ago_s=10)
    answer = await talk.ask(MARK, "what did I miss?")
    assert answer.route.mode is Mode.RECAP
    assert "the boat sank" in answer.text
    assert "hello again" not in answer.text


async def test_the_first_and_the_last_words_are_told_apart(talk: Talk) -> None:
    await talk.say(ANN, "good morning", ago_s=500)
    await talk.say(ANN, "the pump is fixed", ago_s=100)
    assert (await talk.ask(MARK, "what was the first thing Ann said?")).hits[0].message.content == "good morning"
    assert (await talk.ask(MARK, "what's the last thing Ann said?")).hits[0].message.content == "the pump is fixed"


class Members(Shelf):
    """A platform that also knows who is a member."""

    def __init__(self, messages: Sequence[Message], members: Sequence[Person]) -> None:
        super().__init__(messages)
        self.members, self.prefixes = tuple(members), list[str]()

    async def find_members(self, guild_id: int, prefix: str) -> tuple[Person, ...]:
        self.prefixes.append(prefix)
        return tuple(one for one in self.members if one.name.lower().startswith(prefix.lower()))


async def test_a_name_that_nobody_has_is_said_to_be_unknown(
    settings: Settings, embedder: Embedder, clock: Clock
) -> None:
    members = Members([], [])
    async with Memory.open(settings, clock=clock, embedder=embedder, history=members) as memory:
        talk = Talk(memory, clock)
        await talk.say(ANN, "lunch at noon")
        answer = await talk.ask(MARK, "what did Zofia say about lunch?")
    assert answer.text.startswith("Nobody called Zofia has written here")
    assert members.prefixes == ["Zofia"]


async def test_a_member_who_never_spoke_is_known_to_the_platform(
    settings: Settings, embedder: Embedder, clock: Clock
) -> None:
    past = Message(GUILD, CHANNEL, 1, ZOFIA.id, ZOFIA.name, "the pond froze", clock() - 120)
    async with Memory.open(settings, clock=clock, embedder=embedder, history=Members([past], [ZOFIA])) as memory:
        talk = Talk(memory, clock)
        await talk.say(ANN, "lunch at noon")
        answer = await talk.ask(MARK, "what did Zofia say about the pond?")
    assert answer.route.speakers == (ZOFIA,)
    assert answer.hits[0].source is Source.HISTORY


@pytest.mark.process
async def test_our_own_scenes_stay_mostly_right() -> None:
    """The weights have seen these scenes: passing says that nothing got worse, not how good the answers are."""
    rows = [row async for row in judged(read_scenes(OWN)[:4])]
    told = figures(rows)
    assert told["questions"] == len(rows) > 100
    assert isinstance(told["share"], float)
    assert told["share"] >= 0.8
