"""The clues that one pattern over a line's shape and one set of words can tell, each with its weight.

Enters: a `View`. Leaves: `signs`, those of the table `SIGNS` that hold. Clues that need more of a look: `evidence`.
"""

from __future__ import annotations

import re
from itertools import compress
from typing import NamedTuple

from channelmem.routing.lexicon import word_set
from channelmem.routing.verbs import PLACES, STATES, TALK_NOUNS
from channelmem.routing.view import PAST, View

WHO_DID = re.compile(
    r"(?:o|qp[yWM])(?:[jl]*[bB][jl]*st?)?[jlzk]*(?:[vbB][jlzk]*n?[jlzk]*)?(?P<deed>[VcAG]|[vB](?=[tuUP]))"
)
TOLD = re.compile(r"i[jv]*c[jl]*y|(?:^|[.,&])[jl]*cy|y[jv]*[Vc]M|(?<=d)y[jl]*[RCK]M")
POINTING = word_set("it this that these those")
_SUPERLATIVE = word_set("best worst biggest largest tallest fastest oldest most richest longest highest average")
_IS_IT_DONE = re.compile(r"^[jl,.&]*(?:[bBv][st][jl]*n?[jl]*[Vc]|Bt[xLKT]|qx{1,2}B[st])[jlz]*$|^Bs[jl]*x[jl]*$")
YOU_GAVE = re.compile(r"t[jx]{0,2}[xLKTs](?P<you>y)[jv]*[Vc](?!M)")
_IN_A_STATE = re.compile(r"^[jl,.]*N[jlx]{1,2}$|^[jl,.]*s[lx]?pN|b[jl]*[NgeW][jl]*[xpk]|[Ng]b[jl]*[xpk]")
# What is asked for anew: "any ideas for dinner".
_FRESH = word_set("idea ideas suggestions recommendations advice thoughts tips")
_OPINIONS = word_set("smarter better prettier cuter hotter funnier stronger dumber cooler nicer uglier taller worse")
_WORLD_VERBS = word_set(
    """win lose beat play score release launch announce crash die sink fall rise discover invent come air premiere exist
    raise drop rain snow ban land survive mean"""
)
_LEFT = word_set("left open missing pending")
_WHO_IS = word_set("in out up down on off free available game")


class Sign(NamedTuple):
    """A clue that holds where the pattern is found in the shape and one of the words is there."""

    name: str
    weight: int
    pattern: re.Pattern[str] | None = None
    words: frozenset[str] = frozenset()
    unless_known: bool = False
    """It says nothing where somebody of the roster is named."""
    unless: frozenset[str] = frozenset()
    """It says nothing beside one of these words."""
    needs: str = ""
    """Letters of which one must be there, or the pattern need not be tried."""


SIGNS: tuple[Sign, ...] = (
    Sign("somebody known", 2, re.compile(r"[NP]"), needs="NP"),
    Sign("something of theirs", 1, re.compile("P"), needs="P"),
    Sign("we", 2, None, word_set("we us our ours")),
    Sign("he or she", 1, None, word_set("he she him her hers his")),
    Sign("I or they", 1, None, word_set("i my they")),
    Sign("people", 1, PAST, word_set("people")),
    Sign("in the past", 1, PAST, needs="dBVcv"),
    Sign("this place", 2, re.compile(r"[tpfy][xj]?H|k"), needs="Hk"),
    Sign("who", 1, None, word_set("who whom whose"), unless_known=True),
    Sign("who did it", 2, WHO_DID, needs="oq"),
    Sign("whose", 2, re.compile(r"o[xKLTH]{1,2}[bBVc]"), word_set("whose")),
    Sign("something that was", 2, re.compile(r"^[jl,.&]*qBt(?:x?[xLKT])?[jlz.,]*$"), needs="B"),
    Sign("what is with it", 3, re.compile(r"qb[jl]*p[jl]*[tgNPe]"), word_set("with")),
    Sign("something there was", 3, re.compile(r"Bjs[jxG]?[ap]|bjs[jxG]?(?:a|k|p[kHN])"), needs="s"),
    Sign("has there been any", 3, re.compile(r"^[jl,.&]*vj[jl]*n[jl]*t?[jx]?[KLTCG]"), word_set("there")),
    Sign("about what", 1, re.compile(r"[.,][jl]*[ap]q[jl.]*$"), needs="q"),
    Sign("what changed", 2, re.compile(r"^[jl,.&]*q[jl]*V(?:[jlz]*$|pt)"), word_set("changed moved")),
    Sign("somebody else spoke", -3, re.compile(r"d[jl]*x{1,3}[jl]*C"), needs="C"),
    Sign("what became of it", 3, None, word_set("become became")),
    Sign("there was", 2, re.compile(r"j[bB][jtCKLT]"), word_set("there")),
    Sign("it, this or that did", 2, re.compile(r"d[jlz]*(?:s|t(?=[jlz]*[xVARC]))|q[Vc]s"), POINTING),
    Sign("that thing", 2, re.compile(r"t[xj]?sa"), needs="s"),
    Sign("it or that", 1, re.compile(r"[xVCcR][st][jlz]*$"), needs="st"),
    Sign("done or not", 1, re.compile(r"[bBv]t[xT]{1,2}n?V"), needs="V"),
    Sign("was it done", 1, re.compile(r"^[jl,.&]*[Bv]t[xT]{1,2}n?V"), needs="V"),
    Sign("which one did", 2, re.compile(r"^[jl,.&]*qx{1,2}V[jl]*$"), word_set("which")),
    Sign("to me", 1, re.compile(r"[dBVc].*M"), word_set("me")),
    Sign("about whom", 1, re.compile(r"N.*[pa][jl]*$"), needs="N"),
    Sign("anything I", 2, re.compile(r"^[jl,.&]*s[jl]*i"), unless=word_set("can could"), needs="s"),
    Sign("why are we", 1, re.compile(r"q[bB][jl]*[Wgs]|q[bB]j"), word_set("why")),
    Sign("any of it", 2, re.compile(r"^[jl,.&]*(?:t[KLT]|Bjt)"), word_set("any"), unless=_FRESH),
    Sign("again or yet", 1, None, word_set("again yet still already")),
    Sign("told before", 3, TOLD, needs="y"),
    Sign("what you gave", 3, YOU_GAVE, needs="y"),
    Sign("who is in", 2, re.compile(r"ob[jl]*(?:[jp]|x)[jlz.,]*(?:$|[p&.,z])"), _WHO_IS),
    Sign("for or against", 3, re.compile(r"(?:o|hx|[bB][jl]*g)[jl]*[bB]?[jl]*p|^g[jl]*p"), word_set("against")),
    Sign("who is the one", 2, re.compile(r"obt[gsx]t?[NiWeg]"), needs="o"),
    Sign(
        "advice is asked",
        -3,
        re.compile(r"[qh][xjLKT]{0,2}[jl]*(?:m[jl]*[iWy]|D[jl]*[iWy](?![jl]*R))"),
        needs="mD",
    ),
    Sign("help is asked", -3, re.compile(r"[Dm][jl]*g"), word_set("know help"), unless_known=True),
    Sign("an opinion is asked", -3, re.compile(r"o|^[jl]*q[xLKT]?b"), _OPINIONS),
    Sign("who wants it", 2, re.compile(r"o[jl]*[xC]"), word_set("wants needs agrees prefers thinks likes hates")),
    Sign("what was it again", 3, re.compile(r"^[jl,.&]*[qo][bB]tj?[xLKTC]{1,2}j"), word_set("again")),
    Sign(
        "the thing did",
        2,
        re.compile(r"^[jl,.&]*d[tu][xTLKHA]{1,2}[jl]*[xCRH][jlz]*$"),
        unless=_WORLD_VERBS,
        needs="d",
    ),
    Sign("is it done", 2, _IS_IT_DONE, unless=word_set("day date year time month"), needs="bBv"),
    Sign("what did it", 2, re.compile(r"(?:^|[.,])[jl&]*q[jl]*V"), word_set("won fixed worked helped solved")),
    Sign("was there", 2, re.compile(r"^[jl,.&]*Bj"), word_set("there")),
    Sign("who is with it", 2, re.compile(r"ob[jl]*p(?:[uMNW]|x[jl]*$)|ov[jl]*(?:s|t[LT])"), needs="o"),
    Sign("once more", 2, re.compile(r"^[jl,.&]*i?[jl]*R[jl]*t[xLKT]{1,2}j"), word_set("again")),
    Sign("why all that", 3, re.compile(r"^[jl,.&]*q[jl]*t?[xLKT]{1,3}[jl]*$"), word_set("why")),
    Sign("what I did", 1, re.compile(r"qx?di"), unless=word_set("do wrong"), needs="d"),
    Sign("what I am to do", 2, re.compile(r"qb[jl]*i[jl]*[AVG]"), unless=word_set("doing"), needs="i"),
    Sign("owed", 2, None, word_set("owe owed owes")),
    Sign("anything for me", 3, re.compile(r"^[jl,.&]*s[jl]*pM[jl]*$"), needs="M"),
    Sign("what is this about", 3, re.compile(r"q[bB]ta[jl]*[NPtuWMegx]"), word_set("this that")),
    Sign("where we are", 1, re.compile(r"[qh][xj]*b[jl]*W[jlp]*$"), needs="W"),
    Sign("what is left", 3, re.compile(r"^[jl,.&]*qb[jl]*[xVj](?:[jlz]*$|p[CxR])"), _LEFT),
    Sign("what else", 2, re.compile(r"[qos]j"), word_set("else")),
    Sign("is it still", 1, re.compile(r"^[jl,.&]*b[xA]j"), word_set("still")),
    Sign("how was it", 2, re.compile(r"hBs|qVp[st][jl]*$"), needs="hV"),
    Sign("is it over", 3, re.compile(r"^[jl,.&]*bs[jl]*[pj][jl]*$"), word_set("over on off up down")),
    Sign("who was first to", 2, re.compile(r"o[bB][jl]*p[CK]"), needs="o"),
    Sign("somebody's state", 2, _IN_A_STATE, STATES),
    Sign("where somebody is", 1, re.compile(r"b[jl]*[NgeW][jl]*[xpkj]$|[Ng]b[jl]*[xpkj]$"), PLACES),
    Sign("it got done", 2, re.compile(r"^[jl,.&]*d[tuw][xATLKHC]{1,3}(?:R|x)?V"), word_set("get")),
    Sign("a superlative", -2, None, _SUPERLATIVE, unless_known=True, unless=TALK_NOUNS),
    Sign("ever", -2, None, word_set("ever"), unless_known=True, unless=word_set("it that this we")),
    Sign("a quotation", -3, re.compile("Z"), unless_known=True, needs="Z"),
)


def _by_word() -> dict[str, tuple[Sign, ...]]:
    words = frozenset().union(*(sign.words for sign in SIGNS))
    return {word: tuple(sign for sign in SIGNS if word in sign.words) for word in words}


# Most signs need a word or a letter that is not there: only those whose word or letter is found are tried.
_BY_LETTER = tuple(sign for sign in SIGNS if not sign.words)
_NEEDS = tuple(frozenset(sign.needs) for sign in _BY_LETTER)
_BY_WORD = _by_word()


def signs(view: View) -> list[Sign]:
    """The signs that hold, each once."""
    tried = list(compress(_BY_LETTER, map(frozenset(view.shape).intersection, _NEEDS)))
    tried += dict.fromkeys([sign for word in view.line.words if word in _BY_WORD for sign in _BY_WORD[word]])
    return [sign for sign in tried if _holds(sign, view)]


def _holds(sign: Sign, view: View) -> bool:
    if sign.pattern is not None and sign.pattern.search(view.shape) is None:
        return False
    return not (sign.unless_known and view.known) and (not sign.unless or sign.unless.isdisjoint(view.words))
