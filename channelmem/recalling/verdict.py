"""What the evidence says: how likely the hits answer the question, and what to do about it.

Enters: a route with its probability by wording, and how likely the best candidate answers (`answering`). Leaves: a
`Verdict`: quote, quote as a guess, say honestly that nothing was found, or leave the question alone.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Final

from channelmem.types import Evidence, Route

QUOTE: Final = 0.8
"""From here on, the hits are quoted as the answer."""
ENOUGH: Final = 0.7
"""From here on, no further source is searched."""
GUESS: Final = 0.45
"""From here on, they are quoted behind "Perhaps"."""
GUESS_OF_SOMEBODY: Final = 0.52
"""The same for somebody's own words: there are few of them to choose from, and people answer without repeating what was
asked. 0.62 costs five points of hit@1 on the IRC questions and gains no honest no in the scenes."""
GUESS_IF_FORCED: Final = 0.35
"""The same if the adapter said that the question is about this conversation."""
OURS: Final = 0.5
"""Without evidence, a question is about this conversation if its wording says so with this probability."""


STRANGER: Final = 0.02
"""The same for the words of somebody nobody knows here: an unknown name makes a question look like the world's."""


CROWD_COSINE: Final = 0.03
"""By how much the best cosine rises per e-fold of messages compared."""


# Fitted to the scenes, for somebody's own words.
_BIAS, _THREAD, _CLOSE, _DOUBT = -1.16, 2.98, 2.03, 1.05


class Verdict(StrEnum):
    QUOTE = "quote"
    GUESS = "guess"
    NOTHING = "nothing"
    """About this conversation, but nothing in it answers the question."""
    NOT_OURS = "not ours"


def close(seen: Evidence) -> float:
    """The similarity as it would be among 50 messages: the best of many cosines is high by chance."""
    return seen.similarity - CROWD_COSINE * math.log(max(1, seen.compared) / 50)


def sure_of_words(route: Route, seen: Evidence) -> float:
    """How likely somebody's own words were found: by their words and thread, the cosine, and a wording that speaks
    against it."""
    p = max(route.p, 1e-3)
    doubt = min(math.log(p / max(1.0 - p, 1e-3)), 0.0)
    total = _BIAS + _THREAD * seen.thread + _CLOSE * close(seen) + _DOUBT * doubt
    return 1.0 / (1.0 + math.exp(-total))


def sure_of_recap(route: Route) -> float:
    """For messages of a time that the question names: "what happened on Tuesday?" may mean the world by its wording,
    but something was said here on Tuesday, and nothing else is named that it could be about."""
    named = route.window.start is not None and not route.topic and not route.speakers
    return max(route.p, QUOTE) if named else route.p


def least(route: Route) -> float:
    """How sure recall must be to show anything."""
    if route.forced:
        return GUESS_IF_FORCED
    return GUESS_OF_SOMEBODY if route.of_somebody else GUESS


def judge(route: Route, sure: float, ours: float | None = None) -> Verdict:
    """`sure` is 0 where nothing was found; `ours` is None where nothing was compared: then only the wording tells."""
    if sure >= QUOTE:
        return Verdict.QUOTE
    if sure >= least(route):
        return Verdict.GUESS
    likely = route.p if ours is None or route.forced or route.stranger else ours
    return Verdict.NOTHING if likely >= (STRANGER if route.stranger else OURS) else Verdict.NOT_OURS
