"""The evidence that a new message answers each of the earlier messages, as numbers.

Enters: what the channel looked like when each message arrived (`window`). Leaves: a table of FEATURES for all of them,
which `linker` turns into probabilities. Many messages share a table because a numpy call costs more than computing the
numbers of one message.
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
"""How many earlier messages may be the parent: covers 98 % of the annotated replies. Marks must fit in 64 bits."""

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
"""The first feature that differs between candidates; "self" has zeros from there on."""
_TIME: Final = FEATURES.index("time")
_LATER: Final = FEATURES.index("later by author")
_SINCE: Final = FEATURES.index("mine since")
_SETS: Final = FEATURES.index(SETS[0])
_WORDS: Final = FEATURES.index(WORDS[0])
_ITS: Final = len(FEATURES) - len(TEXT_FEATURES)
_COUNTED: Final = _SETS - _SINCE
"""How many features count the members of a set that come later."""
_UINT64: Final = np.dtype("<u8")
_PASSED: Final = np.arange(1, SPAN + 1, dtype=_UINT64)
"""How many turns there are up to each candidate: a set shifted by that number of bits holds what came later."""

Floats = NDArray[np.float32]
Marks = int
"""A set of candidates: bit 0 is the oldest one."""


class LinkInput(NamedTuple):
    """What a channel looks like at the moment a message arrives."""

    message: Message
    turns: tuple[Turn, ...]
    """The candidates, oldest first."""
    alone: tuple[float, ...]
    """TEXT_FEATURES and SITUATION of the message; the same for all alternatives."""
    sets: list[Marks]
    """First three sets whose members after a candidate are counted, including the message itself: messages by its
    author, by the addressee, and by or to its author. Then SETS."""
    common: list[tuple[int, float, float, bool]]
    """For each candidate that shares words with the message: its place, then WORDS."""
    ages_s: NDArray[np.float64]
    """Per candidate: its age plus 1."""
    later: NDArray[np.uint8]
    """Per candidate: how many messages its author has written from there on, including the candidate."""
    texts: Floats
    """TEXT_FEATURES of the candidates."""


def tabulate(seen: Sequence[LinkInput]) -> Floats:
    """Per message, a row for each of FEATURES and a row of ones; a column for each alternative: "starts something new",
    then the candidates, oldest first. Padding precedes the candidates if other messages have more (`absent`)."""
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
    # We need log(1 + n), and the numbers already include the 1: `log1p` takes ten times as long as `log`.
    np.log(table[:, _TIME:_SETS], out=table[:, _TIME:_SETS])
    return table


def absent(seen: Sequence[LinkInput]) -> list[int]:
    """How many fewer candidates each has than the one with the most."""
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
    """The part of the table that is the same for all messages with `count` candidates."""
    table = np.zeros((1, len(FEATURES) + 1, count + 1), np.float32)
    table[:, 0, 0] = 1
    table[:, _DISTANCE, 1:] = np.log1p(np.arange(count, 0, -1))
    table[:, _TIME:_SETS] = 1
    table[:, -1] = 1
    return table
