"""Counts what a language model costs that writes summaries: 16 windows of 30 messages, and the pyramid over them.

    python -m scripts.count_summary_tokens --data DIR [--json]

The prompts are the real ones. What the model would write is taken to be as long as it may be: the extractive summary of
the same length stands for it. Tokens are counted twice, because no provider's tokenizer works offline: with MiniLM's
WordPiece, and as one for 3.5 characters, the provider's rule of thumb. The larger sum is priced, at the given prices
per million tokens (by default those of Claude Haiku 4.5).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from channelmem.llm.prompts import Prompt
from channelmem.llm.summariser import MINUTES_CHARS, of_pair, of_window
from channelmem.summaries.extractive import combine, summarise
from channelmem.summaries.pyramid import ClosedWindow, Summary, pairs
from channelmem.telling import budget as tokens
from channelmem.types import Message

WINDOWS, MESSAGES = 16, 30
WINDOW_S = 1_800.0
START = 1_800_000_000.0
CHARS_PER_TOKEN = 3.5
FILES = ("locomo_messages.jsonl", "irc_messages.jsonl", "scenes/messages.jsonl")


@dataclass(frozen=True, slots=True)
class Tokens:
    by_wordpiece: int = 0
    by_length: int = 0

    @classmethod
    def of(cls, text: str) -> Tokens:
        return cls(tokens.count(text), math.ceil(len(text) / CHARS_PER_TOKEN))

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(self.by_wordpiece + other.by_wordpiece, self.by_length + other.by_length)

    @property
    def most(self) -> int:
        return max(self.by_wordpiece, self.by_length)


def windows_of(path: Path) -> list[ClosedWindow]:
    """The first 480 messages of a file as 16 windows, in even steps of time; a shorter file begins anew."""
    with path.open(encoding="utf-8") as rows:
        told = [row for row in map(json.loads, rows) if str(row.get("text") or row.get("content") or "").strip()]
    found = []
    for at in range(WINDOWS):
        some = [told[number % len(told)] for number in range(at * MESSAGES, (at + 1) * MESSAGES)]
        start = START + at * WINDOW_S
        step_s = WINDOW_S / MESSAGES
        messages = tuple(_message(row, at * MESSAGES + i, start + i * step_s) for i, row in enumerate(some))
        found.append(ClosedWindow(start, start + WINDOW_S, messages))
    return found


def _message(row: dict[str, object], number: int, ts: float) -> Message:
    author = str(row.get("author") or row.get("speaker") or "somebody")
    text = str(row.get("text") or row.get("content"))
    return Message(1, 2, number + 1, abs(hash(author)) % 10_000, author, text, ts)


def cost_of(windows: Sequence[ClosedWindow], overlap: int) -> tuple[int, Tokens, Tokens]:
    """Calls, tokens sent and tokens written, over the whole pyramid."""
    read, written, made = Tokens(), Tokens(), list[Summary]()
    calls = 0

    def call(prompt: Prompt, quoting: Summary) -> Summary:
        nonlocal read, written, calls
        calls += 1
        read += Tokens.of(f"{prompt.instructions}\n{prompt.message}")
        written += Tokens.of(quoting.text)
        return replace(quoting, lines=(), model="model")

    for window in windows:
        made.append(call(of_window(window, overlap), summarise(window, created=START, limit=MINUTES_CHARS)))
    while some := pairs(made):
        made += [call(of_pair(*pair), combine(*pair, created=START, limit=MINUTES_CHARS)) for pair in some]
    return calls, read, written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--overlap", type=int, default=7)
    parser.add_argument("--usd-in", type=float, default=1.0)
    parser.add_argument("--usd-out", type=float, default=5.0)
    given = parser.parse_args()
    for name in FILES:
        if not (path := given.data / name).exists():
            print(f"{name}: not there, skipped")
            continue
        calls, read, written = cost_of(windows_of(path), given.overlap)
        usd = (read.most * given.usd_in + written.most * given.usd_out) / 1e6
        row = {"data": name, "calls": calls, "input": read.most, "output": written.most, "usd": round(usd, 4)}
        if given.json:
            print(json.dumps(row))
        else:
            print(f"{name}: {calls} calls, {read.most:,} tokens in, {written.most:,} out, {usd:.4f} USD")
            print(f"  by WordPiece {read.by_wordpiece:,} + {written.by_wordpiece:,}", end="")
            print(f", by length {read.by_length:,} + {written.by_length:,}")


if __name__ == "__main__":
    main()
