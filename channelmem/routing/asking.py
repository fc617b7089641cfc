"""Is anything asked of the conversation at all, or is it a statement, an order, a task?

Enters: a `View`. Leaves: `silent` and `task`; what they hold back is not weighed.
"""

from __future__ import annotations

import re

from channelmem.routing.evidence import either, fragment, looks, outcome
from channelmem.routing.lexicon import word_set
from channelmem.routing.verbs import STATES, WONDERING
from channelmem.routing.view import View, first_word

TASKS = word_set(
    """write translate generate compose create draft imagine pretend play set turn roast kick ban mute timeout
    calculate compute convert define solve draw design rate rank guess roll flip sing act add delete remove pin
    wish greet welcome invite rewrite proofread fix debug teach recommend suggest name compare choose pick
    spell count code make build order buy open close start stop cancel schedule remind reword improve"""
)
_ASKING_WORDS = word_set("any anything everything quote")
# What asks behind a pause: "Bob is in, right?", "Bob put up a sheet, link?".
_LAST_WORDS = word_set("right correct so huh no yeah link name title url source details")
_ASKING_FORMS = (
    # at the head: what, did, is, find, summarize; have you; can you; I would like to know
    r"^[jl,.&zk]*(?:[qhodDbBRr]|v[NPWigyetuUws]|m[jl]*[yNRg]|i[jmp]*R)",
    # behind a pause, or a time: "..., which one", "..., can you", "..., you have it", "..., send it"
    r"[.,&l][jlz]*(?:[qhodDbBRr]|m[yg]|CM|yj*v)|z[jlz]*(?:[qhodDRr]|m[yg]|CM)|[.,][jl]*Cs[jl]*$|[.,]+[jlz]*C$|[.,][jl]*i[jm]*R[jl]*[stM][jl]*$",
    # at the end: "Bob said what"
    r"[qoh][jlz.,]*$",
    # an order that asks: "count how many", "explain the joke"
    r"^[jl,.]*(?:[xC][jl]*[hqo]|Ct[TKL]|CM[gNWe])",
    # nothing but a thing: "Ann's opinion on this", "today's summary"
    r"^[jl]*P[xjKLTCpfzatus,]*$|^[jl]*z+[jx]?[KLTH][^BVcdbvi]*$",
)
_ASKS = re.compile("|".join(_ASKING_FORMS))
_HANDING = word_set("give tell show")
_POINTS = word_set("points bullets highlights takeaways sentences lines")
_ONE_OF = re.compile(r"(?:give|tell|show) (?:me|us) (?:a|an|some|two|three|five|\d+) ")
# What the asker has from elsewhere: "my teacher told me", "I read yesterday that".
_OUTSIDER = re.compile(r"^[jl,.&z]*[utw][xj]?x(?:p[xj]?x)?[jz]*(?P<verb>c)|^[jl,.&z]*i[jzp]*(?P<read>V)(?!.*[NPWgk])")
_OF_MINE = re.compile(r"u[xj]?x[jz]*(?P<verb>c)")
_NOT_ASKED = frozenset("qohdNP")
_STATE = re.compile(r"[jl,.]*N[jlx]{1,2}$")
_EXCLAIMED = re.compile(r"what an? |(?:(?:yes|yeah|yep|no|nope) ,? ?)?(?:exactly|precisely) what (?:i|we) \w+$")
_QUESTION = re.compile(r"[qoh]")
_BEFORE_QUESTION = frozenset({"", ".", ",", "&", "R", "r", "M", "C", "s"})
_BEFORE_WANTED = frozenset({"", ".", ",", "&", "R", "r", "b", "B", "p", "x"})
_TELLING = word_set("said told asked explained mentioned")
_READING = word_set("read saw heard watched")

# A statement, then a question that is not about it: "Rose broke her arm, how long does it take to heal".
_STATEMENT = r"^(?:[^qohdr.,]|(?<=[jl])[.,])*[a-zA-Z@](?:[.,]|(?<=z)(?=h))[jl&z]*"
_GENERAL_FORMS = (
    r"h[xj]?[jl]*[Dm]|[qh][xj]?[jl]*m|qD[jl]*[siy]|m[jl]*[se]",  # how do, what can, what does it, will it
    r"q[bB][jl]*[iU]|b[jl]*y|D[jl]*y(?![jl]*[RvC])|myC$",  # why am I, what is your, are you, can you explain
    r"qt|CMt",  # what a day; tell me another
    r"(?P<sum>qbx)|(?P<true>(?:b[jl]*[ste]|ob)[jlx]*$)",  # what is 2+2; is she right
    r"(?P<task>(?:m[jl]*y[jl]*|l*)[xCR])",  # can you order some
)
_GENERAL_END = re.compile(rf"{_STATEMENT}(?:{'|'.join(_GENERAL_FORMS)})(?!.*[.,][jl]*[qohdbB])")
_TRUE = word_set("right wrong correct true")
_DOABLE = TASKS - {"remind", "name"}
_ANOTHER = word_set("a an another some")


def ends_generally(words: list[str], letters: str) -> bool:
    """Whether a statement comes first and a task or a question of general kind ends it."""
    match = _GENERAL_END.match(letters)
    if match is None:
        return False
    if match["task"]:
        return words[match.end() - 1] in _DOABLE
    if match["true"]:
        return words[-1] in _TRUE
    if match["sum"]:
        return words[match.end() - 1][0].isdigit()
    if match[0].endswith(("CMt", "qt")):
        return words[match.end() - 1] in _ANOTHER
    return True


def _outsider(view: View) -> bool:
    match = _OUTSIDER.match(view.shape) or (_NOT_ASKED.isdisjoint(view.shape) and _OF_MINE.search(view.shape))
    if not match:
        return False
    word = view.line.words[match.end() - 1]
    if view.words & {"any", "no"}:
        return False
    return word in (_TELLING if match["verb"] else _READING)


def _questioned(view: View) -> bool:
    """A question word at the head or the end of a clause, or after "no idea", "tell me"; not "I like what Ann said"."""
    for match in _QUESTION.finditer(view.shape):
        before = view.shape[: match.start()].rstrip("jlzk")
        if before.endswith("p") and before[:-1].rstrip("jl")[-1:] in {"", ".", ",", "&"}:
            before = before[:-1]
        if before[-1:] in _BEFORE_QUESTION or view.line.words[len(before) - 1] in WONDERING:
            return True
    return False


def _wanting(view: View) -> bool:
    """Any, anything at the head of a clause; not "you told me everything"."""
    if view.words.isdisjoint(_ASKING_WORDS):
        return False
    at = (i for i, word in enumerate(view.line.words) if word in _ASKING_WORDS)
    return any(view.shape[:i].rstrip("jlzk")[-1:] in _BEFORE_WANTED for i in at)


def silent(view: View) -> bool:
    """Nothing is asked of us: a statement, a greeting, what "my teacher told me"."""
    if (
        view.shape.startswith("tb")
        or _EXCLAIMED.match(view.text)
        or _outsider(view)
        or ends_generally(view.line.words, view.shape)
    ):
        return True
    if _ASKS.search(view.shape) or _questioned(view) or _wanting(view):
        return False
    if (
        either(view)
        or view.line.words[-1] == "again"
        or (_STATE.match(view.shape) and not STATES.isdisjoint(view.words))
    ):
        return False
    if outcome(view) or fragment(view) or looks(view):
        return False
    if view.shape[0] == "v" and view.line.words[1:2] == ["there"]:
        return False
    return not (view.line.words[-1] in _LAST_WORDS and view.shape[-2:-1] in {",", "."})


def _sought(view: View, first: str) -> bool:
    """A task only by its word: "count the votes", "remind me who", "translate what Ann said", "name of the bar"."""
    if first in {"count", "remind"} and not {"h", "q", "o"}.isdisjoint(view.shape):
        return True
    named = first == "name" and view.line.words[1:2] == ["of"]
    return named or (first == "count" and view.talk) or (first == "translate" and view.known)


def task(view: View) -> bool:
    """Something is to be made or done, not found."""
    if not view.words.isdisjoint(TASKS):
        first = first_word(view.line.words, view.shape)
        if first in TASKS and not _sought(view, first):
            return True
    if view.words.isdisjoint(_HANDING) or not view.words.isdisjoint(_POINTS):
        return False
    return _ONE_OF.search(view.text) is not None
