"""Where in a sentence only a person can stand: for names that are English words, and for parts of names.

Enters: tokens with their class letters and a place. Leaves: whether a person is meant there, and whether a name goes
on in a surname that nobody here has.
"""

from __future__ import annotations

from channelmem.routing.dates import MONTHS, WEEKDAYS
from channelmem.routing.lexicon import word_set
from channelmem.routing.reading import Token
from channelmem.routing.verbs import PLACES, STATES
from channelmem.routing.world import SURNAMES

_AUXILIARY = frozenset("dDbBv&f,")
_VERBAL = frozenset("cCGKjxRvn")
_BE = frozenset("vBb")
_BEFORE_SUBJECT = frozenset({"", ".", ",", "q"})
_BEFORE_CLAUSE = word_set("if whether because ago yesterday today night morning afternoon evening week month earlier")
_AFTER_OBJECT = frozenset({"", ".", ",", "&", "z"})
_WITH = word_set("to with at against")
_HELPING = word_set("help go come try start stop dare bother last tonight once")
TIMES = frozenset({*MONTHS, *WEEKDAYS}) | word_set(
    "today yesterday tomorrow night day time summer spring winter autumn"
)
_NO_SURNAME = _HELPING | TIMES
_BEFORE_SPEAKER = frozenset({"", "q", ".", ",", "l", "z", "x", "R", "s", "L", "K"})


def goes_on(tokens: list[Token], codes: list[str], i: int) -> bool:
    """ "Bob Marley" and "did Mark Twain write" are somebody else: a surname nobody here has."""
    if i + 1 >= len(codes) or codes[i + 1] != "x" or tokens[i].possessive:
        return False
    after = tokens[i + 1].word
    if after in SURNAMES:
        return True
    then = next((k for k in range(i + 2, len(codes)) if codes[k] != "j"), i)
    verb = codes[then] == "C" or tokens[then].word == "born"
    return verb and i > 0 and codes[i - 1] in "dDB" and after not in _NO_SURNAME and not after.endswith("ly")


def in_name_slot(tokens: list[Token], words: list[str], codes: list[str], i: int) -> bool:
    """Where only a person can stand: between auxiliary and verb, before a verb of saying, as an owner."""
    at = next((k for k in range(i - 1, -1, -1) if codes[k] not in "jl"), -1)
    before = codes[at] if at >= 0 else ""
    after = next((code for code in codes[i + 1 :] if code != "j"), "")
    if before in {"N", "t"} or tokens[i].possessive:
        return before not in {"N", "t"}
    if before == "b":
        doing = i + 1 < len(words) and words[i + 1].endswith("ing")
        return doing or after in {"G", "n"} or _is_asked_of(words, at, i)
    if before in _AUXILIARY and words[at] != "got":
        return _between(words, i, before, after)
    if before == "p":
        return after in _AFTER_OBJECT and words[at] in _WITH and words[i] not in TIMES
    if after in _BE and (before in _BEFORE_SUBJECT or words[at] in _BEFORE_CLAUSE):
        has = after == "v" and words[i + 1 : i + 2] != ["have"]
        return has or (after != "v" and words[i] not in TIMES)
    return after in {"c", "G"} and before in _BEFORE_SPEAKER


def _between(words: list[str], i: int, before: str, after: str) -> bool:
    """Between auxiliary and verb: "did Rose like it"; but "when does summer start"."""
    if before == "D" and after == "x" and words[i] in TIMES:
        return False
    liked = before in "dD" and words[i + 1 : i + 2] == ["like"]
    return liked or after in _VERBAL or (after == "" and before in "&f,") or (after in "&," and before in "dBv")


def _is_asked_of(words: list[str], verb: int, i: int) -> bool:
    """ "Why is Rose", "is Rose mad"; but "what is rose gold", "is hope lost"."""
    asked = verb > 0 and words[verb - 1] in {"why", "where", "when", "how"}
    placed = i + 1 < len(words) and (words[-1] in PLACES or (words[i + 1] in PLACES and words[i + 2] in {"for", "or"}))
    return asked or placed or not STATES.isdisjoint(words[i + 1 : i + 3])
