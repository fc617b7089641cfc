"""The forms a question about the conversation can take, as patterns over the letters of `lexicon`.

Leaves: `CLAUSES`, in order of how sure a form is, and `Finding`, one that was found. What each form still has to
prove is in `clues`. "_" in a pattern stands for what people put between the parts of a clause: adverbs, time
words, fillers, asides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_GAP = "[jzlk]*"
_AND = "(?:,&?|&)j?"
_ONE = "(?:t?[gH]|[iyeWM]|N)"
_SUBJECT = f"(?P<subject>{_ONE}(?:{_AND}{_ONE})*)"
_NAMES = f"N(?:{_AND}N)*"
_NAMED = f"(?P<subject>{_NAMES})"

# Forms that ask for what somebody did, not for what they said.
LIFE = frozenset({"past", "present", "weighed"})
# Forms that carry their own question; others may stand in a side clause.
MAIN = frozenset({"asked", "perfect", "continuous", "who", "whose", "opinion", "meaning", "heard", "according"}) | LIFE


@dataclass(frozen=True, slots=True)
class Finding:
    """A clause of communication: letters[subject] does it, letters[verb] is it."""

    name: str
    subject: tuple[int, int]
    verb: tuple[int, int]
    start: int
    end: int

    @classmethod
    def of(cls, name: str, match: re.Match[str]) -> Finding:
        return cls(name, match.span("subject"), match.span("verb"), match.start(), match.end())


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("_", _GAP))


CLAUSES: tuple[tuple[str, re.Pattern[str]], ...] = (
    # did Ann say, has anyone mentioned, what is Bob talking about
    ("asked", _pattern(f"d_{_SUBJECT}_(?P<verb>[CcKGH])")),
    ("perfect", _pattern(f"v_{_SUBJECT}_(?P<verb>[cGCK])")),
    ("perfect", _pattern(f"v_{_SUBJECT}_n_(?P<verb>G)")),
    ("continuous", _pattern(f"[bB]_{_SUBJECT}_(?:n_)?(?P<verb>G)")),
    ("anyone", _pattern(r"^[l,.]*(?P<subject>g)_(?P<verb>[CK])")),
    # who said, who was it that said, whose idea
    ("who", _pattern(r"(?P<subject>o)(?:_[bB]_st?)?_(?:[vbB]_)?(?:n_)?(?P<verb>[cG])")),
    ("who", _pattern(r"h(?P<subject>x)_(?P<verb>c)")),
    ("whose", _pattern(r"(?P<subject>o)_(?P<verb>[KL])")),
    # was I mentioned, has Ann been quoted
    ("passive", _pattern(r"(?P<subject>)(?:B_[iNyeW]_|v_[iNyeW]_n_)(?P<verb>c)")),
    # what Ann said; Ann said something, what was it
    ("told", _pattern(f"{_SUBJECT}_(?:[vBb]_)?(?:n_)?(?P<verb>[cG])")),
    # what was said, was redis mentioned, anything said about; did redis come up
    ("passive", _pattern(r"(?P<subject>)[Bnvbd]_(?:[tsxLKuUwP&pR]_){0,5}n?_(?P<verb>c)")),
    ("passive", _pattern(r"(?P<subject>)[sKL]_(?P<verb>c)")),
    ("passive", _pattern(r"^[l,.]*(?P<subject>)tx{1,2}_(?P<verb>c)")),
    ("raised", _pattern(r"[dv]_(?P<subject>)[txLKZspPu]{1,6}_(?P<verb>[Cc])")),
    # Ann's message, my last question, a link from Ann, the argument between Ann and Bob, quote Ann
    ("own", _pattern(r"(?P<subject>[uU])_(?:x_)?(?P<verb>[KL])")),
    ("owned", _pattern(r"(?P<subject>(?:[NP](?:,&?|&))*P)_(?:[xt]_){0,2}(?P<verb>[KLGH])")),
    ("sent", _pattern(f"(?P<verb>[KLs])_f_{_SUBJECT}")),
    ("sent", _pattern(f"(?P<verb>x)_[fp]_{_NAMED}")),
    # according to Ann; what did Bob hear from Ann
    ("according", _pattern(f"(?P<verb>x)_p_{_NAMED}")),
    ("heard", _pattern(f"(?P<verb>[xBR])_f_{_NAMED}")),
    ("between", _pattern(f"(?P<verb>[KLH])_[fp]_{_NAMED}")),
    ("quoted", _pattern(f"(?P<verb>K)_{_NAMED}")),
    # what does Ann think, what do you mean
    ("opinion", _pattern(f"D_(?P<subject>{_NAMES}|e|t?[gH])_(?P<verb>[CK])")),
    ("opinion", _pattern("qD_(?P<subject>g)_(?P<verb>[xR])")),
    ("opinion", _pattern(f"q_{_NAMED}_(?P<verb>C)")),
    ("meaning", _pattern(r"qD_(?P<subject>y)_(?P<verb>C)")),
    # the last message, messages about, any mention of; do you remember my
    ("last", _pattern(r"(?P<subject>)x_(?:x_)?(?P<verb>[KLs])")),
    ("messages", _pattern(r"(?P<subject>)(?P<verb>[KL])_(?:[aGp]|q)")),
    ("messages", _pattern(r"(?P<subject>)t_(?P<verb>C)_[pa]")),
    ("noun", _pattern(r"(?P<subject>)qB_t_(?:x_)?(?P<verb>[KL])")),
    ("remembered", _pattern(r"(?P<verb>R)_(?P<subject>u)")),
    # when did Ann go, where was Ann, what does Ann own, is Ann here
    ("past", _pattern(f"[dv]_{_SUBJECT}_(?P<verb>[xvRDn]?)")),
    ("past", _pattern(f"B_(?P<subject>{_NAMES}|e|W)(?P<verb>)")),
    ("present", _pattern(f"D_(?P<subject>{_NAMES}|e)(?P<verb>)")),
    ("present", _pattern(f"(?<=q)(?:[xLK]|_){{0,3}}b_(?P<subject>{_NAMES}|t?[gH]|e)(?P<verb>)(?![NP])")),
    ("present", _pattern(f"^[l,.j]*b_{_NAMED}(?P<verb>)")),
    ("present", _pattern(f"qb_(?:x_)?p_{_NAMED}(?P<verb>)")),
)
LIFE_QUESTION = _pattern(f"[dv]_(?P<subject>{_NAMES}|t?g|W)_(?P<verb>[xvDn]?)")
