"""Measures how much of what answers questions survives a summary, and how long making summaries takes.

    python -m scripts.eval_summaries --data DIR [--json] [--limit 700]

Answer retention: LoCoMo's sessions serve as windows. For each question of categories 1, 2 and 4 and each session of
its evidence: which words of the answer (stemmed, without stop words) do the evidence lines have, and what share of them
does the session's summary keep? Pyramid: the same for questions asked after the last session, over a context of 10,000
characters, once anywhere in it and once in the piece that covers the session ("in place"), against the last 10,000
characters as they were said. Weights were fitted on the first half of the conversations (`FITTED_ON`); the others are
"held out". It needs neither Redis nor a model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from channelmem.summaries.extractive import SUMMARY_CHARS, SentenceWeights, combine, summarise
from channelmem.summaries.pyramid import ClosedWindow, SmartSizes, Summary, closed_windows, pairs
from channelmem.summaries.reader import CONTEXT_CHARS, cover
from channelmem.text import stems
from channelmem.types import Message
from scripts.measure import bench_settings, remove
from scripts.stored_summaries import lasting, replayed_context

FITTED_ON = ("conv-26", "conv-30", "conv-41")
CATEGORIES = (1, 2, 4)
SEEDS = 5
DENSITY = SentenceWeights(other=1.0, time=1.2, name=1.2, settled=1.0, answer=1.0, light=1.0)
"""The simple rule: new rare words per length, with small boosts for first person, times and names."""
ABLATED: dict[str, dict[str, Any]] = {
    "without lighter words": {"light": 1.0},
    "without names": {"name": 1.0},
    "without times": {"time": 1.0},
    "without answers": {"answer": 1.0},
    "without persons": {"own": 1.0, "other": 1.0},
    "without questions": {"question": 1.0},
    "without decisions and numbers": {"settled": 1.0, "number": 1.0},
}
LIVELY = SmartSizes(busy=20, quiet=15)
"""A session has 20 to 30 messages in a quarter of an hour, so the shipped sizes would change nothing here."""
_LATER_S = 60.0


class Place(NamedTuple):
    """A session of a conversation."""

    conversation: str
    session: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Words of an answer that a session's evidence has."""

    place: Place
    words: frozenset[str]


@dataclass(frozen=True, slots=True)
class Data:
    windows: dict[Place, ClosedWindow]
    wanted: list[Wanted]

    def of(self, conversation: str) -> list[ClosedWindow]:
        return [window for place, window in self.windows.items() if place.conversation == conversation]

    @property
    def conversations(self) -> list[str]:
        return sorted({place.conversation for place in self.windows})


def load(folder: Path) -> Data:
    rows: dict[Place, list[dict[str, Any]]] = defaultdict(list)
    for row in _read(folder / "locomo_messages.jsonl"):
        rows[Place(row["conv"], _session(row["id"]))].append(row)
    text = {(place.conversation, row["id"]): row["text"] for place, some in rows.items() for row in some}
    wanted = []
    for row in _read(folder / "locomo_questions.jsonl"):
        if row["category"] not in CATEGORIES:
            continue
        evidence: dict[Place, set[str]] = defaultdict(set)
        for one in row["evidence"]:
            if (said := text.get((row["conv"], one))) is not None:
                evidence[Place(row["conv"], _session(one))].update(stems(said))
        answer = frozenset(stems(str(row["answer"])))
        wanted += [Wanted(place, answer & words) for place, words in evidence.items() if answer & words]
    return Data({place: _window(some) for place, some in rows.items()}, wanted)


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _session(message: str) -> str:
    return message.partition(":")[0]


def _window(rows: Sequence[Mapping[str, Any]]) -> ClosedWindow:
    people = {name: at for at, name in enumerate(dict.fromkeys(row["author"] for row in rows), 1)}
    messages = tuple(
        Message(1, 1, at + round(row["ts"]) * 1000, people[row["author"]], row["author"], row["text"], float(row["ts"]))
        for at, row in enumerate(rows)
    )
    return ClosedWindow(messages[0].ts, messages[-1].ts + 1, messages)


# --- retention of single summaries ---

Summarise = Callable[[ClosedWindow, int], str]


def retention(data: Data, method: Summarise, limit: int) -> dict[str, float]:
    kept = {place: frozenset(stems(_checked(method(one, limit), limit))) for place, one in data.windows.items()}
    return _by_half(data, lambda one: len(one.words & kept[one.place]) / len(one.words))


def _checked(text: str, limit: int) -> str:
    assert len(text) <= limit, f"{len(text)} characters"
    return text


def _by_half(data: Data, share: Callable[[Wanted], float]) -> dict[str, float]:
    shares = [(one.place.conversation in FITTED_ON, share(one)) for one in data.wanted]
    parts = {
        "fitted": [value for fitted, value in shares if fitted],
        "held out": [value for fitted, value in shares if not fitted],
        "all": [value for _, value in shares],
    }
    return {name: round(100 * statistics.fmean(values), 1) for name, values in parts.items() if values}


def _whole_lines(messages: Iterable[Message], limit: int) -> str:
    kept, room = [], limit + 1
    for one in messages:
        if (cost := len(_raw(one)) + 1) <= room:
            kept.append(one)
            room -= cost
    return "\n".join(map(_raw, sorted(kept, key=lambda one: one.ts)))


def _raw(message: Message) -> str:
    return f"{message.author}: {message.content}"


def random_lines(seed: int) -> Summarise:
    def method(window: ClosedWindow, limit: int) -> str:
        shuffled = list(window.messages)
        random.Random(f"{seed} {window.start}").shuffle(shuffled)  # noqa: S311  (a baseline)
        return _whole_lines(shuffled, limit)

    return method


def longest_lines(window: ClosedWindow, limit: int) -> str:
    return _whole_lines(sorted(window.messages, key=lambda one: -len(one.content)), limit)


def extractive(weights: SentenceWeights) -> Summarise:
    return lambda window, limit: summarise(window, created=0.0, limit=limit, weights=weights).text


def retentions(data: Data, limit: int) -> dict[str, dict[str, float]]:
    runs = [retention(data, random_lines(seed), limit) for seed in range(SEEDS)]
    chance = {name: round(statistics.fmean(run[name] for run in runs), 1) for name in runs[0]}
    figures = {
        "random lines": chance,
        "longest lines": retention(data, longest_lines, limit),
        "density rule": retention(data, extractive(DENSITY), limit),
        "extractive, as shipped": retention(data, extractive(SentenceWeights()), limit),
    }
    for name, changed in ABLATED.items():
        figures[f"  {name}"] = retention(data, extractive(replace(SentenceWeights(), **changed)), limit)
    return figures


# --- the pyramid ---


def pyramid(windows: Sequence[ClosedWindow], limit: int = SUMMARY_CHARS) -> list[Summary]:
    """The whole cascade."""
    made = [summarise(window, created=0.0, limit=limit) for window in windows]
    while found := pairs(made):
        made += [combine(older, newer, created=0.0, limit=limit) for older, newer in found]
    return made


@dataclass(frozen=True, slots=True)
class Context:
    """Words of a context, and of its pieces by time."""

    pieces: list[tuple[float, float, frozenset[str]]]

    @property
    def words(self) -> frozenset[str]:
        return frozenset(word for _, _, some in self.pieces for word in some)

    def around(self, window: ClosedWindow) -> frozenset[str]:
        """The words of the pieces that cover any of the window's messages."""
        some = [words for start, end, words in self.pieces if start <= window.messages[-1].ts and end >= window.start]
        return frozenset(word for words in some for word in words)


def raw_context(windows: Sequence[ClosedWindow]) -> Context:
    said = [message for window in windows for message in window.messages]
    kept, room = [], CONTEXT_CHARS + 1
    for message in reversed(said):
        room -= len(_raw(message)) + 1
        if room < 0:
            break
        kept.append((message.ts, message.ts, frozenset(stems(_raw(message)))))
    return Context(kept)


def summary_context(windows: Sequence[ClosedWindow], raw: Sequence[Message] = ()) -> Context:
    now = max(windows[-1].end, *(one.ts for one in raw)) + _LATER_S if raw else windows[-1].end + _LATER_S
    lines = [_raw(one) for one in raw]
    found = cover(pyramid(windows), now=now, tz=UTC, limit=CONTEXT_CHARS - sum(len(line) + 1 for line in lines))
    _checked("\n".join([found.text, *lines]), CONTEXT_CHARS)
    pieces = [(one.start, one.end, frozenset(stems(one.text))) for one in found.summaries]
    return Context(pieces + [(one.ts, one.ts, frozenset(stems(_raw(one)))) for one in raw])


def clock_context(windows: Sequence[ClosedWindow], smart: SmartSizes | None) -> Context:
    """Windows as they are in a channel: on the wall clock, asked a minute after the last message."""
    said = [message for window in windows for message in window.messages]
    now = said[-1].ts + _LATER_S
    closed = closed_windows(said, now, smart=smart)
    covered = {message.id for window in closed for message in window.messages}
    return summary_context(closed, [message for message in said if message.id not in covered])


def stored_context(text: str) -> Context:
    """What `Memory.context` gave, without our own lines: headers, silences, the question."""
    told = text.partition("[question]")[0].splitlines()
    return Context([(0.0, 0.0, frozenset(stems(line))) for line in told if line and not line.startswith("[")])


async def stored(data: Data) -> dict[str, Context]:
    """Each conversation through Redis, as a channel would live it."""
    found = {}
    for name in data.conversations:
        with bench_settings() as settings:
            text = await replayed_context(lasting(settings), [window.messages for window in data.of(name)])
            _checked(text, CONTEXT_CHARS)
            found[name] = stored_context(text)
            await remove(settings)
    return found


def pyramids(data: Data) -> dict[str, dict[str, float]]:
    contexts: dict[str, Callable[[Sequence[ClosedWindow]], Context]] = {
        "last 10,000 raw characters": raw_context,
        "pyramid over sessions": summary_context,
        "pyramid over 30-minute windows": lambda windows: clock_context(windows, None),
        "pyramid over smart windows": lambda windows: clock_context(windows, LIVELY),
    }
    figures: dict[str, dict[str, float]] = {}
    for label, make in contexts.items():
        made = {name: make(data.of(name)) for name in data.conversations}
        everywhere = {name: context.words for name, context in made.items()}
        in_place = {place: made[place.conversation].around(window) for place, window in data.windows.items()}
        placed = _by_half(data, _share_in_place(in_place))
        figures[label] = _by_half(data, _share_of(everywhere)) | {"in place": placed["all"]}
    kept = {name: context.words for name, context in asyncio.run(stored(data)).items()}
    figures["stored, as Memory.context gives it"] = _by_half(data, _share_of(kept))
    first = figures["last 10,000 raw characters"]
    for row in figures.values():
        row["times raw"] = round(row["all"] / first["all"], 2)
    return figures


def _share_of(kept: Mapping[str, frozenset[str]]) -> Callable[[Wanted], float]:
    return lambda one: len(one.words & kept[one.place.conversation]) / len(one.words)


def _share_in_place(kept: Mapping[Place, frozenset[str]]) -> Callable[[Wanted], float]:
    return lambda one: len(one.words & kept[one.place]) / len(one.words)


def show(title: str, figures: Mapping[str, Mapping[str, float]]) -> None:
    columns = list(dict.fromkeys(name for row in figures.values() for name in row))
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    for label, row in figures.items():
        table.add_row(label, *(str(row.get(name, "")) for name in columns))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with locomo_messages.jsonl and _questions.jsonl"
    )
    parser.add_argument("--limit", type=int, default=SUMMARY_CHARS, help="characters of a session's summary")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    if not (given.data / "locomo_messages.jsonl").is_file():
        sys.exit(f"There is no {given.data / 'locomo_messages.jsonl'}; pass the folder that has it with --data.")
    data = load(given.data)
    report: dict[str, Any] = {
        "retention": retentions(data, given.limit),
        "pyramid": pyramids(data),
        "n": len(data.wanted),
    }
    if given.json:
        print(json.dumps(report, indent=2))
        return
    show(f"Answer retention in summaries of {given.limit} characters, % (n = {len(data.wanted)})", report["retention"])
    show("Answer retention in a context of 10,000 characters, %", report["pyramid"])


if __name__ == "__main__":
    main()
