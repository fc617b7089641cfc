"""Evaluates reply links on annotated IRC: precision, recall and F1 of links, and one-to-one overlap of threads.

    python -m scripts.eval_links --data DIR [--json] [--dump FILE] [--bench]

A link is (message, the message it answers); a message that starts a thread links to itself, as in Kummerfeld et al.
(ACL 2019). One-to-one pairs predicted with annotated threads as well as possible and counts the messages in both. If
the shipped weights were trained on DIR, use `scripts.train_links --cross-validate` for an honest figure. Other
evaluations import `channels`, `messages`, `Score` and `score`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

from channelmem.linking.linker import Linker, Networks
from channelmem.linking.window import SPAN
from channelmem.types import Message

Row = dict[str, Any]
Links = dict[int, int]
"""Message number to the number of the message it answers, or to itself if it starts a thread."""
FILES = ("irc_messages.jsonl", "irc_newdomains_messages.jsonl")


@dataclass(frozen=True, slots=True)
class Score:
    """Percentages over all messages of the channels."""

    precision: float
    recall: float
    f1: float
    one_to_one: float
    messages: int


def channels(path: Path) -> dict[str, list[Row]]:
    """Rows by channel, in order."""
    rows: dict[str, list[Row]] = defaultdict(list)
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            rows[row["channel"]].append(row)
    return dict(rows)


def messages(rows: Iterable[Row], channel_id: int = 1) -> list[Message]:
    """The rows as a channel would deliver them: without reply references, and with mentions as plain text."""
    people: dict[str, int] = {}
    return [
        Message(
            guild_id=1,
            channel_id=channel_id,
            id=row["n"],
            author_id=people.setdefault(row["author"].casefold(), len(people) + 1),
            author=row["author"],
            content=row["text"],
            ts=float(row["ts"]),
        )
        for row in rows
    ]


def answers(row: Row) -> frozenset[int]:
    """The messages that an annotated row answers; itself if none."""
    return frozenset(int(other.rpartition(":")[2]) for other in row["reply_to"]) or frozenset({row["n"]})


def annotated(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if "reply_to" in row]


def best_link(message_id: int, parents: tuple[tuple[int, float], ...]) -> int:
    """The likeliest alternative; "starts a thread" gets the probability that the parents leave."""
    if not parents:
        return message_id
    parent, chance = parents[0]
    return parent if chance >= 1 - sum(share for _, share in parents) else message_id


def score(predicted: Mapping[str, Links], gold: Mapping[str, list[Row]]) -> Score:
    """Scores all channels together, with the same weight for each message."""
    right = given = wanted = paired = 0
    for channel, links in predicted.items():
        rows = annotated(gold[channel])
        right += sum(links[row["n"]] in answers(row) for row in rows)
        given += len(rows)
        wanted += sum(len(answers(row)) for row in rows)
        paired += _paired(_threads(links), {row["n"]: row["thread"] for row in rows})
    precision, recall = right / given, right / wanted
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return Score(_percent(precision), _percent(recall), _percent(f1), _percent(paired / given), given)


def _percent(share: float) -> float:
    return round(100 * share, 1)


def _threads(links: Links) -> dict[int, int]:
    """The connected groups formed by the links: message to group."""
    leader: dict[int, int] = {}

    def find(message: int) -> int:
        while leader.setdefault(message, message) != message:
            message = leader[message]
        return message

    for message, parent in links.items():
        leader[find(message)] = find(parent)
    return {message: find(message) for message in links}


def _paired(predicted: Mapping[int, int], gold: Mapping[int, str]) -> int:
    """Number of messages covered by the best one-to-one pairing of groups."""
    overlap = Counter((predicted[message], thread) for message, thread in gold.items())
    ours = {name: at for at, name in enumerate(dict.fromkeys(name for name, _ in overlap))}
    theirs = {name: at for at, name in enumerate(dict.fromkeys(name for _, name in overlap))}
    table = np.zeros((len(ours), len(theirs)), int)
    for (mine, other), count in overlap.items():
        table[ours[mine], theirs[other]] = count
    return int(table[linear_sum_assignment(table, maximize=True)].sum())


def previous_message(rows: list[Row]) -> Links:
    """The simplest baseline: every message answers the previous one."""
    return {row["n"]: before["n"] for before, row in pairwise(rows) if "reply_to" in row}


def linked(rows: list[Row], networks: Networks | None = None) -> Links:
    """The linker's predictions as the messages arrive."""
    linker = Linker(networks=networks)
    links: Links = {}
    for row, message in zip(rows, messages(rows), strict=True):
        if "reply_to" in row:
            links[message.id] = best_link(message.id, linker.parents(message))
        linker.add(message)
    return links


def evaluate(data: Path, link: Callable[[list[Row]], Links] = linked) -> dict[str, Score]:
    """Scores by file."""
    scores: dict[str, Score] = {}
    for name in FILES:
        if (data / name).exists():
            gold = channels(data / name)
            predicted = {channel: link(rows) for channel, rows in gold.items()}
            scores[name.removesuffix("_messages.jsonl")] = score(predicted, gold)
    return scores


def bench(data: Path, rounds: int = 5) -> dict[str, float]:
    """Microseconds with a full window; the best of several rounds per message, to exclude other load."""
    best = np.min([_timed(data) for _ in range(rounds)], axis=0)
    first = _timed(data)
    return {
        "parents_median_us": round(float(np.median(best[:, 0])), 1),
        "parents_p95_us": round(float(np.percentile(best[:, 0], 95)), 1),
        "parents_and_add_median_us": round(float(np.median(best[:, 1])), 1),
        "parents_median_of_one_round_us": round(float(np.median(first[:, 0])), 1),
    }


def _timed(data: Path) -> NDArray[np.float64]:
    """One row per message: microseconds of `parents`, and of `parents` plus `add`."""
    spent: list[tuple[float, float]] = []
    for rows in channels(data / FILES[0]).values():
        linker = Linker()
        for message in messages(rows):
            begin = time.perf_counter()
            linker.parents(message)
            middle = time.perf_counter()
            linker.add(message)
            end = time.perf_counter()
            if len(linker) == SPAN:
                spent.append(((middle - begin) * 1e6, (end - begin) * 1e6))
    return np.array(spent)


def dump(data: Path, path: Path) -> None:
    """Writes one JSON line per annotated message: its `id` and the predicted parent, or null."""
    with path.open("w", encoding="utf-8") as out:
        files = [data / name for name in FILES if (data / name).exists()]
        for channel, rows in ((c, r) for file in files for c, r in channels(file).items()):
            for message, parent in linked(rows).items():
                answered = None if parent == message else f"{channel}:{parent}"
                out.write(json.dumps({"task": "links", "id": f"{channel}:{message}", "parent": answered}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with the evaluation data")
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")
    parser.add_argument("--dump", type=Path, metavar="FILE", help="write each predicted link as a JSON line")
    parser.add_argument("--bench", action="store_true", help="also time the linker")
    options = parser.parse_args()
    found: dict[str, Any] = {
        "previous message": {name: asdict(s) for name, s in evaluate(options.data, previous_message).items()},
        "linker": {name: asdict(s) for name, s in evaluate(options.data).items()},
    }
    if options.bench:
        found["latency"] = bench(options.data)
    if options.dump:
        dump(options.data, options.dump)
    if options.json:
        print(json.dumps(found))
    else:
        for method, by_file in found.items():
            for name, figures in by_file.items():
                print(f"{method:18} {name:26} {figures}")


if __name__ == "__main__":
    main()
