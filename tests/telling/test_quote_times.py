"""Pauses and ages in words."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelmem.display import ago, counted, marker, span_words


@pytest.mark.parametrize(
    ("seconds", "line"),
    [
        (0, None),
        (899, None),
        (900, "--- 15 minutes later ---"),
        (5_400, "--- 90 minutes later ---"),
        (7_199, "--- 119 minutes later ---"),
        (7_200, "--- 2 hours later ---"),
        (86_399, "--- 23 hours later ---"),
        (86_400, "--- 1 day later ---"),
        (3 * 86_400, "--- 3 days later ---"),
    ],
)
def test_a_pause_is_told_from_fifteen_minutes_on_in_its_own_unit(seconds: float, line: str | None) -> None:
    assert marker(seconds) == line


@pytest.mark.parametrize("seconds", [-5.0, math.nan, math.inf, -math.inf])
def test_a_clock_that_ran_backwards_or_broke_makes_no_marker(seconds: float) -> None:
    assert marker(seconds) is None
    assert ago(seconds) == "just now"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3, "just now"),
        (45, "45 seconds ago"),
        (60, "1 minute ago"),
        (125, "2 minutes ago"),
        (3_700, "1 hour ago"),
        (90_000, "1 day ago"),
        (8 * 86_400, "8 days ago"),
        (21 * 86_400, "3 weeks ago"),
    ],
)
def test_an_age_reads_like_a_sentence(seconds: float, words: str) -> None:
    assert ago(seconds) == words


def test_one_is_singular_and_thousands_are_separated() -> None:
    assert counted(1, "message") == "1 message"
    assert counted(0, "message") == "0 messages"
    assert counted(1_204, "message") == "1,204 messages"


@given(st.floats())
def test_any_span_has_words(seconds: float) -> None:
    assert span_words(seconds)
    assert ago(seconds)
