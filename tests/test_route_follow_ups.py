"""The router: what a question takes over from the one before."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from asking import ALICE, BOB, CAROL, SCENE, ask

from channelmem.routing.route import route
from channelmem.types import Kind, Mode, Source

FIRST = ask("what did alice say about turtles?")


def test_a_follow_up_with_a_name_keeps_the_topic() -> None:
    found = ask("and Bob?", previous=FIRST)
    assert (found.kind, found.speakers, found.topic) == (Kind.CHANNEL, (BOB,), "turtles")


def test_a_follow_up_with_a_time_keeps_speaker_and_topic() -> None:
    found = ask("what about yesterday?", previous=FIRST)
    assert (found.kind, found.speakers, found.topic) == (Kind.MEMORY, (ALICE,), "turtles")
    assert found.window.end == datetime.fromisoformat("2026-03-18T00:00:00+00:00").timestamp()
    assert found.sources[0] is Source.ARCHIVE


def test_a_follow_up_with_a_topic_keeps_the_speaker() -> None:
    found = ask("what about pizza?", previous=FIRST)
    assert (found.speakers, found.topic, found.mode) == ((ALICE,), "pizza", Mode.TOPIC)


def test_a_full_question_that_begins_with_and_inherits_the_topic() -> None:
    found = ask("and what did bob say?", previous=FIRST)
    assert (found.speakers, found.topic) == ((BOB,), "turtles")


def test_about_that_means_the_previous_topic() -> None:
    assert ask("did carol say anything about that?", previous=FIRST).topic == "turtles"


@pytest.mark.parametrize("text", ["and Bob?", "what about yesterday?"])
def test_without_a_previous_question_there_is_nothing_to_follow(text: str) -> None:
    assert ask(text).kind is Kind.NONE


def test_small_talk_after_a_question_is_no_follow_up() -> None:
    assert ask("thanks, that was helpful", previous=FIRST).kind is Kind.NONE


def test_she_is_the_person_of_the_previous_question() -> None:
    assert ask("what else did she say?", previous=FIRST).speakers == (ALICE,)


def test_both_of_them_are_the_people_of_the_previous_question() -> None:
    pair = ask("what did bob and carol say?")
    assert ask("what did both of them say about pizza?", previous=pair).speakers == (BOB, CAROL)


def test_a_follow_up_that_wants_no_memory_gets_none() -> None:
    found = route("and Bob?", replace(SCENE, previous=FIRST), Kind.NONE)
    assert (found.kind, found.sources) == (Kind.NONE, ())


def test_a_follow_up_keeps_the_kind_that_is_asked_for() -> None:
    found = route("and Bob?", replace(SCENE, previous=FIRST), Kind.MEMORY)
    assert found.kind is Kind.MEMORY
    assert found.sources[0] is Source.ARCHIVE
    assert found.speakers == (BOB,)
