"""Evaluates the router: accuracy by kind, speakers and windows, a confusion table, and every miss.

python -m scripts.eval_routing --data DIR        reads DIR/routing_open.jsonl
python -m scripts.eval_routing --file F --hide-misses
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from channelmem.cli.route import as_row, scene_of
from channelmem.routing.route import Scene, route
from channelmem.routing.words import fold
from channelmem.settings import Settings
from channelmem.types import Route

KINDS = ("channel", "memory", "none")


Row = Mapping[str, Any]
"""A row of a routing file; tests/data/README.md describes its fields."""


@dataclass(slots=True)
class Figures:
    rows: int = 0
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    speakers: list[bool] = field(default_factory=list)
    windows: list[bool] = field(default_factory=list)
    baseline: int = 0
    misses: list[str] = field(default_factory=list)


def names(row: Row, found: Route, place: Scene) -> set[str]:
    return {fold(name) for name in as_row(row["q"], found, place)["speakers"]}


def seed_regexes(text: str) -> str:
    """The seed's own rules, word for word: the baseline."""
    if re.search(r"yesterday|last week|last month", text, re.IGNORECASE):
        return "memory"
    if re.search(r"just|earlier|moment ago|a minute", text, re.IGNORECASE):
        return "channel"
    if re.search(r"\bwe\b|\bpeople\b|\byou guys\b", text, re.IGNORECASE):
        return "channel"
    if re.search(r"\bI said|\bI mentioned|\bI told", text, re.IGNORECASE):
        return "memory"
    return "channel"


def window_right(row: Row, found: Route, now: float) -> bool:
    inside = all(found.window.contains(now - age) for age in row.get("in", ()))
    return inside and not any(found.window.contains(now - age) for age in row.get("out", ()))


def judge(rows: Iterable[Row]) -> Figures:
    """Routes every row as `channelmem route --jsonl` does, with default settings."""
    figures, settings = Figures(), Settings(_env_file=None)
    for row in rows:
        place = scene_of(row, settings)
        found = route(row["q"], place)
        _count(figures, row, found, place)
    return figures


def _count(figures: Figures, row: Row, found: Route, place: Scene) -> None:
    figures.rows += 1
    figures.confusion[row["route"], found.kind.value] += 1
    figures.baseline += seed_regexes(row["q"]) == row["route"]
    problems = [] if found.kind == row["route"] else [f"route {found.kind}, right is {row['route']}"]
    if "speakers" in row:
        figures.speakers.append(names(row, found, place) == {fold(name) for name in row["speakers"]})
        if not figures.speakers[-1]:
            problems.append(f"speakers {sorted(names(row, found, place))}, right is {row['speakers']}")
    if "in" in row or "out" in row:
        figures.windows.append(window_right(row, found, place.now))
        if not figures.windows[-1]:
            ages = [None if ts is None else round(place.now - ts) for ts in (found.window.start, found.window.end)]
            problems.append(f"window {ages} s ago, in {row.get('in')} out {row.get('out')}")
    if problems:
        figures.misses.append(f"{row['q']!r}: {'; '.join(problems)}; topic {found.topic!r}; why {found.why}")


def as_json(figures: Figures) -> dict[str, object]:
    right = sum(count for (gold, got), count in figures.confusion.items() if gold == got)
    return {
        "rows": figures.rows,
        "route": round(right / figures.rows, 4),
        "per_kind": {kind: _share(figures, kind) for kind in KINDS},
        "speakers": _mean(figures.speakers),
        "windows": _mean(figures.windows),
        "seed_regex_baseline": round(figures.baseline / figures.rows, 4),
        "confusion": {f"{gold}->{got}": count for (gold, got), count in sorted(figures.confusion.items())},
    }


def _share(figures: Figures, kind: str) -> float | None:
    total = sum(figures.confusion[kind, got] for got in KINDS)
    return round(figures.confusion[kind, kind] / total, 4) if total else None


def _mean(values: list[bool]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def show(figures: Figures, *, hide_misses: bool) -> None:
    numbers = as_json(figures)
    print(f"{figures.rows} questions; route right: {numbers['route']:.1%}")
    print(f"  the seed's literal regexes: {numbers['seed_regex_baseline']:.1%}")
    for kind in KINDS:
        share = _share(figures, kind)
        print(f"  {kind:8} {'-' if share is None else f'{share:.1%}'}")
    print(f"speakers right: {numbers['speakers']} of {len(figures.speakers)} rows that state them")
    print(f"windows right:  {numbers['windows']} of {len(figures.windows)} rows that state them")
    print("right \\ found  " + "".join(f"{kind:>9}" for kind in KINDS))
    for gold in KINDS:
        print(f"{gold:14} " + "".join(f"{figures.confusion[gold, got]:9}" for got in KINDS))
    if not hide_misses:
        print(f"misses: {len(figures.misses)}")
        print("\n".join(f"- {miss}" for miss in figures.misses))


def read(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with routing_open.jsonl")
    parser.add_argument("--file", type=Path, help="a single file of routing rows")
    parser.add_argument("--hide-misses", action="store_true", help="print figures only, to keep held-out rows unread")
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")
    options = parser.parse_args()
    if not options.data and not options.file:
        parser.error("pass --data DIR or --file F")
    figures = judge(read(options.file or options.data / "routing_open.jsonl"))
    if options.json:
        hidden: dict[str, object] = {} if options.hide_misses else {"misses": figures.misses}
        json.dump(as_json(figures) | hidden, sys.stdout, indent=1)
    else:
        show(figures, hide_misses=options.hide_misses)


if __name__ == "__main__":
    main()
