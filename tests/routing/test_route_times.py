"""The router: which time a question means, and which memory follows from it."""

from __future__ import annotations

from datetime import datetime

import pytest
from asking import NOW, ask

from channelmem.types import Kind, Mode, Source, Window


def test_recent_words_decide_before_a_time_that_belongs_to_the_topic() -> None:
    found = ask("what did alice just say about the meeting on monday")
    assert found.kind is Kind.CHANNEL
    assert found.window == Window(NOW - 1_800, NOW)


def test_the_horizon_is_a_setting() -> None:
    text = "what did bob say an hour ago"
    assert ask(text).kind is Kind.MEMORY
    assert ask(text, horizon_s=7_200.0).kind is Kind.CHANNEL


def test_a_window_that_starts_inside_the_horizon_is_the_channels() -> None:
    assert ask("what did bob say in the last 20 minutes").kind is Kind.CHANNEL
    assert ask("what did bob say in the last 40 minutes").kind is Kind.MEMORY


def test_a_day_is_read_in_the_given_time_zone() -> None:
    tokyo = ask("what did bob say today", tz="Asia/Tokyo").window
    assert tokyo.start == datetime.fromisoformat("2026-03-19T00:00:00+09:00").timestamp()


@pytest.mark.parametrize(
    ("text", "ago_s", "not_ago_s"),
    [
        ("what happened here in the past quarter of an hour", 600, 1_200),
        ("what was posted between 9 and 10 this morning", 6 * 3_600, 4 * 3_600),
        ("what did bob bring up the day before yesterday", 2 * 86_400, 86_400),
        ("summarise today's conversation", 8 * 3_600, 86_400),
    ],
)
def test_windows_of_less_common_expressions(text: str, ago_s: float, not_ago_s: float) -> None:
    window = ask(text).window
    assert window.contains(NOW - ago_s)
    assert not window.contains(NOW - not_ago_s)


@pytest.mark.parametrize(
    ("text", "ago_s"),
    [
        ("which trail did bob suggest last sunday", 3 * 86_400),
        ("what did alice ask for five days ago", 5 * 86_400),
        ("what was on bob's list two evenings ago", 2 * 86_400),
        ("has bob said anything since friday", 2 * 86_400),
        ("has bob posted anything on friday", 5 * 86_400),
        ("who told us the server is down on friday", 5 * 86_400),
        ("i think it was monday, what did alice say", 2 * 86_400),
        ("what did bob say last evening", 20 * 3_600),
        ("what did we decide in the monday meeting", 2 * 86_400),
        ("what did alice write last week or did nobody write", 5 * 86_400),
        ("my phone died for ten min what did yall talk abt", 300),
    ],
)
def test_a_day_gone_by_is_one_whatever_stands_before_it(text: str, ago_s: float) -> None:
    assert ask(text).window.contains(NOW - ago_s)


def test_a_day_that_was_suggested_is_no_time_to_look_at() -> None:
    assert ask("who suggested thursday").kind is Kind.CHANNEL
    assert ask("which pub did bob pick on friday").kind is Kind.MEMORY


@pytest.mark.parametrize(
    "text",
    [
        "is bob fine with taking the saturday shift",
        "did somebody take the sunday dm slot already or is it still free",
        "has alice confirmed for the game on friday",
        "did bob claim the wipe is tonight",
        "how many ppl voted for the 7am slot",
        "bob's answer to q3, what was it again",
    ],
)
def test_a_day_that_belongs_to_what_is_planned_is_no_time_to_look_at(text: str) -> None:
    asked = ask(text)
    assert (asked.kind, asked.window) == (Kind.CHANNEL, Window())


def test_only_what_was_missed_begins_with_the_askers_last_words() -> None:
    assert ask("what did i miss", last_spoke_ts=NOW - 600).missed
    for text in ("catch me up", "tldr", "recap pls", "any decisions?"):
        found = ask(text, last_spoke_ts=NOW - 600)
        assert (found.mode, found.missed, found.sources[0]) == (Mode.RECAP, False, Source.ARCHIVE)


def test_a_long_absence_is_recapped_from_the_archive_first() -> None:
    assert ask("what did i miss", last_spoke_ts=NOW - 90_000).sources[0] is Source.ARCHIVE


def test_before_i_joined_is_memory_that_ends_there() -> None:
    found = ask("what was being discussed here before I joined", joined_ts=NOW - 9_000)
    assert found.kind is Kind.MEMORY
    assert found.window.end == NOW - 9_000


def test_an_old_channel_is_asked_like_a_new_one() -> None:
    """Replayed with its own clock; only a year that was written down is a time before there were channels."""
    then = datetime.fromisoformat("2004-05-04T12:00:00+00:00").timestamp()
    assert ask("earlier bob said something about grub, what was it?", now=then).kind is Kind.CHANNEL
    assert ask("what did bob say yesterday?", now=then).kind is Kind.MEMORY
    assert ask("what happened in 1998?", now=then).kind is Kind.NONE
    assert ask("what happened in 1998?").kind is Kind.NONE
