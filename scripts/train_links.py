"""Trains the reply linker on annotated IRC and writes channelmem/linking/links.npz, or prints cross-validation figures.

    python -m scripts.train_links --data DIR                     train on all annotated #ubuntu IRC, write the weights
    python -m scripts.train_links --data DIR --cross-validate    leave out one conversation at a time; write nothing

Each example is a choice between "starts a thread" and the last 50 messages; training maximises the likelihood of the
annotated parents. It takes a few minutes on one core. Data: Kummerfeld et al., A Large-Scale Corpus for Conversation
Disentanglement, ACL 2019 (CC BY 4.0).
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import track

from channelmem.linking.linker import Linker, Networks
from channelmem.linking.window import FEATURES, SPAN, Floats
from scripts.eval_links import FILES, Links, Row, answers, channels, linked, messages, score

TARGET = Path(__file__).parent.parent / "channelmem" / "linking" / "links.npz"
ATTRIBUTION = (
    "Learned from #ubuntu IRC annotated by Kummerfeld et al., A Large-Scale Corpus for Conversation "
    "Disentanglement, ACL 2019, github.com/jkkummerfeld/irc-disentanglement, CC BY 4.0."
)


Choice = tuple[Floats, list[bool]]
"""One row of features per alternative, and which alternatives are correct."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Chosen by cross-validation on #ubuntu."""

    nets: int = 3
    hidden: int = 32
    epochs: int = 25
    batch: int = 128
    learning_rate: float = 5e-3
    weight_decay: float = 0.05
    dropout: float = 0.2


@dataclass(frozen=True, slots=True)
class Examples:
    """Padded choices: rows (n, 51, features), which alternatives exist, and which are correct."""

    rows: Floats
    there: NDArray[np.bool_]
    right: NDArray[np.bool_]

    @classmethod
    def of(cls, choices: Iterable[Choice]) -> Examples:
        found = list(choices)
        rows = np.zeros((len(found), SPAN + 1, len(FEATURES)), np.float32)
        there = np.zeros((len(found), SPAN + 1), bool)
        right = np.zeros((len(found), SPAN + 1), bool)
        for at, (features, correct) in enumerate(found):
            rows[at, : len(features)] = features
            there[at, : len(features)] = True
            right[at, : len(features)] = correct
        # The parent may lie outside the window; such a choice teaches nothing.
        known = right.any(axis=1)
        return cls(rows[known], there[known], right[known])


def lessons(conversations: Iterable[Sequence[Row]]) -> Examples:
    """All training examples of these conversations."""
    return Examples.of(choice for rows in conversations for choice in (*_choices(rows), *_harder_choices(rows)))


def _choices(rows: Sequence[Row]) -> Iterator[Choice]:
    linker = Linker(networks=_UNTRAINED)
    for row, message in zip(rows, messages(rows), strict=True):
        if "reply_to" in row:
            ids, features = linker.features(message)
            gold = answers(row)
            yield features, [alternative in gold for alternative in (message.id, *ids)]
        linker.add(message)


def _harder_choices(rows: Sequence[Row]) -> Iterator[Choice]:
    """The same choices as in a young or quiet channel, where people seldom name the person they answer."""
    chance = random.Random(len(rows))  # noqa: S311  (repeatable, not secret)
    said = [replace(m, content=_unaddressed(m.content)) if chance.random() < 0.5 else m for m in messages(rows)]
    for at, row in enumerate(rows):
        if "reply_to" in row:
            recent = said[max(at - chance.randint(1, 30), 0) : at]
            ids, features = Linker(recent, _UNTRAINED).features(said[at])
            gold = answers(row)
            yield features, [alternative in gold for alternative in (said[at].id, *ids)]


def _unaddressed(text: str) -> str:
    """Without a leading "name:"."""
    return re.sub(r"^\W*[^\s:,]+[:,]\s+(?=\S)", "", text)


_UNTRAINED = Networks(())


def train(examples: Examples, recipe: Recipe, seeds: Iterable[int] | None = None) -> Networks:
    """Trains several networks from different seeds; inference averages them."""
    real = examples.rows[examples.there]
    mean, scale = real.mean(axis=0), 1 / (real.std(axis=0) + 1e-3)
    rows = torch.tensor((examples.rows - mean) * scale)
    nets = [_fit(rows, examples, recipe, seed) for seed in seeds or range(recipe.nets)]
    layers = []
    for parts in zip(*nets, strict=True):
        matrix = torch.stack([part.weight.T for part in parts]).detach().numpy()
        bias = torch.stack([part.bias[None] for part in parts]).detach().numpy()
        layers.append((matrix, bias))
    # Folded into the first layer, the scaling costs nothing at inference.
    matrix, bias = layers[0]
    layers[0] = (matrix * scale[:, None], bias - ((mean * scale) @ matrix)[:, None])
    return Networks(tuple(layers))


def _fit(rows: torch.Tensor, examples: Examples, recipe: Recipe, seed: int) -> list[torch.nn.Linear]:
    torch.manual_seed(seed)
    sizes = (rows.shape[2], recipe.hidden, recipe.hidden)
    inner = [torch.nn.Linear(a, b) for a, b in pairwise(sizes)]
    last = torch.nn.Linear(recipe.hidden, 1)
    blocks = [block for layer in inner for block in (layer, torch.nn.ReLU(), torch.nn.Dropout(recipe.dropout))]
    net = torch.nn.Sequential(*blocks, last)
    there, right = torch.tensor(examples.there), torch.tensor(examples.right)
    optimizer = torch.optim.AdamW(net.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay)
    steps = recipe.epochs * -(-len(rows) // recipe.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.learning_rate, total_steps=steps, pct_start=0.1)
    for _ in range(recipe.epochs):
        for batch in torch.split(torch.randperm(len(rows)), recipe.batch):
            scores = net(rows[batch])[..., 0].masked_fill(~there[batch], -1e9).log_softmax(dim=1)
            loss = -scores.masked_fill(~right[batch], -1e9).logsumexp(dim=1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return [*inner, last]


def save(networks: Networks, recipe: Recipe, path: Path) -> None:
    """Saves in half precision and without timestamps, so the same data and seed give the same numbers."""
    about = {"features": FEATURES, "layers": len(networks.layers), "recipe": asdict(recipe), "data": ATTRIBUTION}
    arrays: dict[str, NDArray[Any]] = {
        f"matrix{i}": matrix.astype(np.float16) for i, (matrix, _) in enumerate(networks.layers)
    }
    arrays |= {f"bias{i}": bias.astype(np.float16) for i, (_, bias) in enumerate(networks.layers)}
    arrays["about"] = np.array(json.dumps(about))
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def cross_validate(data: Path, recipe: Recipe) -> None:
    """Scores each #ubuntu conversation with networks trained without it, and new domains with #ubuntu networks."""
    ubuntu = channels(data / FILES[0])
    predicted: dict[str, Links] = {}
    harder: list[bool] = []
    for channel in track(ubuntu, "leave one conversation out"):
        networks = train(lessons(rows for other, rows in ubuntu.items() if other != channel), recipe)
        predicted[channel] = linked(ubuntu[channel], networks)
        print(channel, score({channel: predicted[channel]}, ubuntu))
        harder += _hits(Examples.of(_harder_choices(ubuntu[channel])), networks)
    print(f"young and quiet channels: {100 * np.mean(harder):.1f} % of {len(harder)} correct")
    print("#ubuntu", score(predicted, ubuntu))
    others = channels(data / FILES[1])
    networks = train(lessons(ubuntu.values()), recipe)
    predicted = {channel: linked(rows, networks) for channel, rows in others.items()}
    for channel, links in predicted.items():
        print(channel, score({channel: links}, others))
    print("new domains", score(predicted, others))


def _hits(examples: Examples, networks: Networks) -> list[bool]:
    """For each choice, whether the likeliest alternative is correct."""
    clues = np.pad(examples.rows, ((0, 0), (0, 0), (0, 1)), constant_values=1)
    choices = zip(clues, examples.there, examples.right, strict=True)
    return [bool(right[networks.chances(rows[there].T[None]).argmax()]) for rows, there, right in choices]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with the evaluation data")
    parser.add_argument("--cross-validate", action="store_true", help="leave out one conversation at a time")
    parser.add_argument("--out", type=Path, default=TARGET, help="file for the weights (default: the shipped one)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    recipe = Recipe()
    if options.cross_validate:
        cross_validate(options.data, recipe)
        return
    rows = channels(options.data / FILES[0])
    seeds = track(range(recipe.nets), "train")
    save(train(lessons(rows.values()), recipe, seeds), recipe, options.out)
    print(f"Wrote {options.out} ({options.out.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main()
