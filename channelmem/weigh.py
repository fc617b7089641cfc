"""Is a question about this conversation when none of the known forms fits: evidence for and against, added up.

Enters: a `Line` that no form of `clauses` and no idiom of `recap` explains. Leaves: a `Weighed` with the sum, the
clues in words, and where its subject stands. Every clue has one constant in `WEIGHTS`; one threshold decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from channelmem.lexicon import word_set
from channelmem.naming import Line
from channelmem.spans import Clue
from channelmem.verbs import OUTCOMES, TALK_NOUNS, shape

THRESHOLD = 3

_GROUP = word_set("anyone anybody someone somebody everyone everybody nobody yall guys folks chat others noone you")
WORLD = word_set(
    """bible documentary docs documentation constitution lyrics novel manual wikipedia moon mars space apes earth
    humans humanity universe dinosaurs aliens history president king queen pope war wars world country city
    planet league cup match election olympics oscars capital population company government police congress
    parliament army empire century romans egyptians pyramids titanic god jesus einstein battle revolution prize
    nobel championship finals planets ocean continent minister senate church simulation weather score
    temperature rain rained raining snow snowed renaissance holocaust scientists animals cats dogs birds stock
    stocks market bitcoin dollar euro law math physics"""
)
_WORLD_DEEDS = word_set(
    """won wrote written invented discovered painted directed founded composed sang played built designed created
    made ruled killed assassinated fought starred developed sculpted coined produced conquered colonized signed
    became winning leading running playing hosting directing elected nominated born died scored beat lost"""
)
TASKS = word_set(
    """write translate generate compose create draft imagine pretend play set turn roast kick ban mute timeout
    calculate compute convert define solve draw design rate rank guess roll flip sing act add delete remove pin
    wish greet welcome invite rewrite proofread fix debug teach recommend suggest name compare choose pick
    spell count code make build order buy open close start stop cancel schedule remind reword improve"""
)
_ABSENT = word_set("afk unread backlog scrollback brb lurking")
LANGUAGES = word_set(
    """english german french spanish italian japanese chinese korean russian latin portuguese polish dutch turkish
    arabic hindi swedish norwegian danish finnish greek vietnamese czech hungarian ukrainian mandarin"""
)
_SUPERLATIVE = word_set("ever best worst biggest largest tallest fastest oldest most richest longest highest average")
_ASKING_WORDS = word_set("what which who whose any anything everything")
_TAGS = word_set("right correct so huh no yeah")

_ASKS = re.compile(
    r"^[jl,.&zk]*(?:[qhodDbBR]|v[NPWigyetuUws]|r|m[jl]*[yNR]|i[jm]*R)|[.,&z][jlz]*(?:[qhodDbBRr]|my|CM)|^[jl]*P[xjKLTpfza]*$"
)
_PAST = re.compile(r"[dBVc]|v[jzlk]*[NPWieygn]|v[jzlk]*[cV]|[NPWiye][jzlk]*v")
_NOW = re.compile(r"b[jzlk]*(?:[NPWegy&,][jzlk]*)*n?[AG]|[NWeg][jzlk]*b[jzlk]*[AG]|N[jx]?[AG]|bt[TLKHC][AG]")
_DOES = re.compile(r"Nj*x(?=.)")
_WHO_DID = re.compile(
    r"(?:o|qp[yWM])(?:[jl]*[bB][jl]*st?)?[jlzk]*(?:[vbB][jlzk]*n?[jlzk]*)?(?P<deed>[VcAG]|[vB](?=[tuUP]))"
)
_WHOSE = re.compile(r"o[xKLTH]{1,2}[bB]")
_WAS = re.compile(r"^[jl,.&]*qBt(?:x?[xLKT])?[jlz.,]*$")
_WITH = re.compile(r"qb[jl]*p[jl]*[tgNPe]")
_THIS = re.compile(r"t[jx]?[KLTH]")
_LOOK = re.compile(r"(?:^|[.,l&]|m[jl]*y)[jlz]*R|iR")
_OUTCOME = re.compile(r"(?:^|[.,l&])[jlz]*(?:q[bB][tw]|[bBvdD]jt|tj?|v[tx]|d[t])(?:[xj]{0,2})(?P<noun>[KLTCcrx])")
_SOMETHING = re.compile(r"[bB]js[jxG]?[ap]")
_THERE_WAS = re.compile(r"j[bB][jt]")
_IT_DID = re.compile(r"d[jlz]*(?:s|t(?=[jlz]*[xVARC]))|q[Vc]s")
_DONE = re.compile(r"[bBv]t[xT]{1,2}n?V")
_ANY = re.compile(r"^[jl,.&]*(?:t[KLT]|Bjt)")
_THAT_THING = re.compile(r"t[xj]?sa")
_IT_LAST = re.compile(r"[xVCcR][st][jlz]*$")
_TOLD = re.compile(r"i[jv]*c[jl]*y|y[jv]*[Vc]M|(?<=d)y[jl]*[RCK]M")
_GENERAL = re.compile(r"^[jl,.&]*(?:h(?:[xj]?D|p|[xj]?m)|qD(?!N)|qb(?:[ax]|t[x])|D[yg]|q[xL]Dg)")
_MODAL = re.compile(r"m[jl]*[NPWiegt]|[NPWegts]m|^[jl,.]*m[jl]*[ts]")
_WE_HERE = re.compile(r"(?:[tpfy][xj]?H|k)")
_DEFINITE = re.compile(r"[tPuUwq][jx]{0,2}p?(?P<noun>[KLTHC])")
_BOT = re.compile(r"[dDbBv]j*y(?!j*R)|^y")
NAMES = re.compile(r"(?:N(?:j*(?:,&?|&)j*))*[NP]")


@dataclass(frozen=True, slots=True)
class Weighed:
    """What was found; `subject` is where its speakers stand, `told` whether the asker told it before."""

    total: int
    clues: tuple[str, ...]
    subject: tuple[int, int] = (0, 0)
    told: bool = False
    open: bool = False
    """Nothing but an absence: it asks for all that was said."""


@dataclass(frozen=True, slots=True)
class _View:
    """A line, read once for all clues."""

    line: Line
    shape: str
    words: frozenset[str]

    def first_word(self) -> str:
        at = len(self.shape) - len(self.shape.lstrip("jl,.&zk"))
        rest = self.line.words[at:]
        if rest[:1] == ["i"] and rest[1:3] in (["want", "you"], ["need", "you"]):
            rest = rest[2:]
        while rest and rest[0] in {"can", "could", "would", "will", "you", "please", "just", "go", "let", "to"}:
            rest = rest[1:]
        return rest[0] if rest else ""

    def has_person(self) -> bool:
        return "N" in self.shape or "P" in self.shape


def _person(view: _View) -> bool:
    return view.has_person()


def _theirs(view: _View) -> bool:
    return "P" in view.shape or ("according" in view.words and view.has_person())


def _we(view: _View) -> bool:
    return "W" in view.shape or "us" in view.words or "our" in view.words


def _group(view: _View) -> bool:
    if not (_past(view) or _now(view)):
        return False
    return any(letter == "g" and word in _GROUP for letter, word in zip(view.shape, view.line.words, strict=True))


def _pronoun(view: _View) -> bool:
    return not view.words.isdisjoint({"he", "she", "him", "her", "hers", "his"})


def _crowd(view: _View) -> bool:
    return "i" in view.words or "they" in view.words or "people" in view.words or "my" in view.words


def _past(view: _View) -> bool:
    return _PAST.search(view.shape) is not None


def _now(view: _View) -> bool:
    return _NOW.search(view.shape) is not None or any(
        view.line.words[match.end() - 1].endswith("s") for match in _DOES.finditer(view.shape)
    )


def _place(view: _View) -> bool:
    return _WE_HERE.search(view.shape) is not None or "above" in view.words


def _absent(view: _View) -> bool:
    text = " ".join(view.line.words)
    return not view.words.isdisjoint(_ABSENT) or _BACK.search(text) is not None


_BACK = re.compile(
    r"(?<!\S)(?:i am back|just (?:got|came) (?:back|here|home|online)|got back|just woke|woke up|scroll(?:ed|ing)? up"
    r"|just (?:joined|arrived|logged)|was (?:away|asleep|gone|offline|out)|back now|catching up|missed"
    r"|lost track|so far)(?!\S)"
)


def _who(view: _View) -> bool:
    return "o" in view.shape and not view.has_person()


def _whose(view: _View) -> bool:
    return "whose" in view.words and _WHOSE.search(view.shape) is not None


def _was(view: _View) -> bool:
    return _WAS.search(view.shape) is not None


def _what_with(view: _View) -> bool:
    return "with" in view.words and _WITH.search(view.shape) is not None


def _this(view: _View) -> bool:
    return any(view.line.words[match.start()] in _POINTING for match in _THIS.finditer(view.shape))


_POINTING = word_set("this that these those")


def _look(view: _View) -> bool:
    if view.has_person():
        return False
    return _LOOK.search(view.shape) is not None or view.first_word() in {"read", "search", "scroll"}


def _all(view: _View) -> bool:
    return view.shape.lstrip("jl,.").startswith("s") and (bool(view.line.times) or _place(view))


def _speaking(view: _View) -> bool:
    return _crowd(view) and not {"c", "G"}.isdisjoint(view.shape)


def _who_did(view: _View) -> bool:
    return _WHO_DID.search(view.shape) is not None


def _talk_noun(view: _View) -> bool:
    return any(view.line.words[match.start("noun")] in TALK_NOUNS for match in _DEFINITE.finditer(view.shape))


def _outcome(view: _View) -> bool:
    match = _OUTCOME.search(view.shape)
    if match is None or ("q" in match[0] and view.words.isdisjoint({"the", "our"})):
        return False
    return view.line.words[match.start("noun")] in OUTCOMES


def _something(view: _View) -> bool:
    return _SOMETHING.search(view.shape) is not None


def _summary(view: _View) -> bool:
    told_of = view.has_person() or bool(view.line.times) or "H" in view.shape or _place(view)
    return told_of and ("r" in view.shape or view.line.words[0] == "quote")


def _again(view: _View) -> bool:
    return not view.words.isdisjoint({"again", "yet", "still", "already"})


def _there_was(view: _View) -> bool:
    return "there" in view.words and _THERE_WAS.search(view.shape) is not None


def _it_did(view: _View) -> bool:
    return _IT_DID.search(view.shape) is not None and not view.words.isdisjoint(_ANAPHORS)


_ANAPHORS = word_set("it this that these those")


def _that_thing(view: _View) -> bool:
    return _THAT_THING.search(view.shape) is not None


def _it_last(view: _View) -> bool:
    return _IT_LAST.search(view.shape) is not None


def _done(view: _View) -> bool:
    return _DONE.search(view.shape) is not None


def _any(view: _View) -> bool:
    return "any" in view.words and _ANY.search(view.shape) is not None


def _time(view: _View) -> bool:
    return any(each.span.clue is not Clue.FUTURE for each in view.line.times)


def _told(view: _View) -> bool:
    return _TOLD.search(view.shape) is not None


def _silent(view: _View) -> bool:
    if view.shape.startswith("tb"):
        return True
    if _ASKS.search(view.shape) or not view.words.isdisjoint(
        {"what", "which", "who", "whose", "any", "anything", "everything"}
    ):
        return False
    tagged = view.line.words[-1] in _TAGS and view.shape[-2:-1] in {",", "."}
    return not tagged and "short" not in view.words and "quote" not in view.words


def _task(view: _View) -> bool:
    first = view.first_word()
    words = view.line.words
    asks_for_one = first in {"give", "tell", "show"} and bool(
        re.search(r"(?:give|tell|show) (?:me|us) (?:a|an|some|three|two|five|\d+) ", " ".join(words))
    )
    return first in TASKS or asks_for_one


def _general(view: _View) -> bool:
    if (
        _outcome(view)
        or "P" in view.shape
        or (view.has_person() and (_past(view) or _now(view)))
        or ("again" in view.words and _we(view))
    ):
        return False
    return _GENERAL.search(view.shape) is not None


def _modal(view: _View) -> bool:
    future = any(each.span.clue is Clue.FUTURE for each in view.line.times)
    return future or _MODAL.search(view.shape) is not None


def _world(view: _View) -> bool:
    return not (view.has_person() or _talk_noun(view)) and not view.words.isdisjoint(WORLD)


def _deed(view: _View) -> bool:
    match = _WHO_DID.search(view.shape)
    return match is not None and view.line.words[match.start("deed")] in _WORLD_DEEDS and not view.has_person()


def _superlative(view: _View) -> bool:
    return not view.has_person() and not view.words.isdisjoint(_SUPERLATIVE)


def _bot(view: _View) -> bool:
    return (_BOT.search(view.shape) is not None or ("U" in view.shape and not _talk_noun(view))) and not _told(view)


def _quoted(view: _View) -> bool:
    return "Z" in view.shape and not view.has_person()


# Clue in words, weight, how it is told. The sum decides against THRESHOLD.
WEIGHTS: tuple[tuple[str, int, Callable[[_View], bool]], ...] = (
    ("somebody known", 2, _person),
    ("something of theirs", 1, _theirs),
    ("we", 2, _we),
    ("somebody here", 2, _group),
    ("he or she", 1, _pronoun),
    ("I or people", 1, _crowd),
    ("in the past", 1, _past),
    ("going on now", 1, _now),
    ("this place", 2, _place),
    ("an absence", 3, _absent),
    ("who", 1, _who),
    ("who did it", 2, _who_did),
    ("whose", 1, _whose),
    ("something that was", 2, _was),
    ("what is with it", 3, _what_with),
    ("this one", 1, _this),
    ("a request to look", 1, _look),
    ("all there was", 2, _all),
    ("speaking", 1, _speaking),
    ("something of the talk", 2, _talk_noun),
    ("how the talk ended", 3, _outcome),
    ("something there was", 3, _something),
    ("a summary or a quote", 2, _summary),
    ("there was", 2, _there_was),
    ("it, this or that did", 2, _it_did),
    ("that thing", 2, _that_thing),
    ("it or that", 1, _it_last),
    ("done or not", 1, _done),
    ("any of it", 2, _any),
    ("again or yet", 1, _again),
    ("a past time", 1, _time),
    ("told before", 3, _told),
    ("nothing is asked", -9, _silent),
    ("a task", -5, _task),
    ("a general question", -3, _general),
    ("the future, or what may be", -3, _modal),
    ("the world at large", -3, _world),
    ("a deed of history", -3, _deed),
    ("a superlative", -2, _superlative),
    ("the bot itself", -2, _bot),
    ("a quotation", -3, _quoted),
)


def weigh(line: Line) -> Weighed:
    """The sum of all clues."""
    view = _View(line, shape(line.words, line.letters), frozenset(line.words))
    found = [(name, weight) for name, weight, holds in WEIGHTS if holds(view)]
    names = {name for name, _ in found}
    total = sum(weight for _, weight in found)
    told = "told before" in names
    bare = "an absence" in names and not names & {"somebody known", "who did it"}
    clues = tuple(f"{name} {weight:+d}" for name, weight in found)
    return Weighed(total, clues, _subject(view, told=told), told and "i" in view.shape[: view.shape.find("y")], bare)


def _subject(view: _View, *, told: bool) -> tuple[int, int]:
    """Who did it: the first known people, unless somebody else is the subject before them."""
    letters = view.shape
    if told and (match := _TOLD.search(letters)):
        return match.start(), match.start() + 1
    names = NAMES.search(letters)
    if names is None:
        return 0, 0
    before = letters[: names.start()]
    if "o" in before or "W" in before or "g" in before:
        return 0, 0
    return names.span()
