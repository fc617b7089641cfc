"""Trains the router's probability that a question is about this conversation, and measures it at first sight.

    python -m scripts.train_about             each file left out in turn, then the figures of the shipped weights
    python -m scripts.train_about --write     also writes channelmem/routing/about.npz

Training data: every tests/data/routing_*.jsonl except `final` and `unread`, which nobody has read and which stay
held out, and the questions of tests/data/scenes. No other data is used. The features are those of
`channelmem.routing.about`; scikit-learn fits them, and the rows of the held-out files are never part of a fit.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from channelmem.cli.route import scene_of
from channelmem.routing import about
from channelmem.routing.people import spell
from channelmem.routing.route import read_line
from channelmem.routing.words import read, unaddressed
from channelmem.settings import Settings
from scripts.eval_routing import Row
from scripts.eval_routing import read as read_rows
from scripts.scenes import routing_rows

DATA = Path(__file__).parent.parent / "tests" / "data"
HELD_OUT = ("routing_general_heldout.jsonl", "routing_plain_heldout.jsonl")
WEIGHTS = Path(about.__file__).with_name("about.npz")
FOLDS = 8
"""In so many parts, scenes are left out."""
STRENGTH = 1.0
"""The inverse strength of regularisation; 0.3 and 3 are within half a point on every left-out file."""
OF_THE_WORLD = 2.0
"""What a question counts that is not about the conversation: in the scenes, they are one in four."""
OF_SCENES = 0.2
"""What a question of a scene counts: it shares its words with thirty others, and evidence decides most of them."""
SEEN = 2
"""A gram that fewer rows have is left out."""

WORDS = ("what", "when", "who", "where", "why", "how", "which")
REMINDED = 6
"""Every sixth question about the channel that begins with such a word is trained as a reminder too."""

Grams = set[str]


class Rows(NamedTuple):
    grams: list[Grams]
    about: NDArray[np.bool_]
    reminders: list[Grams]
    """Further rows for training, all of them about the channel."""
    counts: float = 1.0

    @property
    def labels(self) -> NDArray[np.bool_]:
        return np.concatenate([self.about, np.ones(len(self.reminders), bool)])

    @property
    def weights(self) -> NDArray[np.float64]:
        return np.where(self.labels, 1.0, OF_THE_WORLD) * self.counts


class Fitted(NamedTuple):
    columns: DictVectorizer
    model: LogisticRegression

    def p(self, rows: Iterable[Grams]) -> NDArray[np.float64]:
        matrix = self.columns.transform([dict.fromkeys(grams, 1.0) for grams in rows])
        return np.asarray(self.model.predict_proba(matrix)[:, 1])


def grams_of(row: Row, settings: Settings) -> Grams:
    scene = scene_of(row, settings)
    line = spell(unaddressed(read(row["q"], scene.roster.slang), scene.bot), scene)
    said = read_line(line)
    return {*about.grams(*about.classes(line, said.finding)), *about.forms(said.finding, said.recap)}


def reminders(rows: Sequence[Row]) -> list[Row]:
    """What is asked of the channel is as often asked as a reminder, and the sets have few of those."""
    asked = [row for row in rows if row["route"] != "none" and row["q"].lower().startswith(WORDS)]
    return [{**row, "q": f"remind me {row['q'][:1].lower()}{row['q'][1:]}"} for row in asked[::REMINDED]]


def load(rows: Sequence[Row]) -> Rows:
    settings = Settings(_env_file=None)
    return Rows(
        [grams_of(row, settings) for row in rows],
        np.array([row["route"] != "none" for row in rows]),
        [grams_of(row, settings) for row in reminders(rows)],
    )


def sets() -> dict[str, Rows]:
    """Training rows by file (scenes: by scene), and the held-out files."""
    found = {path.name: load(list(read_rows(path))) for path in sorted(DATA.glob("routing_*.jsonl"))}
    scenes = {f"scene {name}": load(rows) for name, rows in routing_rows(DATA / "scenes").items()}
    return found | {name: rows._replace(counts=OF_SCENES) for name, rows in scenes.items()}


def fit(rows: Sequence[Rows]) -> Fitted:
    grams = [one for some in rows for one in (*some.grams, *some.reminders)]
    seen = Counter(gram for one in grams for gram in one)
    columns = DictVectorizer()
    matrix = columns.fit_transform([{gram: 1.0 for gram in one if seen[gram] >= SEEN} for one in grams])
    labels, weights = np.concatenate([one.labels for one in rows]), np.concatenate([one.weights for one in rows])
    model = LogisticRegression(C=STRENGTH, max_iter=3_000).fit(matrix, labels, weights)
    return Fitted(columns, model)


def left_out(training: dict[str, Rows]) -> dict[str, NDArray[np.float64]]:
    """The probabilities of each file by weights that never saw it; some scenes are left out together."""
    scenes = [name for name in training if name.startswith("scene ")]
    parts = [{name} for name in training if name not in scenes] + [set(scenes[at::FOLDS]) for at in range(FOLDS)]
    found: dict[str, NDArray[np.float64]] = {}
    for part in filter(None, parts):
        fitted = fit([rows for name, rows in training.items() if name not in part])
        found |= {name: fitted.p(training[name].grams) for name in sorted(part)}
    return found


def write(fitted: Fitted) -> None:
    names = fitted.columns.get_feature_names_out()
    weights = fitted.model.coef_[0]
    kept = np.flatnonzero(np.abs(weights) >= 0.005)
    grams = "\n".join(str(names[i]) for i in kept).encode()
    np.savez_compressed(
        WEIGHTS,
        grams=np.frombuffer(grams, np.uint8),
        weights=weights[kept].astype(np.float16),
        bias=np.float64(fitted.model.intercept_[0]),
    )


def figures(rows: Rows, p: NDArray[np.float64]) -> dict[str, float | int]:
    mixed = 0 < int(rows.about.sum()) < len(rows.about)
    return {
        "rows": len(p),
        "right": round(float(((p >= 0.5) == rows.about).mean()), 4),
        "auc": round(float(roc_auc_score(rows.about, p)), 4) if mixed else 1.0,
        "brier": round(float(((p - rows.about) ** 2).mean()), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the weights that are shipped")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    options = parser.parse_args()
    every = sets()
    training = {name: rows for name, rows in every.items() if name not in HELD_OUT}
    shipped = fit(list(training.values()))
    told = {name: figures(every[name], p) for name, p in left_out(training).items()}
    told |= {f"{name} (held out)": figures(every[name], shipped.p(every[name].grams)) for name in HELD_OUT}
    rows = sum(int(one["rows"]) for one in told.values())
    right = sum(one["right"] * one["rows"] for one in told.values()) / rows
    if options.json:
        print(json.dumps({"first_sight": round(right, 4), "files": told}))
    else:
        for name, one in told.items():
            print(f"{name:32} " + "  ".join(f"{key} {value}" for key, value in one.items()))
        print(f"first sight, {rows} rows: {100 * right:.1f} %")
    if options.write:
        write(shipped)


if __name__ == "__main__":
    main()
