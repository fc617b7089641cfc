"""Fits which lines of a stretch of talk are worth telling, and measures recaps with whole scenes left out.

    python -m scripts.train_gist               recaps of the scenes in tests/data/scenes, each scene left out in turn
    python -m scripts.train_gist --data DIR    other scenes are measured too, with the weights that are shipped
    python -m scripts.train_gist --write       also prints the weights for channelmem/recalling/gist.py

A row is a recap with all the messages that it could tell. The weights make the lines likely that a member would want in
it, and, with a smaller share, those that are about the same matter.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped]  # (it has no types)

from channelmem import Memory, Settings
from channelmem.recalling import gist
from channelmem.telling import recap
from scripts.eval_scenes import OWN
from scripts.scenes import Expected, Scene, read_scenes, replay

Floats = NDArray[np.float64]
RELATED = 0.25
"""What a line about the same matter counts beside one that is wanted."""
STRENGTH = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    scene: str
    stretch: gist.Stretch
    ids: tuple[str, ...]
    """Of its messages, as the scene has them."""
    want: Expected
    seen: Floats

    @property
    def target(self) -> Floats:
        gold = np.array([one in self.want.gold for one in self.ids], float)
        found: Floats = np.maximum(gold, RELATED * np.array([one in self.want.related for one in self.ids], float))
        return found


async def rows_of(folder: Path) -> list[Row]:
    """Every recap of the scenes with what it could tell."""
    caught: list[gist.Stretch] = []

    def points(stretch: gist.Stretch) -> tuple[gist.Highlight, ...]:
        caught.append(stretch)
        return gist.points(stretch)

    with patch.object(recap, "points", points), tempfile.TemporaryDirectory() as data:
        clock, rows = [0.0], list[Row]()
        async with Memory.open(Settings(data_dir=Path(data), _env_file=None), clock=lambda: clock[0]) as memory:
            for number, scene in enumerate(map(_recaps, read_scenes(folder)), 1):
                async for turn, _, said in replay(memory, scene, (1, number), clock):
                    if turn.expected and caught and caught[-1].messages:
                        stretch = caught.pop()
                        ids = tuple(said[one.id].id for one in stretch.messages)
                        rows.append(Row(scene.name, stretch, ids, turn.expected, gist.features(stretch)))
                    caught.clear()
    return rows


def _recaps(scene: Scene) -> Scene:
    return Scene(scene.name, [one for one in scene.turns if not one.expected or one.expected.kind == "recap"])


def fit(rows: Sequence[Row]) -> Floats:
    """Weights by which the wanted lines of each row are the likeliest."""
    spread = np.vstack([row.seen for row in rows]).std(axis=0) + 1e-6
    data = [(row.seen / spread, row.target / row.target.sum()) for row in rows if row.target.any()]

    def loss(weights: Floats) -> tuple[float, Floats]:
        total, slope = 0.5 * STRENGTH * float(weights @ weights), STRENGTH * weights
        for seen, target in data:
            values = seen @ weights
            chances = np.exp(values - values.max())
            total -= float(target @ (values - values.max() - np.log(chances.sum())))
            slope = slope - seen.T @ (target - chances / chances.sum())
        return total, slope

    found: Floats = minimize(loss, np.zeros(len(spread)), jac=True, method="L-BFGS-B").x / spread
    return found


def told(row: Row, weights: Floats) -> list[str]:
    """The ids of the lines that a recap with these weights tells."""
    with patch.object(gist, "WEIGHTS", dict(zip(gist.WEIGHTS, weights.tolist(), strict=True))):
        shown = {one.message.id for one in gist.points(row.stretch)}
    return [name for name, one in zip(row.ids, row.stretch.messages, strict=True) if one.id in shown]


def report(name: str, rows: Sequence[Row], weights_of: Callable[[Row], Floats]) -> None:
    right = lines = wanted = related = stale = 0
    for row in rows:
        shown = told(row, weights_of(row))
        got = len(set(shown) & set(row.want.gold))
        right, lines, wanted = right + (got >= row.want.least), lines + len(shown), wanted + got
        related += len(set(shown) & set(row.want.related) - set(row.want.gold))
        stale += len(set(shown) & set(row.want.stale))
    print(
        f"{name}: {right} of {len(rows)} recaps right; of {lines} lines {wanted} are wanted, {related} related, "
        f"{stale} stale"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="*", default=[], help="other scenes to measure")
    parser.add_argument("--write", action="store_true", help="print the weights")
    options = parser.parse_args()
    own = asyncio.run(rows_of(OWN))
    left_out = {name: fit([row for row in own if row.scene != name]) for name in {row.scene for row in own}}
    report("own scenes, each left out", own, lambda row: left_out[row.scene])
    shipped = np.array(list(gist.WEIGHTS.values()))
    for folder in options.data:
        report(str(folder), asyncio.run(rows_of(folder)), lambda _: shipped)
    if options.write:
        for name, weight in zip(gist.WEIGHTS, fit(own).tolist(), strict=True):
            print(f'    "{name}": {weight:.2f},')


if __name__ == "__main__":
    main()
