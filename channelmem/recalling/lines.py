"""What a line of talk is by its text alone, read once per text. Enters a string, leaves a `Line`.

Nothing here depends on a question, so the same text is never read twice while it stays in the cache.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from channelmem.recalling.words import forms, stems

_SENTENCE: Final = re.compile(r"[^.!?]+[.!?]*")


class Line(NamedTuple):
    """What depends on a text alone."""

    stems: frozenset[str]
    forms: frozenset[str]
    """Its words as they were typed, in lower case."""
    asking: float
    length: int
    """In words, small ones included."""
    is_fragment: bool


@lru_cache(maxsize=16_384)
def read(text: str) -> Line:
    found = stems(text)
    return Line(frozenset(found), forms(text), asking(text), len(text.split()), len(found) < 3)


def forget_read() -> None:
    """What was removed must not stay in memory for the sake of speed."""
    for cached in (read, tells, stems):
        cached.cache_clear()


@lru_cache(maxsize=16_384)
def tells(text: str, pattern: re.Pattern[str]) -> bool:
    """Whether the pattern occurs."""
    return pattern.search(text) is not None


def asking(text: str) -> float:
    """Share of a text that is questions."""
    if "?" not in text:
        return 0.0
    sentences = [sentence.strip() for sentence in _SENTENCE.findall(text)]
    asked = sum(len(sentence) for sentence in sentences if sentence.endswith("?"))
    return asked / max(1, sum(map(len, sentences)))
