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
Places = NDArray[np.int64]

STEPS: Final = 3
"""How many links up and down a thread is followed; the chances have thinned out by then."""
LEAST: Final = 0.01
"""Chances below carry nothing worth the time."""


class Replies(NamedTuple):
    """The links within a pool, one place of each array for each: at most three per message, so no matrix is made."""

    answering: Places
    answered: Places
    chances: Floats

    @classmethod
    def among(cls, messages: Sequence[Message]) -> Replies:
        place = {message.id: row for row, message in enumerate(messages)}
        links = [
            (row, place[parent], chance)
            for row, message in enumerate(messages)
            for parent, chance in message.parents
            if chance >= LEAST and parent in place
        ]
        rows, parents, chances = zip(*links, strict=True) if links else ((), (), ())
        return cls(np.array(rows, np.int64), np.array(parents, np.int64), np.array(chances, float))

    def above(self, values: Floats) -> Floats:
        """For each message what that has which it answers, times the chance; a row of `values` is a message."""
        return self._flow(values, self.answered, self.answering)

    def around(self, values: Floats) -> Floats:
        """For each message what its thread has, at most 1: all flows up to what was answered, and down again."""
        gathered = self._flowed(values, self.answering, self.answered)
        return self._flowed(gathered, self.answered, self.answering)

    def _flowed(self, values: Floats, source: Places, target: Places) -> Floats:
        total = flow = values
        for _ in range(STEPS):
            flow = self._flow(flow, source, target)
            total = total + flow
        return np.minimum(total, 1.0)

    def _flow(self, values: Floats, source: Places, target: Places) -> Floats:
        chances = self.chances if values.ndim == 1 else self.chances[:, None]
        reached = np.zeros_like(values, dtype=float)
        np.add.at(reached, target, chances * values[source])
        return reached
