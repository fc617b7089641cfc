"""A stretch of a channel in a few parts: all of it, in order, each once, within the length."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

import pytest
from conftest import CHANNEL, GUILD, NOW
from hypothesis import given
from hypothesis import strategies as st

from channelmem.summaries.digest import MOST_PARTS, digest, parts_within, told
from channelmem.summaries.extractive import combine, summarise
from channelmem.summaries.pyramid import Summary, closed_windows, pairs
from channelmem.telling.answer import phrasing_of
from channelmem.types import Kind, Message, Mode, Origin, Question, Route

HOUR = 3600.0
QUESTION = Question(GUILD, CHANNEL, 10**9, 9, "Mark", "what happened?", NOW)


def messages(times: list[float]) -> list[Message]:
    texts = ("the oven costs 300 euros", "Bob moved the concert to Friday", "I lost the key in Lyon", "hm", "who pays?")
    return [
        Message(GUILD, CHANNEL, n + 1, n % 3 + 1, ("Ann", "Bob", "Eve")[n % 3], texts[n % 5], ts)
        for n, ts in enumerate(sorted(times))
    ]


def pyramid(said: list[Message], until: float = NOW) -> list[Summary]:
    made = [summarise(window, created=NOW) for window in closed_windows(said, until)]
    while some := pairs(made):
        made += [combine(*pair, created=NOW) for pair in some]
    return made


def lines(said: list[Message], made: list[Summary], limit: int = 1900) -> list[str]:
    phrasing = phrasing_of(QUESTION, Route(Kind.CHANNEL, Mode.RECAP), said, UTC)
    found = digest(made, said, now=NOW, most=parts_within(limit))
    return list(told(found, phrasing, limit, lambda first: f"https://chat.example/{first.id}"))


@given(st.lists(st.floats(NOW - 4 * 86_400, NOW - 1), min_size=1, max_size=120, unique=True), st.floats(0, 86_400))
def test_every_message_is_in_one_part_and_parts_are_in_order(times: list[float], since_s: float) -> None:
    said = messages(times)
    found = digest(pyramid(said, NOW - since_s), said, now=NOW)
    assert 1 <= len(found.parts) <= MOST_PARTS
    assert found.message_count == len(said)
    ends = [end for part in found.parts for end in (part.summary.start, part.summary.end)]
    assert ends == sorted(ends)
    by_id = {one.id: one for one in said}
    for part in found.parts:
        assert part.first is not None
        assert by_id[part.first.id].ts == part.summary.start


@given(
    st.lists(st.floats(NOW - 4 * 86_400, NOW - 1), min_size=1, max_size=60, unique=True), st.sampled_from([900, 1900])
)
def test_the_lines_fit(times: list[float], limit: int) -> None:
    said = messages(times)
    assert sum(len(line) + 1 for line in lines(said, pyramid(said), limit)) <= limit + 1


def test_a_day_is_named_once_and_today_is_said() -> None:
    said = messages([NOW - 30 * HOUR, NOW - 29 * HOUR, NOW - 2 * HOUR, NOW - HOUR])
    heading = lines(said, pyramid(said))[0]
    assert heading == "4 messages from yesterday 02:00 to today 07:00:"
    alone = messages([NOW - HOUR])
    assert lines(alone, [])[0] == "1 message at 07:00:"


@pytest.mark.parametrize("text", ["@everyone come", "<@&5> now", "a ``` b", "“quoted”", "line\nbreak"])
def test_what_people_wrote_has_no_effect(text: str) -> None:
    said = [Message(GUILD, CHANNEL, 1, 1, "Ann\n# Eve", text, NOW - HOUR)]
    shown = "\n".join(lines(said, []))
    assert "@everyone" not in shown
    assert "<@&" not in shown
    assert "```" not in shown
    assert len(shown.splitlines()) == 2


def test_what_a_model_wrote_is_nobodys() -> None:
    said = messages([NOW - 5 * HOUR + 60 * n for n in range(10)])
    made = [one for one in pyramid(said) if one.level == 1]
    written = [replace(one, text="They moved the concert.", lines=(), model="some:model") for one in made]
    shown = "\n".join(lines(said, written))
    assert ": They moved the concert. https://" in shown
    assert "“" not in shown
    assert digest(written, said, now=NOW).parts[0].first == Origin(CHANNEL, 1, 0.0)
