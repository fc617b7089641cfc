from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelmem.durations import LONGEST_S, format_duration, human_age, parse


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("24h", 86_400),
        ("2h 30m", 9_000),
        ("2h30m", 9_000),
        ("1 week", 604_800),
        ("2d", 172_800),
        ("48 hours", 172_800),
        ("90 min", 5_400),
        ("90 min.", 5_400),
        ("1.5h", 5_400),
        ("1:30:00", 5_400),
        ("an hour", 3_600),
        ("half an hour", 1_800),
        ("Two hours and 5 minutes", 7_500),
        ("the last 20 minutes", 1_200),
        ("last hour", 3_600),
        ("3 days ago", 259_200),
        ("Yesterday", 86_400),
        ("last week", 604_800),
    ],
)
def test_a_written_span_becomes_seconds(text: str, seconds: float) -> None:
    assert parse(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "  ", "30", "one", "a", "soon", "-5m", "0s", "turtles", "99999999 weeks", "h" * 5_000, "1 2 3"]
)
def test_what_is_no_span_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as"):
        parse(text)


@given(st.integers(1, int(LONGEST_S)))
def test_a_formatted_span_reads_back_as_itself(seconds: int) -> None:
    assert parse(format_duration(seconds)) == seconds


@given(st.text(max_size=80))
def test_any_text_is_a_span_or_a_value_error(text: str) -> None:
    try:
        assert 0 < parse(text) <= LONGEST_S
    except ValueError as error:
        assert "is not a duration" in str(error)  # noqa: PT017  (either outcome is right; a third one is not)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "just now"),
        (4, "just now"),
        (45, "45s ago"),
        (120, "2m ago"),
        (15 * 60 + 59, "15m ago"),
        (3_600, "1h ago"),
        (86_400, "1d ago"),
        (8 * 86_400, "8d ago"),
        (21 * 86_400, "3w ago"),
    ],
)
def test_an_age_is_one_rounded_down_unit(seconds: float, text: str) -> None:
    assert human_age(seconds) == text


def test_zero_is_displayed_as_zero_seconds() -> None:
    assert format_duration(0) == "0s"
