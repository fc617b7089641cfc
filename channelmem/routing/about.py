"""How likely a question is about this conversation, from its wording alone.

Enters: a `Line`. Leaves: a `Likelihood`: a calibrated probability, and the wordings that moved it most. A logistic
regression over n-grams of words (people, times, quotations and numbers are classes) and of class letters, so that words
it has never seen still count by their grammar. `scripts/train_about.py` makes the weights and names their data; they
are a matter of degree, so there is no rule here.
"""

from __future__ import annotations

import heapq
import math
from importlib import resources
from io import BytesIO
from typing import Final, NamedTuple

import numpy as np

from channelmem.routing.clause import Finding, Recap
from channelmem.routing.people import Line, shape

WORD_GRAMS: Final = 3
LETTER_GRAMS: Final = 4
_CLASSES: Final = {"N": "<name>", "P": "<name's>", "z": "<time>", "Z": "<quote>", "?": "<stranger>"}
_TOLD: Final = 3
"""How many wordings `why` shows."""


class Likelihood(NamedTuple):
    p: float
    """The probability that the question is about this conversation."""
    why: str


class _Weights(NamedTuple):
    bias: float
    of: dict[str, float]


def _load() -> _Weights:
    with np.load(BytesIO(resources.files(__package__).joinpath("about.npz").read_bytes())) as stored:
        grams = bytes(stored["grams"]).decode().split("\n")
        return _Weights(float(stored["bias"]), dict(zip(grams, stored["weights"].astype(float).tolist(), strict=True)))


def classes(line: Line, finding: Finding | None) -> tuple[list[str], str]:
    """The words of a line with classes in place of names, times, quotations and numbers, and its letters; a time
    expression counts as one word."""
    words, letters = ["^"], ["^"]
    shaped = shape(line.words, line.letters)
    if finding is not None and finding.name == "stranger":
        first, last = finding.subject
        shaped = shaped[:first] + "?" * (last - first) + shaped[last:]
    for word, letter in zip(line.words, shaped, strict=True):
        if letter == letters[-1] and letter in "z?":
            continue
        known = _CLASSES.get(letter)
        words.append(known or (word if word.isalpha() or not any(map(str.isdigit, word)) else "<number>"))
        letters.append(letter)
    return [*words, "$"], "".join([*letters, "$"])


def grams(words: list[str], letters: str) -> list[str]:
    """Word n-grams, shortest first, then letter n-grams; `_wording` relies on this order."""
    size = len(words)
    found = list(words)
    found += [f"{words[i]} {words[i + 1]}" for i in range(size - 1)]
    found += [f"{words[i]} {words[i + 1]} {words[i + 2]}" for i in range(size - 2)]
    found += [f"/{letters[i : i + n]}" for n in range(1, LETTER_GRAMS + 1) for i in range(size - n + 1)]
    return found


def forms(finding: Finding | None, recap: Recap | None) -> list[str]:
    """What the clause says about a question: its form, with whom it is about, and with its verb."""
    found = ["=recap"] if recap else []
    if finding is None:
        return found
    who = finding.who if len(finding.who) == 1 else finding.who[:1] + "+" if finding.who else ""
    return [*found, f"={finding.name}", f"={finding.name} {who}", f"={finding.name} {finding.verb_word}"]


def about(line: Line, finding: Finding | None, recap: Recap | None) -> Likelihood:
    words, letters = classes(line, finding)
    weigh = WEIGHTS.of.get
    # A gram that occurs twice counts once.
    every = enumerate((*grams(words, letters), *forms(finding, recap)))
    parts = {gram: (weigh(gram, 0.0), place) for place, gram in every}
    total = WEIGHTS.bias + sum([weight for weight, _ in parts.values()])
    most = heapq.nlargest(_TOLD, parts.values(), key=lambda part: abs(part[0]))
    p = 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, total))))
    told = ", ".join(f"“{_wording(words, place)}” {weight:+.1f}" for weight, place in most if weight)
    return Likelihood(p, f"p {p:.2f} by wording: {told or 'nothing known'}")


def _wording(words: list[str], place: int) -> str:
    """The words behind a gram, by its place in `grams`."""
    for most in (WORD_GRAMS, LETTER_GRAMS):
        for n in range(1, most + 1):
            count = len(words) - n + 1
            if place < count:
                return " ".join(words[place : place + n]).strip("^$ ") or "the whole"
            place -= max(count, 0)
    return "its form"


WEIGHTS: Final = _load()
