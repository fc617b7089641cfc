"""The router: what a question takes over from the one before."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from asking import ALICE, BOB, CAROL, NOW, SCENE, ask

from channelmem.routing.route import Previous, route
from channelmem.types import Borrowed, Kind, Mode, Source

FIRST = ask("what did alice say about turtles?")


def test_a_follow_up_with_a_name_keeps_the_topic() -> None:
    found = ask("and Bob?", previous=Previous(FIRST))
    assert (found.kind, found.speakers, found.topic) == (Kind.CHANNEL, (BOB,), "turtles")


def test_a_follow_up_with_a_time_keeps_speaker_and_topic() -> None:
    found = ask("what about yesterday?", previous=Previous(FIRST))
    assert (found.kind, found.speakers, found.topic) == (Kind.MEMORY, (ALICE,), "turtles")
    assert found.window.end == datetime.fromisoformat("2026-03-18T00:00:00+00:00").timestamp()
    assert found.sources[0] is Source.ARCHIVE


@pytest.mark.parametrize(
    ("text", "borrowed"),
    [
        ("and Bob?", (Borrowed.TOPIC,)),
        ("what about yesterday?", (Borrowed.PEOPLE, Borrowed.TOPIC)),
        ("what about pizza?", (Borrowed.PEOPLE,)),
        ("what did she say about pizza?", (Borrowed.PEOPLE, Borrowed.TOPIC)),
        ("and before that?", (Borrowed.ANSWER, Borrowed.PEOPLE)),
        ("what did bob say about lunch?", ()),
    ],
)
def test_a_follow_up_notes_what_it_takes_over(text: str, borrowed: tuple[Borrowed, ...]) -> None:
    found = ask(text, previous=Previous(FIRST, 5, NOW - 60))
    assert found.borrowed == borrowed


def test_what_was_borrowed_once_is_not_noted_again() -> None:
    beside = ask("and before that?", previous=Previous(FIRST, 5, NOW - 60))
    assert ask("and Bob?", previous=Previous(beside, 4, NOW - 120)).borrowed == (Borrowed.TIME,)


def test_a_reply_notes_what_it_leans_on() -> None:
    assert ask("is it far?", reply_to=77).borrowed == (Borrowed.REPLY,)
    assert ask("what did bob say about lunch?", reply_to=77).borrowed == ()


def test_a_follow_up_with_a_topic_keeps_the_speaker() -> None:
    found = ask("what about pizza?", previous=Previous(FIRST))
    assert (found.speakers, found.topic, found.mode) == ((ALICE,), "pizza", Mode.TOPIC)


def test_a_full_question_that_begins_with_and_inherits_the_topic() -> None:
    found = ask("and what did bob say?", previous=Previous(FIRST))
    assert (found.speakers, found.topic) == ((BOB,), "turtles")


def test_about_that_means_the_previous_topic() -> None:
    assert ask("did carol say anything about that?", previous=Previous(FIRST)).topic == "turtles"


@pytest.mark.parametrize("text", ["and Bob?", "what about yesterday?"])
def test_without_a_previous_question_there_is_nothing_to_follow(text: str) -> None:
    assert not ask(text).follows


def test_a_question_that_means_it_takes_over_the_topic_and_the_first_hit() -> None:
    found = ask("until when is it open?", previous=Previous(FIRST, hit_id=7, hit_ts=NOW - 60))
    assert found.follows
    assert found.anchors == (7,)
    assert "turtles" in found.topic


def test_before_that_means_before_the_first_hit() -> None:
    found = ask("and before that?", previous=Previous(FIRST, hit_id=7, hit_ts=NOW - 60))
    assert (found.mode, found.speakers, found.topic) == (Mode.LATEST, (ALICE,), "")
    assert found.window.end is not None
    assert found.window.end < NOW - 60


def test_after_that_means_what_came_next() -> None:
    found = ask("what did bob say after that?", previous=Previous(FIRST, hit_id=7, hit_ts=NOW - 60))
    assert (found.mode, found.speakers) == (Mode.FIRST, (BOB,))
    assert found.window.start is not None
    assert found.window.start > NOW - 60


def test_a_task_about_it_stays_a_task() -> None:
    assert ask("write a poem about it", previous=Previous(FIRST)).p < 0.6


def test_a_reply_is_anchored_to_the_message_it_replies_to() -> None:
    found = ask("did anyone send him that list?", reply_to=42)
    assert found.anchors == (42,)
    assert found.mode is Mode.TOPIC


def test_small_talk_after_a_question_is_no_follow_up() -> None:
    assert ask("thanks, that was helpful", previous=Previous(FIRST)).kind is Kind.NONE


def test_she_is_the_person_of_the_previous_question() -> None:
    assert ask("what else did she say?", previous=Previous(FIRST)).speakers == (ALICE,)


def test_both_of_them_are_the_people_of_the_previous_question() -> None:
    pair = ask("what did bob and carol say?")
    assert ask("what did both of them say about pizza?", previous=Previous(pair)).speakers == (BOB, CAROL)


def test_a_follow_up_that_wants_no_memory_gets_none() -> None:
    found = route("and Bob?", replace(SCENE, previous=Previous(FIRST)), Kind.NONE)
    assert (found.kind, found.sources) == (Kind.NONE, ())


def test_a_follow_up_keeps_the_kind_that_is_asked_for() -> None:
    found = route("and Bob?", replace(SCENE, previous=Previous(FIRST)), Kind.MEMORY)
    assert found.kind is Kind.MEMORY
    assert found.sources[0] is Source.ARCHIVE
    assert found.speakers == (BOB,)
