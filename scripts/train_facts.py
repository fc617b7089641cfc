"""Fits what makes a line the answer to a question for a fact, and measures it with whole scenes left out.

    python -m scripts.train_facts                 hit@1 and hit@3 as shipped and refitted, each scene left out in turn
    python -m scripts.train_facts --data DIR      other scenes are measured too, with weights fitted to ours
    python -m scripts.train_facts --write         also prints the weights for channelmem/recalling/rank.py

Training data: the questions of tests/data/scenes that are not about somebody's own words. The model is a softmax over
the candidates of a question: the score of `rank` without `FactWeights`, plus its columns, times a weight each.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped]

from channelmem.recalling import rank as facts
from channelmem.recalling import recall
from channelmem.recalling.candidates import Asked
from channelmem.recalling.choosing import Candidates, Choice, choose
from channelmem.recalling.rank import SHIPPED, rank
from channelmem.store.documents import whole
from channelmem.text import read_lines, text_of
from channelmem.types import Source
from scripts.eval_scenes import OWN, judged
from scripts.scenes import read_scenes

Floats = NDArray[np.float64]
PENALTY = 0.3
NAMES = ("score", *(field.name for field in fields(facts.FactWeights)))
COSINE = NAMES.index("cosine")


@dataclass(frozen=True, slots=True)
class Query:
    scene: str
    seen: Floats
    """One row per candidate: the score without facts, then a column per weight."""
    gold: NDArray[np.bool_]


def columns(candidates: Candidates, cosines: Floats, asked: Asked) -> Floats:
    pool, ask = candidates.pool, asked.query
    plain = rank(replace(pool, cosines=cosines), ask, replace(SHIPPED, facts=None)).rank
    covered = candidates.ranking.present @ candidates.ranking.share
    now = None if ask.speakers else ask.now
    lines = read_lines(list(map(text_of, pool.messages)))
    seen = facts.fact_columns(pool.messages, lines, covered, candidates.ranking.replies, ask.wants, now)
    table = np.vstack([plain, seen]).T
    table[:, COSINE] = np.nan_to_num(cosines, nan=0.0)
    return np.asarray(table[np.asarray(candidates.allowed, bool)])


async def queries(folder: Path) -> list[Query]:
    """Every question for a fact, with the candidates of the last source that was asked."""
    last: list[tuple[Candidates, Floats, Asked]] = []
    found: list[Query] = []

    def watched(candidates: Candidates, cosines: Floats, asked: Asked, now: float, source: Source) -> Choice:
        last.append((candidates, cosines, asked))
        return choose(candidates, cosines, asked, now, source)

    with patch.object(recall, "choose", watched), patch.object(recall, "ENOUGH", 2.0):
        async for row in judged(read_scenes(folder)):
            want = row.turn.expected
            if last and want and want.kind == "quote" and not last[-1][2].route.of_somebody:
                found += _query(row.scene, last[-1], set(_texts(folder, want.gold)))
            last.clear()
    return found


def _texts(folder: Path, gold: Sequence[str]) -> list[tuple[str, str]]:
    return [(turn.author, turn.text) for scene in read_scenes(folder) for turn in scene.turns if turn.id in gold]


def _query(scene: str, last: tuple[Candidates, Floats, Asked], gold: set[tuple[str, str]]) -> list[Query]:
    candidates = last[0]
    allowed = [whole(one) for one, ok in zip(candidates.pool.messages, candidates.allowed, strict=True) if ok]
    wanted = np.array([(one.author, one.content) in gold for one in allowed], bool)
    return [Query(scene, columns(*last), wanted)] if wanted.any() else []


def fit(some: Sequence[Query]) -> Floats:
    def loss(weights: Floats) -> tuple[float, Floats]:
        total, slope = PENALTY * float(weights @ weights), 2 * PENALTY * weights
        for query in some:
            scores = query.seen @ weights
            chances = np.exp(scores - scores.max())
            chances /= chances.sum()
            right = float(chances[query.gold].sum()) + 1e-12
            total -= float(np.log(right))
            slope = slope - query.seen.T @ (np.where(query.gold, chances, 0.0) / right - chances)
        return total, slope

    return np.asarray(minimize(loss, np.zeros(len(NAMES)), jac=True, method="L-BFGS-B").x)


def shipped() -> Floats:
    return np.array([1.0, *(getattr(facts.FactWeights(), name) for name in NAMES[1:])])


def hits(some: Sequence[Query], weights: Floats) -> NDArray[np.int64]:
    """How many questions have a gold message first, and among the first three."""
    places = [int(np.argmax(query.gold[np.argsort(-(query.seen @ weights))])) for query in some]
    return np.array([sum(place < 1 for place in places), sum(place < 3 for place in places)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="other scenes to measure")
    parser.add_argument("--write", action="store_true", help="print the weights")
    options = parser.parse_args()
    own = asyncio.run(queries(OWN))
    none = np.array([1.0, *[0.0] * (len(NAMES) - 1)])
    unseen = np.zeros(2, np.int64)
    for scene in dict.fromkeys(query.scene for query in own):
        weights = fit([query for query in own if query.scene != scene])
        unseen = unseen + hits([query for query in own if query.scene == scene], weights)
    fitted = fit(own)
    print(
        f"own scenes, {len(own)} questions: without {hits(own, none)}, shipped {hits(own, shipped())}, unseen {unseen}"
    )
    if options.data:
        others = asyncio.run(queries(options.data))
        figures = f"without {hits(others, none)}, shipped {hits(others, shipped())}, refitted {hits(others, fitted)}"
        print(f"{options.data}, {len(others)} questions: {figures}")
    if options.write:
        for name, weight in zip(NAMES[1:], fitted[1:] / fitted[0], strict=True):
            print(f"    {name}: float = {weight:.2f}")


if __name__ == "__main__":
    main()
