"""Fits how likely the hits answer a question, and measures the decision with whole scenes left out.

    python -m scripts.train_verdict            the figures, each scene left out in turn
    python -m scripts.train_verdict --data DIR other scenes are measured too, with the weights that are shipped
    python -m scripts.train_verdict --write    also prints the weights for channelmem/recalling/verdict.py

Training data: tests/data/scenes. A row is a question with the evidence for its best hits; it counts as answerable if
one of the first hits is what a member would call right. The wording's probability in a row comes from weights that
never saw its scene (scripts/train_about.py), because that is how it will be for a new question.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from channelmem.recalling import recall, verdict
from channelmem.types import Mode
from scripts import train_about
from scripts.eval_scenes import OWN, QUIET, Judged, judged
from scripts.scenes import read_scenes, routing_rows

Floats = NDArray[np.float64]
STRENGTHS = {True: 10.0, False: 1.0}
"""The inverse strength of regularisation: for somebody's own words, and for anybody's."""


@dataclass(frozen=True, slots=True)
class Row:
    judged: Judged
    p: float
    """By wording, from weights that never saw the scene."""
    seen: tuple[float, ...]
    answers: bool
    """Whether quoting the hits would be right."""


async def rows_of(folder: Path) -> list[Judged]:
    """Every question with its best hits, whatever the decision would have been."""
    with patch.object(recall, "judge", lambda *_args, **_kwargs: verdict.Verdict.QUOTE):
        return [row async for row in judged(read_scenes(folder), threshold=-1.0)]


def unseen_p(scenes: Sequence[str]) -> dict[str, dict[str, float]]:
    """By scene and question: the probability from weights trained without that scene."""
    every = train_about.sets()
    training = {name: rows for name, rows in every.items() if name not in train_about.HELD_OUT}
    found: dict[str, dict[str, float]] = {}
    for scene in scenes:
        fitted = train_about.fit([rows for name, rows in training.items() if name != f"scene {scene}"])
        rows = routing_rows(OWN, every=True)[scene]
        found[scene] = dict(zip((row["q"] for row in rows), fitted.p(train_about.load(rows).grams), strict=True))
    return found


def with_features(row: Judged, p: float) -> Row:
    want = row.turn.expected
    assert want
    route = replace(row.answer.route, p=max(p, row.answer.route.p) if row.answer.route.follows else p)
    seen = verdict.features(route, row.answer.evidence) if row.answer.evidence else ()
    return Row(row, route.p, seen, want.kind not in QUIET and row.verdict == "right")


def compared(rows: Sequence[Row], *, somebody: bool) -> list[int]:
    """The places of the rows that are decided by evidence, of one of the two kinds."""
    return [
        place
        for place, row in enumerate(rows)
        if row.seen
        and row.judged.answer.route.mode is Mode.TOPIC
        and verdict.of_somebody(row.judged.answer.route) is somebody
    ]


Models = dict[bool, LogisticRegression]


def fit(rows: Sequence[Row]) -> Models:
    """One model for somebody's own words, one for anybody's."""
    models: Models = {}
    for somebody, strength in STRENGTHS.items():
        some = [rows[place] for place in compared(rows, somebody=somebody)]
        model = LogisticRegression(C=strength, max_iter=2_000)
        models[somebody] = model.fit(np.array([row.seen for row in some]), np.array([row.answers for row in some]))
    return models


def sure(models: Models, rows: Sequence[Row]) -> Floats:
    found = np.array([row.p for row in rows])
    for somebody, model in models.items():
        if places := compared(rows, somebody=somebody):
            found[places] = model.predict_proba(np.array([rows[place].seen for place in places]))[:, 1]
    return found


def score(rows: Sequence[Row], surenesses: Floats, quote: float, ours: float) -> tuple[int, int]:
    """How many decisions are right, and how many of them are right to stay quiet."""
    right = quiet = 0
    for row, value in zip(rows, surenesses, strict=True):
        want = row.judged.turn.expected
        assert want
        shown = bool(row.judged.shown) and value >= quote
        if want.kind in QUIET:
            good = not shown and (want.kind == "either" or (want.kind == "none") == (row.p < ours))
            quiet += good
        else:
            good = shown and row.answers
        right += good
    return right, quiet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="other scenes to measure")
    parser.add_argument("--write", action="store_true", help="print the weights")
    options = parser.parse_args()
    own = asyncio.run(rows_of(OWN))
    names = list(dict.fromkeys(row.scene for row in own))
    known = unseen_p(names)
    rows = [with_features(row, known[row.scene].get(row.turn.text, row.answer.route.p)) for row in own]
    values = np.zeros(len(rows))
    for name in names:
        model = fit([row for row in rows if row.judged.scene != name])
        places = [i for i, row in enumerate(rows) if row.judged.scene == name]
        values[places] = sure(model, [rows[i] for i in places])
    _report("own scenes, each left out", rows, values)
    shipped = fit(rows)
    if options.data:
        others = [with_features(row, row.answer.route.p) for row in asyncio.run(rows_of(options.data))]
        _report(str(options.data), others, sure(shipped, others))
    if options.write:
        for somebody, model in shipped.items():
            weights = tuple(round(float(weight), 2) for weight in model.coef_[0])
            print("_OF_SOMEBODY" if somebody else "_OF_ANYBODY", round(float(model.intercept_[0]), 2), weights)


def _report(name: str, rows: Sequence[Row], values: Floats) -> None:
    answerable = sum(row.answers for row in rows)
    quiet = sum(row.judged.turn.expected is not None and row.judged.turn.expected.kind in QUIET for row in rows)
    auc = roc_auc_score([row.answers for row in rows], values)
    print(f"{name}: {len(rows)} questions, {answerable} answerable by the hits, {quiet} to stay quiet; auc {auc:.4f}")
    for ours in (0.5, 0.6):
        for quote in (0.2, 0.3, 0.4, 0.5, 0.6):
            right, still = score(rows, values, quote, ours)
            print(f"  ours {ours} quote {quote}: right {right} ({right / len(rows):.1%}), quiet {still} of {quiet}")


if __name__ == "__main__":
    main()
