"""What speaks for and against a question being about this conversation: each clue with its weight.

Enters: a `View`, a line with its shape and its words. Leaves: `SIGNS`, the table of clues that one pattern over the
shape and one set of words can tell, and `CLUES`, those that need a look at the words behind the letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from channelmem.routing.lexicon import word_set
from channelmem.routing.naming import Line
from channelmem.routing.spans import Clue
from channelmem.routing.verbs import AFFAIRS, OUTCOMES, PLACES, STATES, TALK_NOUNS
from channelmem.routing.world import DEEDS, FAMOUS, MANKIND, WORLD

_GROUP = word_set("anyone anybody someone somebody everyone everybody nobody yall guys folks chat others noone you")
_ABSENT = word_set("afk unread backlog scrollback brb lurking")
_SUPERLATIVE = word_set("ever best worst biggest largest tallest fastest oldest most richest longest highest average")


LOOKS = word_set("read search scroll explain")
_POLITE = word_set("can could would will you please just go let to help me us kindly")


def first_word(words: list[str], letters: str) -> str:
    """The first word that says what is wanted: "could you please *write*"."""
    at = len(letters) - len(letters.lstrip("jl,.&zk"))
    return next((word for word in words[at:] if word not in _POLITE), "")


class View(NamedTuple):
    """A line, read once for all clues."""

    line: Line
    shape: str
    words: frozenset[str]
    known: bool
    """Somebody of the roster is named."""
    moving: bool
    """It tells of something that happened or is going on."""
    talk: bool
    """It points at a thing of talk: "that link", "my question"."""


class Sign(NamedTuple):
    """A clue that holds where the pattern is found in the shape and one of the words is there."""

    name: str
    weight: int
    pattern: re.Pattern[str] | None = None
    words: frozenset[str] = frozenset()
    unless_known: bool = False
    """It says nothing where somebody of the roster is named."""


_PAST = re.compile(r"[dBVc]|v[jzlk]*[NPWieygncV]|[NPWiye][jzlk]*v")
_NOW = re.compile(r"b[jzlk]*(?:[NPWegy&,][jzlk]*)*n?[AG]|[NWeg][jzlk]*b[jzlk]*[AG]|N[jx]?[AG]|bt[TLKHC][AG]")
_DOES = re.compile(r"Nj*x(?=.)")
_DEFINITE = re.compile(r"(?:[tPuUwqz]|hx)[jx]{0,2}p?(?P<noun>[KLTHC])")
_WHO_DID = re.compile(
    r"(?:o|qp[yWM])(?:[jl]*[bB][jl]*st?)?[jlzk]*(?:[vbB][jlzk]*n?[jlzk]*)?(?P<deed>[VcAG]|[vB](?=[tuUP]))"
)
_FRAGMENT_WORDS = 8
_IN_A_STATE = STATES | PLACES
_POINTING = word_set("it this that these those")
TOLD = re.compile(r"i[jv]*c[jl]*y|(?:^|[.,])[jl]*cy|y[jv]*[Vc]M|(?<=d)y[jl]*[RCK]M")

_OPINIONS = word_set("smarter better prettier cuter hotter funnier stronger dumber cooler nicer uglier taller worse")
_WHO_IS = word_set("in out up down on off free available game")

SIGNS: tuple[Sign, ...] = (
    Sign("somebody known", 2, re.compile(r"[NP]")),
    Sign("something of theirs", 1, re.compile("P")),
    Sign("we", 2, None, word_set("we us our ours")),
    Sign("he or she", 1, None, word_set("he she him her hers his")),
    Sign("I or people", 1, None, word_set("i my they people")),
    Sign("in the past", 1, _PAST),
    Sign("this place", 2, re.compile(r"[tpfy][xj]?H|k")),
    Sign("who", 1, None, word_set("who whom whose"), unless_known=True),
    Sign("who did it", 2, _WHO_DID),
    Sign("whose", 2, re.compile(r"o[xKLTH]{1,2}[bB]"), word_set("whose")),
    Sign("something that was", 2, re.compile(r"^[jl,.&]*qBt(?:x?[xLKT])?[jlz.,]*$")),
    Sign("what is with it", 3, re.compile(r"qb[jl]*p[jl]*[tgNPe]"), word_set("with")),
    Sign("something there was", 3, re.compile(r"[bB]js[jxG]?[ap]")),
    Sign("there was", 2, re.compile(r"j[bB][jtCKLT]"), word_set("there")),
    Sign("it, this or that did", 2, re.compile(r"d[jlz]*(?:s|t(?=[jlz]*[xVARC]))|q[Vc]s"), _POINTING),
    Sign("that thing", 2, re.compile(r"t[xj]?sa")),
    Sign("it or that", 1, re.compile(r"[xVCcR][st][jlz]*$")),
    Sign("done or not", 1, re.compile(r"[bBv]t[xT]{1,2}n?V")),
    Sign("was it done", 1, re.compile(r"^[jl,.&]*[Bv]t[xT]{1,2}n?V")),
    Sign("which one did", 2, re.compile(r"^[jl,.&]*qx{1,2}V[jl]*$"), word_set("which")),
    Sign("to me", 1, re.compile(r"[dBVc].*M"), word_set("me")),
    Sign("about whom", 1, re.compile(r"N.*[pa][jl]*$")),
    Sign("anything for me", 1, re.compile(r"^[jl,.&]*s[jl]*i")),
    Sign("why are we", 1, re.compile(r"q[bB][jl]*[Wg]"), word_set("why")),
    Sign("any of it", 2, re.compile(r"^[jl,.&]*(?:t[KLT]|Bjt)"), word_set("any")),
    Sign("again or yet", 1, None, word_set("again yet still already")),
    Sign("told before", 3, TOLD),
    Sign("who is in", 2, re.compile(r"ob[jl]*(?:[jp]|x)[jlz.,]*(?:$|[p&.,z])"), _WHO_IS),
    Sign("for or against", 2, re.compile(r"(?:o|[bB][jl]*g)[jl]*b?[jl]*p|^g[jl]*p"), word_set("against")),
    Sign("who is the one", 2, re.compile(r"obt[gsx]t?[NiWeg]")),
    Sign("advice is asked", -3, re.compile(r"[qh][xjLKT]{0,2}[jl]*(?:m[jl]*[iWy]|D[jl]*[iWy](?![jl]*R))")),
    Sign("an opinion is asked", -3, re.compile(r"[obB]"), _OPINIONS),
    Sign("who wants it", 2, re.compile(r"o[jl]*x"), word_set("wants needs agrees prefers thinks likes hates")),
    Sign("what was it again", 3, re.compile(r"^[jl,.&]*[qo][bB]tj?[xLKTC]{1,2}j"), word_set("again")),
    Sign("somebody's state", 1, re.compile(r"b[jl]*[NgeW][jl]*[xpk]|[Ng]b[jl]*[xpk]"), STATES),
    Sign("where somebody is", 1, re.compile(r"b[jl]*[NgeW][jl]*[xpkj]$|[Ng]b[jl]*[xpkj]$"), PLACES),
    Sign("it got done", 2, re.compile(r"^[jl,.&]*d[tuw][xATLKHC]{1,3}(?:R|x)?V"), word_set("get")),
    Sign("a superlative", -2, None, _SUPERLATIVE, unless_known=True),
    Sign("a quotation", -3, re.compile("Z"), unless_known=True),
)


def view_of(line: Line, shape: str) -> View:
    known = "N" in shape or "P" in shape
    moving = _PAST.search(shape) is not None or _now(line.words, shape)
    talk = any(line.words[match.start("noun")] in TALK_NOUNS for match in _DEFINITE.finditer(shape))
    return View(line, shape, frozenset(line.words), known, moving, talk)


def holds(sign: Sign, view: View) -> bool:
    if sign.unless_known and view.known:
        return False
    if sign.words and sign.words.isdisjoint(view.words):
        return False
    return sign.pattern is None or sign.pattern.search(view.shape) is not None


def _now(words: list[str], shape: str) -> bool:
    """Progressive, or the present of somebody known: "Ann refuses to play"."""
    return _NOW.search(shape) is not None or any(
        words[match.end() - 1].endswith("s") for match in _DOES.finditer(shape)
    )


def _going_on(view: View) -> bool:
    return _now(view.line.words, view.shape)


def _group(view: View) -> bool:
    return (view.moving or not view.words.isdisjoint(_IN_A_STATE)) and any(
        letter == "g" and word in _GROUP for letter, word in zip(view.shape, view.line.words, strict=True)
    )


_BACK = re.compile(
    r"(?<!\S)(?:i am back|just (?:got|came) (?:back|here|home|online)|got back|just woke|woke up|scroll(?:ed|ing)? up"
    r"|just (?:joined|arrived|logged)|was (?:away|asleep|gone|offline|out)|back now|catching up|missed|lost track"
    r"|so far|short version)(?!\S)"
)


def _absent(view: View) -> bool:
    return not view.words.isdisjoint(_ABSENT) or _BACK.search(" ".join(view.line.words)) is not None


_THIS = re.compile(r"t[jx]?[KLTH]")


def _this(view: View) -> bool:
    return any(view.line.words[match.start()] in _POINTING for match in _THIS.finditer(view.shape))


_LOOK = re.compile(r"(?:^|[.,l&]|m[jl]*y)[jlz]*R|iR")


def _look(view: View) -> bool:
    if view.known:
        return False
    return _LOOK.search(view.shape) is not None or first_word(view.line.words, view.shape) in LOOKS


def _all(view: View) -> bool:
    return view.shape.lstrip("jl,.").startswith("s") and (bool(view.line.times) or "k" in view.shape)


def _speaking(view: View) -> bool:
    return not view.words.isdisjoint({"i", "my", "they", "people"}) and ("c" in view.shape or "G" in view.shape)


def _where(view: View) -> bool:
    return view.talk and not view.words.isdisjoint({"where", "which"})


_FRAGMENT = re.compile(r"^[jlx]{0,2}(?P<noun>[KLT])(?:&[KLTx])?[pftk].*(?:[tNPzHk]|j$)")
_FRAGMENTS = word_set(
    """link links url messages message posts screenshot screenshots pics points highlights pros takeaways arguments"""
)


def fragment(view: View) -> bool:
    """ "Link to the doc again", "main points of the discussion"."""
    match = _FRAGMENT.match(view.shape)
    short = len(view.shape) <= _FRAGMENT_WORDS
    return match is not None and short and view.line.words[match.start("noun")] in _FRAGMENTS


def _talk_noun(view: View) -> bool:
    return view.talk


_OUTCOME = re.compile(
    r"(?:^|[.,l&])[jlz]*(?:(?:q[bB][tw]|[bBvdD]jt|[bB][tw]|tj?|v[tx]|dt)[xjg]{0,2}(?P<noun>[KLTCcrx])"
    r"|[xj]{0,2}(?P<bare>[LTrx])(?=[jl.,]*(?:$|[paz])))(?!x)"
)


def outcome(view: View) -> bool:
    """The verdict, any decision; alone it asks by itself: "final headcount"."""
    for match in _OUTCOME.finditer(view.shape):
        asked = "q" not in match[0] or not view.words.isdisjoint({"the", "our"})
        if asked and view.line.words[match.end() - 1] in OUTCOMES:
            return True
    return False


def _summary(view: View) -> bool:
    if "r" not in view.shape and view.line.words[0] != "quote":
        return False
    return view.known or bool(view.line.times) or "H" in view.shape or "k" in view.shape


def _past_time(view: View) -> bool:
    return any(each.span.clue is not Clue.FUTURE for each in view.line.times)


_GENERAL = re.compile(r"^[jl,.&]*(?:h(?:[xj]?D|p|[xj]?m)|qD(?!N)|qb(?:[ax]|tx)|qxbs|D(?:y(?![jl]*R)|g)|q[xL]Dg)")


def _general(view: View) -> bool:
    """How things are in general: what is a mutex, why do people lie."""
    if view.line.words[:2] == ["what", "happens"]:
        return True
    if _GENERAL.search(view.shape) is None or (view.known and view.moving) or "P" in view.shape:
        return False
    return not (outcome(view) or "again" in view.words or _absent(view))


_MODAL = re.compile(r"m[jl]*[NPWiegt]|[NPWegtso]m|^[jl,.]*m[jl]*[ts]")


def _modal(view: View) -> bool:
    return _MODAL.search(view.shape) is not None or any(each.span.clue is Clue.FUTURE for each in view.line.times)


_OF_THE_WORLD = WORLD | FAMOUS | MANKIND


def _world(view: View) -> bool:
    return not (view.known or view.talk or view.words.isdisjoint(_OF_THE_WORLD))


def _deed(view: View) -> bool:
    match = None if view.known or view.talk or _affair(view) else _WHO_DID.search(view.shape)
    if match is None:
        return False
    at = match.start("deed")
    generic = view.line.words[at] == "decided" and not {"a", "an"}.isdisjoint(view.line.words[at + 1 : at + 3])
    return generic or view.line.words[at] in DEEDS


_BOT = re.compile(r"[dDbBv]j*y(?!j*R)|^y")


def _bot(view: View) -> bool:
    itself = _BOT.search(view.shape) is not None or ("U" in view.shape and not view.talk)
    return itself and TOLD.search(view.shape) is None


_SAID = re.compile("[dBc]")
_OF_NAMES = word_set("name names nickname nicknames pronounce pronounced rhymes surname")


def _name_as_word(view: View) -> bool:
    """Is the name Ann common, how is Ann pronounced: about the word, unless somebody said it."""
    return view.known and not view.words.isdisjoint(_OF_NAMES) and _SAID.search(view.shape) is None


_AFFAIR = re.compile(r"[tuwPz][jx]{0,2}[xAc]")


def _affair(view: View) -> bool:
    """The meeting, our trip: what a group has going."""
    return any(view.line.words[match.end() - 1] in AFFAIRS for match in _AFFAIR.finditer(view.shape))


def _affair_when(view: View) -> bool:
    return not view.words.isdisjoint({"when", "where", "who", "time"}) and _affair(view)


CLUES: tuple[tuple[str, int, Callable[[View], bool]], ...] = (
    ("going on now", 1, _going_on),
    ("somebody here", 2, _group),
    ("an absence", 3, _absent),
    ("this one", 1, _this),
    ("a request to look", 1, _look),
    ("all there was", 2, _all),
    ("speaking", 1, _speaking),
    ("something of the talk", 2, _talk_noun),
    ("how the talk ended", 3, outcome),
    ("a summary or a quote", 2, _summary),
    ("where or which it is", 1, _where),
    ("alone, a thing of the talk", 3, fragment),
    ("a past time", 1, _past_time),
    ("an affair of ours", 2, _affair),
    ("when or where it is", 1, _affair_when),
    ("a general question", -3, _general),
    ("the future, or what may be", -3, _modal),
    ("the world at large", -3, _world),
    ("a deed of history", -3, _deed),
    ("the bot itself", -3, _bot),
    ("a name as a word", -3, _name_as_word),
)
