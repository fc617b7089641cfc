"""Where a chat message's sentences end. Enters: what somebody wrote. Leaves: its sentences, each one tidy line.

Written for chat: a new line ends a sentence, lower case may begin one, and many have no mark at all. A dot ends a
sentence only before white space, so links, versions and decimals stay whole; after an abbreviation, an initial or the
number of a list item it ends nothing.
"""

from __future__ import annotations

import re
from typing import Final

from channelmem.telling.quote import flatten

LONGEST_CHARS: Final = 280
"""Longer sentences are folded: pasted text without marks would otherwise fill a summary or never fit into one."""

_ABBREVIATIONS: Final = "e.g i.e vs mr mrs dr prof st approx nr fig cf inc ltd jr sr a.m p.m"
_SHORT: Final = re.compile(
    rf"(?:^|[\s(])(?:{'|'.join(map(re.escape, _ABBREVIATIONS.split()))}|[^\W\d_])\.$|^\d{{1,3}}\.$", re.IGNORECASE
)
# Chinese and Japanese put no space after their marks.
_END: Final = re.compile(r"[.!?…]+[\"'”’)\]*_~]*(?=\s)|[。！？]+")  # noqa: RUF001  (full-width marks)
_LETTER: Final = re.compile(r"\w")


def sentences(text: str) -> list[str]:
    """The sentences in order; what has no letter and no digit (an emoji, a row of dashes) is none."""
    found = [sentence for line in text.splitlines() for sentence in _of_line(flatten(line))]
    return [piece for sentence in found for piece in _folded(sentence)]


def is_question(sentence: str) -> bool:
    return sentence.rstrip("\"'”’)]*_~ ").endswith(("?", "？"))  # noqa: RUF001


def _of_line(line: str) -> list[str]:
    cuts, start = [], 0
    for end in _END.finditer(line):
        if not _SHORT.search(line[start : end.end()]):
            cuts.append(line[start : end.end()])
            start = end.end()
    return [piece for cut in (*cuts, line[start:]) if _LETTER.search(piece := cut.strip())]


def _folded(sentence: str) -> list[str]:
    """The sentence in pieces of at most `LONGEST_CHARS`, cut between words where there are any."""
    pieces = []
    while len(sentence) > LONGEST_CHARS:
        edge = sentence.rfind(" ", LONGEST_CHARS // 2, LONGEST_CHARS)
        edge = edge if edge > 0 else LONGEST_CHARS
        pieces.append(sentence[:edge].rstrip())
        sentence = sentence[edge:].lstrip()
    return [*pieces, sentence] if sentence else pieces
