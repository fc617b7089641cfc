"""Somebody's own words are wanted: which of their lines is meant."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from conftest import message
from hypothesis import given
from hypothesis import strategies as st

from channelmem.recalling.rank import SHIPPED, Pool, RankingQuery, Replies, SpeakerWeights, order, rank
from channelmem.types import Message

ANN, BOB = 5, 6
LONG = "nothing of that sort has come up around here today"


def line(number: int, text: str = LONG, author_id: int = ANN, **changes: Any) -> Message:
    """Messages two hours apart: nobody is a neighbour."""
    return message(number, text, author_id=author_id, **{"ts": 1_800_000_000.0 + number * 7_200, **changes})


def crowd(first: int = 100) -> list[Message]:
    return [line(first + person, author_id=50 + person) for person in range(20)]


def meant(ask: RankingQuery, *messages: Message) -> int:
    """The best line of the speaker in company."""
    pool = Pool([*messages, *crowd()], np.full(len(messages) + 20, np.nan))
    return next(pool.messages[i].id for i in order(pool, rank(pool, ask)) if pool.messages[i].author_id in ask.speakers)


def anns(topic: str, **changes: Any) -> RankingQuery:
    return RankingQuery(topic, frozenset({ANN}), **changes)


def test_the_form_that_was_asked_for_is_preferred_to_another_of_the_same_word() -> None:
    noun, verb = (
        line(1, "there is no connection to that server now"),
        line(2, "now i cannot connect to that old server"),
    )
    assert meant(anns("connection"), noun, verb) == 1
    assert meant(anns("connect"), noun, verb) == 2


def test_a_word_singles_out_the_only_line_of_the_speaker_that_has_it() -> None:
    often = [line(n, f"the server number {n} is down again for now") for n in (3, 4, 5)]
    once = line(1, "somebody else must look at these certificates first")
    assert meant(anns("server certificates"), once, *often) == 1


def test_words_from_elsewhere_in_the_thread_count() -> None:
    asked = line(1, "how does grub find the other disk?", BOB)
    first_answer = line(2, "which release are you running on that machine", 7, parents=((1, 0.9),))
    told = line(3, "the newest one that came out a month ago", parents=((2, 0.9),))
    elsewhere = line(4, "the oldest one that came out a year ago")
    assert meant(anns("grub"), asked, first_answer, told, elsewhere) == 3


def test_an_answer_below_lends_its_words_to_what_it_answers() -> None:
    told = line(1, "you can start it from the second menu there")
    other = line(2, "you can stop it from the second menu there")
    thanks = line(3, "thanks, grub works", BOB, parents=((1, 0.9),))
    assert meant(anns("grub"), told, other, thanks) == 1


def test_a_talk_of_two_is_all_one_thread_which_tells_nothing() -> None:
    asked = line(1, "how does grub find the other disk?", BOB)
    between = line(2, parents=((1, 0.9),))
    told = line(3, parents=((2, 0.9),))
    pool = Pool([asked, between, told], np.full(3, np.nan))
    with_thread = rank(pool, anns("grub")).rank
    without = rank(pool, anns("grub"), replace(SHIPPED, said=replace(SpeakerWeights(), thread=0.0))).rank
    assert with_thread == pytest.approx(without)


def test_a_short_line_with_the_word_is_preferred_to_a_long_answer_to_it() -> None:
    asked = line(1, "shall we have pizza tonight?", BOB)
    answer = line(2, "i would rather go to the place around the corner", parents=((1, 0.9),))
    assert meant(anns("pizza"), line(3, "pizza sounds good"), asked, answer) == 3


def test_of_two_answers_the_one_that_tells_something_is_preferred() -> None:
    asked = line(1, "shall we have pizza tonight?", BOB)
    answer = line(2, "i would rather go to the place around the corner", parents=((1, 0.7),))
    nod = line(3, "sure, why not", parents=((1, 0.7),))
    assert meant(anns("pizza"), asked, answer, nod) == 2


def test_somebodys_own_question_is_as_good_as_their_statement() -> None:
    asked, told = line(2, "what do the turtles eat every single day?"), line(1, "so the turtles eat every single day.")
    assert meant(anns("turtles"), told, asked) == 2


@pytest.mark.parametrize("ask", [RankingQuery("grub menu"), anns("grub menu", wants_fact=True)])
def test_nothing_is_added_without_a_speaker_or_for_a_fact(ask: RankingQuery) -> None:
    messages = [line(1, "grub has a menu"), line(2, "the menus", parents=((1, 0.9),)), *crowd()]
    pool = Pool(messages, np.linspace(0, 0.5, len(messages)))
    assert rank(pool, ask).rank.tolist() == rank(pool, ask, replace(SHIPPED, said=None)).rank.tolist()


def test_taking_part_in_the_thread_is_evidence_and_being_beside_it_is_none() -> None:
    about = [line(1, "grub has a menu", BOB), line(2, author_id=7, parents=((1, 0.9),))]
    messages = [*about, line(3, parents=((2, 0.9),)), line(4), *crowd()]
    scores = rank(Pool(messages, np.zeros(len(messages))), anns("grub"))
    assert 0 < scores.evidence[2] < scores.evidence[1]
    assert scores.evidence[3] == 0
    assert scores.coverage[2] == 0


def test_what_is_fitted_is_no_evidence() -> None:
    messages = [line(1, "grub has a menu", BOB), line(2, parents=((1, 0.5),)), line(3), *crowd()]
    pool = Pool(messages, np.full(len(messages), 0.1))
    twice = SpeakerWeights(
        **{field.name: 2 * getattr(SpeakerWeights(), field.name) for field in fields(SpeakerWeights)}
    )
    plain, doubled = (rank(pool, anns("grub"), weights) for weights in (SHIPPED, replace(SHIPPED, said=twice)))
    assert plain.evidence.tolist() == doubled.evidence.tolist()


def test_an_empty_channel_has_nothing_to_rank() -> None:
    assert rank(Pool([], np.empty(0)), anns("grub")).rank.tolist() == []


def test_no_weight_is_negative() -> None:
    assert all(getattr(SpeakerWeights(), field.name) >= 0 for field in fields(SpeakerWeights))


@given(st.lists(st.text(max_size=40), min_size=1, max_size=12), st.text(max_size=30))
def test_any_texts_and_topic_give_finite_scores_for_a_speaker(texts: list[str], topic: str) -> None:
    messages = [line(n, text, parents=((n - 1, 0.5),)) for n, text in enumerate(texts, start=1)]
    assert np.isfinite(rank(Pool(messages, np.full(len(texts), np.nan)), anns(topic)).rank).all()


# --- along the links ---

CHAIN = (line(1), line(2, parents=((1, 0.5),)), line(3, parents=((2, 0.5),)), line(4, parents=((99, 0.9), (1, 0.5))))


def test_a_message_has_what_it_answers_has_by_the_chance_that_it_does() -> None:
    assert Replies.among(CHAIN).above(np.array([[1.0], [0.0], [0.0], [0.0]]))[:, 0].tolist() == [0.0, 0.5, 0.0, 0.5]


def test_a_thread_is_followed_up_and_down() -> None:
    lent = Replies.among(CHAIN).around(np.array([[0.0], [0.0], [1.0], [0.0]]))[:, 0]
    assert lent[0] == pytest.approx(0.25)
    assert lent[1] == pytest.approx(0.5 + 0.125)
    assert lent[3] == pytest.approx(0.125)


def test_no_links_lend_nothing() -> None:
    alone = Replies.among([line(1), line(2)])
    assert alone.around(np.array([[1.0], [0.0]])).tolist() == [[1.0], [0.0]]
