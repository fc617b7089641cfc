"""The lines of a pool, read together: what ranking knows about each of them, as arrays.

Enters: the texts of a pool, and a topic. Leaves: `Lines`, and which line has which word of the topic. A large archive
rarely returns the same line twice, so no cache of lines helps. But lines share their words: each distinct word of the
pool is looked up once, and a line is only split at its spaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from channelmem.recalling.ranking.line import FRAGMENT, LineFeatures, Word, asking, read_chunk, stem

Floats = NDArray[np.float64]

BEGINNING: Final = 6


class Lines(NamedTuple):
    """One row per line; the same figures as `LineFeatures` has for one."""

    chunks: Sequence[Sequence[str]]
    """Each line in lower case, split at its spaces."""
    known: Mapping[str, Word]
    """What each distinct chunk counts as."""
    asking: Floats
    length: Floats
    is_fragment: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.chunks)

    def having(self, asked: LineFeatures, topic: Sequence[str]) -> tuple[Floats, Floats]:
        """1 where a line has a word of the topic, in any form; and 1 where it has the very form that was asked for."""
        columns = {word: column for column, word in enumerate(topic)}
        typed = {form: columns[base] for form in asked.forms if (base := stem(form)) in columns}
        present, literal = np.zeros((2, len(self.chunks), len(topic)))
        wanted = frozenset((*columns, *typed))
        topical = frozenset(
            chunk
            for chunk, (stems, forms) in self.known.items()
            if not (wanted.isdisjoint(stems) and wanted.isdisjoint(forms))
        )
        for row, chunks in enumerate(self.chunks):
            for chunk in topical.intersection(chunks):
                stems, forms = self.known[chunk]
                present[row, [columns[one] for one in stems if one in columns]] = 1.0
                literal[row, [typed[one] for one in forms if one in typed]] = 1.0
        return present, literal * present


def read_lines(texts: Sequence[str]) -> Lines:
    chunks = [text.lower().split() for text in texts]
    known = {chunk: read_chunk(chunk) for chunk in set[str]().union(*chunks)}
    stems = {chunk: len(word.stems) for chunk, word in known.items()}
    return Lines(
        chunks,
        known,
        np.array([asking(text) if "?" in text else 0.0 for text in texts], float),
        np.array(list(map(len, chunks)), float),
        np.array([_is_fragment(line, stems) for line in chunks], bool),
    )


def _is_fragment(line: Sequence[str], stems: Mapping[str, int]) -> bool:
    """Its beginning mostly has enough stems, and then the rest need not be counted."""
    count = stems.__getitem__
    return sum(map(count, line[:BEGINNING])) < FRAGMENT and sum(map(count, line)) < FRAGMENT
