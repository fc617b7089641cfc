"""Text that everything after it can read: what is ignored, cleaned and cut."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Any

import pytest
from conftest import message
from hypothesis import given
from hypothesis import strategies as st

from channelmem.ingest.normalise import LAST_ID, _warn_once, cut, normalise
from channelmem.policy.policy import Policy
from channelmem.settings import Settings
from channelmem.store.documents import clean
from channelmem.types import LAST_TS

POLICY = Policy.of_settings(Settings())
IMPOSSIBLE = [math.nan, math.inf, -math.inf, -1.0, 1e300, 1.8e18, 1.8e12, LAST_TS + 1]


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u200b", "\u200d\ufeff ", "\u2060\n", "\x00", "\u3000"])
def test_a_message_without_visible_text_is_nothing(text: str) -> None:
    assert normalise(message(1, text), POLICY) is None


@pytest.mark.parametrize("ts", IMPOSSIBLE)
def test_a_message_that_cannot_be_filed_under_a_time_is_nothing(ts: float) -> None:
    assert normalise(message(1, ts=ts), POLICY) is None
    assert normalise(message(1, revision=ts), POLICY) is None


@pytest.mark.parametrize("name", ["guild_id", "channel_id", "id", "author_id"])
@pytest.mark.parametrize("number", [-1, -(2**53), LAST_ID + 1])
def test_a_message_that_cannot_be_filed_under_its_ids_is_nothing(name: str, number: int) -> None:
    odd: dict[str, Any] = {name: number}
    assert normalise(message(1, **odd), POLICY) is None


@pytest.mark.parametrize("name", ["guild_id", "channel_id", "id", "author_id", "reply_to"])
@pytest.mark.parametrize("number", [0, 2**53 + 1, LAST_ID])
def test_any_id_of_64_bits_is_taken(name: str, number: int) -> None:
    large: dict[str, Any] = {name: number}
    one = message(1, **large)
    assert normalise(one, POLICY) is one


@pytest.mark.parametrize("number", [-1, LAST_ID + 1])
def test_an_answer_to_what_cannot_be_is_an_answer_to_nothing(number: int) -> None:
    tidy = normalise(message(1, reply_to=number), POLICY)
    assert tidy is not None
    assert tidy.reply_to is None


@pytest.mark.parametrize("ts", [0, 0.0, 1.8e9, LAST_TS])
def test_any_time_of_the_calendar_is_taken(ts: float) -> None:
    one = message(1, ts=ts, revision=ts)
    assert normalise(one, POLICY) is one


def test_impossible_times_are_said_once_without_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    _warn_once.cache_clear()
    for ts in IMPOSSIBLE:
        normalise(message(1, "a secret", ts=ts), POLICY)
    assert [(one.levelno, "secret" in one.getMessage()) for one in caplog.records] == [(logging.WARNING, False)]


def test_nothing_is_remembered_where_the_policy_says_so() -> None:
    assert normalise(message(1, "turtles are slow"), replace(POLICY, enabled=False)) is None


def test_an_ordinary_message_is_left_as_it_is() -> None:
    one = message(1, "turtles are slow")
    assert normalise(one, POLICY) is one


def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    assert clean("a\ud83dz") == "a\ufffdz"


def test_a_split_surrogate_pair_becomes_its_character() -> None:
    assert clean("\ud83d\udc22") == "🐢"


def test_the_separator_of_our_own_fields_cannot_come_from_outside() -> None:
    tidy = normalise(message(1, "a\x1fb\x00c", author="An\x1fn", aliases=("x\x1fy",)), POLICY)
    assert tidy is not None
    assert (tidy.content, tidy.author, tidy.aliases) == ("abc", "Ann", ("xy",))


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 3, "abc"),
        ("ab cdef", 3, "ab"),
        ("ae\u0301x", 2, "a"),  # a letter and its accent
        ("a👍🏽x", 2, "a"),  # a hand and its colour
        ("a👨\u200d👩\u200d👧x", 4, "a"),  # a family
        ("a🇩🇪🇫🇷", 4, "a🇩🇪"),  # two flags, cut in the second
        ("❤\ufe0fx", 1, "❤"),  # nothing before it to cut at
        ("👨\u200d👩\u200d👧", 2, "👨\u200d"),
    ],
)
def test_text_is_cut_between_characters_as_people_see_them(text: str, limit: int, expected: str) -> None:
    assert cut(text, limit) == expected


@given(st.text(st.characters(codec=None), max_size=60), st.integers(1, 40))
def test_any_text_becomes_valid_and_short_enough(text: str, limit: int) -> None:
    tidy = normalise(message(1, text), replace(POLICY, max_content_chars=limit))
    if tidy is not None:
        assert 0 < len(tidy.content) <= limit
        tidy.content.encode()
