"""Summaries beside recent messages, as text: without what is told anyway, in order, and within the limit."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from talk import DAY, chat, say

from channelmem.summaries.extractive import combine, summarise
from channelmem.summaries.pyramid import Summary, closed_windows, from_document, pairs, to_document
from channelmem.summaries.reader import PastBlock, past
from channelmem.types import Message

HOUR = 3_600.0
NOW = DAY + 15 * HOUR


def pyramid(messages: list[Message]) -> list[Summary]:
    made = [summarise(window, created=NOW) for window in closed_windows(messages, NOW)]
    while found := pairs(made):
        made += [combine(older, newer, created=NOW) for older, newer in found]
    return made


def told(messages: list[Message], raw: list[Message], start: float | None = None, limit: int = 10_000) -> PastBlock:
    return past(pyramid(messages), raw, start=start, now=NOW, tz=UTC, limit=limit)


DOCUMENTED = [
    say(1, DAY - 6 * HOUR, "the login page fails since the deploy", "Ann"),
    say(2, DAY - 5.9 * HOUR, "rolled the deploy back, login works", "Bob"),
    say(3, DAY + 9 * HOUR, "we decided: release on Friday at 10:00", "Carol"),
    say(4, DAY + 9.1 * HOUR, "then I book room Bristol", "Ann"),
    say(5, DAY + 14.9 * HOUR, "who brings the cake?", "Bob"),
]


def test_the_page_shows_what_is_really_written() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "context.md").read_text(encoding="utf-8")
    assert told(DOCUMENTED, DOCUMENTED[4:]).text in page


def test_a_window_that_is_shown_as_it_was_written_has_no_summary() -> None:
    assert "cake" not in told(DOCUMENTED, DOCUMENTED[4:]).text
    block = told(DOCUMENTED, DOCUMENTED[2:])
    assert "Bristol" not in block.text
    assert [one.message_count for one in block.summaries] == [2]


def test_a_text_that_cannot_be_divided_stays_while_it_has_something_untold() -> None:
    whole = [replace(one, lines=(), model="somebody:else") for one in pyramid(DOCUMENTED[2:4])]
    half = past(whole, DOCUMENTED[2:3], start=None, now=NOW, tz=UTC, limit=10_000)
    assert "Bristol" in half.text
    assert past(whole, DOCUMENTED[2:4], start=None, now=NOW, tz=UTC, limit=10_000).text == ""


def test_a_document_says_everything_there_is_to_know() -> None:
    for one in pyramid(DOCUMENTED):
        assert from_document(to_document(one).encode()) == one


@given(
    st.lists(st.floats(0, 14 * HOUR), min_size=1, max_size=40),
    st.integers(0, 10),
    st.floats(0, 15 * HOUR),
    st.integers(0, 4_000),
)
def test_nothing_is_told_twice_nothing_older_than_the_start_and_never_too_much(
    times: list[float], newest: int, start: float, limit: int
) -> None:
    messages = sorted(chat(DAY + ts for ts in times), key=lambda one: one.ts)
    raw = messages[len(messages) - min(newest, len(messages)) :]
    block = told(messages, raw, DAY + start, limit)
    assert len(block.text) <= limit
    known = {f"the {one.id}th crate ": one for one in messages}
    for words, one in known.items():
        count = block.text.count(words)
        assert count <= 1
        assert not count or (one not in raw and one.ts >= DAY + start)
