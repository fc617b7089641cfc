"""`channelmem summarise`: what a stretch of conversation comes to; needs no Redis, model or network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import typer

from channelmem.cli.show import print_rows
from channelmem.errors import ChannelmemError
from channelmem.summaries import extractive
from channelmem.summaries.extractive import SUMMARY_CHARS
from channelmem.summaries.pyramid import ClosedWindow
from channelmem.types import LAST_TS, Message

_ROW = '{"id": "a", "messages": [{"author": "Ann", "ts": 1800000000, "text": "hi"}]}'
_MESSAGE = '{"author": "Ann", "ts": 1800000000, "text": "hi"}'


class SummarisedRow(TypedDict):
    id: Any
    summary: str
    topics: list[str]


def summarise(
    file: Annotated[
        Path | None, typer.Argument(help="A file with one JSON row per conversation (default: stdin).")
    ] = None,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Read and write JSON rows; the only format so far.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="The most characters that a summary may have.")] = SUMMARY_CHARS,
) -> None:
    """Summarise conversations: the sentences that say most, with who said them, and what it is about.

    Reads rows {"id", "messages": [{"author", "ts", "text"}]}, where ts is in epoch seconds, and writes rows
    {"id", "summary", "topics"}. Nothing is stored or sent anywhere.

    \b
    Examples:
      channelmem summarise --jsonl conversations.jsonl
      channelmem summarise --jsonl --limit 300 < conversations.jsonl
    """
    if not jsonl:
        raise ChannelmemError("Pass --jsonl: channelmem summarise --jsonl conversations.jsonl")
    print_rows(file, lambda line: summarised(line, limit))


def summarised(line: str, limit: int) -> SummarisedRow:
    """The summary of one JSON row."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ChannelmemError(f"This is not JSON ({error}); use one row per line, such as {_ROW}") from error
    if not isinstance(row, dict) or "id" not in row or not isinstance(row.get("messages"), list):
        raise ChannelmemError(f'Expected an object with "id" and a list "messages", such as {_ROW}')
    messages = _messages(row["messages"])
    if not messages:
        return SummarisedRow(id=row["id"], summary="", topics=[])
    window = ClosedWindow(messages[0].ts, messages[-1].ts, messages)
    made = extractive.summarise(window, created=messages[-1].ts, limit=limit)
    return SummarisedRow(id=row["id"], summary=made.text, topics=list(made.topics))


def _messages(rows: Sequence[object]) -> tuple[Message, ...]:
    people: dict[str, int] = {}
    messages = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise ChannelmemError(f"Message {number} is not an object; use {_MESSAGE}")
        author, text = _string(row, "author", number), _string(row, "text", number)
        person = people.setdefault(author, len(people) + 1)
        messages.append(Message(0, 0, number, person, author, text, _ts(row.get("ts"), number)))
    return tuple(sorted(messages, key=lambda one: (one.ts, one.id)))


def _string(row: Mapping[str, object], name: str, number: int) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise ChannelmemError(f'Message {number} has no string "{name}"; use {_MESSAGE}')
    return value


def _ts(value: object, number: int) -> float:
    # Python counts True as a number; as a time it is a mistake.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LAST_TS:
        hint = "divide milliseconds by 1000" if isinstance(value, int) and value > LAST_TS else "use epoch seconds"
        raise ChannelmemError(f"Message {number} has no valid ts ({value!r}); {hint}, such as 1800000000")
    return float(value)
