"""What the evidence says: how likely the hits answer the question, and what to do about it.

Enters: a route with its probability by wording, and the `Evidence` that a search brought. Leaves: `sureness`, and a
`Verdict`: quote, quote as a guess, say honestly that nothing was found, or leave the question alone. The weights are
fitted by scripts/train_verdict.py to the scenes in tests/data, with whole scenes left out to measure them.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Final

from channelmem.types import Evidence, Mode, Route, Wants

QUOTE: Final = 0.8
"""From here on, the hits are quoted as the answer."""
GUESS: Final = 0.62
"""From here on, they are quoted behind "Perhaps"."""
OURS: Final = 0.5
"""Without evidence, a question is about this conversation if its wording says so with this probability."""


STRANGER: Final = 0.3
"""The same for the words of somebody nobody knows here: an unknown name makes a question look like the world's."""


class Verdict(StrEnum):
    QUOTE = "quote"
    GUESS = "guess"
    NOTHING = "nothing"
    """About this conversation, but nothing in it answers the question."""
    NOT_OURS = "not ours"


_BIAS: Final = 0.34
_WEIGHTS: Final = (1.61, 0.72, 1.4, -0.99, 1.69, -0.78, 0.73)


def features(route: Route, seen: Evidence) -> tuple[float, ...]:
    """What the decision rests on, one number per weight."""
    odds = math.log(max(route.p, 1e-3) / max(1.0 - route.p, 1e-3))
    whose = float(route.binds and bool(route.speakers))
    return (
        seen.coverage,
        seen.thread * whose,
        seen.similarity,
        seen.missing * (1.0 - whose),
        seen.similarity if seen.fits else 0.0,
        float(route.binds),
        min(odds, 0.0),
    )


def sureness(route: Route, seen: Evidence | None) -> float:
    """The probability that the best hit answers the question. What needs no comparison is as sure as its wording."""
    if seen is None or route.mode is not Mode.TOPIC:
        return route.p
    total = _BIAS + sum(weight * value for weight, value in zip(_WEIGHTS, features(route, seen), strict=True))
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, total))))


def judge(route: Route, sure: float, *, found: bool) -> Verdict:
    if found and sure >= QUOTE:
        return Verdict.QUOTE
    if found and sure >= GUESS:
        return Verdict.GUESS
    return Verdict.NOTHING if route.p >= (STRANGER if route.stranger else OURS) else Verdict.NOT_OURS
