"""How a question was understood, in words."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from asking import ALICE, BOB, BOT, CAROL, MARK, NOW, ask

from channelmem.recalling.verdict import OURS
from channelmem.routing.people import Previous
from channelmem.routing.route import ABOUT
from channelmem.telling.explanation import explanation
from channelmem.types import Aside, Borrowed, Kind, Mode, Person, Question, Route, Wants, Window

CLEARLY = "It is clearly about this channel."
SURENESS = re.compile(
    r" ?(?:By its wording, it|It) (?:is clearly|is probably|may or may not be|is probably not|is almost certainly not)"
    r"(?: be)? about this channel(?:, but what was found says that it is)?\."
)
YESTERDAY = "what did Alice say about turtles yesterday?"
PREVIOUS = Previous(ask(YESTERDAY), 55, NOW - 86_400.0)


def tell(route: Route, *, asker: Person = MARK, tz: str = "UTC", mentions: tuple[Person, ...] = ()) -> str:
    question = Question(1, 2, 3, asker.id, asker.name, "", NOW, bot=BOT, mentions=mentions)
    return explanation(question, route, ZoneInfo(tz))


def asks(text: str, **changes: object) -> str:
    """What a question is said to ask for, without how sure that is."""
    return SURENESS.sub("", tell(ask(text, **changes))).strip()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # somebody's words
        ("what did Alice say about tea in the last half hour?", "for Alice's words about “tea”, in the last half hour"),
        ("what did Alice say?", "for Alice's latest words"),
        ("what was the first thing Alice said?", "for Alice's first words"),
        ("what did I say about the door code yesterday?", "for your words about “the door code”, yesterday"),
        ("what did bob and I say about lunch?", "for bob's and your words about “lunch”"),
        ("what did you say about the rules?", "for my words about “the rules”"),
        ("what did you and Alice just say?", "for Alice's and my latest words, in the last 30 minutes"),
        ("what did Carol ask?", "for Carol's latest questions"),
        ("what did Carol ask about the visa?", "for Carol's questions about “the visa”"),
        ("what was said about the ferry?", "what was said about “the ferry”"),
        ("what was said on march 3", "for the latest words in this channel, on March 3"),
        ("when did Alice say she arrives?", "for a time in Alice's messages about “arrives”"),
        ("did Alice say why the deploy failed?", "for a reason in Alice's messages about “the deploy failed”"),
        ("who did Alice mention?", "for a name in Alice's latest messages"),
        ('what did bob say about "plan b"?', "for bob's words with “plan b” in them"),
        # who and whether
        ("who mentioned turtles?", "who wrote about “turtles”"),
        ("who said hi", "who wrote “hi”"),
        ("who just said that?", "who wrote last, in the last 30 minutes"),
        ("who spoke first?", "who wrote first"),
        ("who asked about parking?", "who asked about “parking”"),
        ("did anyone mention redis last week?", "whether anybody wrote about “redis”, last week"),
        ("did bob say anything about pizza on saturday", "whether bob wrote about “pizza”, on Saturday"),
        ("did Alice say anything?", "whether Alice wrote anything"),
        ("has anyone asked about parking?", "whether anybody asked about “parking”"),
        ("was I mentioned?", "whether anybody wrote about you"),
        # facts: speakers are no condition
        ("when is the match?", "for a time in messages about “match”"),
        ("when did Alice go to Rome?", "for a time in messages about Alice and “go to Rome”"),
        ("where was Alice yesterday", "for a place in the latest messages about Alice, yesterday"),
        ("who has the keys?", "for a name in messages about “keys”"),
        ("why did bob quit?", "for a reason in messages about bob and “quit”"),
        ("how much is the rent?", "for a number in messages about “much the rent”"),
        ("what's Alice's opinion on tabs?", "what messages tell about Alice and “tabs”"),
        ("quote bob", "what the latest messages tell about bob"),
        # links, files, counts
        ("which link did Alice post?", "for Alice's latest links"),
        ("any links?", "for the latest links in this channel"),
        ("what link did Alice post about tickets?", "for a link in messages about Alice and “tickets”"),
        ("which photo did bob post of Rex", "for a picture or another file in messages about bob and “photo Rex”"),
        ("how many messages did Alice send today?", "how many messages Alice wrote, today"),
        ("how many messages are there", "how many messages there are"),
        # recaps
        ("what did I miss?", "for a recap of what you missed"),
        ("summary of the last 2 hours", "for a recap of what people said, in the last 2 hours"),
        ("recap what Alice and bob said about the venue", "for a recap of what Alice and bob said about “the venue”"),
        ('recap what Alice said about "plan b"', "for a recap of what Alice said about “plan b”"),
        ("what are people talking about?", "for a recap of what people said"),
        # times in the asker's words
        ("what did bob say before I joined", "for bob's latest words, before you joined"),
        ("what did bob say while I was away", "for bob's latest words, while you were away"),
        ("what did bob say since my last message", "for bob's latest words, since your last message"),
        ("what did bob say 2 hours ago", "for bob's latest words, 2 hours ago"),
        ("what did bob say between 3pm and 5pm", "for bob's latest words, between 3pm and 5pm"),
        ("what did bob say on 3 March", "for bob's latest words, on 3 March"),
        ("what did bob say in the past two days", "for bob's latest words, in the past two days"),
        ("what did bob say last night", "for bob's latest words, last night"),
    ],
)  # fmt: skip
def test_a_question_is_told_in_a_sentence(text: str, words: str) -> None:
    told = asks(text)
    assert told.removeprefix("If it is, it asks ").removeprefix("It asks ") == f"{words}."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hi", "It is a greeting, not a question."),
        ("thanks a lot!", "It is a thank-you, not a question."),
        ("help", "It asks what I can do."),
        ("!roll 2d6", "It is a command, not a question."),
        ("🚫 what did Alice say?", "It asks for an answer without a look at this channel."),
        ("translate this: hola", "It is a task that brings its own material, so nothing is looked up."),
    ],
)
def test_what_is_no_question_to_the_channel_is_told_as_that(text: str, words: str) -> None:
    assert tell(ask(text)) == words


def test_a_direct_message_has_no_channel() -> None:
    assert tell(ask("what did Alice say?", is_dm=True)).startswith("It came in a direct message")


def test_every_reason_to_set_a_question_aside_has_its_words() -> None:
    told = {tell(Route(Kind.NONE, aside=aside)) for aside in Aside}
    assert len(told) == len(Aside)


# --- how sure ---


def test_a_question_about_the_world_is_told_as_that_first() -> None:
    told = tell(ask("what is the capital of France?"))
    assert told == (
        "It is almost certainly not about this channel. "
        "If it is, it asks what messages tell about “capital of France”."
    )  # fmt: skip


def test_what_no_evidence_could_change_is_not_looked_up() -> None:
    told = tell(ask("translate good morning to french"))
    assert told == "It is almost certainly not about this channel, so nothing is looked up."


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (0.97, "is clearly about"),
        (ABOUT, "is probably about"),
        (0.59, "may or may not be about"),
        (OURS, "may or may not be about"),
    ],
)
def test_the_wording_is_believed_as_far_as_the_router_believes_it(p: float, words: str) -> None:
    told = tell(Route(Kind.CHANNEL, topic="rent", p=p))
    assert told == f"It asks what was said about “rent”. It {words} this channel."


def test_evidence_that_overrules_the_wording_is_told() -> None:
    told = tell(Route(Kind.CHANNEL, topic="rent", p=0.2))
    assert told.endswith("By its wording, it is probably not about this channel, but what was found says that it is.")


def test_a_question_that_was_sent_as_one_about_the_channel_is_not_judged() -> None:
    told = tell(Route(Kind.CHANNEL, topic="rent", forced=True))
    assert told == "It asks what was said about “rent”. It was asked as a question about this channel."


# --- what was taken from before ---


@pytest.mark.parametrize(
    ("text", "words", "taken"),
    [
        ("and bob?", "bob's words about “turtles”, yesterday", "The topic and the time come"),
        ("what about today?", "Alice's words about “turtles”, today", "The person and the topic come"),
        ("and about cats?", "Alice's words about “cats”, yesterday", "The person and the time come"),
        ("and?", "Alice's words about “turtles”, yesterday", "The person, the topic and the time come"),
        ("and before that?", "Alice's words, right before the message that I found last time", "The person comes"),
        ("and what did bob say after that?", "bob's words, right after the message that I found last time", ""),
        ("what did Carol say about lunch?", "Carol's words about “lunch”", ""),
    ],
)
def test_what_a_follow_up_takes_from_the_question_before_is_told(text: str, words: str, taken: str) -> None:
    told = f"It asks for {words}."
    assert asks(text, previous=PREVIOUS) == (f"{told} {taken} from your previous question." if taken else told)


def test_several_people_come_as_people() -> None:
    both = Previous(ask("what did Alice and bob say about turtles?"))
    assert "The people and the topic come from" in asks("what about yesterday?", previous=both)


def test_a_reply_goes_with_what_it_replies_to() -> None:
    told = asks("is it far?", reply_to=77)
    assert told == "It asks what messages tell about “far”. It goes with the message that it replies to."


def test_a_follow_up_that_takes_nothing_over_still_builds_on_the_question_before() -> None:
    told = tell(Route(Kind.CHANNEL, topic="rent", follows=True))
    assert told.endswith("It builds on your previous question.")


def test_a_time_that_the_asker_did_not_name_is_in_their_time_zone() -> None:
    beside = ask("and before that?", previous=PREVIOUS)
    found = ask("and bob?", previous=Previous(beside))
    assert SURENESS.sub("", tell(found, tz="Europe/Berlin")).startswith(
        "It asks for bob's latest words, before yesterday 16:29. The time comes from"
    )


@pytest.mark.parametrize(
    ("window", "words"),
    [
        (Window(), ""),
        (Window(NOW - 5_400.0, NOW), ", in the last hour"),
        (Window(NOW - 5_400.0, None), ", in the last hour"),
        (Window(NOW - 7_200.0, NOW - 3_600.0), ", between 13:30 and 14:30"),
        (Window(None, NOW - 3_600.0), ", before 14:30"),
    ],
)
def test_a_time_without_words_is_told_by_the_clock(window: Window, words: str) -> None:
    assert tell(Route(Kind.CHANNEL, topic="rent", window=window)).startswith(
        f"It asks what was said about “rent”{words}. "
    )


# --- what is missing ---


def test_a_time_that_led_nowhere_is_told() -> None:
    told = tell(Route(Kind.CHANNEL, topic="rent", speakers=(BOB,), dropped="on saturday"))
    assert told.endswith("Nothing like it was said on Saturday, so any time counts.")


def test_somebody_whom_nobody_knows_is_told() -> None:
    told = asks("what did Zofia say about the trip?")
    assert told == "It asks for Zofia's words about “the trip”. Nobody called Zofia is known here."


# --- people's words ---


def test_people_can_not_break_out_of_the_sentence() -> None:
    nasty = Person(21, "**Eve**: @everyone\n# [x](https://x.example)\u202e")
    told = tell(Route(Kind.CHANNEL, topic="a\nb @here `code <@21> ||x", speakers=(nasty,)), mentions=(nasty,))
    assert "\n" not in told
    assert "\u202e" not in told
    assert not re.search(r"@(?:everyone|here|!?\d)|`|\]\(|\|\|", told)
    assert "<@21>" not in told


def test_somebody_called_you_is_not_the_asker() -> None:
    told = tell(Route(Kind.CHANNEL, topic="rent", speakers=(Person(22, "You"), BOB)))
    assert told.startswith("It asks for a member called You's and bob's words")


def test_namesakes_are_told_apart() -> None:
    told = tell(Route(Kind.CHANNEL, topic="rent", speakers=(Person(30_001, "Sam"), Person(30_002, "Sam"))))
    assert told.startswith("It asks for Sam#0001's and Sam#0002's words")


def test_a_crowd_is_counted() -> None:
    crowd = tuple(Person(100 + n, f"P{n}") for n in range(9))
    told = tell(Route(Kind.CHANNEL, topic="rent", speakers=crowd, literal=tuple("abcdefg")))
    whose, exactly = "P0's, P1's, P2's, P3's and 5 others'", "“a”, “b”, “c”, “d” and 3 others"
    assert told.startswith(f"It asks for {whose} words about “rent” with {exactly} in them.")


def test_a_mention_is_shown_by_name() -> None:
    route = Route(Kind.CHANNEL, topic="<@10> and <@11> and <@99>")
    assert tell(route, mentions=(ALICE,)).startswith("It asks what was said about “@Mark and @Alice and @someone”.")


def test_exact_words_to_count_are_told() -> None:
    told = tell(Route(Kind.CHANNEL, Mode.LATEST, topic="gg", literal=("gg",), wants=Wants.COUNT))
    assert told.startswith("It asks how many messages there are with “gg” in them.")


SPOKEN = [(), (ALICE,), (MARK, CAROL), (BOT,), tuple(Person(100 + n, f"P{n}") for n in range(7))]
WINDOWS = [(Window(), ""), (Window(NOW - 60.0, NOW), ""), (Window(None, NOW - 9.0), "before I joined")]


@pytest.mark.parametrize("wants", list(Wants))
@pytest.mark.parametrize("mode", list(Mode))
def test_every_combination_is_a_sentence(mode: Mode, wants: Wants) -> None:
    flags = list(itertools.product([True, False], repeat=3))
    for speakers, topic, (window, words), (binds, saying, questions) in itertools.product(
        SPOKEN, ("", "rent"), WINDOWS, flags
    ):
        route = Route(
            Kind.CHANNEL, mode, window, speakers, topic, wants=wants, binds=binds, saying=saying,
            of_questions=questions, time_words=words,
        )  # fmt: skip
        told = tell(route)
        assert re.fullmatch(rf"It asks (?:for|how many|what|who|whether) [^.]+\. {re.escape(CLEARLY)}", told), told
        assert not re.search(r"  | ,|\bI's|you's|\bthe the\b|about (?:,|\.|and)|“”|\bI (?:joined|was)", told), told
        assert ("rent" in told) == bool(topic) or route.missed


@pytest.mark.parametrize("borrowed", list(itertools.combinations(Borrowed, 3)))
def test_nothing_is_said_to_be_borrowed_that_is_not_there(borrowed: tuple[Borrowed, ...]) -> None:
    told = tell(Route(Kind.CHANNEL, follows=True, borrowed=borrowed))
    assert not re.search(r"The (?:person|people|topic|time)", told)


def test_the_asker_is_you_and_nobody_else_is() -> None:
    route = ask("what did I say about lunch?")
    assert tell(route).startswith("It asks for your words")
    assert tell(route, asker=ALICE).startswith("It asks for Mark's words")


# --- the price ---


def test_only_those_who_show_the_words_ask_for_them() -> None:
    """The path of a question never computes them."""
    root = Path(__file__).resolve().parents[2]
    files = [path for folder in ("channelmem", "bot") for path in (root / folder).rglob("*.py")]
    users = {str(path.relative_to(root)) for path in files if "import explanation" in path.read_text()}
    assert users == {
        "bot/answers.py",
        "channelmem/cli/route.py",
        "channelmem/cli/show.py",
        "channelmem/web/pages.py",
    }
