"""What the proofs of several forms ask: whether a question stands beside a clause, and whether it is here.

Enters: a `Line` and a `Finding`. Leaves: the tests that forms share.
"""

from __future__ import annotations

import re
from functools import lru_cache

from channelmem.routing.clauses import Finding
from channelmem.routing.lexicon import word_set
from channelmem.routing.people.naming import Line
from channelmem.routing.world import MEDIA

# Groups that are this channel's people.
PRESENT_GROUP = word_set("everyone everybody yall you chat others")
MINDED = word_set("thought think feel felt picked")
_NOT_OF_BOT = MINDED | word_set("laugh joking freaking writing plan")
PLAINLY_SAID = word_set(
    """say mention talk discuss ask post share link answer reply said mentioned mentioning saying talked talking asked
    asking posted posting brought bringing"""
)
_ASKED_FOR = word_set("name title link url source details")
OURS = frozenset("NiyWP")
# A question beside a statement: at the start of a clause, "what was it" anywhere, or at the very end.
_ASKING = re.compile(
    r"(?:^|[.,&l]|z(?=[qho]))[jl]*(?:[qhodDbBvRr]|m(?=[jl]*[yNWiegtsR]))|[qho][bB][stejMx]|[qho][l.]*$|mj*yj*R|[.,][jlz]*yj*[vR]|i[jm]*p{0,2}R"
)


def asks(line: Line, letters: str) -> bool:
    if _ASKING.search(letters) or line.words[len(line.letters.rstrip("lj.,")) - 1] in _ASKED_FOR:
        return True
    return not _ASKED_FOR.isdisjoint(line.words) and _begins_with_wanted(line)


def _begins_with_wanted(line: Line) -> bool:
    """ "Bob posted a file. Name of it?"."""
    places = (i for i, word in enumerate(line.words) if word in _ASKED_FOR)
    return any(line.letters[:i].rstrip("jl")[-1:] in {".", ","} for i in places)


def elsewhere(line: Line) -> bool:
    """Words of a book or a show are not words of the channel."""
    if MEDIA.isdisjoint(line.words) or "k" in line.letters:
        return False
    return any(word in MEDIA and "p" in line.letters[max(0, i - 2) : i] for i, word in enumerate(line.words))


# People of another time: "before smartphones", "in the 80s".
_OTHER_TIMES = re.compile(r"\d0s$|^ages$|^medieval$|^ancient$")


def _of_old(line: Line) -> bool:
    words = line.words
    if "before" in words and any(word == "before" and line.letters[i + 1] == "x" for i, word in enumerate(words[:-1])):
        return True
    return any(map(_is_old, words))


@lru_cache(maxsize=16_384)
def _is_old(word: str) -> bool:
    return _OTHER_TIMES.search(word) is not None


def sure(line: Line, finding: Finding) -> bool:
    subject = finding.who
    if subject == "g" and line.words[finding.subject[0]] == "people" and _of_old(line):
        return False
    if subject == "y" and finding.verb_word in _NOT_OF_BOT:
        return False
    return not OURS.isdisjoint(subject) or not elsewhere(line)
