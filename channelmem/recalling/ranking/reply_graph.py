"""Who probably answers whom within a pool: values that flow along the soft links of `Message.parents`.

Enters: messages. Leaves: for a value per message (whether it has a word, its cosine), what its parents have, or what
anybody in its thread has, each weighted by the probability of the links on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from channelmem.store.documents import AnyMessage

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

STEPS: Final = 3
"""How many links up and down a thread to follow; the probabilities have thinned out by then."""
LEAST: Final = 0.01
"""Links with a lower probability are not worth the time."""


class Replies(NamedTuple):
    """The links within a pool, as parallel arrays: a message has at most three, so a matrix would be mostly empty."""

    answering: Places
    answered: Places
    chances: Floats

    @classmethod
    def among(cls, messages: Sequence[AnyMessage]) -> Replies:
        place = {message.id: row for row, message in enumerate(messages)}
        rows, parents, chances = [], [], []
        for row, message in enumerate(messages):
            for parent, chance in message.parents:
                if chance >= LEAST and parent in place:
                    rows.append(row)
                    parents.append(place[parent])
                    chances.append(chance)
        return cls(np.array(rows, np.int64), np.array(parents, np.int64), np.array(chances, float))

    def above(self, values: Floats) -> Floats:
        """For each message, the values of what it answers, times the probability; each row of `values` is a message."""
        return self._flow(values, self.answered, self.answering)

    def around(self, values: Floats) -> Floats:
        """For each message, what its thread has, at most 1: values flow up to what was answered, and down again."""
        gathered = self._flowed(values, self.answering, self.answered)
        return self._flowed(gathered, self.answered, self.answering)

    def _flowed(self, values: Floats, source: Places, target: Places) -> Floats:
        total = flow = values
        for _ in range(STEPS):
            flow = self._flow(flow, source, target)
            total = total + flow
        return np.minimum(total, 1.0)

    def _flow(self, values: Floats, source: Places, target: Places) -> Floats:
        if values.ndim == 1:
            flow = np.bincount(target, self.chances * values[source], minlength=len(values))
            return flow.astype(float, copy=False)  # already float, but its stub does not say so
        reached = np.empty(values.shape)
        for column, part in enumerate(values.T):
            reached[:, column] = self._flow(part, source, target)
        return reached
