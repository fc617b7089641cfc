"""How much a hit has to do with the topic. Enters a hit, leaves a label for a reader or a measure for a list.

Recall is generous so that a language model has something to choose from; what is shown to people is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from channelmem.types import Hit

HIGHLY_SIMILAR: Final = 0.55
SIMILAR: Final = 0.30
"""Cosines from which on a hit is called highly relevant, or relevant."""
STRONG_EVIDENCE: Final = 0.75
EVIDENCE: Final = 0.50
_BESIDE_THE_BEST: Final = 0.6


def evidence(hit: Hit) -> float:
    """The share of the topic's words that the message covers, plus half the cosine."""
    return min(hit.text_score or 0.0, 1.0) + 0.5 * max(hit.similarity or 0.0, 0.0)


def label(hit: Hit) -> str:
    """ "[highly relevant]", "[relevant]" or nothing."""
    similarity = hit.similarity or 0.0
    if similarity >= HIGHLY_SIMILAR or evidence(hit) >= STRONG_EVIDENCE:
        return "[highly relevant]"
    return "[relevant]" if similarity >= SIMILAR or evidence(hit) >= EVIDENCE else ""


def worth_quoting(hits: Sequence[Hit]) -> list[Hit]:
    """The first, and those after it that come near the best: the rest would only blur an answer."""
    found = [evidence(hit) for hit in hits]
    least = _BESIDE_THE_BEST * max(found, default=0.0)
    return [hit for at, hit in enumerate(hits) if not at or found[at] >= least]
