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

QUOTE: Final = 0.75
"""From here on, the hits are quoted as the answer."""
GUESS: Final = 0.55
"""From here on, they are quoted behind "Perhaps"."""
OURS: Final = 0.5
"""Without evidence, a question is about this conversation if its wording says so with this probability."""


class Verdict(StrEnum):
    QUOTE = "quote"
    GUESS = "guess"
    NOTHING = "nothing"
    """About this conversation, but nothing in it answers the question."""
    NOT_OURS = "not ours"


_BIAS: Final = 0.22
_WEIGHTS: Final = (1.54, 0.75, 1.49, -0.99, 0.13, 1.02, -0.06, -0.75, 0.76)


def features(route: Route, seen: Evidence) -> tuple[float, ...]:
    """What the decision rests on, one number per weight."""
    odds = math.log(max(route.p, 1e-3) / max(1.0 - route.p, 1e-3))
    whose = float(route.binds and bool(route.speakers))
    return (
        seen.coverage,
        seen.thread * whose,
        seen.similarity,
        seen.missing * (1.0 - whose),
        min(seen.margin, 1.0),
        float(seen.fits),
        whose,
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
    return Verdict.NOTHING if route.p >= OURS else Verdict.NOT_OURS
