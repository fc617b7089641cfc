"""The context of summaries: no overlap, in order, within the limit, and as fine as there is room."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talk import DAY, chat, say

from channelmem.summaries.extractive import combine, summarise
from channelmem.summaries.pyramid import ClosedWindow, Summary, closed_windows, pairs
from channelmem.summaries.reader import CONTEXT_CHARS, PastBlock, cover, header
from channelmem.types import Message

HOUR = 3600.0
LATER = DAY + 400 * 24 * HOUR
WORDS = "crate {n} of pears goes to Bristol with driver {n}7 by road {n}9, and {n}3 boxes stay in Hull until Friday"


def pyramid(said: Sequence[Message]) -> list[Summary]:
    made = [summarise(window, created=DAY) for window in closed_windows(said, LATER)]
    while found := pairs(made):
        made += [combine(older, newer, created=DAY) for older, newer in found]
    return made


def busy(windows: int) -> list[Message]:
    """Fifteen long messages in each of so many half hours."""
    return chat((DAY + at * 120.0 for at in range(15 * windows)), WORDS)


def covered(made: Sequence[Summary], limit: int = CONTEXT_CHARS) -> PastBlock:
    return cover(made, now=LATER, tz=UTC, limit=limit)


def one(count: int = 30, start: float = DAY + 14 * HOUR, end: float = DAY + 14 * HOUR + 29 * 60) -> Summary:
    made = summarise(ClosedWindow(DAY, DAY + 1, (say(1, start, "x"),)), created=DAY)
    return replace(made, message_count=count, start=start, end=end, topics=("login", "deploy"), text="Ann: x")


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (DAY + 20 * HOUR, "from 14:00 to 14:29"),
        (DAY + 30 * HOUR, "from 16 Jan 14:00 to 14:29"),
        (LATER, "from 16 Jan 2027 14:00 to 14:29"),
    ],
)
def test_a_header_has_a_date_where_it_is_not_todays(now: float, expected: str) -> None:
    assert header(one(), now, UTC) == f"[summarized 30 messages {expected}, topics: login, deploy]"


def test_today_is_that_of_the_given_time_zone() -> None:
    late = one(start=DAY + 23 * HOUR, end=DAY + 23 * HOUR + 60)
    assert "from 00:00 to 00:01" in header(late, DAY + 26 * HOUR, ZoneInfo("Europe/Berlin"))
    assert "from 16 Jan 23:00 to 23:01" in header(late, DAY + 26 * HOUR, UTC)


def test_a_header_names_the_second_day_and_a_single_message() -> None:
    night = one(start=DAY + 23 * HOUR, end=DAY + 25 * HOUR)
    assert "from 16 Jan 23:00 to 17 Jan 01:00" in header(night, DAY + 30 * HOUR, UTC)
    assert header(replace(one(1), topics=()), DAY + 20 * HOUR, UTC) == "[summarized 1 message from 14:00]"


def test_the_past_comes_as_summaries_and_silence() -> None:
    later = replace(one(2, DAY + 18 * HOUR, DAY + 18 * HOUR + 60), topics=(), text="Bob: late")
    assert cover([later, one()], now=DAY + 19 * HOUR, tz=UTC).text.splitlines() == [
        "[summarized 30 messages from 14:00 to 14:29, topics: login, deploy]",
        "Ann: x",
        "[3.5 hours of silence]",
        "[summarized 2 messages from 18:00 to 18:01]",
        "Bob: late",
    ]


def test_it_is_fine_near_the_present_and_coarse_far_back() -> None:
    levels = [each.level for each in covered(pyramid(busy(60))).summaries]
    assert levels == sorted(levels, reverse=True)
    assert levels[0] > levels[-1]


def test_room_is_used() -> None:
    made = pyramid(busy(60))
    assert len(covered(made).text) > 0.85 * CONTEXT_CHARS


def test_with_room_for_all_every_window_has_its_own_summary() -> None:
    assert {each.level for each in covered(pyramid(busy(12)), 100_000).summaries} == {1}


def test_summaries_that_lost_nothing_are_not_split() -> None:
    """A message a day: one header for a fortnight, not fourteen."""
    made = pyramid(chat((DAY + day * 24 * HOUR for day in range(4)), "day {n} pears"))
    assert [each.level for each in covered(made).summaries] == [3]


def test_the_oldest_summaries_are_dropped_first() -> None:
    made = pyramid(busy(7))
    newest = covered(made, 1_000)
    assert [each.level for each in newest.dropped] == [3, 2]
    assert [each.level for each in newest.summaries] == [1]
    assert len(covered(made, 100).dropped) == 3


def test_no_silence_is_claimed_where_something_was_dropped() -> None:
    made = [one(start=DAY, end=DAY + 60), one(start=DAY + 5 * HOUR, end=DAY + 5 * HOUR + 60)]
    assert "silence" in covered(made).text
    found = covered(made, len(covered(made).text) - 1)
    assert [each.start for each in found.summaries] == [DAY + 5 * HOUR]
    assert "silence" not in found.text


def test_nothing_is_an_empty_cover() -> None:
    assert covered([]) == PastBlock()


def test_a_busy_week_is_covered_in_ten_milliseconds() -> None:
    said = [m for day in range(7) for m in chat((DAY + day * 24 * HOUR + at * 180.0 for at in range(200)), WORDS)]
    made = pyramid([replace(m, id=at) for at, m in enumerate(said, 1)])
    started = time.process_time()
    for _ in range(5):
        covered(made)
    assert (time.process_time() - started) / 5 < 0.03


moments = st.lists(st.integers(0, 2 * 24 * 60), max_size=80).map(lambda some: [DAY + 60.0 * at for at in sorted(some)])


@given(moments, st.integers(0, 6_000))
def test_a_cover_fits_is_in_order_and_overlaps_nowhere(times: list[float], limit: int) -> None:
    made = pyramid(chat(times, WORDS))
    found = covered(made, limit)
    assert len(found.text) <= limit
    assert all(before.end <= after.start for before, after in pairwise(found.summaries))
    shown = sum(each.message_count for each in (*found.summaries, *found.dropped))
    assert shown == len(times), "every message is covered or reported as dropped"
    assert found == covered(made, limit)


@given(st.integers(0, 40), st.integers(0, 12_000), st.integers(0, 6_000))
def test_more_room_never_shows_less(windows: int, limit: int, more: int) -> None:
    made = pyramid(chat((DAY + at * 600.0 for at in range(3 * windows)), WORDS))
    small, large = covered(made, limit), covered(made, limit + more)
    assert sum(each.message_count for each in small.dropped) >= sum(each.message_count for each in large.dropped)
    if not small.dropped:
        for each in large.summaries:
            assert any(top.start <= each.start and each.end <= top.end for top in small.summaries)
        assert len(large.summaries) >= len(small.summaries)


@given(st.integers(0, 40), st.integers(0, 3_000))
def test_what_is_dropped_is_older_than_what_is_shown(windows: int, limit: int) -> None:
    found = covered(pyramid(chat((DAY + at * 600.0 for at in range(3 * windows)), WORDS)), limit)
    assert not found.dropped or not found.summaries or found.dropped[-1].end < found.summaries[0].start
