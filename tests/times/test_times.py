from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channelmem.routing.words import read
from channelmem.times.calendar import is_date
from channelmem.times.spans import Clue, Moment
from channelmem.times.when import FIGURE, RULES, Rule, find

NOW = datetime.fromisoformat("2026-03-18T15:30:00+00:00").timestamp()  # a Wednesday
HOUR, DAY = 3_600, 86_400


def at(text: str) -> float:
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


def window(text: str, moment: Moment | None = None) -> tuple[float | None, float | None]:
    (found,) = find(text.split(), moment or Moment(NOW))
    return found.span.start, found.span.end


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("yesterday", "2026-03-17T00:00", "2026-03-18T00:00"),
        ("yesterday evening", "2026-03-17T17:00", "2026-03-18T00:00"),
        ("day before yesterday", "2026-03-16T00:00", "2026-03-17T00:00"),
        ("today", "2026-03-18T00:00", "2026-03-18T15:30"),
        ("earlier today", "2026-03-18T00:00", "2026-03-18T15:30"),
        ("this morning", "2026-03-18T04:00", "2026-03-18T12:00"),
        ("last night", "2026-03-17T17:00", "2026-03-18T06:00"),
        ("overnight", "2026-03-17T20:00", "2026-03-18T09:00"),
        ("on monday", "2026-03-16T00:00", "2026-03-17T00:00"),
        ("on wednesday", "2026-03-11T00:00", "2026-03-12T00:00"),
        ("monday morning", "2026-03-16T04:00", "2026-03-16T12:00"),
        ("last friday", "2026-03-13T00:00", "2026-03-14T00:00"),
        ("over the weekend", "2026-03-13T18:00", "2026-03-16T00:00"),
        ("this week", "2026-03-16T00:00", "2026-03-18T15:30"),
        ("last summer", "2025-06-01T00:00", "2025-09-01T00:00"),
        ("last spring", "2025-03-01T00:00", "2025-06-01T00:00"),
        ("in the winter", "2025-12-01T00:00", "2026-03-01T00:00"),
        ("last week", "2026-03-09T00:00", "2026-03-16T00:00"),
        ("last month", "2026-02-01T00:00", "2026-03-01T00:00"),
        ("last year", "2025-01-01T00:00", "2026-01-01T00:00"),
        ("in january", "2026-01-01T00:00", "2026-02-01T00:00"),
        ("in december", "2025-12-01T00:00", "2026-01-01T00:00"),
        ("in 2024", "2024-01-01T00:00", "2025-01-01T00:00"),
        ("on march 3rd", "2026-03-03T00:00", "2026-03-04T00:00"),
        ("on the 3rd of march", "2026-03-03T00:00", "2026-03-04T00:00"),
        ("may 5", "2025-05-05T00:00", "2025-05-06T00:00"),
        ("2026-03-10", "2026-03-10T00:00", "2026-03-11T00:00"),
        ("10.03.2026", "2026-03-10T00:00", "2026-03-11T00:00"),
        ("3/10/2026", "2026-03-10T00:00", "2026-03-11T00:00"),
        ("on the 5th", "2026-03-05T00:00", "2026-03-06T00:00"),
        ("since lunch", "2026-03-18T12:00", "2026-03-18T15:30"),
        ("since 2pm", "2026-03-18T14:00", "2026-03-18T15:30"),
        ("since yesterday", "2026-03-17T00:00", "2026-03-18T15:30"),
        ("at 9:30", "2026-03-18T08:45", "2026-03-18T10:15"),
        ("yesterday at 3pm", "2026-03-17T14:15", "2026-03-17T15:45"),
        ("between monday and tuesday", "2026-03-16T00:00", "2026-03-18T00:00"),
        ("in the last half hour", "2026-03-18T15:00", "2026-03-18T15:30"),
        ("in the last 20 minutes", "2026-03-18T15:10", "2026-03-18T15:30"),
        ("past 3 days", "2026-03-15T15:30", "2026-03-18T15:30"),
        ("last 2h", "2026-03-18T13:30", "2026-03-18T15:30"),
        ("in the last hour and a half", "2026-03-18T14:00", "2026-03-18T15:30"),
        ("between 2 and 3pm", "2026-03-18T14:00", "2026-03-18T15:00"),
        ("between 13:10 and 13:40", "2026-03-18T13:10", "2026-03-18T13:40"),
        ("between noon and 2", "2026-03-18T12:00", "2026-03-18T14:00"),
        ("at half past two", "2026-03-18T13:45", "2026-03-18T15:15"),
        ("around 9 last night", "2026-03-17T20:15", "2026-03-17T21:45"),
        ("at 3 in the morning", "2026-03-18T02:15", "2026-03-18T03:45"),
        ("before lunch", "2026-03-18T00:00", "2026-03-18T12:00"),
        ("before 9 this morning", "2026-03-18T00:00", "2026-03-18T09:00"),
        ("the weekend before last", "2026-03-06T18:00", "2026-03-09T00:00"),
        ("tuesday last week", "2026-03-10T00:00", "2026-03-11T00:00"),
        ("between monday and wednesday last week", "2026-03-09T00:00", "2026-03-12T00:00"),
        ("two fridays ago", "2026-03-06T00:00", "2026-03-07T00:00"),
        ("yesterday or the day before", "2026-03-16T00:00", "2026-03-18T00:00"),
        ("on the first of march", "2026-03-01T00:00", "2026-03-02T00:00"),
        ("on 3/10", "2026-03-10T00:00", "2026-03-11T00:00"),
        ("on 14/03", "2026-03-14T00:00", "2026-03-15T00:00"),
        ("in q4", "2025-10-01T00:00", "2026-01-01T00:00"),
        ("in summer 2025", "2025-06-01T00:00", "2025-09-01T00:00"),
        ("at christmas", "2025-12-23T00:00", "2025-12-28T00:00"),
        ("on new year eve", "2025-12-31T00:00", "2026-01-01T00:00"),
        ("all day", "2026-03-18T00:00", "2026-03-18T15:30"),
    ],
)
def test_words_become_the_span_that_people_mean(text: str, start: str, end: str) -> None:
    assert window(text) == (at(start), at(end))


@pytest.mark.parametrize(
    ("text", "ages_in", "ages_out"),
    [
        ("10 minutes ago", [600], [10, HOUR]),
        ("3 hours ago", [3 * HOUR], [60, DAY]),
        ("two days ago", [2 * DAY], [60, 4 * DAY]),
        ("a week ago", [7 * DAY], [60, 30 * DAY]),
        ("a couple of hours ago", [2 * HOUR], [60, DAY]),
        ("a few days ago", [2 * DAY, 4 * DAY], [60, 30 * DAY]),
        ("an hour and a half ago", [1.5 * HOUR], [60]),
        ("5m ago", [300], [HOUR]),
        ("1h30 ago", [1.5 * HOUR], [600]),
        ("2 or 3 days ago", [2 * DAY, 3 * DAY], [HOUR, 6 * DAY]),
        ("an hour or so ago", [HOUR], [600, DAY]),
        ("four and a half hours ago", [4.5 * HOUR], [600]),
        ("at the start of the week", [1.5 * DAY], [5 * DAY]),
        ("in the first week of march", [14 * DAY], [DAY, 40 * DAY]),
        ("the other day", [2 * DAY, 6 * DAY], [60, 90 * DAY]),
        ("a while back", [2 * DAY, 60 * DAY], [60]),
        ("lately", [DAY, 7 * DAY], [60 * DAY]),
        ("earlier", [600, 2 * HOUR], [DAY]),
    ],
)
def test_vague_words_get_wide_spans(text: str, ages_in: list[float], ages_out: list[float]) -> None:
    start, end = window(text)
    assert start is not None
    assert end is not None
    assert all(start <= NOW - age <= end for age in ages_in)
    assert not any(start <= NOW - age <= end for age in ages_out)


@pytest.mark.parametrize("text", ["tomorrow", "next week", "in 10 minutes", "tonight", "later today", "next friday"])
def test_what_is_to_come_is_future(text: str) -> None:
    assert {found.span.clue for found in find(text.split(), Moment(NOW))} == {Clue.FUTURE}


@pytest.mark.parametrize(
    "text", ["a moment ago", "just now", "right now", "a minute ago", "a few seconds ago", "at the moment"]
)
def test_recent_words_are_recent(text: str) -> None:
    (found,) = find(text.split(), Moment(NOW))
    assert found.span.clue is Clue.RECENT
    assert found.span.end == NOW


@pytest.mark.parametrize(
    "text",
    [
        "around 9 people",
        "the 2nd tip",
        "rate it 3/10",
        "what did bob say",
        "we went",
        "the second point",
        "mark said may be",
        "march on",
    ],
)
def test_no_time_is_read_into_other_words(text: str) -> None:
    assert find(text.split(), Moment(NOW)) == []


def test_a_day_is_the_local_one() -> None:
    start, end = window("yesterday", Moment(NOW, tz="Europe/Berlin"))
    assert (start, end) == (at("2026-03-16T23:00"), at("2026-03-17T23:00"))


def test_a_day_with_a_clock_change_has_23_hours() -> None:
    moment = Moment(at("2026-03-30T10:00"), tz="Europe/Berlin")
    start, end = window("yesterday", moment)
    assert start is not None
    assert end is not None
    assert end - start == 23 * HOUR


def test_before_i_joined_ends_when_the_asker_joined() -> None:
    assert window("before i joined", Moment(NOW, joined_ts=NOW - DAY)) == (None, NOW - DAY)


def test_while_i_was_away_begins_when_the_asker_last_spoke() -> None:
    assert window("while i was away", Moment(NOW, last_spoke_ts=NOW - HOUR)) == (NOW - HOUR, NOW)


def test_an_absence_reaches_back_as_long_as_it_lasted() -> None:
    assert window("i was on a call for 20 minutes") == (NOW - 1_200, NOW)


def test_after_that_runs_to_now() -> None:
    assert window("my phone died 15 minutes ago what was said after that")[1] == NOW


def test_the_running_weekend_counts_but_the_last_one_is_the_one_before() -> None:
    sunday = Moment(at("2026-03-22T11:00"))
    assert window("over the weekend", sunday)[1] == sunday.now
    assert window("last weekend", sunday) == (at("2026-03-13T18:00"), at("2026-03-16T00:00"))


def test_in_the_small_hours_last_evening_is_tonight() -> None:
    assert window("tonight", Moment(at("2026-03-18T01:00"))) == (at("2026-03-17T17:00"), at("2026-03-18T01:00"))


def test_february_29_of_a_year_without_one_is_no_crash() -> None:
    assert find(["february", "29"], Moment(NOW)) == [] or window("february 29")[0] is not None


@pytest.mark.parametrize(
    ("phrase", "dated"), [("in june", True), ("on march 3rd", True), ("yesterday", False), ("last week", False)]
)
def test_a_date_is_told_from_a_distance(phrase: str, dated: bool) -> None:
    assert is_date(phrase) is dated


@pytest.mark.parametrize("rule", RULES, ids=[f"{i}-{rule.handler.__name__}" for i, rule in enumerate(RULES)])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_every_phrase_of_a_rule_has_a_word_that_the_rule_needs(rule: Rule, data: st.DataObject) -> None:
    words = [token.word for token in read(data.draw(st.from_regex(rule.pattern, fullmatch=True)))]
    if rule.pattern.search(" ".join(words)):
        assert not rule.needs.isdisjoint({FIGURE if word[:1].isdecimal() else word for word in words})
