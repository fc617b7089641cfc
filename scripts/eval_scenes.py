"""Answers the questions of invented channels end to end, and counts what a member would call right.

    python -m scripts.eval_scenes                        the scenes in tests/data/scenes
    python -m scripts.eval_scenes --data DIR/scenes      others of the same kind (skipped if they are not there)
    python -m scripts.eval_scenes --misses               with every miss: what was wanted, what was answered, and why

Right: a gold message is among the first three quotes and the required words are there; an honest no that quotes
nothing; a question that is none of our business left alone. A guess ("Perhaps") about something that nobody said counts
as partly right, a correction that is missed as wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from channelmem import Answer, Kind, Memory, Settings
from scripts.scenes import Expected, Scene, Turn, quoted, read_scenes, replay

OWN = Path(__file__).parent.parent / "tests" / "data" / "scenes"
GUESS = "Perhaps"
NEAR = 3
"""A gold message must be among this many first quotes."""
QUIET = ("none", "no", "either")
"""What must not be answered with a quote."""


@dataclass(frozen=True, slots=True)
class Judged:
    scene: str
    turn: Turn
    answer: Answer
    shown: tuple[str, ...]
    verdict: str
    """right, partly or wrong."""
    fault: str = ""


def judge(  # noqa: PLR0911  (one return per verdict)
    want: Expected, answer: Answer, shown: Sequence[str]
) -> tuple[str, str]:
    """Verdict and fault."""
    none = answer.route.kind is Kind.NONE
    if want.kind in QUIET:
        return _quiet(want, answer, shown, none=none)
    if not shown:
        return "wrong", "false none" if none else "false nothing"
    gold = set(want.gold)
    if want.kind == "recap":
        got = len(gold.intersection(shown))
        return ("right", "") if got >= want.least else ("partly", "thin recap") if got else ("wrong", "false quote")
    if gold.intersection(shown[:NEAR]) and all(word.lower() in answer.text.lower() for word in want.must):
        return "right", ""
    if gold.intersection(shown):
        return "partly", "text" if gold.intersection(shown[:NEAR]) else "gold too deep"
    if set(want.stale).intersection(shown):
        return "wrong", "stale quote"
    if set(want.related).intersection(shown[:NEAR]):
        return "partly", "only related"
    return "wrong", "guess" if answer.text.startswith(GUESS) else "false quote"


def _quiet(want: Expected, answer: Answer, shown: Sequence[str], *, none: bool) -> tuple[str, str]:
    if want.kind == "none":
        return ("right", "") if none and not shown else ("wrong", "false quote") if shown else ("partly", "looked")
    if want.kind == "no" and none:
        return "wrong", "false none"
    if not shown:
        return "right", ""
    return ("partly", "guess") if answer.text.startswith(GUESS) else ("wrong", "false quote")


async def judged(
    scenes: Iterable[Scene], force: Kind | None = None, threshold: float | None = None
) -> AsyncIterator[Judged]:
    """Every question of the scenes, in a channel of its own that is deleted afterwards."""
    clock = [0.0]
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder), _env_file=None)
        if threshold is not None:
            settings = settings.model_copy(update={"semantic_threshold": threshold})
        async with Memory.open(settings, clock=lambda: clock[0]) as memory:
            for number, scene in enumerate(scenes, 1):
                async for turn, answer, said in replay(memory, scene, (1, number), clock, force):
                    shown = tuple(quoted(answer.text, said.values()))
                    assert turn.expected
                    yield Judged(scene.name, turn, answer, shown, *judge(turn.expected, answer, shown))
                await memory.delete_channel(1, number)


def figures(rows: Sequence[Judged]) -> dict[str, object]:
    verdicts = Counter(row.verdict for row in rows)
    quiet = [row for row in rows if row.turn.expected and row.turn.expected.kind in QUIET]
    return {
        "questions": len(rows),
        "right": verdicts["right"],
        "share": round(verdicts["right"] / max(1, len(rows)), 4),
        "partly": verdicts["partly"],
        "wrong": verdicts["wrong"],
        "quiet": len(quiet),
        "quiet_right": sum(row.verdict == "right" for row in quiet),
        "faults": dict(Counter(row.fault for row in rows if row.fault).most_common()),
    }


def table(rows: Sequence[Judged]) -> None:
    groups: dict[str, list[Judged]] = defaultdict(list)
    for row in rows:
        groups[row.turn.group].append(row)
    print(f"{'class':16}   n right partly wrong  faults")
    for name in sorted(groups):
        told = Counter(row.verdict for row in groups[name])
        faults = Counter(row.fault for row in groups[name] if row.fault)
        counts = f"{len(groups[name]):3} {told['right']:5} {told['partly']:6} {told['wrong']:5}"
        print(f"{name:16} {counts}  {', '.join(f'{fault} {count}' for fault, count in faults.most_common())}")


def show_miss(row: Judged, texts: dict[str, str]) -> None:
    want, route = row.turn.expected, row.answer.route
    assert want
    print(f"\n[{row.verdict}: {row.fault}] {row.turn.id} ({row.turn.group}) {row.turn.author}: {row.turn.text}")
    print(f"   want {want.kind}: " + " | ".join(texts[gold] for gold in want.gold[:3]))
    print("   got  " + row.answer.text.replace("\n", "\n        "))
    print(
        f"   {route.kind}/{route.mode} topic={route.topic!r} who={[one.name for one in route.speakers]} p={route.p:.2f}"
    )
    print(f"   sure={row.answer.sure:.2f} {row.answer.evidence} why={route.why}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=OWN, help="folder of scenes")
    parser.add_argument("--misses", action="store_true", help="show every answer that is not right")
    parser.add_argument("--scene", help="only this scene")
    parser.add_argument("--group", help="only questions of this class are shown and counted")
    parser.add_argument("--force", type=Kind, help="set the route's kind, to see what recall alone would do")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    options = parser.parse_args()
    if not options.data.is_dir():
        print(f"Skipped: there are no scenes in {options.data}.")
        return
    scenes = [scene for scene in read_scenes(options.data) if options.scene in (None, scene.name)]
    rows = asyncio.run(_all(scenes, options.force))
    rows = [row for row in rows if options.group in (None, row.turn.group)]
    if options.json:
        print(json.dumps(figures(rows)))
        return
    texts = {turn.id: f"{turn.author}: {turn.text}" for scene in scenes for turn in scene.turns}
    for row in rows if options.misses else ():
        if row.verdict != "right":
            show_miss(row, texts)
    table(rows)
    print(" ".join(f"{name}={value}" for name, value in figures(rows).items()))


async def _all(scenes: Sequence[Scene], force: Kind | None) -> list[Judged]:
    return [row async for row in judged(scenes, force)]


if __name__ == "__main__":
    main()
