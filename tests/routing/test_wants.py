"""What a question wants, read once: the same for recall and for the answer."""

from dataclasses import replace

import pytest

from channelmem.routing.clause import with_wants
from channelmem.types import Kind, Mode, Route, Wants

CHANNEL, MEMORY = Route(Kind.CHANNEL), Route(Kind.MEMORY)


@pytest.mark.parametrize(
    ("text", "wants"),
    [
        ("what did Ann say about Rome?", Wants.WORDS),
        ("where did Ann go in May?", Wants.WHERE),
        ("why did Ann leave?", Wants.WHY),
        ("did the parcel arrive?", Wants.FACT),
        ("how many messages did Ann send?", Wants.COUNT),
        ("which picture did Ann post?", Wants.FILE),
        ("who mentioned the mill?", Wants.WHO),
        ("so who's got the key?", Wants.WHO),
        ("did anybody mention the mill?", Wants.WHETHER),
        ("has anyone said anything about Rome?", Wants.WHETHER),
        ("when did Ann go to Rome?", Wants.WHEN),
        ("what day did Ann leave?", Wants.WHEN),
        ("how many tickets did Ann buy?", Wants.AMOUNT),
        ("which link did Ann post?", Wants.LINK),
    ],
)
def test_a_question_about_the_past_wants(text: str, wants: Wants) -> None:
    assert with_wants(MEMORY, text).wants is wants


def test_a_recap_wants_a_recap_whatever_its_words() -> None:
    assert with_wants(replace(CHANNEL, mode=Mode.RECAP), "who said what?").wants is Wants.RECAP


@pytest.mark.parametrize("text", ["what did Ann say about Rome?", "what did Ann suggest last week?", "who told Bob?"])
def test_words_bind_the_speaker(text: str) -> None:
    assert with_wants(MEMORY, text).binds


def test_facts_do_not_bind_the_speaker() -> None:
    assert not with_wants(MEMORY, "when did Ann go to Rome?").binds
    assert not with_wants(CHANNEL, "is Ann coming?").binds


def test_a_deed_that_leaves_a_message_is_an_act_of_saying_that_does_not_bind() -> None:
    routed = with_wants(MEMORY, "what did Ann write in her diary?")
    assert (routed.saying, routed.binds) == (True, False)


def test_a_follow_up_asks_about_saying_if_the_question_before_did() -> None:
    assert with_wants(replace(MEMORY, saying=True), "and Bob?").binds
    assert not with_wants(MEMORY, "and Bob?").binds
