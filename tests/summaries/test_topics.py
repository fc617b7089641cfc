"""What a stretch of conversation is about."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from channelmem.summaries.extractive import MOST_TOPICS, TOPIC_CHARS, common_topics, topics


def test_what_comes_up_again_and_again_is_the_topic() -> None:
    said = ["the login is broken", "login fails since the deploy", "rolled the deploy back", "login works", "lunch?"]
    assert topics(said)[:2] == ("login", "deploy")


def test_two_words_that_stay_together_are_one_topic() -> None:
    found = topics(["the support group was kind", "which support group?", "the group by the river"])
    assert found[0] == "support group"
    assert "group" not in found


def test_names_are_written_as_people_write_them() -> None:
    assert "Harry Potter" in topics(["we watched Harry Potter", "the best Harry Potter film"])


def test_those_who_speak_and_chatter_are_no_topic() -> None:
    assert topics(["thanks mel that's great", "nice one mel", "great!"], frozenset({"mel"})) == ()


def test_links_are_no_topic() -> None:
    assert topics(["https://example.org/login/reset", "www.example.org"]) == ()


def test_two_neighbours_share_their_topics_first() -> None:
    assert common_topics(("login", "deploy"), ("lunch", "deploy"), "Ann: lunch at noon") == ("deploy", "lunch", "login")


def test_the_same_topic_in_another_case_is_told_once() -> None:
    assert len(common_topics(("Redis",), ("redis",), "")) == 1


@given(st.lists(st.text(max_size=60), max_size=20))
def test_topics_are_few_short_distinct_and_determined(said: list[str]) -> None:
    found = topics(said)
    assert len(found) <= MOST_TOPICS
    assert len(set(found)) == len(found)
    assert all(0 < len(one) <= TOPIC_CHARS and not set(one) & set("[],\n") for one in found)
    assert found == topics(said)
