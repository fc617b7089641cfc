"""The clause of a question that says who did what, found by patterns over the letters of `lexicon`.

Enters: a `Line`. Leaves: a `Finding` with the places of its subject and verb, or None. Whether the question is about
this conversation at all is not decided here (see `about`); a clause says whose words it asks for and where its topic
begins. "_" in a pattern stands for what people put between the parts of a clause: adverbs, time words, fillers, asides.
"""

from __future__ import annotations

import re
from itertools import compress
from typing import NamedTuple

from channelmem.routing.lexicon import word_set
from channelmem.routing.people import Line

_GAP = "[jzlk]*"
_AND = "(?:,&?|&)j?"
_ONE = "(?:t?[gH]|[iyeWM]|N)"
_SUBJECT = f"(?P<subject>{_ONE}(?:{_AND}{_ONE})*)"
_NAMES = f"N(?:{_AND}N)*"
_NAMED = f"(?P<subject>{_NAMES})"
_SOMEBODY = frozenset("NPiyeWM")

# Forms that ask what somebody did, not what they said.
LIFE = frozenset({"past", "present", "named"})


# Forms that need a word of order: "my last question", but not "my exam question".
_ORDERED = frozenset({"own last", "last"})
ORDER = word_set("last latest previous recent newest first prior final")


class Finding(NamedTuple):
    """A clause about communication: letters[subject] (`who`) does it, and letters[verb] is what they do."""

    name: str
    subject: tuple[int, int]
    verb: tuple[int, int]
    start: int
    end: int
    who: str
    verb_word: str = ""
    """Empty if a form ends with its subject."""

    @classmethod
    def of(cls, name: str, match: re.Match[str], words: list[str]) -> Finding:
        verb, end = match.span("verb"), match.end()
        verb_word = words[verb[0]] if verb[0] < len(words) else ""
        return cls(name, match.span("subject"), verb, match.start(), end, match["subject"], verb_word)


class Form(NamedTuple):
    """A form of asking. The pattern is tried only if at least one of the letters in `needs` is there."""

    name: str
    needs: frozenset[str]
    pattern: re.Pattern[str]
    verbs: frozenset[str]
    """The verb must be one of these, unless there are none."""


def _form(name: str, needs: str, text: str, verbs: str = "") -> Form:
    return Form(name, frozenset(needs), re.compile(text.replace("_", _GAP)), word_set(verbs))


_SPEAK = (
    "say said tell told mention mentioned write wrote written answer answered reply replied ask asked suggest "
    "suggested post posted promise promised think recommend recommended explain explained"
)
_HEAR = "hear heard get got receive received learn learned"
_POSTS = (
    "message messages post posts comment comments link links mention mentions replies thread threads talk discussion "
    "conversation picture pictures photo photos image images file files screenshot screenshots video videos"
)
# The surest form comes first.
FORMS: tuple[Form, ...] = (
    # did Ann say, has anyone mentioned, what is Bob talking about
    _form("asked", "d", f"d_{_SUBJECT}_(?P<verb>[CcKGH])"),
    _form("perfect", "v", f"v_{_SUBJECT}_(?P<verb>[cGCK])"),
    _form("perfect", "n", f"v_{_SUBJECT}_n_(?P<verb>G)"),
    _form("continuous", "G", f"[bB]_{_SUBJECT}_(?:n_)?(?P<verb>G)"),
    _form("anyone", "g", r"(?:^|(?<=[.,z]))[lj,.]*(?P<subject>g)_(?P<verb>[CK])"),
    # who said, who was it that said, whose idea
    _form("who", "o", r"(?P<subject>o)(?:_[bB]_st?)?_(?:[vbB]_)?(?:n_)?(?P<verb>[cG])"),
    _form("who", "h", r"h(?P<subject>x)_(?P<verb>c)"),
    _form("whose", "o", r"(?P<subject>o)_(?P<verb>[KL])"),
    # was I mentioned, has Ann been quoted
    _form("passive", "c", r"(?P<subject>)(?:B_[iNyeW]_|v_[iNyeW]_n_)(?P<verb>c)"),
    # what Ann said; Ann said something, what was it
    _form("told", "cG", f"{_SUBJECT}_(?:[vBb]_)?(?:n_)?(?P<verb>[cG])"),
    # did Zofia say, where nobody is called Zofia
    _form("stranger", "x", r"(?<!z)[dv]_(?P<subject>x{1,2})_(?P<verb>[CcK])", _SPEAK),
    # what was said, was redis mentioned, anything said about; did redis come up
    _form("passive", "c", r"(?P<subject>)(?:[Bnvd]|b_n)_(?:[tsxLKuUwP&pR]_){0,5}n?_(?P<verb>c)"),
    _form("passive", "c", r"(?P<subject>)[sKL]_(?P<verb>c)"),
    _form("passive", "c", r"^[l,.]*(?P<subject>)tx{1,2}_(?P<verb>c)"),
    _form("raised", "Cc", r"[dv]_(?P<subject>)[txLKZspPu]{1,6}_(?P<verb>[Cc])", "come came"),
    # my last question, Ann's message, a link from Ann, the argument between Ann and Bob, quote Ann
    _form("own last", "uU", r"(?P<subject>[uU])_[xj]_(?P<verb>[KL])"),
    _form("own", "uU", r"(?:(?<=^R)|(?<=yR)|(?<=qB))(?P<subject>[uU])_(?P<verb>[KL])"),
    _form("owned", "P", r"(?P<subject>(?:[NP](?:,&?|&))*P)_(?:[xt]_){0,2}(?P<verb>[KLGHC])"),
    _form("sent", "f", f"(?P<verb>[KL])_f_{_SUBJECT}"),
    _form("sent", "N", f"(?P<verb>x)_[fp]_{_NAMED}", "news word sign trace"),
    # according to Ann; what did Bob hear from Ann
    _form("according", "N", f"(?P<verb>x)_p_{_NAMED}", "according"),
    _form("heard", "N", f"(?P<verb>[xBR])_f_{_NAMED}", _HEAR),
    _form("between", "fp", f"(?P<verb>[KLH])_[fp]_{_NAMED}"),
    _form("quoted", "N", f"(?P<verb>K)_{_NAMED}", "quote"),
    # what does Ann think, what do you mean
    _form("opinion", "D", f"D_(?P<subject>{_NAMES}|e|t?[gH])_(?P<verb>[CK])"),
    _form("opinion", "N", f"q_{_NAMED}_(?P<verb>C)"),
    _form("meaning", "D", r"qD_(?P<subject>y)_(?P<verb>C)", "mean"),
    # the last message, messages about, any mention of; do you remember my
    _form(
        "last",
        "KLs",
        r"(?P<subject>)[xj]_(?:x_)?(?P<verb>[KLs])",
        f"{_POSTS} thing message question answer reply post link",
    ),
    _form("messages", "KL", r"(?P<subject>)(?P<verb>[KL])_(?:[aGp]|q)", _POSTS),
    _form("messages", "C", r"(?P<subject>)t_(?P<verb>C)_[pa]"),
    _form("noun", "B", r"(?P<subject>)qB_t_(?:x_)?(?P<verb>[KL])"),
    _form("remembered", "R", r"(?P<verb>R)_(?P<subject>u)", "remember"),
    # when did Ann go, where was Ann, what does Ann own, is Ann here
    _form("past", "dv", f"[dv]_{_SUBJECT}_(?P<verb>[xvRDn]?)"),
    _form("past", "B", f"B_(?P<subject>{_NAMES}|e|W)(?P<verb>)"),
    _form("present", "D", f"D_(?P<subject>{_NAMES}|e)(?P<verb>)"),
    _form("present", "b", f"(?<=q)(?:[xLK]|_){{0,3}}b_(?P<subject>{_NAMES}|t?[gH]|e)(?P<verb>)(?![NP])"),
    _form("present", "b", f"^[l,.j]*b_{_NAMED}(?P<verb>)"),
)
_NEEDS = tuple(form.needs for form in FORMS)
_NAMED_FIRST = re.compile(rf"{_NAMES}|(?:N(?:{_AND}))*P")
_THEIR_ANSWER = re.compile(r"q[bB][jl]*(P)[jx]*[KL]")
_SAID_THERE = re.compile(r"q[jl]*(N)[jlv]*c")
_LIFE_QUESTION = re.compile(f"[dvD]_(?P<subject>{_NAMES}|t?g|W)_(?P<verb>[xvDnp]?)".replace("_", _GAP))
# Forms that are a question by themselves; others may be in a subordinate clause.
_MAIN = LIFE | {
    "asked",
    "perfect",
    "continuous",
    "who",
    "whose",
    "opinion",
    "meaning",
    "heard",
    "according",
    "stranger",
}
_PUT = re.compile(r"[KL](N)[jl]*[xcC]")  # "can somebody find the link Ann put here"
_EITHER_OF = re.compile(r"[bB]s[jl]*(?P<who>N(?:[&,]+N)*)[jl]*$")


def find(line: Line) -> Finding | None:
    """The clause a question is built on: the first form that fits, with the person it is about."""
    letters = line.letters
    for form in compress(FORMS, map(frozenset(letters).intersection, _NEEDS)):
        found = _matches(form, line)
        if found:
            # "Somebody told me Ann said": the one who is known is meant.
            return _about_whom(line, next((each for each in found if "N" in each.who), found[0]))
    names = _names(letters)
    return Finding("named", names, (len(letters), len(letters)), 0, len(letters), letters[slice(*names)])


def _matches(form: Form, line: Line) -> list[Finding]:
    if form.pattern.search(line.letters) is None:
        return []
    found = [Finding.of(form.name, match, line.words) for match in form.pattern.finditer(line.letters)]
    if form.name in _ORDERED:
        found = [each for each in found if not ORDER.isdisjoint(line.words[each.start : each.end])]
    return [each for each in found if not form.verbs or each.verb_word in form.verbs]


def _about_whom(line: Line, finding: Finding) -> Finding:
    """The finding with its real subject, where another clause or no clause at all names it."""
    letters = line.letters
    if finding.who == "o" and (either := _EITHER_OF.search(letters, 0, finding.start)):
        return finding._replace(subject=either.span("who"), who=either["who"])  # "was it Ann or Bob who said so"
    if finding.name == "told" and (theirs := _THEIR_ANSWER.search(letters, 0, finding.start)):
        return finding._replace(subject=theirs.span(1), who="P")  # "Ann's answer when Bob asked her"
    if finding.name == "messages" and (said := _SAID_THERE.search(letters, finding.end - 1)):
        return finding._replace(subject=said.span(1), who="N")  # "the message where Ann mentioned it"
    if finding.name not in _MAIN and (life := _LIFE_QUESTION.search(letters, 0, finding.start)):
        return Finding.of("past", life, line.words)  # "how did Ann feel when somebody wrote to her"
    if finding.who or finding.name in {"passive", "raised"}:
        return finding
    names = _names(letters)  # "Carlos had an idea for the stand, what was it"
    return finding._replace(subject=names, who=letters[slice(*names)])


def _names(letters: str) -> tuple[int, int]:
    """Where the first known people are, unless somebody else is the subject before them."""
    match = _NAMED_FIRST.search(letters)
    if match is None:
        return (0, 0)
    if {"o", "W", "g"}.isdisjoint(letters[: match.start()]):
        return match.span()
    put = _PUT.search(letters)
    return put.span(1) if put else (0, 0)
