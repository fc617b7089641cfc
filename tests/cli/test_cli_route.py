"""`channelmem route` on rows from standard input."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from channelmem.cli import app
from channelmem.errors import ChannelmemError

QUESTION = "what did Ann say yesterday?"


def run(row: object, *options: str) -> Result:
    return CliRunner().invoke(app, ["route", "--jsonl", *options], input=json.dumps(row) + "\n")


def routed(row: object, *options: str) -> dict[str, Any]:
    done = run(row, *options)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_roster_is_a_list_or_names_separated_by_commas() -> None:
    for roster in (["Bob", "Ann"], "Bob, Ann"):
        assert routed({"q": QUESTION, "roster": roster})["speakers"] == ["ann"]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"q": QUESTION, "roster": 5}, "Line 1: 5 is not a valid roster"),
        ({"q": QUESTION, "roster": {"Ann": 1}}, "is not a valid roster"),
        ({"q": QUESTION, "now": 1_800_000_000_000}, "Line 1: 1800000000000 is not a valid time"),
        ({"q": QUESTION, "now": float("nan")}, "nan is not a valid time"),
        ({"q": QUESTION, "now": "0001-01-01"}, "'0001-01-01' is not a valid time"),
        ({"q": QUESTION, "tz": "Nowhere"}, "Line 1: 'Nowhere' is not a time zone name"),
        ({"q": QUESTION, "now": True}, "True is not a valid time"),
        ({"q": QUESTION, "roster": [None]}, "[None] is not a valid roster"),
        ({"q": QUESTION, "asker": ["Ann"]}, "['Ann'] is not a valid asker"),
        ([QUESTION], 'Line 1: Expected a JSON object with a string "q"'),
        ({"q": None}, 'Line 1: Expected a JSON object with a string "q"'),
        ({"q": 5}, 'with a string "q"'),
    ],
)
def test_a_row_that_makes_no_sense_is_one_sentence_with_its_line(row: object, sentence: str) -> None:
    done = run(row)
    assert isinstance(done.exception, ChannelmemError)
    assert sentence in str(done.exception)


def test_options_stand_in_for_what_a_row_lacks() -> None:
    options = ("--roster", "Ann,Bob", "--asker", "Bob", "--now", "2026-03-18T12:00:00Z", "--tz", "UTC")
    filled = routed({"q": QUESTION}, *options)
    assert filled["speakers"] == ["ann"]
    assert filled == routed(
        {"q": QUESTION, "roster": ["Ann", "Bob"], "asker": "Bob", "now": "2026-03-18T12:00:00Z", "tz": "UTC"}
    )
    own = routed({"q": QUESTION, "now": "2026-03-10T12:00:00Z"}, *options)
    assert own["start"] == filled["start"] - 8 * 86_400


def test_a_question_beside_rows_is_refused() -> None:
    done = run({"q": QUESTION}, "what did Bob say?")
    assert done.exit_code == 2
    assert "--jsonl reads questions from stdin" in " ".join(done.output.split())


def test_a_blank_question_is_none() -> None:
    assert "Pass a question" in str(CliRunner().invoke(app, ["route", "  "]).exception)


def test_half_of_an_emoji_comes_out_as_json() -> None:
    assert routed({"q": "what did Ann say about \ud83d?", "roster": ["Ann"]})["q"] == "what did Ann say about \ud83d?"


def test_rows_that_are_no_utf_8_are_one_sentence() -> None:
    done = CliRunner().invoke(app, ["route", "--jsonl"], input=b'{"q": "caf\xe9"}\n')
    assert isinstance(done.exception, ChannelmemError)
    assert "not valid UTF-8" in str(done.exception)


# --- what people read ---


ASK = ("what did Ann say about the release yesterday?", "--roster", "Ann,Bob", "--now", "2026-03-18T12:00:00Z")


def shown(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["route", *arguments])
    assert done.exit_code == 0, done.output
    return " ".join(done.stdout.split())


def test_a_route_is_told_in_words_and_without_weights() -> None:
    told = shown(*ASK)
    assert told.startswith(
        "It asks for Ann's words about “the release”, yesterday. It is clearly about this channel. route"
    )
    assert "by wording" not in told


def test_verbose_keeps_the_weights() -> None:
    told = shown(*ASK, "--verbose")
    assert told.startswith("It asks for Ann's words")
    assert re.search(r"p \d\.\d\d why p \d\.\d\d by wording: “.+” [+-]\d", told)


def test_json_has_the_words_and_all_that_it_had() -> None:
    found = json.loads(CliRunner().invoke(app, ["route", *ASK, "--json"]).stdout)
    assert set(found) == {"q", "route", "mode", "speakers", "start", "end", "topic", "p", "why", "words"}
    assert found["words"].startswith("It asks for Ann's words about “the release”, yesterday.")
    assert any("by wording" in why for why in found["why"])
    assert routed({"q": ASK[0], "roster": "Ann"})["words"].startswith("It asks for Ann's words")


def test_words_of_people_are_shown_as_typed_and_do_nothing_to_the_terminal() -> None:
    told = shown('who said "[red]paint[/] \x1b[31mjobs"?')
    assert "it asks who wrote “[red]paint[/]" in told
    assert "\x1b" not in told
