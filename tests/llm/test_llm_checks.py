"""The checks of a language model's words: no marks of our prompt, no inventions."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelmem.llm.checks import SECTIONS, TAGS, admits, facts_of, shares_something, visible_part, without_marks
from channelmem.telling import block as assemble

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data" / "llm_outputs.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<answer>Turtles.</answer>", "Turtles."),
        ("</ Channel_Context >Turtles.", "Turtles."),
        ("`<answer>` says turtles", "says turtles"),
        ("<ans<answer>wer>Turtles.", "Turtles."),
        ("Turtles (see <recent_memories> in the message)", "Turtles"),
        ("&lt;question&gt;Turtles.", "Turtles."),
        ("Turtles. <answer", "Turtles."),
        ("[Recent Channel Activity]\n- Mark: turtles [highly relevant]", "- Mark: turtles"),
        ("<contextual_references>Turtles.", "Turtles."),
    ],
)
def test_a_mark_goes_and_its_content_stays(text: str, left: str) -> None:
    assert without_marks(text) == left


@pytest.mark.parametrize(
    "text", ["1 < 2", "I <3 it", "<@42> said so", "see <#7>", "[↗](<https://discord.com/1>)", "[relevant](<u>)", " a "]
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert without_marks(text) == visible_part(text) == text


def test_the_marks_are_those_of_the_context_block() -> None:
    sections = {assemble.AMBIENT, assemble.HITS, assemble.CHAIN, assemble.QUESTION}
    assert {one.strip("[]").lower() for one in sections} <= set(SECTIONS)
    assert assemble.REFERENCES.strip("<>") in TAGS


MARKS = [f"<{name}>" for name in TAGS] + [f"</{name}>" for name in TAGS] + [f"[{name}]" for name in SECTIONS]


@given(st.lists(st.sampled_from([*MARKS, "turtles ", "<", "`", " ", "&lt;", "[", "a < b"]), max_size=8))
def test_no_part_of_a_growing_text_shows_a_mark(parts: list[str]) -> None:
    text = "".join(parts)
    for end in range(len(text) + 1):
        shown = visible_part(text[:end]).lower()
        assert not [mark for mark in MARKS if mark.removesuffix(">") in shown], (text[:end], shown)


@pytest.mark.parametrize(
    "text", ["Yes.", "No!", "I don't know.", "Sorry, nobody mentioned that here.", "I have not seen any such message."]
)
def test_short_and_honest_answers_pass(text: str) -> None:
    assert shares_something(text, "- Ann: the ferry leaves at nine", "what about the budget?")


def test_an_admission_does_not_cover_an_invention() -> None:
    text = "I don't know for sure, but Pete froze hiring until spring."
    assert not shares_something(text, "- Ann: the ferry leaves at nine", "what about the budget?")


def test_scripts_without_spaces_are_compared_by_characters() -> None:
    given = "- 健: 明日の会議は三時からです"
    assert shares_something("会議は三時からだそうです。", given, "いつ?")
    assert not shares_something("猫が魚を食べました。", given, "いつ?")


def test_good_outputs_pass_and_most_inventions_are_caught() -> None:
    passes = [shares_something(row["output"], row["given"], row["question"]) for row in ROWS]
    good = [passed for passed, row in zip(passes, ROWS, strict=True) if row["ok"]]
    invented = [passed for passed, row in zip(passes, ROWS, strict=True) if not row["ok"]]
    assert (len(good), len(invented)) == (24, 16)
    assert all(good)
    assert invented.count(False) >= 12


# --- the same values in other words ---


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("at 6pm", "at 18:00"),
        ("6 pm", "at six"),
        ("half 12", "12:30"),
        ("half past seven", "19.30"),
        ("quarter to three", "2:45pm"),
        ("ten past 4", "16:10"),
        ("noon", "12:00"),
        ("at nine", "9"),
        ("9 o’clock", "09:00"),  # noqa: RUF001  (people type this apostrophe)
    ],
)
def test_a_time_of_day_is_one_time_however_it_is_written(one: str, other: str) -> None:
    written, (clock, *_) = facts_of(other), facts_of(one).clocks
    assert written.tells(clock) or facts_of(one).has_numbers(written.numbers)


@pytest.mark.parametrize(
    ("one", "other"), [("6am", "18:00"), ("half 12", "11:30"), ("at 7", "17:00"), ("noon", "0:00")]
)
def test_another_time_is_another_time(one: str, other: str) -> None:
    (clock,) = facts_of(one).clocks
    assert not facts_of(other).tells(clock)


def test_tomorrow_is_a_day_of_the_week() -> None:
    friday = 1_800_000_000.0
    assert facts_of("postponed to tomorrow", friday).days == facts_of("on Saturday").days == {"sat"}
    assert facts_of("she sat down in the sun").days == frozenset()


def test_how_long_ago_something_was_said_is_no_amount() -> None:
    assert facts_of("Bob said 12 minutes ago (2h ago) that eight of us come").numbers == {"8"}


@pytest.mark.parametrize(
    ("said", "admitted"),
    [
        ("I haven't seen anything about the budget.", True),
        ("Which budget do you mean?", True),
        ("I don't know, but Pete froze hiring until spring.", False),
        ("The budget is huge.", False),
    ],
)
def test_an_admission_claims_nothing_beyond_the_question(said: str, admitted: bool) -> None:
    assert admits(said, "what about the budget?") == admitted
