"""The forms a question about the conversation can take, as patterns over the letters of `lexicon`.

Leaves: `CLAUSES`, surest form first, and `Finding`, a form found in a question. `clues` says what each form still has
to prove. "_" in a pattern stands for what people put between the parts of a clause: adverbs, time words, fillers,
asides.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_GAP = "[jzlk]*"
_AND = "(?:,&?|&)j?"
_ONE = "(?:t?[gH]|[iyeWM]|N)"
_SUBJECT = f"(?P<subject>{_ONE}(?:{_AND}{_ONE})*)"
_NAMES = f"N(?:{_AND}N)*"
_NAMED = f"(?P<subject>{_NAMES})"

# Forms that ask what somebody did, not what they said.
LIFE = frozenset({"past", "present", "weighed"})
# Forms that are a question by themselves; others may be in a subordinate clause.
MAIN = frozenset({"asked", "perfect", "continuous", "who", "whose", "opinion", "meaning", "heard", "according"}) | LIFE


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


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("_", _GAP))


class Form(NamedTuple):
    """A form of asking. The pattern is tried only if at least one of the letters in `needs` is there."""

    name: str
    needs: frozenset[str]
    pattern: re.Pattern[str]


def _form(name: str, needs: str, text: str) -> Form:
    return Form(name, frozenset(needs), _pattern(text))


CLAUSES: tuple[Form, ...] = (
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
    # what was said, was redis mentioned, anything said about; did redis come up
    _form("passive", "c", r"(?P<subject>)(?:[Bnvd]|b_n)_(?:[tsxLKuUwP&pR]_){0,5}n?_(?P<verb>c)"),
    _form("passive", "c", r"(?P<subject>)[sKL]_(?P<verb>c)"),
    _form("passive", "c", r"^[l,.]*(?P<subject>)tx{1,2}_(?P<verb>c)"),
    _form("raised", "Cc", r"[dv]_(?P<subject>)[txLKZspPu]{1,6}_(?P<verb>[Cc])"),
    # Ann's message, my last question, a link from Ann, the argument between Ann and Bob, quote Ann
    _form("own", "uU", r"(?P<subject>[uU])_(?:x_)?(?P<verb>[KL])"),
    _form("owned", "P", r"(?P<subject>(?:[NP](?:,&?|&))*P)_(?:[xt]_){0,2}(?P<verb>[KLGHC])"),
    _form("sent", "f", f"(?P<verb>[KLs])_f_{_SUBJECT}"),
    _form("sent", "N", f"(?P<verb>x)_[fp]_{_NAMED}"),
    # according to Ann; what did Bob hear from Ann
    _form("according", "N", f"(?P<verb>x)_p_{_NAMED}"),
    _form("heard", "N", f"(?P<verb>[xBR])_f_{_NAMED}"),
    _form("between", "fp", f"(?P<verb>[KLH])_[fp]_{_NAMED}"),
    _form("quoted", "N", f"(?P<verb>K)_{_NAMED}"),
    # what does Ann think, what do you mean
    _form("opinion", "D", f"D_(?P<subject>{_NAMES}|e|t?[gH])_(?P<verb>[CK])"),
    _form("opinion", "D", "qD_(?P<subject>g)_(?P<verb>[xR])"),
    _form("opinion", "N", f"q_{_NAMED}_(?P<verb>C)"),
    _form("meaning", "D", r"qD_(?P<subject>y)_(?P<verb>C)"),
    # the last message, messages about, any mention of; do you remember my
    _form("last", "KLs", r"(?P<subject>)x_(?:x_)?(?P<verb>[KLs])"),
    _form("messages", "KL", r"(?P<subject>)(?P<verb>[KL])_(?:[aGp]|q)"),
    _form("messages", "C", r"(?P<subject>)t_(?P<verb>C)_[pa]"),
    _form("noun", "B", r"(?P<subject>)qB_t_(?:x_)?(?P<verb>[KL])"),
    _form("remembered", "R", r"(?P<verb>R)_(?P<subject>u)"),
    # when did Ann go, where was Ann, what does Ann own, is Ann here
    _form("past", "dv", f"[dv]_{_SUBJECT}_(?P<verb>[xvRDn]?)"),
    _form("past", "B", f"B_(?P<subject>{_NAMES}|e|W)(?P<verb>)"),
    _form("present", "D", f"D_(?P<subject>{_NAMES}|e)(?P<verb>)"),
    Form(
        "present",
        frozenset("b"),
        _pattern(f"(?<=q)(?:[xLK]|_){{0,3}}b_(?P<subject>{_NAMES}|t?[gH]|e)(?P<verb>)(?![NP])"),
    ),
    _form("present", "b", f"^[l,.j]*b_{_NAMED}(?P<verb>)"),
    _form("present", "b", f"qb_(?:x_)?p_{_NAMED}(?P<verb>)"),
)
LIFE_QUESTION = _pattern(f"[dvD]_(?P<subject>{_NAMES}|t?g|W)_(?P<verb>[xvDnp]?)")
