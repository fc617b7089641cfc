"""Questions about one message: a reply to it, or a link to it."""

from __future__ import annotations

import pytest
from conftest import Clock
from test_memory import ANN, BOB, CHANNEL, GUILD, MARK, Talk

from channelmem import Kind, Memory, Message, Settings, Wants
from channelmem.embedding.embed import Embedder

OTHER = CHANNEL + 1


@pytest.fixture
async def talk(settings: Settings, embedder: Embedder, clock: Clock):  # type: ignore[no-untyped-def]
    async with Memory.open(settings, clock=clock, embedder=embedder) as memory:
        yield Talk(memory, clock)


def link(message: Message, guild_id: int = GUILD) -> str:
    return f"https://discord.com/channels/{guild_id}/{message.channel_id}/{message.id}"


async def parking(talk: Talk) -> tuple[Message, Message, Message]:
    """A question, its answer, and what was said after them."""
    question = await talk.say(ANN, "where do we park on sunday?", ago_s=900)
    answer = await talk.say(BOB, "behind the mill, gate 2", ago_s=800, reply_to=question.id)
    await talk.say(ANN, "the bakery is closed on monday", ago_s=300)
    return question, answer, await talk.say(BOB, "we should bring cake", ago_s=200)


@pytest.mark.parametrize("text", ["what is {} about?", "{}", "what does {} say", "who said {}?", "show me {}"])
async def test_a_question_about_a_link_is_answered_with_that_message_alone(talk: Talk, text: str) -> None:
    _, answer, _ = await parking(talk)
    told = await talk.ask(MARK, text.format(link(answer)))
    assert told.text == "Bob said, 13 minutes ago: “behind the mill, gate 2”"
    assert (told.found, [hit.message.id for hit in told.hits]) == (True, [answer.id])


async def test_what_answers_a_linked_message_comes_after_it(talk: Talk) -> None:
    question, answer, _ = await parking(talk)
    told = await talk.ask(MARK, f"did anyone answer {link(question)}?")
    assert [hit.message.id for hit in told.hits] == [question.id, answer.id]
    assert told.text.splitlines()[1] == "- Bob, 13 minutes ago: “behind the mill, gate 2”"


@pytest.mark.parametrize("text", ["what's this about?", "what does that mean", "context?"])
async def test_what_a_replied_message_is_about_is_what_it_answers(talk: Talk, text: str) -> None:
    question, answer, _ = await parking(talk)
    assert [hit.message.id for hit in (await talk.ask(MARK, text, reply_to=answer.id)).hits] == [question.id]
    assert [hit.message.id for hit in (await talk.ask(MARK, text, reply_to=question.id)).hits] == [question.id]


@pytest.mark.parametrize("text", ["did anyone answer this?", "any answer yet?", "was this answered", "who replied"])
async def test_what_answers_a_replied_message_is_shown(talk: Talk, text: str) -> None:
    question, answer, _ = await parking(talk)
    told = await talk.ask(MARK, text, reply_to=question.id)
    assert [hit.message.id for hit in told.hits] == [answer.id]


async def test_a_reply_with_a_question_of_its_own_is_read_as_that(talk: Talk) -> None:
    question, _, _ = await parking(talk)
    told = await talk.ask(MARK, "is the bakery open on monday?", reply_to=question.id)
    assert told.route.that is None
    assert "bakery" in told.route.topic


async def test_a_link_to_what_the_asker_cannot_read_shows_nothing(talk: Talk) -> None:
    secret = await talk.say(ANN, "the surprise party is at Bob's", channel_id=OTHER)
    for text in (link(secret), f"what is {link(secret)} about?", f"what is {link(secret, GUILD + 1)} about?"):
        told = await talk.ask(MARK, text)
        assert (told.text, told.hits, told.found) == ("I can't see that message.", (), False)
    shown = await talk.ask(MARK, f"what is {link(secret)} about?", readable_channel_ids=(OTHER,))
    assert "the surprise party" in shown.text


async def test_a_linked_message_that_is_gone_or_hidden_is_not_told_from_one_that_never_was(talk: Talk) -> None:
    _, answer, cake = await parking(talk)
    await talk.memory.delete(GUILD, CHANNEL, [cake.id])
    assert (await talk.ask(MARK, f"what is {link(cake)} about?")).text == "I can't see that message."
    await talk.memory.opt_out(BOB.id)
    assert (await talk.ask(MARK, f"what is {link(answer)} about?")).text == "I can't see that message."


async def test_small_talk_as_a_reply_stays_small_talk(talk: Talk) -> None:
    question, _, _ = await parking(talk)
    told = await talk.ask(MARK, "thanks!", reply_to=question.id)
    assert (told.route.kind, told.route.wants, told.route.that) == (Kind.NONE, Wants.HELLO, None)
