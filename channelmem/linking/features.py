"""What speaks for each earlier message being the one that a new message answers, as numbers.

Enters: what was seen when each of some messages came (`past`). Leaves: a table of FEATURES for all of them, which
`links` turns into chances. Many messages share a table because a call of numpy costs more than the numbers of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from channelmem.linking.turn import TEXT_FEATURES, Turn
from channelmem.types import Message

SPAN: Final = 50
"""How many earlier messages may be the parent: 98 % of the annotated replies lie within. Marks must fit 64 bits."""

SITUATION: Final = (
    "messages since own", "time since own", "addressed since own", "messages since addressed", "time since previous",
)  # fmt: skip
LOGARITHMIC: Final = (
    "distance", "time", "later by author", "mine since", "addressee since", "mine or to me since",
)  # fmt: skip
SETS: Final = (
    "previous", "same author", "own last", "addressed", "named", "newest of author", "addresses me", "names me",
    "newest to me", "addresses others", "same addressee", "answered by me", "author's partner is me",
    "my partner is author", "to my partner", "newest to me of author", "newest compatible of author",
    "mine to addressee",
)  # fmt: skip
WORDS: Final = ("common words", "rarest common word", "most common words")
FEATURES: Final = (
    "self", *TEXT_FEATURES, *SITUATION, *LOGARITHMIC, *SETS, *WORDS, *(f"its {name}" for name in TEXT_FEATURES)
)  # fmt: skip

_DISTANCE: Final = FEATURES.index("distance")
"""The first that differs between candidates; "self" has zeros from there on."""
_TIME: Final = FEATURES.index("time")
_LATER: Final = FEATURES.index("later by author")
_SINCE: Final = FEATURES.index("mine since")
_SETS: Final = FEATURES.index(SETS[0])
_WORDS: Final = FEATURES.index(WORDS[0])
_ITS: Final = len(FEATURES) - len(TEXT_FEATURES)
_COUNTED: Final = _SETS - _SINCE
"""Features that count how many of a set come later."""
_UINT64: Final = np.dtype("<u8")
_PASSED: Final = np.arange(1, SPAN + 1, dtype=_UINT64)
"""How many turns end with each candidate: a set without so many of its bits holds what came later."""

Floats = NDArray[np.float32]
Marks = int
"""A set of candidates: bit 0 is the oldest one."""


class LinkInput(NamedTuple):
    """What is seen of a channel at the moment a message comes."""

    message: Message
    turns: tuple[Turn, ...]
    """The candidates, oldest first."""
    alone: tuple[float, ...]
    """TEXT_FEATURES and SITUATION of the message, the same for all alternatives."""
    sets: list[Marks]
    """First three of which is asked how many come after a candidate, the message itself included: its author's, the
    addressee's, its author's or to them. Then SETS."""
    common: list[tuple[int, float, float, bool]]
    """WORDS of the candidates that have any of the message's, after their place."""
    ages_s: NDArray[np.float64]
    """Per candidate: 1 more than its age."""
    later: NDArray[np.uint8]
    """Per candidate: how many messages its author has written from there on, it included."""
    texts: Floats
    """TEXT_FEATURES of the candidates."""


def tabulate(seen: Sequence[LinkInput]) -> Floats:
    """Per message a row for each of FEATURES and one of ones; a column for each alternative: "starts something new" and
    then the candidates, oldest first. Where others have more of them, padding comes before (`absent`)."""
    gaps = absent(seen)
    table = np.repeat(_blank(len(seen[0].turns) + gaps[0]), len(seen), axis=0)
    for rows, one, gap in zip(table, seen, gaps, strict=True):
        rows[1:_DISTANCE].T[:] = one.alone
        candidates = rows[:, 1 + gap :]
        candidates[_TIME] = one.ages_s
        candidates[_LATER] = one.later
        candidates[_ITS:-1] = one.texts
        for at, *values in one.common:
            candidates[_WORDS:_ITS, at] = values
    _fill_in_sets(table, [_moved(one.sets, gap) for one, gap in zip(seen, gaps, strict=True)])
    # The logarithm of 1 + n is wanted, and 1 is in the numbers already: `log1p` takes ten times as long as `log`.
    np.log(table[:, _TIME:_SETS], out=table[:, _TIME:_SETS])
    return table


def absent(seen: Sequence[LinkInput]) -> list[int]:
    """For each, how many candidates fewer it has than the one that has most."""
    counts = [len(one.turns) for one in seen]
    most = max(counts)
    return [most - count for count in counts]


def _moved(sets: list[Marks], places: int) -> list[Marks]:
    return [marks << places for marks in sets] if places else sets


def _fill_in_sets(table: Floats, marks: Sequence[Sequence[Marks]]) -> None:
    count, sets = table.shape[2] - 1, np.array(marks, _UINT64)
    table[:, _SINCE:_SETS, 1:] = np.bitwise_count(sets[:, :_COUNTED, None] >> _PASSED[:count])
    bits = np.unpackbits(sets.view(np.uint8), bitorder="little").reshape(len(sets), -1, 64)
    table[:, _SETS:_WORDS, 1:] = bits[:, _COUNTED:, :count]


@cache
def _blank(count: int) -> Floats:
    """What is the same for all messages after so many."""
    table = np.zeros((1, len(FEATURES) + 1, count + 1), np.float32)
    table[:, 0, 0] = 1
    table[:, _DISTANCE, 1:] = np.log1p(np.arange(count, 0, -1))
    table[:, _TIME:_SETS] = 1
    table[:, -1] = 1
    return table
