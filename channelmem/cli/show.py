"""Output shared by the commands: answers, JSON, and the progress of a model export."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import tzinfo
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from channelmem.display import json_text, visible
from channelmem.errors import ChannelmemError
from channelmem.telling.explanation import explanation, searched
from channelmem.types import Answer, Question


class ModelProgress(Progress):
    """A progress bar for the first model export; the embedder calls it with (stage, fraction), or not if cached."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        super().__init__(*columns, console=console, transient=True)
        self._task = self.add_task("", total=1.0, visible=False)

    def __call__(self, stage: str, fraction: float) -> None:
        self.update(self._task, description=stage, completed=fraction, visible=True)


def to_json(value: object, indent: int | None = None) -> str:
    """JSON that stdout can encode: readable if possible, else ASCII-escaped (lone surrogates, ASCII terminals)."""
    readable = json_text(json.dumps(value, indent=indent, ensure_ascii=False))
    try:
        readable.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return readable


def print_rows(file: Path | None, answer: Callable[[str], object]) -> None:
    """Answers JSON rows of a file or of standard input, one by one; an error names its line."""
    for number, line in enumerate(_lines(file), 1):
        if not line.strip():
            continue
        try:
            row = answer(line)
        except ChannelmemError as error:
            raise ChannelmemError(f"Line {number}: {error}") from error
        print(to_json(row))


def _lines(file: Path | None) -> Iterator[str]:
    name = "Standard input" if file is None else str(file)
    try:
        with nullcontext(sys.stdin) if file is None else file.open(encoding="utf-8") as lines:
            yield from lines
    except UnicodeDecodeError as error:
        raise ChannelmemError(f"{name} is not valid UTF-8; convert it first, for example with iconv.") from error
    except OSError as error:
        raise ChannelmemError(f"{name} cannot be read ({error.strerror}); check the path.") from error


def explain(console: Console, question: Question, answer: Answer, tz: tzinfo, *, verbose: bool = False) -> None:
    """Prints how the question was understood, the best hits with scores, the sources tried, and the timing. `verbose`:
    with the weights behind the route."""
    _aside(console, "route", explanation(question, answer.route, tz))
    if verbose:
        _aside(console, "clues", "; ".join(answer.route.why))
    for hit in answer.hits[:3]:
        cosine = "" if hit.similarity is None else f" (cosine {hit.similarity:.2f})"
        _aside(console, "hit", f"{hit.score:.2f}{cosine} {hit.message.author}: {hit.message.content}")
    for looked in answer.tried:
        _aside(console, "tried", searched(question, looked, tz))
    ms = answer.ms
    stages = f"route {ms.route:.2f}, embed {ms.embed:.2f}, search {ms.search:.2f}"
    _aside(console, "time", f"{ms.total:.1f} ms ({stages})")


def _aside(console: Console, name: str, text: str) -> None:
    console.print(Text(f"     {name:<6} {visible(text)}", "dim"), soft_wrap=True)
