"""Which questions ask for a recap, and of what."""

from __future__ import annotations

import pytest
from asking import NOW, ask

from channelmem.routing.people import Previous
from channelmem.types import Mode, Wants


@pytest.mark.parametrize(
    "text",
    [
        "recap pls",
        "sum it up for me",
        "what have we decided so far",
        "so whats the plan",
        "any decisions?",
        "what did u all agree",
        "anything still open",
        "whats left to do",
        "is everything settled?",
        "tldr pls i only read half",
        "where are we",
        "give me the gist",
        "what did we settle on",
        "who does what",
        "open questions?",
        "whats the plan from here",
        "ok so what have we decided",
        "Which decisions have we made so far?",
        "what was agreed in the end",
        "so where did we land",
        "give me the headlines",
        "just the key facts pls",
        "what still needs doing",
        "what is still unclear",
        "could you summarise which dates and deadlines came up here",
    ],
)
def test_a_recap_of_everything(text: str) -> None:
    route = ask(text)
    assert (route.mode, route.wants, route.topic) == (Mode.RECAP, Wants.RECAP, "")
    assert not route.missed


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("any decisions on the venue", "the venue"),
        ("whats the plan for the school visit", "the school visit"),
        ("everything settled for the bbq?", "the bbq"),
        ("any decisions on the sponsor? short version pls", "the sponsor"),
        ("van stuff tldr", "van"),
        ("protest story in short", "protest"),
        ("sum up the boiler saga for my mum", "the boiler"),
        ("where are we with the roof", "the roof"),
        ("catch me up on everything that is settled for the show", "the show"),
        ("catch me up on hosts, one line each", "hosts"),
        ("summarise what was said about the midterm", "the midterm"),
        ("give me a summary of the decisions for the camp", "the camp"),
        ("everything we know about the concert", "the concert"),
        ("summarise what is arranged for the day of the fair", "the fair"),
        ("I have been away from my desk. What was decided about the move?", "the move"),
    ],
)
def test_a_recap_of_something(text: str, topic: str) -> None:
    route = ask(text)
    assert (route.mode, route.topic) == (Mode.RECAP, topic)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("everything thats settled for saturday", "saturday"),
        ("whats the plan for tmrw", "tmrw"),
        ("tomorrow in one line pls", "tomorrow"),
        ("summarise what is fixed for the 15th", "the 15th"),
        ("whats the plan for today", "today"),
        ("whats the plan for this afternoon", "this afternoon"),
        ("tldr of this evening", "this evening"),
        ("whats the plan for the wknd", "the wknd"),
        ("whats happening this sat", "this sat"),
        ("whats happening on saturday", "saturday"),
        ("who does what on saturday", "saturday"),
        ("what are we doing on saturday", "saturday"),
        ("everything sorted for sat?", "sat"),
    ],
)
def test_a_recap_of_the_plans_for_a_day_looks_at_all_times(text: str, day: str) -> None:
    route = ask(text)
    assert (route.mode, route.topic, route.time_words) == (Mode.RECAP, "", day)
    assert route.window.start is None


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("quick sum up of this mornings panic", 4, 12),
        ("whats the gist of this mornings chat", 4, 12),
        ("what happened today before lunch", 0, 12),
        ("what happened today after lunch", 12, 15.5),
        ("which decisions have been made today", 0, 15.5),
        ("whats happening today", 0, 15.5),
        ("list what got agreed yesterday", -24, 0),
        ("what happened on saturday", -96, -72),
    ],
)
def test_a_recap_of_what_was_said_in_a_time(text: str, start: float, end: float) -> None:
    route = ask(text)
    midnight = NOW - 15.5 * 3_600
    assert (route.mode, route.topic) == (Mode.RECAP, "")
    assert (route.window.start, route.window.end) == (midnight + start * 3_600, midnight + end * 3_600)


@pytest.mark.parametrize(
    "text",
    [
        "where are we going",
        "where are we meeting on saturday",
        "who writes the summary",
        "when is the summary due",
        "did bob send the recap",
        "what did bob say about the overview",
        "whats the plan if it rains",
        "what did we decide about the venue",
        "what was decided about the samples",
        "when did we decide that",
        "is the bakery still open",
        "in short, what is a monad",
        "my plan is to summarise",
        "what context did bob mean",
    ],
)
def test_a_question_that_only_has_such_a_word_is_no_recap(text: str) -> None:
    assert ask(text).mode is not Mode.RECAP


@pytest.mark.parametrize(
    "text", ["tldr pls", "whats agreed for tomorrow", "anything new this morning", "sum it up for me"]
)
def test_a_recap_does_not_take_its_topic_from_the_question_before(text: str) -> None:
    previous = Previous(ask("has saturn come up in here at all"))
    assert ask(text, previous=previous).topic == ""
