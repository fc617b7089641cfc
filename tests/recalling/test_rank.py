from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import message
from hypothesis import given
from hypothesis import strategies as st

from channelmem.recalling.choosing import distinct
from channelmem.recalling.rank import SHIPPED, Pool, RankingQuery, order, rank
from channelmem.text import asking, read_lines
from channelmem.types import Message, Wants, Window

FILLER = "nothing of that sort came up around here today"


def pool(*messages: Message, cosines: Sequence[float] | None = None) -> Pool:
    return Pool(messages, np.array(cosines if cosines is not None else [np.nan] * len(messages)))


def line(number: int, text: str = FILLER, **changes: Any) -> Message:
    """Messages two hours apart, so that none is a neighbour of another unless the test says so."""
    return message(number, text, **{"ts": 1_800_000_000.0 + number * 7_200, **changes})


def first(ranked: Pool, ask: RankingQuery) -> int:
    return ranked.messages[order(ranked, rank(ranked, ask))[0]].id


def test_the_message_with_the_word_comes_first() -> None:
    assert first(pool(line(1), line(2, "the turtles are slow today"), line(3)), RankingQuery("turtle")) == 2


def test_a_topic_of_small_words_alone_is_compared_by_meaning() -> None:
    assert first(pool(line(1), line(2), line(3), cosines=[0.1, 0.8, 0.2]), RankingQuery("the same")) == 2


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    common = [line(n, "the server logs are long again") for n in range(1, 8)]
    rare = line(9, "somebody deleted certificates over there")
    assert first(pool(*common, rare), RankingQuery("server certificates")) == 9


def test_an_answer_is_found_by_the_words_of_what_it_answers() -> None:
    asked = line(1, "does anybody know how grub finds the other disk?")
    answer = line(2, "you must run the probing script once more", parents=((1, 0.9),))
    other = line(3, "you must look at another manual page first")
    scores = rank(pool(asked, answer, other), RankingQuery("grub"))
    assert scores.coverage[1] == pytest.approx(SHIPPED.parent * 0.9)
    assert scores.coverage[2] == 0.0


def test_an_unlikely_parent_lends_little() -> None:
    asked = line(1, "how does grub find the other disk?")
    sure, unsure = line(2, FILLER, parents=((1, 0.9),)), line(3, FILLER, parents=((1, 0.2),))
    scores = rank(pool(asked, sure, unsure), RankingQuery("grub"))
    assert scores.rank[1] > scores.rank[2]


def borrowed(*messages: Message) -> float:
    """How much the last message gains from words it does not have."""
    last = len(messages) - 1
    apart = replace(messages[last], ts=messages[last].ts + 1e6)
    together, alone = (
        rank(pool(*messages[:last], one), RankingQuery("turtles")).rank[last] for one in (messages[last], apart)
    )
    return float(together - alone)


def test_a_neighbour_lends_its_words_but_not_across_a_long_silence() -> None:
    turtles = line(1, "the turtles ate again")
    assert borrowed(turtles, line(2, ts=turtles.ts + 30)) > 0
    assert borrowed(turtles, line(2)) == 0


def test_neighbours_of_another_channel_lend_nothing() -> None:
    turtles = line(1, "the turtles ate again")
    assert borrowed(turtles, line(2, ts=turtles.ts + 30, channel_id=7)) == 0


def test_a_neighbours_words_are_no_evidence() -> None:
    turtles = line(1, "the turtles ate again")
    assert rank(pool(turtles, line(2, ts=turtles.ts + 30)), RankingQuery("turtles")).evidence[1] == 0


def test_neighbours_count_less_in_a_crowd() -> None:
    def in_company_of(people: int) -> float:
        start = line(1).ts
        talk = [line(n, ts=start + n, author_id=n % people) for n in range(2, 12)]
        return borrowed(*talk, line(20, "the turtles ate", ts=start + 20), line(21, ts=start + 21))

    assert in_company_of(2) > in_company_of(9) > 0


def test_the_cosine_finds_what_shares_no_word() -> None:
    assert first(pool(line(1), line(2), cosines=[0.1, 0.6]), RankingQuery("reptiles")) == 2


def test_a_message_without_a_vector_is_ranked_by_its_words() -> None:
    ranked = pool(line(1, "turtles eat salad every day"), line(2), cosines=[np.nan, 0.3])
    assert first(ranked, RankingQuery("turtles")) == 1
    assert not np.isnan(rank(ranked, RankingQuery("turtles")).evidence).any()


def test_the_named_speaker_is_preferred() -> None:
    bob, ann = line(1, "turtles eat salad", author_id=8), line(2, "turtles eat salad", author_id=5)
    assert first(pool(bob, ann), RankingQuery("turtles", frozenset({8}))) == 1
    assert first(pool(bob, ann), RankingQuery("turtles", frozenset({5}))) == 2


def test_a_statement_is_preferred_to_a_bare_question() -> None:
    asked = line(2, "what do the turtles eat every day?")
    told = line(1, "the turtles eat salad every day")
    assert first(pool(told, asked), RankingQuery("turtles eat")) == 1


def test_a_month_of_the_question_is_matched_with_the_date() -> None:
    may, july = line(1, ts=1_683_554_160.0), line(2, ts=1_689_429_090.0)
    assert first(pool(may, july), RankingQuery("trip in May 2023")) == 1
    assert first(pool(may, july), RankingQuery("trip in July 2023")) == 2


def test_a_when_question_prefers_a_line_with_a_time() -> None:
    plain, timed = line(2, "we took the turtles to the lake"), line(1, "we took the turtles to the lake last week")
    assert first(pool(timed, plain), RankingQuery("turtles lake", wants=Wants.WHEN)) == 1


def test_the_window_is_a_preference_here() -> None:
    old, new = line(1, "the turtles ate again"), line(2, "the turtles ate again")
    assert first(pool(old, new), RankingQuery("turtles", window=Window(end=old.ts))) == 1


def test_of_equals_the_newest_comes_first() -> None:
    assert first(pool(line(1, "the turtles ate again"), line(2, "the turtles ate again")), RankingQuery("turtles")) == 2


def test_repeats_of_one_author_collapse_and_those_of_others_do_not() -> None:
    same = [line(1, "turtles rock"), line(2, "Turtles rock!"), line(3, "turtles rock", author_id=9)]
    assert distinct(same, read_lines([one.content for one in same]), [2, 1, 0], 5) == [2, 1]
    assert distinct(same, read_lines([one.content for one in same]), [2, 1, 0], 1) == [2]


def test_evidence_of_a_message_does_not_depend_on_better_ones() -> None:
    weak = line(1, "the turtles ate again")
    alone = rank(pool(weak, line(2), cosines=[0.2, 0.0]), RankingQuery("turtles salad")).coverage[0]
    beside = rank(pool(weak, line(2), cosines=[0.2, 0.9]), RankingQuery("turtles salad")).coverage[0]
    assert alone == beside


def test_counts_of_the_whole_archive_decide_what_is_rare() -> None:
    messages = (line(1, "server restarts are annoying"), line(2, "certificates are annoying too"))
    wide = replace(pool(*messages), counts={"server": 900, "certif": 1}, total=1_000)
    assert first(wide, RankingQuery("server certificates")) == 2


@pytest.mark.parametrize(("text", "share"), [("no", 0.0), ("really?", 1.0), ("", 0.0)])
def test_share_of_questions(text: str, share: float) -> None:
    assert asking(text) == share


@given(st.lists(st.text(max_size=40), min_size=1, max_size=12), st.text(max_size=30))
def test_any_texts_and_topic_give_finite_scores(texts: list[str], topic: str) -> None:
    messages = [message(n, text, parents=((n - 1, 0.5),)) for n, text in enumerate(texts, start=1)]
    scores = rank(pool(*messages), RankingQuery(topic, frozenset({5})))
    assert np.isfinite(scores.rank).all()
    assert ((scores.coverage >= 0) & (scores.coverage <= 1 + 1e-9)).all()
