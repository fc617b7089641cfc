"""`channelmem summarise` on rows from standard input or a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from channelmem.cli import app
from channelmem.errors import ChannelmemError

SAID = {"author": "Ann", "ts": 1_800_000_000, "text": "the release moves to Friday"}
ROW = {"id": "a", "messages": [SAID]}


def run(*rows: object, options: tuple[str, ...] = ("--jsonl",)) -> Result:
    text = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    return CliRunner().invoke(app, ["summarise", *options], input=text)


def summarised(*rows: object, options: tuple[str, ...] = ("--jsonl",)) -> list[dict[str, Any]]:
    done = run(*rows, options=options)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_row_has_its_summary_and_topics() -> None:
    first, second = summarised(ROW, "", {"id": 7, "messages": []})
    assert first == {"id": "a", "summary": "Ann: the release moves to Friday", "topics": ["release", "moves"]}
    assert second == {"id": 7, "summary": "", "topics": []}


def test_no_summary_exceeds_the_limit() -> None:
    long = {"id": "b", "messages": [{**SAID, "text": f"crate {n} is in Hull."} for n in range(200)]}
    for limit in (1, 20, 300):
        (row,) = summarised(long, options=("--jsonl", "--limit", str(limit)))
        assert len(row["summary"]) <= limit
    assert len(summarised(long)[0]["summary"]) <= 700


def test_messages_may_come_in_any_order() -> None:
    later = {"author": "Bob", "ts": 1_800_000_060.5, "text": "Monday is better"}
    assert summarised({"id": 1, "messages": [later, SAID]}) == summarised({"id": 1, "messages": [SAID, later]})


def test_rows_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(ROW) + "\n")
    assert summarised(options=("--jsonl", str(file)))[0]["id"] == "a"


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("{", "Line 2: This is not JSON"),
        ([], 'Line 2: Expected an object with "id" and a list "messages"'),
        ({"messages": []}, 'Expected an object with "id"'),
        ({"id": 1, "messages": "hi"}, 'a list "messages"'),
        ({"id": 1, "messages": ["hi"]}, "Line 2: Message 1 is not an object; use {"),
        ({"id": 1, "messages": [SAID, {**SAID, "author": None}]}, 'Line 2: Message 2 has no string "author"'),
        ({"id": 1, "messages": [{**SAID, "text": 5}]}, 'Message 1 has no string "text"'),
        ({"id": 1, "messages": [{**SAID, "ts": 1_800_000_000_000}]}, "divide milliseconds by 1000"),
        ({"id": 1, "messages": [{**SAID, "ts": "today"}]}, "has no valid ts ('today'); use epoch seconds"),
        ({"id": 1, "messages": [{**SAID, "ts": True}]}, "has no valid ts (True)"),
        ({"id": 1, "messages": [{**SAID, "ts": float("nan")}]}, "has no valid ts (nan)"),
    ],
)
def test_a_row_that_makes_no_sense_is_one_sentence_with_its_line(row: object, sentence: str) -> None:
    done = run(ROW, row)
    assert isinstance(done.exception, ChannelmemError)
    assert sentence in str(done.exception)
    assert json.loads(done.stdout)["id"] == "a", "rows before it are written"


def test_a_missing_file_and_a_missing_format_say_what_to_do(tmp_path: Path) -> None:
    missing = run(options=("--jsonl", str(tmp_path / "none.jsonl")))
    assert "cannot be read (No such file or directory); check the path" in str(missing.exception)
    assert "Pass --jsonl" in str(run(ROW, options=()).exception)


def test_rows_that_are_no_utf_8_are_one_sentence() -> None:
    done = CliRunner().invoke(app, ["summarise", "--jsonl"], input=b'{"id": "caf\xe9"}\n')
    assert "Standard input is not valid UTF-8" in str(done.exception)
