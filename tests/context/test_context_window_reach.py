"""How far back "24h", "yesterday" and "last monday" are, and how /context calculates with them."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelmem.context_window import (
    EXAMPLES,
    FUTURE,
    LEAST_S,
    MOST_S,
    NO_AMOUNT,
    TOO_LITTLE,
    TOO_MUCH,
    UNLIMITED,
    UNREADABLE,
    ReachError,
    Step,
    amount_s,
    in_hours,
    limited,
    means_default,
    reach_s,
    stepped,
    suggestions,
)

BERLIN = "Europe/Berlin"
NOW = datetime(2026, 11, 18, 15, 20, tzinfo=ZoneInfo(BERLIN)).timestamp()  # a Wednesday
HOUR = 3_600.0
WORDS = [
    "last",
    "next",
    "this",
    "monday",
    "may",
    "2026",
    "16",
    "10pm",
    "yesterday",
    "week",
    "3",
    "days",
    "ago",
    "since",
]


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("24h", 24),
        ("24H", 24),
        (" 2 days ", 48),
        ("2d", 48),
        ("1 week", 168),
        ("48 hours", 48),
        ("2h 30m", 2.5),
        ("1.5h", 1.5),
        ("half an hour", 0.5),
        ("the last 3 days", 72),
        ("2 days ago", 48),
        ("an hour ago", 1),
        ("a couple of days", 96),
        ("yesterday", 40),
        ("Yesterday!", 40),
        ("last monday", 64),
        ("since monday", 64),
        ("this morning", 12),
        ("last night", 23),
        ("yesterday at 5pm", 23),
        ("today", 16),
        ("noon", 4),
        ("9:00", 7),
        ("the weekend", 118),
        ("2026-11-16", 64),
        ("2026-11-16 22:15", 42),
        ("Nov 16th", 64),
        ("16 November 2026 10:20 pm", 41),
        ("last week", 232),
    ],
)
def test_amounts_and_named_times_reach_back_from_now(text: str, hours: float) -> None:
    assert reach_s(text, NOW, BERLIN) == hours * HOUR


def test_a_named_time_begins_in_the_given_time_zone() -> None:
    assert reach_s("yesterday", NOW, "America/New_York") == 34 * HOUR, "it is 9:20 there"


def test_a_day_with_a_changed_clock_is_as_long_as_it_was() -> None:
    after_the_change = datetime(2026, 10, 26, 0, 0, tzinfo=ZoneInfo(BERLIN)).timestamp()
    assert reach_s("yesterday", after_the_change, BERLIN) == 25 * HOUR


@pytest.mark.parametrize(
    "text",
    [
        "tomorrow",
        "next week",
        "next monday",
        "in 2 hours",
        "2 hours from now",
        "tonight",
        "2027-01-01",
        "25 December 2027",
    ],
)
def test_the_future_is_refused(text: str) -> None:
    with pytest.raises(ReachError, match="in the future"):
        reach_s(text, NOW, BERLIN)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "banana",
        "30",
        "-5h",
        "-5m",
        "1e9",
        "0h",
        "a",
        "now",
        "until monday",
        "a while ago",
        "9" * 65,
        "h" * 9_000,
    ],
)
def test_nonsense_is_answered_with_examples(text: str) -> None:
    with pytest.raises(ReachError) as refused:
        reach_s(text, NOW, BERLIN)
    assert str(refused.value) == UNREADABLE
    assert "`24h`" in UNREADABLE


@pytest.mark.parametrize("text", ["off", "Unlimited", "no limit", "forever"])
def test_no_limit_at_all_is_set_elsewhere(text: str) -> None:
    with pytest.raises(ReachError) as refused:
        reach_s(text, NOW, BERLIN)
    assert str(refused.value) == UNLIMITED


@pytest.mark.parametrize(("text", "is_default"), [("default", True), (" Reset ", True), ("auto", True), ("8h", False)])
def test_default_means_reset(text: str, is_default: bool) -> None:
    assert means_default(text) is is_default


@pytest.mark.parametrize("text", ["yesterday", "last monday", "tomorrow", "banana", "", "8", "default", "off"])
def test_only_amounts_are_added_and_subtracted(text: str) -> None:
    with pytest.raises(ReachError) as refused:
        amount_s(text)
    assert str(refused.value) == NO_AMOUNT


@pytest.mark.parametrize(("text", "hours"), [("8h", 8), ("2 days", 48), ("an hour", 1), ("90 min", 1.5)])
def test_an_amount_to_add_is_a_duration(text: str, hours: float) -> None:
    assert amount_s(text) == hours * HOUR


@pytest.mark.parametrize(
    ("step", "by", "result", "warning"),
    [
        (Step.SET, 24, 24, ""),
        (Step.ADD, 8, 16, ""),
        (Step.SUB, 4, 4, ""),
        (Step.SUB, 7, 1, ""),
        (Step.SUB, 8, 1, TOO_LITTLE),
        (Step.SUB, 400, 1, TOO_LITTLE),
        (Step.SET, 0.5, 1, TOO_LITTLE),
        (Step.ADD, 160, 168, ""),
        (Step.ADD, 161, 168, TOO_MUCH),
        (Step.SET, 169, 168, TOO_MUCH),
    ],
)
def test_arithmetic_stays_between_one_hour_and_seven_days(step: Step, by: float, result: float, warning: str) -> None:
    assert limited(stepped(step, 8 * HOUR, by * HOUR)) == (result * HOUR, warning)


@given(st.sampled_from(Step), st.floats(0, 1e9), st.floats(0, 1e9))
def test_whatever_is_calculated_is_a_window_that_may_be_set(step: Step, now_s: float, by_s: float) -> None:
    seconds, warning = limited(stepped(step, now_s, by_s))
    assert LEAST_S <= seconds <= MOST_S
    assert bool(warning) is not (LEAST_S <= stepped(step, now_s, by_s) <= MOST_S)


@given(st.text(max_size=80), st.floats(1e9, 4e9), st.sampled_from([BERLIN, "UTC", "Pacific/Apia"]))
def test_any_text_is_a_time_in_the_past_or_gets_a_sentence(text: str, now: float, tz: str) -> None:
    try:
        assert reach_s(text, now, tz) > 0
    except ReachError as refused:
        assert str(refused) in {UNREADABLE, FUTURE, UNLIMITED}  # noqa: PT017  (either outcome is right; a third is not)


@given(
    st.lists(
        st.sampled_from(WORDS),
        max_size=5,
    ),
    st.floats(1e9, 4e9),
)
def test_any_words_of_time_are_a_time_in_the_past_or_get_a_sentence(words: list[str], now: float) -> None:
    try:
        assert reach_s(" ".join(words), now, BERLIN) > 0
    except ReachError as refused:
        assert str(refused) in {UNREADABLE, FUTURE}  # noqa: PT017  (either outcome is right; a third is not)


@given(st.integers(1, int(MOST_S)))
def test_a_window_reads_back_as_it_is_shown(seconds: int) -> None:
    assert reach_s(in_hours(seconds), NOW, BERLIN) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"), [(86_400, "24h"), (604_800, "168h"), (9_000, "2h 30m"), (90, "1m 30s"), (0, "0s")]
)
def test_a_window_is_shown_in_hours(seconds: float, text: str) -> None:
    assert in_hours(seconds) == text


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", "8h"),
        ("", "yesterday"),
        ("2", "2h"),
        ("2", "2 days"),
        ("24", "24h"),
        ("ye", "yesterday"),
        ("L", "last monday"),
    ],
)
def test_autocomplete_offers_what_begins_like_the_typed_text(typed: str, offered: str) -> None:
    assert offered in suggestions(typed)


@given(st.text(max_size=20))
def test_what_autocomplete_offers_can_be_set(typed: str) -> None:
    offered = suggestions(typed)
    assert len(offered) <= 25
    assert all(reach_s(one, NOW, BERLIN) > 0 for one in offered)


def test_the_examples_can_be_set() -> None:
    assert all(reach_s(one, NOW, BERLIN) > 0 for one in EXAMPLES)
