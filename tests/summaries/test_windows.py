"""Windows on the wall clock: what is closed, what stays raw, and that a closed window never changes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talk import DAY, chat, say

from channelmem.summaries.pyramid import ClosedWindow, SmartSizes, closed_windows, window_start

MINUTE, HOUR = 60.0, 3600.0
times = st.lists(st.floats(0, 3 * 24 * HOUR).map(lambda s: DAY + round(s, 3)), max_size=60)
sizes = st.none() | st.builds(SmartSizes, busy=st.integers(0, 12), quiet=st.integers(0, 12))


def bounds(windows: tuple[ClosedWindow, ...]) -> list[tuple[float, float]]:
    return [((one.start - DAY) / MINUTE, (one.end - DAY) / MINUTE) for one in windows]


def test_windows_are_half_hours_of_the_wall_clock() -> None:
    windows = closed_windows(chat([DAY + 14 * HOUR, DAY + 14 * HOUR + 29 * MINUTE, DAY + 14.5 * HOUR]), DAY + 15 * HOUR)
    assert bounds(windows) == [(840, 870), (870, 900)]
    assert [len(one.messages) for one in windows] == [2, 1]


def test_the_current_window_stays_raw_until_its_last_second_is_over() -> None:
    said = chat([DAY + 29 * MINUTE])
    assert closed_windows(said, DAY + 30 * MINUTE - 1) == ()
    assert len(closed_windows(said, DAY + 30 * MINUTE)) == 1


def test_empty_windows_do_not_exist() -> None:
    assert bounds(closed_windows(chat([DAY, DAY + 10 * HOUR]), DAY + 11 * HOUR)) == [(0, 30), (600, 630)]
    assert closed_windows([], DAY) == ()


def test_a_message_a_day_is_a_window_a_day() -> None:
    assert len(closed_windows(chat(DAY + day * 24 * HOUR for day in range(30)), DAY + 31 * 24 * HOUR)) == 30


def test_two_hundred_messages_an_hour_are_two_windows_or_four_smart_ones() -> None:
    said = chat(DAY + at * 18.0 for at in range(200))
    assert [len(one.messages) for one in closed_windows(said, DAY + HOUR)] == [100, 100]
    assert [len(one.messages) for one in closed_windows(said, DAY + HOUR, smart=SmartSizes())] == [50, 50, 50, 50]


def test_a_quiet_hour_is_one_smart_window_once_it_is_over() -> None:
    said = chat([DAY + 5 * MINUTE, DAY + 40 * MINUTE])
    assert closed_windows(said, DAY + 45 * MINUTE, smart=SmartSizes()) == ()
    assert bounds(closed_windows(said, DAY + HOUR, smart=SmartSizes())) == [(0, 60)]


@pytest.mark.parametrize("minutes", [0, -30, 7, 1_441])
def test_a_size_that_leaves_the_wall_clock_is_refused(minutes: int) -> None:
    with pytest.raises(ValueError, match="does not divide a day; use 15, 30 or 60"):
        window_start(DAY, minutes)


@given(times, sizes, st.sampled_from([15, 30, 60]), st.randoms(use_true_random=False))
def test_every_message_of_the_past_is_in_one_window_in_order(
    moments: list[float], smart: SmartSizes | None, minutes: int, shuffle: object
) -> None:
    said = chat(moments)
    windows = closed_windows(said, DAY + 30 * 24 * HOUR, minutes, smart)
    told = [message for window in windows for message in window.messages]
    assert told == sorted(said, key=lambda one: (one.ts, one.id))
    assert all(window.messages for window in windows)
    assert all(one.start <= message.ts < one.end for one in windows for message in one.messages)
    assert all(one.end <= two.start for one, two in pairwise(windows))
    shuffle.shuffle(said)  # type: ignore[attr-defined]  # (hypothesis gives a Random)
    assert closed_windows(said, DAY + 30 * 24 * HOUR, minutes, smart) == windows


@given(times, sizes, st.floats(0, 3 * 24 * HOUR))
def test_a_closed_window_never_changes(moments: list[float], smart: SmartSizes | None, upto: float) -> None:
    """Whatever is said later, as long as it is said in order."""
    said = chat(sorted(moments))
    now = DAY + upto
    then = closed_windows([one for one in said if one.ts <= now], now, smart=smart)
    later = closed_windows(said, DAY + 30 * 24 * HOUR, smart=smart)
    assert set(then) <= set(later)


def test_messages_of_one_moment_are_in_order_of_their_ids() -> None:
    (window,) = closed_windows([say(2, DAY, "b"), say(1, DAY, "a")], DAY + HOUR)
    assert [one.id for one in window.messages] == [1, 2]
