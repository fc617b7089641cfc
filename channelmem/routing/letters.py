"""From tokens to letters: finds people and times, and gives every other word its class from the lexicon.

Enters: tokens and the scene. Leaves: a `Line`: one letter per token, plus the people and time expressions.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import compress
from operator import attrgetter

from channelmem.routing.lexicon import AFFAIRS, CODES, NO_ING, NO_PAST, TALK_NOUNS, past, word_set
from channelmem.routing.people import Line, name
from channelmem.routing.scene import Scene
from channelmem.routing.tokens import QUOTED, Token
from channelmem.times import when
from channelmem.times.dates import MONTHS, WEEKDAYS
from channelmem.times.spans import Clue
from channelmem.times.when import TimeMatch

_WORD = attrgetter("word")


def spell(tokens: list[Token], scene: Scene) -> Line:
    """The line of a question."""
    words = list(map(_WORD, tokens))
    line = Line(tokens, words)
    codes = list(map(_code, words))
    _phrases(words, codes)
    name(line, codes, scene)
    if when.may_tell(words):
        _place_in_time(line, codes, scene)
    line.letters = "".join(codes)
    return line


def _place_in_time(line: Line, codes: list[str], scene: Scene) -> None:
    """Finds the time expressions in a line and gives them their letter."""
    words, tokens = line.words, line.tokens
    found = when.find(_unnamed(words, codes), scene.moment)
    line.times = [each for each in found if _counts(each, codes, words, tokens)]
    for each in line.times:
        if each.span.clue is not Clue.FUTURE:
            codes[each.first : each.last] = "z" * (each.last - each.first)


@lru_cache(maxsize=16_384)
def _code(word: str) -> str:
    if code := CODES.get(word):
        return code
    if word == QUOTED:
        return "Z"
    if word.isalnum() or len(word) > 1:
        return "x"
    return "." if word in ".?!;\u2026:" else "," if word in ",-\u2013\u2014/()" else "@" if word == "@" else "x"


def _phrases(words: list[str], codes: list[str]) -> None:
    """Words that mean communication only with their particle, and pairs of words."""
    for i in compress(range(len(words) - 1), map(_PHRASE_HEADS.__contains__, words)):
        _phrase(words, codes, i)


def _phrase(words: list[str], codes: list[str], i: int) -> None:
    word, after = words[i], words[i + 1]
    if pair := _PAIRS.get((word, after)):
        codes[i : i + 2] = pair
    elif word in _WITH_PARTICLE and _WITH_PARTICLE[word][0] in words[i + 1 : i + 4]:
        codes[i] = _WITH_PARTICLE[word][1]
        codes[words.index(_WITH_PARTICLE[word][0], i + 1)] = "j"
    elif word in {"in", "on", "of", "from"} and (place := _place(codes, i + 1)):
        codes[i:place] = "k" * (place - i)
    elif word == "on" and after == "about":
        codes[i] = "G"
    elif word == "which" and words[i + 1 : i + 4] in _ONE_OF_YOU:
        codes[i : i + 4] = "ojjj"
    elif word == "called" and (after == "dibs" or (after in _CALLED and codes[i + 2 : i + 3] == ["t"])):
        codes[i] = "c"
    elif word == "you" and after == "just" and codes[max(0, i - 1)] in "y.,l" and codes[i + 2 : i + 3] == ["x"]:
        codes[i + 2] = "c" if past(words[i + 2]) else "x"
    elif after == "of" and i + 2 < len(words) and words[i + 2] in {"you", "us", "them"} and word in _SOME_OF:
        codes[i : i + 3] = [_SOME_OF[word], "j", "j"]


# Two words that act as one, and the letters of both.
_PAIRS = {
    (one, other): letters
    for ones, others, letters in (
        ("you", "guys all folks people lot two lads boys", "gj"),
        ("no any every some", "one", "gj"),
        ("those these them", "two three guys", "ej"),
        ("how", "come", "qj"),
        ("the", "bot", "jy"),
    )
    for one in ones.split()
    for other in others.split()
}
_WITH_PARTICLE = {
    "bring": ("up", "C"), "brought": ("up", "c"), "bringing": ("up", "G"), "came": ("up", "c"), "come": ("up", "C"),
    "point": ("out", "C"), "pointed": ("out", "c"), "pointing": ("out", "G"), "going": ("about", "G"),
    "go": ("about", "C"), "went": ("about", "c"), "call": ("out", "C"), "called": ("out", "c"),
    "end": ("up", "C"), "ended": ("up", "c"),
}  # fmt: skip


def _place(codes: list[str], i: int) -> int:
    """Where "(in) this channel" ends; 0 if it does not begin here."""
    if i < len(codes) and codes[i] in "tw":
        i += 1
    return i + 1 if i < len(codes) and codes[i] in "Hk" else 0


_SOME_OF = {
    "both": "e", "two": "e", "either": "e", "three": "e", "neither": "e",
    "any": "g", "some": "g", "one": "g", "all": "g", "none": "g", "most": "g", "which": "o",
}  # fmt: skip
_ONE_OF_YOU = (["one", "of", "you"], ["one", "of", "us"], ["one", "of", "them"])
# To call somebody something is to say it.
_CALLED = word_set("it him her me them us you")
_PHRASE_HEADS = frozenset({*(one for one, _ in _PAIRS), *_WITH_PARTICLE, *_SOME_OF, "in", "on", "of", "from"})


def _unnamed(words: list[str], codes: list[str]) -> list[str]:
    """The words with names blanked, so that a person called April is not a month."""
    if "N" not in codes and "P" not in codes and "Z" not in codes:
        return words
    return [QUOTED if code in "NPZ" else word for word, code in zip(words, codes, strict=True)]


def _counts(each: TimeMatch, codes: list[str], words: list[str], tokens: list[Token]) -> bool:
    """Whether it is a time to search: "yesterday's talk" is; "about last night" and "yesterday's match" are topics."""
    if tokens[each.last - 1].possessive and not _ours(each, codes, words):
        return False
    if each.first and each.span.day is not None and each.span.hours is None and _picked(each, codes, words):
        return False
    if _offered(each, words) or any(told(each, codes, words) for told in (_planned, _intended, _of_a_thing, _to_come)):
        return False
    before = each.first
    if before > 1 and words[before - 1] in {"this", "that"} and codes[before - 2] == "a":
        return True  # "did we talk about this last spring": "this" is the topic
    while before and codes[before - 1] == "t":
        before -= 1
    if not before or codes[before - 1] != "a":
        return True
    # "What did we talk about yesterday": the preposition belongs to "what", not to the day.
    fronted = any(code in "qo" for code in codes[:before])
    verb = next((words[i] for i in range(before - 1, -1, -1) if codes[i] in "CcGK"), "")
    return fronted and (words[each.first] in {"on", "in", "at", "over", "during"} or verb not in _TAKES_OBJECT)


def _ours(each: TimeMatch, codes: list[str], words: list[str]) -> bool:
    behind = range(each.last, min(each.last + 2, len(words)))
    return any(codes[i] in "HLKr" or words[i] in TALK_NOUNS or words[i] in AFFAIRS for i in behind)


_DATES = frozenset({*WEEKDAYS, *MONTHS})


def _offered(each: TimeMatch, words: list[str]) -> bool:
    """ "Friday or Saturday": two days to choose from."""
    if "or" not in words:
        return False
    after = words[each.last : each.last + 1] == ["or"] and not _DATES.isdisjoint(words[each.last + 1 : each.last + 3])
    before = words[max(0, each.first - 1) : each.first] == ["or"] and not _DATES.isdisjoint(words[: each.first])
    return (after or before) and not _DATES.isdisjoint(words[each.first : each.last])


def _intended(each: TimeMatch, codes: list[str], words: list[str]) -> bool:
    """ "Did Ann say if she can come on Friday": the day of the visit, not the day she said it."""
    if (each.span.day is None and each.span.hours is None) or not _AHEAD.isdisjoint(words[each.first : each.last]):
        return False
    said = next((i for i in range(each.first) if codes[i] in "Cc"), each.first)
    return "m" in codes[said : each.first] or (said < each.first and codes[each.first - 1] == "b")


def _of_a_thing(each: TimeMatch, codes: list[str], words: list[str]) -> bool:
    """ "The Saturday shift" and "the 7am slot" are things; "the Saturday meeting" is when we met."""
    if "the" not in words[max(0, each.first - 1) : each.first + 1] or "before" in words[each.last :][:1]:
        return False
    if words[each.last - 1] not in WEEKDAYS and (each.span.hours is None or each.span.day is not None):
        return False
    end = each.last
    while end < len(words) and codes[end] in "xKLH":
        end += 1
    thing = words[end - 1]
    return end > each.last and codes[end - 1] == "x" and thing not in TALK_NOUNS and thing not in AFFAIRS


_PERFECT = re.compile(r"v[jl]*[NPWeg]+[jl]*[cCxK][^.qoNWegcC]*$")


def _to_come(each: TimeMatch, codes: list[str], words: list[str]) -> bool:
    """ "Has Ann confirmed for Friday": the perfect tense takes no past day, so the day is in the future."""
    if words[each.last - 1] not in WEEKDAYS or not _GONE_BY.isdisjoint(words[each.first : each.last]):
        return False
    asked = _PERFECT.search("".join(codes[: each.first]))
    return asked is not None and "for" in words[asked.start() : each.first]


_AHEAD = word_set("last past previous yesterday today this night ago")
_PLANNING = re.compile(r"[jl,.&]*b[^dBcGnvCqoz]*$")


def _planned(each: TimeMatch, codes: list[str], words: list[str]) -> bool:
    """ "Is the call still at five", "is it on Friday": asks about the time itself, not about when it was said."""
    if (each.span.day is None and each.span.hours is None) or words[each.last - 1] in {"today", "yesterday", "night"}:
        return False
    planned = _PLANNING.match("".join(codes[: each.first])) is not None
    return planned and not any(word.endswith("ing") for word in words)


def _picked(each: TimeMatch, codes: list[str], words: list[str]) -> bool:
    """Thursday is what they suggested, not when: "did I say Monday or Tuesday"."""
    before, said = words[each.first - 1], words[each.first : each.last]
    if said[0] in {"on", "in", "at", "over"} or not _GONE_BY.isdisjoint(said):
        return False
    it_was = codes[max(0, each.first - 2) : each.first] in (["s", "B"], ["s", "b"])
    if before in _PICKED or (it_was and {"c", "C"}.isdisjoint(codes)):
        return True  # "first it was Saturday, now it is Sunday"
    return before in _SPELT and not {"q", "o"} & set(codes[: each.first])


_GONE_BY = word_set("last past previous ago yesterday")
_SPELT = word_set("say said saying write wrote writing mean meant")
_PICKED = word_set("suggested suggest proposed propose picked pick chose choose for to or with")
_TAKES_OBJECT = word_set(
    """say said saying tell told telling think thought mention mentioned mentioning post posted write wrote share
    shared ask asked reply replied respond responded answer answered mean meant suggest suggested explain
    explained decide decided"""
)


def shape(words: list[str], letters: str) -> str:
    """The letters of a line, with V for an unlisted past form, A for an unlisted form in -ing and T for a noun about
    talk: even a question in unforeseen words has its grammar."""
    return "".join([_grammar(word) if letter == "x" else letter for word, letter in zip(words, letters, strict=True)])


@lru_cache(maxsize=16_384)
def _grammar(word: str) -> str:
    if word in TALK_NOUNS:
        return "T"
    if past(word) and word not in NO_PAST:
        return "V"
    return "A" if word.endswith("ing") and len(word) > 4 and word not in NO_ING else "x"
