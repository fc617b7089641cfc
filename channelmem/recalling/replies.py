"""Who probably answers whom within a pool: what flows along the soft links of `Message.parents`.

Enters: messages. Leaves: for numbers that belong to messages (a word is there or not, a cosine) what a message's
parents have, or what is said anywhere in its thread, each weighted by the chance of the links on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from channelmem.types import Message

Floats = NDArray[np.float64]
Matrix = NDArray[np.float32]

STEPS: Final = 3
"""How many links up and down a thread is followed; the chances have thinned out by then."""
LEAST: Final = 0.01
"""Chances below carry nothing worth the time."""


class Replies(NamedTuple):
    """Row i, column j: the chance that message i answers message j."""

    chances: Matrix

    @classmethod
    def among(cls, messages: Sequence[Message]) -> Replies:
        place = {message.id: row for row, message in enumerate(messages)}
        chances = np.zeros((len(messages), len(messages)), np.float32)
        for row, message in enumerate(messages):
            for parent, chance in message.parents:
                if chance >= LEAST and parent in place:
                    chances[row, place[parent]] = chance
        return cls(chances)

    def above(self, values: Floats) -> Floats:
        """For each message and column what it answers has."""
        busy = np.flatnonzero(values.any(axis=1))  # few messages of a large pool have a word of the topic
        return self.chances[:, busy] @ values[busy]

    def around(self, values: Floats) -> Floats:
        """For each message what its thread has, at most 1: all flows up to what was answered, and down again."""
        gathered = _flowed(self.chances.T, values.astype(np.float32))
        return _flowed(self.chances, gathered).astype(float)


def _flowed(chances: Matrix, values: Matrix) -> Matrix:
    total = flow = values
    for _ in range(STEPS):
        flow = chances @ flow
        total = total + flow
    return np.minimum(total, np.float32(1.0))
