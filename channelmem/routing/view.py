"""A line as the clues see it: read once, with what most of them ask for.

Enters: a `Line` and its shape (see `verbs`). Leaves: a `View`, the pattern of the past, and the first word that says
what is wanted.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from channelmem.routing.lexicon import word_set
from channelmem.routing.people.naming import Line
from channelmem.routing.verbs import TALK_NOUNS

PAST = re.compile(r"[dBVc]|v[jzlk]*[NPWieygncV]|[NPWiye][jzlk]*v")
_NOW = re.compile(
    r"b[jzlk]*(?:[NPWegy&,][jzlk]*)*n?[AG]|[NWeg][jzlk]*b[jzlk]*[AG]|b[jzlk]*g[jzlk]*v|N[jx]?[AG]|bt[TLKHC][AG]"
)
_DOES = re.compile(r"Nj*x(?=.)")
_DEFINITE = re.compile(r"(?:[tPuUwqz]|hx|jx)[jx]{0,2}p?(?P<noun>[KLTHC])")
_POLITE = word_set("can could would will you please just go let to help me us kindly somebody someone anyone anybody")


class View(NamedTuple):
    """A line, read once for all clues."""

    line: Line
    shape: str
    words: frozenset[str]
    text: str
    known: bool
    """Somebody of the roster is named."""
    going_on: bool
    """It tells of something that is going on."""
    moving: bool
    """It tells of something that happened or is going on."""
    talk: bool
    """It points at a thing of talk: "that link", "my question"."""


def first_word(words: list[str], letters: str) -> str:
    """The first word that says what is wanted: "could you please *write*"."""
    at = len(letters) - len(letters.lstrip("jl,.&zk"))
    return next((word for word in words[at:] if word not in _POLITE), "")


def view_of(line: Line, shape: str) -> View:
    words, going_on = frozenset(line.words), _going_on(line.words, shape)
    known = "N" in shape or "P" in shape
    moving = going_on or PAST.search(shape) is not None
    talk = not TALK_NOUNS.isdisjoint(words) and _of_talk(line.words, shape)
    return View(line, shape, words, " ".join(line.words), known, going_on, moving, talk)


def _of_talk(words: list[str], shape: str) -> bool:
    if any(words[match.start("noun")] in TALK_NOUNS for match in _DEFINITE.finditer(shape)):
        return True
    return any(word == "all" and words[i + 1] in TALK_NOUNS for i, word in enumerate(words[:-1]))


def _going_on(words: list[str], shape: str) -> bool:
    """Progressive, or the present of somebody known: "Ann refuses to play"."""
    if _NOW.search(shape):
        return True
    return "N" in shape and any(words[match.end() - 1].endswith("s") for match in _DOES.finditer(shape))
