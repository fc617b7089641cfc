"""Asks GateMem's long questions, each after its turn, and looks for what a right answer needs.

    python -m scripts.eval_gatemem --data DIR/gatemem [--json]

A question is answered by its first 1, 3, 5 or 10 hits if all strings that its answer must contain stand in them; no
judge and no language model is needed. The group conversations (rzhub/GateMem, MIT) are not part of this repository.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from channelmem import Answer, Memory, Message, Question, Settings
from scripts.scenes import BOT

Row = dict[str, Any]
FIRST = (1, 3, 5, 10)
ASK_S = 0.5
"""How long after its turn a question is asked."""


def rows(path: Path) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found[row["conv"]].append(row)
    return found


def has_all(text: str, needed: Iterable[str]) -> bool:
    """Some of the needed strings are patterns: "Daniel(?:'s)? access revoked"."""
    text = " ".join(text.lower().split())
    wanted = [" ".join(one.lower().split()) for one in needed]
    return all(one in text or ("(?:" in one and re.search(one, text) is not None) for one in wanted)


async def answers(folder: Path) -> list[tuple[Row, Answer]]:
    asked, found, clock = rows(folder / "questions.jsonl"), list[tuple[Row, Answer]](), [0.0]
    with tempfile.TemporaryDirectory() as data:
        settings = Settings(data_dir=Path(data), archive_days=365, summaries=False, _env_file=None)
        async with Memory.open(settings, clock=lambda: clock[0]) as memory:
            for number, (name, turns) in enumerate(rows(folder / "messages.jsonl").items(), 1):
                questions = defaultdict(list)
                for question in asked[name]:
                    questions[question["after"]].append(question)
                found += await _played(memory, number, turns, questions, clock)
    return found


async def _played(
    memory: Memory, channel: int, turns: list[Row], questions: dict[Any, list[Row]], clock: list[float]
) -> list[tuple[Row, Answer]]:
    people = {name: 1_000 + at for at, name in enumerate(dict.fromkeys(turn["author"] for turn in turns))}
    found = []
    for at, turn in enumerate(turns):
        clock[0], id_ = turn["ts"], (int(turn["ts"] * 1_000) << 22) + at
        author = turn["author"]
        await memory.remember(Message(1, channel, id_, people[author], author, turn["text"], turn["ts"]))
        for row in questions.get(turn["id"], ()):
            await memory.flush()
            asker = people.setdefault(row["asker"], 1_000 + len(people))
            ts = turn["ts"] + ASK_S
            question = Question(1, channel, id_ + (500 << 22), asker, row["asker"], row["question"], ts, bot=BOT)
            found.append((row, await memory.ask(question)))
    return found


def figures(found: list[tuple[Row, Answer]]) -> dict[str, float]:
    count = max(1, len(found))
    shares = {
        f"first {first}": sum(
            has_all("\n".join(hit.message.content for hit in answer.hits[:first]), row["include"])
            for row, answer in found
        )
        for first in FIRST
    }
    shares["without a hit"] = sum(not answer.hits for _, answer in found)
    return {"questions": len(found)} | {name: round(100 * value / count, 1) for name, value in shares.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with messages.jsonl and questions.jsonl")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    if not (options.data / "questions.jsonl").exists():
        parser.error(f"{options.data} has no questions.jsonl")
    told = figures(asyncio.run(answers(options.data)))
    print(
        json.dumps(told) if options.json else "GATEMEM " + ", ".join(f"{name} {value}" for name, value in told.items())
    )


if __name__ == "__main__":
    main()
