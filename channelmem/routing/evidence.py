"""What speaks for and against a question being about this conversation, where a look at the words is needed.

Enters: a `View`. Leaves: `CLUES`, each with its name, its weight and its test; the simple ones are in `signs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from channelmem.routing.lexicon import word_set
from channelmem.routing.signs import POINTING, TOLD, WHO_DID, YOU_GAVE
from channelmem.routing.times.spans import Clue
from channelmem.routing.verbs import AFFAIRS, OUTCOMES, PLACES, STATES, TALK_NOUNS
from channelmem.routing.view import View, first_word
from channelmem.routing.world import DEEDS, FAMOUS, MANKIND, WORLD

_FRAGMENT_WORDS = 8
_SHORT, _LONG = 7, 22
_IN_A_STATE = STATES | PLACES
LOOKS = word_set("read search scroll explain repost resend count")
_GROUP = word_set("anyone anybody someone somebody everyone everybody nobody yall guys folks chat others noone you")
_ABSENT = word_set("afk unread backlog scrollback brb lurking")


def _going_on(view: View) -> bool:
    return view.going_on


_SOMEBODY = re.compile(r"g(?!px)")


def _group(view: View) -> bool:
    if view.words.isdisjoint(_GROUP) or not (view.moving or not view.words.isdisjoint(_IN_A_STATE)):
        return False
    # "Everyone at work" is nobody here.
    return any(view.line.words[match.start()] in _GROUP for match in _SOMEBODY.finditer(view.shape))


_BACK_WORDS = word_set(
    """back here home online woke scroll scrolled scrolling joined arrived logged away asleep gone offline out catching
    missed track far version"""
)
_BACK = re.compile(
    r"(?<!\S)(?:i am back|just (?:got|came) (?:back|here|home|online)|got back|just woke|woke up|scroll(?:ed|ing)? up"
    r"|just (?:joined|arrived|logged)|was (?:away|asleep|gone|offline|out)|back now|catching up|missed|lost track"
    r"|so far|short version)(?!\S)"
)


def _absent(view: View) -> bool:
    if not view.words.isdisjoint(_ABSENT):
        return True
    return not view.words.isdisjoint(_BACK_WORDS) and _BACK.search(view.text) is not None


_THIS = re.compile(r"t[jx]?[KLTH]")


def _this(view: View) -> bool:
    if view.words.isdisjoint(POINTING):
        return False
    return any(view.line.words[match.start()] in POINTING for match in _THIS.finditer(view.shape))


# "I need", "I see": no request.
_FELT = word_set("need want see get got let wonder wondering check look looking")
_LOOK = re.compile(r"(?:^|[.,l&]|m[jl]*y)[jlz]*R|iR")


def _look(view: View) -> bool:
    if view.known:
        return False
    words, shape = view.line.words, view.shape
    if "R" in shape and any(words[match.end() - 1] not in _FELT for match in _LOOK.finditer(shape)):
        return True
    return looks(view)


def looks(view: View) -> bool:
    """It begins with what is done to find something."""
    return not view.words.isdisjoint(LOOKS) and first_word(view.line.words, view.shape) in LOOKS


def _all(view: View) -> bool:
    return view.shape.lstrip("jl,.").startswith("s") and (bool(view.line.times) or "k" in view.shape)


def _speaking(view: View) -> bool:
    return not view.words.isdisjoint({"i", "my", "they", "people"}) and ("c" in view.shape or "G" in view.shape)


_EITHER = re.compile(r"(?<!\S)(?:yes or no|or not|or what|or nah)(?!\S)")


def either(view: View) -> bool:
    """ "Is Ann coming or not"."""
    return "or" in view.words and _EITHER.search(view.text) is not None


def _again(view: View) -> bool:
    """ "What time again", "name of the bar again"."""
    words = view.line.words
    short = len(words) <= _SHORT and words[len(view.shape.rstrip("l.,")) - 1] == "again"
    return short and (view.shape.lstrip("jl,.&")[:1] in {"q", "o", "h"} or words[0] in {"name", "time"})


def _where(view: View) -> bool:
    return view.talk and not view.words.isdisjoint({"where", "which"})


_FRAGMENT = re.compile(r"^[jlx]{0,2}(?P<noun>[KLT])(?:&[KLTx])?[pftk].*(?:[tNPzHk]|j$)")
_FRAGMENTS = word_set(
    """link links url messages message posts screenshot screenshots pics points highlights pros takeaways arguments"""
)


def fragment(view: View) -> bool:
    """ "Link to the doc again", "main points of the discussion"."""
    if len(view.shape) > _FRAGMENT_WORDS or view.words.isdisjoint(_FRAGMENTS):
        return False
    match = _FRAGMENT.match(view.shape)
    return match is not None and view.line.words[match.start("noun")] in _FRAGMENTS


def _talk_noun(view: View) -> bool:
    return view.talk


_OUTCOME = re.compile(
    r"(?:^|[.,l&])[jlz]*(?:(?:q[bB][tw]|[bBvdD]jt|[bB][tw]|tj?|v[tx]|dt)[xjg]{0,2}(?P<noun>[KLTCcrx])"
    r"|[xj]{0,2}(?P<bare>[LTrx])(?=[jl.,]*(?:$|[paz])))(?!x)"
)


def _ends_with(shape: str, match: re.Match[str]) -> bool:
    """ "Eun counted the votes. Outcome?"."""
    return match[0].startswith(".") and not shape[match.end() :].strip("jl.,")


def outcome(view: View) -> bool:
    """The verdict, any decision; alone it asks by itself: "final headcount"."""
    if view.words.isdisjoint(OUTCOMES):
        return False
    for match in _OUTCOME.finditer(view.shape):
        if match["bare"] and len(view.shape) > _FRAGMENT_WORDS and not _ends_with(view.shape, match):
            continue
        asked = "q" not in match[0] or not view.words.isdisjoint({"the", "our"})
        if asked and view.line.words[match.end() - 1] in OUTCOMES:
            return True
    return False


def _summary(view: View) -> bool:
    if "r" not in view.shape and view.line.words[0] != "quote":
        return False
    return view.known or bool(view.line.times) or "H" in view.shape or "k" in view.shape


def _long(view: View) -> bool:
    """A story or a problem told at length gathers clues by its length alone."""
    return len(view.shape) > _LONG


def _past_time(view: View) -> bool:
    times = view.line.times
    return bool(times) and any(each.span.clue is not Clue.FUTURE for each in times)


_GENERAL = re.compile(
    r"^[jl,.&]*(?:h(?:[xj]?D|p|[xj]?m)|qD(?!N)|qb(?:[ax]|tx)|qxbs|hxb[gx]|D(?:y(?![jl]*R)|g)|q[xL]Dg)"
)


_SHOWS_WHO = re.compile(r"[jl,.&]*qx{2,4}(?=o)")


def _what_shows_who(view: View) -> bool:
    """ "Which command shows who changed it"."""
    match = _SHOWS_WHO.match(view.shape)
    return match is not None and view.line.words[match.end() - 1].endswith("s")


def _general(view: View) -> bool:
    """How things are in general: what is a mutex, why do people lie."""
    if view.line.words[:2] == ["what", "happens"] or _what_shows_who(view):
        return True
    if _GENERAL.search(view.shape) is None or (view.known and view.moving) or "P" in view.shape:
        return False
    if YOU_GAVE.search(view.shape):
        return False
    return not (outcome(view) or "again" in view.words or _absent(view) or _affair_alone(view))


_MODAL = re.compile(r"m[jl]*[NPWiet]|[NPWegtso]m|^[jl,.]*m[jl]*[ts]")


def _modal(view: View) -> bool:
    if "m" in view.shape and _MODAL.search(view.shape):
        return True
    times = view.line.times
    # "What is the plan for tomorrow" asks what was agreed.
    return bool(times) and any(each.span.clue is Clue.FUTURE for each in times) and not outcome(view)


_OF_THE_WORLD = WORLD | FAMOUS | MANKIND


def _world(view: View) -> bool:
    return not (view.known or view.talk or view.words.isdisjoint(_OF_THE_WORLD))


def _deed(view: View) -> bool:
    match = None if view.known or view.talk else WHO_DID.search(view.shape)
    if match is None or _affair(view):
        return False
    at = match.start("deed")
    if not view.shape[at + 1 :].strip("jlz.,"):
        return False  # "who is hosting": nothing of the world is named
    generic = view.line.words[at] == "decided" and not {"a", "an"}.isdisjoint(view.line.words[at + 1 : at + 3])
    return generic or view.line.words[at] in DEEDS


_BOT = re.compile(r"[dDbBv]j*y(?!j*R)|^y")


def _bot(view: View) -> bool:
    itself = _BOT.search(view.shape) is not None or ("U" in view.shape and not view.talk)
    return itself and TOLD.search(view.shape) is None and YOU_GAVE.search(view.shape) is None


_SAID = re.compile("[dBc]")
_NAME_KIND = re.compile(r"(?<!\S)(?:an?|such|common|good|nice|weird|cool|popular) (?:\w+ )?name(?!\S)")
_OF_NAMES = word_set("nickname nicknames pronounce pronounced rhymes surname")


def _name_as_word(view: View) -> bool:
    """Is the name Ann common, how is Ann pronounced: about the word, unless somebody said it."""
    if not view.known or _SAID.search(view.shape):
        return False
    words = view.line.words
    called = any(word == "name" and view.shape[i + 1] == "N" for i, word in enumerate(words[:-1]))
    return called or not view.words.isdisjoint(_OF_NAMES) or _NAME_KIND.search(" ".join(words)) is not None


_INDEFINITE = word_set("a an any no some every another")
_AFFAIR = re.compile(r"[tuwPz][jx]{0,2}[xAc]|^[jl,.&]*[bBdv][xA]|x[xA](?=[bB])")


def _affair(view: View) -> bool:
    """The meeting, our trip: what a group has going."""
    if view.words.isdisjoint(AFFAIRS):
        return False
    words = view.line.words
    found = (match for match in _AFFAIR.finditer(view.shape) if words[match.start()] not in _INDEFINITE)
    return any(words[match.end() - 1] in AFFAIRS for match in found)


_AFFAIR_ALONE = re.compile(r"[tuw][jx]{0,2}[xA](?=[jlz]*$)")


def _affair_alone(view: View) -> bool:
    match = _AFFAIR_ALONE.search(view.shape) if _affair(view) else None
    return match is not None and view.line.words[match.end() - 1] in AFFAIRS


def _affair_when(view: View) -> bool:
    return not view.words.isdisjoint({"when", "where", "who", "time"}) and _affair(view)


_WENT = re.compile(r"h[jl]*dt[jxA]{0,2}[xKLTH]")
_COURSE = word_set("go end turn")
_HELD = AFFAIRS | OUTCOMES | TALK_NOUNS


def _went(view: View) -> bool:
    """ "How did the vote end"."""
    if view.words.isdisjoint(_COURSE) or view.words.isdisjoint(_HELD):
        return False
    return _WENT.search(view.shape) is not None


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
    ("once again", 2, _again),
    ("yes or no", 1, either),
    ("where or which it is", 1, _where),
    ("alone, a thing of the talk", 3, fragment),
    ("a past time", 1, _past_time),
    ("an affair of ours", 2, _affair),
    ("when or where it is", 1, _affair_when),
    ("how it went", 2, _went),
    ("an affair, nothing else", 1, _affair_alone),
    ("a long text", -2, _long),
    ("a general question", -3, _general),
    ("the future, or what may be", -3, _modal),
    ("the world at large", -3, _world),
    ("a deed of history", -4, _deed),
    ("the bot itself", -3, _bot),
    ("a name as a word", -3, _name_as_word),
)
