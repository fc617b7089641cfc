"""Fits which line answers a question and whether it does, and measures both with whole scenes left out.

    python -m scripts.train_answers              figures at first sight
    python -m scripts.train_answers --data DIR   the same for other scenes, with weights fitted to ours
    python -m scripts.train_answers --write      also writes channelmem/recalling/answering.npz

Training data: the questions of tests/data/scenes, each with the candidates that recall found. A network is trained on
whole lists (the softmax of a list should be where the answers are), then two logistic regressions on what it says about
scenes it has not seen: does the best line answer? Each answered question is shown once more without its answers, as one
that nobody can answer. What depends on wording alone comes from fits without the scene, too.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression

from channelmem.cli.route import scene_of
from channelmem.embedding.embed import open_embedder
from channelmem.recalling import answering, recall
from channelmem.recalling.answering import FAR, LINES, QUESTIONS, ClueReader, Clues, Logistic, Trees, odds, of_any
from channelmem.recalling.candidates import Asked, Topic, vector_of
from channelmem.recalling.choosing import Candidates, Choice, choose, clues_of, read_candidates
from channelmem.recalling.rank import SHIPPED, Pool, without_names
from channelmem.recalling.verdict import GUESS
from channelmem.routing.route import FOLLOWS_ODDS, route
from channelmem.settings import Settings
from channelmem.store.documents import whole
from channelmem.types import Route, Source
from scripts import train_about
from scripts.eval_routing import read as read_rows
from scripts.eval_scenes import OWN, QUIET, judged
from scripts.scenes import Scene, Turn, read_scenes, routing_rows

Floats = NDArray[np.float64]
HIDDEN, DROP, DECAY, EPOCHS, RATE, BATCH = 16, 0.2, 0.3, 30, 4e-3, 64
NETWORKS = 3
FOLDS = 5
WORDING = QUESTIONS.index("wording")
SOUNDS = 10.0
"""The inverse strength of regularisation for what the vector of a question tells."""
UNANSWERED, MISSED = 0.02, 0.1
"""What a question without its answers counts, and one whose best line is wrong: it should not be shown either, but
whether it is changes nothing for whoever asks."""
TREES = {"n_estimators": 80, "min_samples_leaf": 6, "max_depth": 10, "max_features": 0.3, "random_state": 1}
OURS = 0.05
WEIGHTS = Path(answering.__file__).with_name("answering.npz")


@dataclass(slots=True)
class List:
    """A question with its candidates."""

    scene: str
    turn: Turn
    route: Route
    clues: Clues
    gold: NDArray[np.bool_]
    fine: NDArray[np.bool_]
    """Gold, or related."""
    vector: NDArray[np.float32] | None
    bare: bool = False
    """Without its answers."""
    sounds: float = 0.0

    @property
    def kind(self) -> str:
        assert self.turn.expected
        return self.turn.expected.kind

    @property
    def quiet(self) -> bool:
        return self.bare or self.kind in QUIET

    def answered_by(self, values: Floats) -> bool:
        """Whether the best line answers."""
        return not self.quiet and bool(self.gold[np.argmax(values)])


async def lists(scenes: Sequence[Scene]) -> list[List]:
    """Every question that compares lines, with the candidates of each source that was searched. Somebody's own words
    are ranked without the network, but it learns from them."""
    found: list[tuple[Candidates, Floats, Asked, NDArray[np.float32] | None]] = []
    vectors: list[NDArray[np.float32] | None] = []

    async def sounds(topic: Topic, asked: Route) -> float:
        vectors.append(None if asked.binds else await vector_of(topic))
        return 0.0

    def watched(candidates: Candidates, cosines: Floats, asked: Asked, now: float, source: Source, _: float) -> Choice:
        found.append((candidates, cosines, asked, vectors[-1]))
        try:
            return choose(candidates, cosines, asked, now, source)
        except (ValueError, FileNotFoundError):  # no weights yet, or for other clues
            return Choice()

    every: list[List] = []
    by_text = {scene.name: {(one.author, one.text): one.id for one in scene.turns} for scene in scenes}
    with (
        patch.object(recall, "choose", watched),
        patch.object(recall, "_sounds", sounds),
        patch.object(recall, "ENOUGH", 2.0),
    ):
        async for row in judged(scenes):
            if row.turn.expected and row.turn.expected.kind != "recap":
                for one in found[:2]:
                    every += _lists(row.scene, row.turn, by_text[row.scene], *one)
            found.clear()
    return every


def _lists(
    scene: str, turn: Turn, ids: dict[tuple[str, str], str], candidates: Candidates, cosines: Floats, asked: Asked,
    vector: NDArray[np.float32] | None,
) -> Iterable[List]:  # fmt: skip
    want = turn.expected
    assert want
    known = [ids.get((one.author, one.content), "") for one in map(whole, candidates.pool.messages)]
    whole_list = _list(scene, turn, known, candidates, cosines, asked, vector)
    if not len(whole_list.clues.places) or (want.kind == "quote" and not whole_list.gold.any()):
        return
    yield whole_list
    if want.kind == "quote":
        dice = random.Random(turn.id)  # noqa: S311
        gone = {*want.gold, *want.stale, *(want.related if dice.random() < 0.5 else ())}
        kept = [place for place, one in enumerate(known) if one not in gone]
        if kept:
            messages = [candidates.pool.messages[place] for place in kept]
            pool = Pool(messages, candidates.pool.cosines[kept], candidates.pool.counts, candidates.pool.total)
            bare = read_candidates(pool, asked, SHIPPED)
            made = _list(scene, turn, [known[place] for place in kept], bare, cosines[kept], asked, vector)
            if len(made.clues.places):
                made.bare = True
                yield made


def _list(
    scene: str, turn: Turn, known: Sequence[str], candidates: Candidates, cosines: Floats, asked: Asked,
    vector: NDArray[np.float32] | None,
) -> List:  # fmt: skip
    want, question, pool = turn.expected, asked.question, candidates.pool
    assert want
    reader = ClueReader(pool, candidates.ranking, question.text, asked.route, question.asker_id, question.ts)
    clues = clues_of(reader, candidates, candidates.ranking.scores(cosines), asked)
    here = [known[place] for place in clues.places.tolist()]
    gold = np.array([one in want.gold for one in here], bool)
    fine = gold | np.array([one in want.related for one in here], bool)
    return List(scene, turn, asked.route, clues, gold, fine, vector)


# --- what the wording tells, without the scene ---


def folds(scenes: Iterable[str]) -> list[set[str]]:
    names = sorted(set(scenes))
    random.Random(1).shuffle(names)  # noqa: S311
    return [set(names[at::FOLDS]) for at in range(FOLDS)]


def wording(folder: Path, fitted: Sequence[tuple[set[str], train_about.Fitted]]) -> dict[str, float]:
    """The probability by wording of each question, by the fit that did not see its scene."""
    settings, found = Settings(_env_file=None), dict[str, float]()
    rows = routing_rows(folder, every=True)
    for scene in read_scenes(folder):
        fit = next(one for unseen, one in fitted if not unseen or scene.name in unseen)
        chances = fit.p([train_about.grams_of(row, settings) for row in rows[scene.name]])
        found |= dict(zip((turn.id for turn in scene.questions), chances.tolist(), strict=True))
    return found


def about_fits(unseen: Sequence[set[str]]) -> list[tuple[set[str], train_about.Fitted]]:
    every = {name: rows for name, rows in train_about.sets().items() if name not in train_about.HELD_OUT}
    return [
        (left, train_about.fit([rows for name, rows in every.items() if name.removeprefix("scene ") not in left]))
        for left in unseen
    ]


async def labelled_vectors(embedder: Any) -> tuple[Floats, NDArray[np.bool_]]:
    """The questions of the routing sets as recall embeds them."""
    settings, texts, labels = Settings(_env_file=None), [], []
    for path in sorted(train_about.DATA.glob("routing_*.jsonl")):
        if path.name in train_about.HELD_OUT:
            continue
        for row in read_rows(path):
            routed = route(row["q"], scene_of(row, settings))
            if not routed.binds:
                texts.append(without_names(row["q"], routed))
                labels.append(row["route"] != "none")
    vectors = [await embedder.embed_messages(texts[at : at + 64]) for at in range(0, len(texts), 64)]
    return np.concatenate(vectors).astype(float), np.array(labels)


def sounding(vectors: Floats, labels: NDArray[np.bool_], some: Sequence[List]) -> Floats:
    """Weights and bias over the vector of a question; questions that may be either are left out."""
    rows = [
        one
        for one in some
        if one.vector is not None and not one.bare and one.turn.expected and one.turn.expected.kind != "either"
    ]
    x = np.concatenate([vectors, *([np.array([one.vector for one in rows], float)] if rows else [])])
    y = np.concatenate(
        [labels, np.array([one.turn.expected.kind != "none" for one in rows if one.turn.expected], bool)]
    )
    model = LogisticRegression(C=SOUNDS, max_iter=2_000).fit(x, y)
    return np.append(model.coef_[0], model.intercept_[0])


# --- the network ---


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.of_line, self.of_question = (
            torch.nn.Linear(len(LINES), HIDDEN),
            torch.nn.Linear(len(QUESTIONS), HIDDEN, bias=False),
        )
        self.out, self.direct = torch.nn.Linear(HIDDEN, 1, bias=False), torch.nn.Linear(len(LINES), 1, bias=False)
        self.drop = torch.nn.Dropout(DROP)

    def forward(self, lines: torch.Tensor, asked: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.of_line(lines) + self.of_question(asked)[:, None, :])
        values: torch.Tensor = (self.direct(lines) + self.out(self.drop(hidden))).squeeze(2)
        return values.masked_fill(~there, -30.0)


def _scale(values: Floats) -> tuple[Floats, Floats]:
    return values.mean(axis=0), values.std(axis=0) + 1e-5


def fit_network(some: Sequence[List], seeds: int) -> dict[str, Any]:
    """Several small networks side by side, as one."""
    some = [one for one in some if not one.quiet]
    size = max(len(one.gold) for one in some)
    line_mean, line_spread = _scale(np.concatenate([one.clues.lines for one in some]))
    asked_mean, asked_spread = _scale(np.array([one.clues.asked for one in some]))
    lines, gold, there = np.zeros((len(some), size, len(LINES))), *np.zeros((2, len(some), size), bool)
    for at, one in enumerate(some):
        lines[at, : len(one.gold)] = np.clip((one.clues.lines - line_mean) / line_spread, -FAR, FAR)
        gold[at, : len(one.gold)], there[at, : len(one.gold)] = one.gold, True
    asked = np.clip((np.array([one.clues.asked for one in some]) - asked_mean) / asked_spread, -FAR, FAR)
    x, q = torch.tensor(lines, dtype=torch.float32), torch.tensor(asked, dtype=torch.float32)
    g, t = torch.tensor(gold), torch.tensor(there)
    nets = [_trained(x, q, g, t, seed) for seed in range(seeds)]
    return {
        "line_mean": line_mean, "line_spread": line_spread, "asked_mean": asked_mean, "asked_spread": asked_spread,
        "direct": np.mean(_parts(nets, "direct.weight"), axis=0)[0],
        "of_line": np.concatenate(_parts(nets, "of_line.weight")).T,
        "of_question": np.concatenate(_parts(nets, "of_question.weight")).T,
        "bias": np.concatenate(_parts(nets, "of_line.bias")),
        "out": np.concatenate(_parts(nets, "out.weight"), axis=1)[0] / seeds,
    }  # fmt: skip


def _parts(nets: Sequence[Net], name: str) -> list[Floats]:
    return [dict(net.named_parameters())[name].detach().double().numpy() for net in nets]


def _trained(x: torch.Tensor, q: torch.Tensor, gold: torch.Tensor, there: torch.Tensor, seed: int) -> Net:
    torch.manual_seed(seed)
    net, count = Net(), len(x)
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    steps = EPOCHS * ((count + BATCH - 1) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps + 1)
    for _ in range(EPOCHS):
        shuffled = torch.randperm(count)
        for at in range(0, count, BATCH):
            some = shuffled[at : at + BATCH]
            values = net(x[some], q[some], there[some])
            answers = values.masked_fill(~gold[some], -60.0)
            loss = (torch.logsumexp(values, 1) - torch.logsumexp(answers, 1)).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return net.eval()


def weights_of(network: dict[str, Any], about: Floats, judges: Judges | None = None) -> answering.AnswerWeights:
    return answering.AnswerWeights(**network, **(judges or UNJUDGED)._asdict(), about=about)


# --- whether it answers, and whether it is about the conversation ---


class Judges(NamedTuple):
    anybody: Trees
    ours: Logistic


_NO_CLUES = Logistic(np.zeros(1), np.ones(1), np.zeros(1), 0.0)
_NO_NODES = np.zeros(1, np.int64)
_NO_TREES = Trees(_NO_NODES, _NO_NODES, np.zeros(1, np.float32), np.zeros((1, 2), np.int64), np.zeros(1), 0)
UNJUDGED = Judges(_NO_TREES, _NO_CLUES)


def fit_judges(some: Sequence[List], values: Sequence[Floats]) -> Judges:
    rows = list(zip(some, values, strict=True))
    return Judges(_of_anybody(rows), _ours(rows))


def _of_anybody(rows: Sequence[tuple[List, Floats]]) -> Trees:
    counts = [UNANSWERED if one.bare else 1.0 if one.answered_by(v) or one.quiet else MISSED for one, v in rows]
    x = np.array([of_any(one.clues, v, one.sounds) for one, v in rows])
    model = ExtraTreesClassifier(**TREES).fit(x, [one.answered_by(v) for one, v in rows], counts)
    return forest_of([tree.tree_ for tree in model.estimators_])


def _ours(rows: Sequence[tuple[List, Floats]]) -> Logistic:
    """Questions that may be either tell nothing; the others count as much on both sides."""
    rows = [(one, v) for one, v in rows if one.kind != "either"]
    ours = np.array([one.kind != "none" for one, _ in rows])
    x = np.array([of_any(one.clues, v, one.sounds) for one, v in rows])
    return _logistic(x, ours, np.where(ours, 1 / ours.mean(), 1 / (1 - ours.mean())) / 2, OURS)


def _logistic(x: Floats, y: Any, counts: Any, strength: float) -> Logistic:
    mean, spread = _scale(x)
    model = LogisticRegression(C=strength, max_iter=2_000)
    model.fit(np.clip((x - mean) / spread, -FAR, FAR), y, counts)
    return Logistic(mean, spread, model.coef_[0], float(model.intercept_[0]))


def forest_of(trees: Sequence[Any]) -> Trees:
    """scikit-learn's trees in one array of nodes."""
    counts = [tree.node_count for tree in trees]
    roots = np.cumsum([0, *counts[:-1]])
    clue, least, leaf = (np.concatenate([part(tree) for tree in trees]) for part in (_clues, _thresholds, _leaves))
    children = np.concatenate([_children(tree) + root for tree, root in zip(trees, roots, strict=True)])
    return Trees(roots, clue, least, children, leaf, max(tree.max_depth for tree in trees))


def _clues(tree: Any) -> Any:
    return np.maximum(tree.feature, 0)


def _thresholds(tree: Any) -> Any:
    return tree.threshold.astype(np.float32)


def _leaves(tree: Any) -> Any:
    return tree.value[:, 0, 1] / tree.value[:, 0].sum(axis=1)


def _children(tree: Any) -> Any:
    own = np.arange(tree.node_count)
    return np.stack([np.where(tree.children_left < 0, own, tree.children_left),
                     np.where(tree.children_right < 0, own, tree.children_right)], axis=1)  # fmt: skip


def sure_of(judges: Judges, one: List, values: Floats) -> float:
    if one.route.literal:
        return 1.0
    return judges.anybody.p(of_any(one.clues, values, one.sounds))


# --- measuring ---


def report(label: str, some: Sequence[List], values: Sequence[Floats], sures: Sequence[float]) -> None:
    """Per question, by the list that is surest."""
    best: dict[str, tuple[List, Floats, float]] = {}
    for one, v, sure in zip(some, values, sures, strict=True):
        if not one.bare and sure > best.get(one.turn.id, (one, v, -1.0))[2]:
            best[one.turn.id] = one, v, sure
    asked = [(sure, one.answered_by(v), bool(one.gold[np.argsort(-v)[:3]].any()))
             for one, v, sure in best.values() if not one.quiet]  # fmt: skip
    quiet = [sure for one, _, sure in best.values() if one.quiet]
    count, first, three = max(1, len(asked)), sum(ok for _, ok, _ in asked), sum(ok for *_, ok in asked)
    print(f"{label}: {len(best)} questions, first {first / count:.1%}, among three {three / count:.1%}")
    print("shown from   right first   left alone   together")
    for least in (0.3, 0.4, GUESS, 0.5, 0.6, 0.7):
        shown, left = sum(ok and sure >= least for sure, ok, _ in asked), sum(sure < least for sure in quiet)
        together = (shown + left) / max(1, len(best))
        print(f"{least:10} {shown / count:13.1%} {left / max(1, len(quiet)):12.1%} {together:10.1%}")


def prepared(own: Sequence[List], folder: Path, vectors: Floats, labels: NDArray[np.bool_]) -> list[set[str]]:
    """Fills in what wording and vector tell, by fits without the scene."""
    unseen = folds(one.scene for one in own)
    chances = wording(folder, about_fits(unseen))
    for left in unseen:
        about = sounding(vectors, labels, [one for one in own if one.scene not in left])
        _fill([one for one in own if one.scene in left], chances, about)
    return unseen


def _fill(some: Iterable[List], chances: dict[str, float], about: Floats) -> None:
    for one in some:
        shift = FOLLOWS_ODDS if one.route.follows else 0.0
        if not one.route.forced:
            one.clues.asked[WORDING] = odds(chances[one.turn.id]) + shift
        one.sounds = 0.0 if one.vector is None else float(one.vector @ about[:-1] + about[-1])


def at_first_sight(own: Sequence[List], unseen: Sequence[set[str]]) -> list[Floats]:
    """The values of every list by networks that did not see its scene."""
    found: list[Floats] = [np.zeros(0)] * len(own)
    for left in unseen:
        weights = weights_of(fit_network([one for one in own if one.scene not in left], 2), np.zeros(1))
        for at, one in enumerate(own):
            if one.scene in left:
                found[at] = weights.values(one.clues)
    return found


def write(weights: answering.AnswerWeights) -> None:
    arrays: dict[str, Any] = {}
    for name, value in ((one.name, getattr(weights, one.name)) for one in fields(weights)):
        parts = (
            {f"{name}__{part.name}": getattr(value, part.name) for part in fields(value)}
            if is_dataclass(value)
            else {name: value}
        )
        arrays |= {part: _small(array) for part, array in parts.items()}
    names = json.dumps([list(LINES), list(QUESTIONS)]).encode()
    data = io.BytesIO()
    np.savez_compressed(data, names=np.frombuffer(names, np.uint8), **arrays)
    WEIGHTS.write_bytes(data.getvalue())


def _small(values: Any) -> Any:
    array = np.asarray(values)
    return array.astype(np.int32 if array.dtype.kind == "i" else np.float32)


async def embedded() -> tuple[Floats, NDArray[np.bool_]]:
    embedder = open_embedder(Settings(_env_file=None))
    try:
        return await labelled_vectors(embedder)
    finally:
        embedder.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="other scenes to measure")
    parser.add_argument("--write", action="store_true", help="write the weights that are shipped")
    options = parser.parse_args()
    torch.set_num_threads(1)
    vectors, labels = asyncio.run(embedded())
    own = asyncio.run(lists(read_scenes(OWN)))
    unseen = prepared(own, OWN, vectors, labels)
    values = at_first_sight(own, unseen)
    sures = np.zeros(len(own))
    for left in unseen:
        inside = [at for at, one in enumerate(own) if one.scene not in left]
        judges = fit_judges([own[at] for at in inside], [values[at] for at in inside])
        for at, one in enumerate(own):
            if one.scene in left:
                sures[at] = sure_of(judges, one, values[at])
    report("first sight", own, values, sures.tolist())
    about = sounding(vectors, labels, own)
    judges = fit_judges(own, values)
    weights = weights_of(fit_network(own, NETWORKS), about, judges)
    if options.data:
        other = asyncio.run(lists(read_scenes(options.data)))
        _fill(other, wording(options.data, about_fits([set()])), about)
        theirs = [weights.values(one.clues) for one in other]
        report(
            options.data.name, other, theirs, [sure_of(judges, one, v) for one, v in zip(other, theirs, strict=True)]
        )
    if options.write:
        write(weights)


if __name__ == "__main__":
    main()
