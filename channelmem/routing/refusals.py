"""Requests that only look like questions about the conversation: tasks, orders, advice, languages.

Enters: a `Line`. Leaves: why it is refused, "" when it is not.
"""

from __future__ import annotations

import re

from channelmem.routing.asking import TASKS
from channelmem.routing.grounds import PRESENT_GROUP
from channelmem.routing.lexicon import word_set
from channelmem.routing.people.naming import Line
from channelmem.routing.times.when import TimeMatch
from channelmem.routing.verbs import TALK_NOUNS
from channelmem.routing.view import first_word
from channelmem.routing.world import LANGUAGES

# What is made up when asked for; with a task it is no question about what was said.
_FICTION = word_set(
    """story stories poem song rap haiku limerick tale script roleplay caption rhyme essay novel fanfic sonnet verse
    joke jokes riddle scene ballad letter comeback compliment insult nickname fact email"""
)
_PRETENCE = word_set("imagine pretend suppose act roleplay")
# Orders that may name what was said without asking for it: "delete what I wrote", "ignore what he said".
_ORDERS = word_set(
    "delete remove ban unban mute kick ignore forget disregard nevermind pin unpin undo edit warn block timeout"
)
_PROGRAMS = word_set(
    """regex sql python git bash excel css html javascript js java rust linux docker select insert curl npm sudo kubectl
    def import const"""
)
_MAKING = TASKS | {"tell", "give"}
_UNDERSTANDING = word_set("mean speak speaks")
_WORDS = word_set("word term synonym antonym phrase expression adjective idiom")
_WORDING = re.compile(
    rf"(?<!\S)(?:an?|the|another|what|good) (?:{'|'.join(_WORDS)})"
    r" (?:for|that means)(?!\S)"
)
_WHENEVER = re.compile(r"(?:when|if) (?:someone|somebody|people|you|a \w+|she|he) (?:says?|tells?|asks?)(?!\S)")
_ADVICE = re.compile(r"(?:hx?|q[xL]{0,2})j*(?:Dj*[iWgy]|mj*[iWge])")
_REPORTED = re.compile(r"[BN]j*c")
_ANOTHER_QUESTION = re.compile(r"[.,]j*[qhod]")
_EXPLAINED = re.compile(
    rf"explain (?:the|that|this) (?:{'|'.join(sorted(TALK_NOUNS))})(?!\S)(?! (?:between|of|in|from) )"
)
_TOLD_WHAT = re.compile(r"M|p?[qo]")
_THEIR_WORDS = re.compile(r"P[jxz]*[KL]|N[jz]*c")
_POSTED = re.compile(r"K[jz]*[NgWi][jz]*c|K[pf][jtNPz]")


# Somebody, something or a time of this place, or a word of talk; "a summary buffer" is no summary.
_HERE = re.compile(r"[NPWkzugeicBK]|r(?!x)")
_OF_THE_TALK = frozenset("NPczkqrR")
_IF_I = re.compile(r" if (?:i|we|you) ")
_ALLOWED = re.compile(
    r"is it (?:ok|okay|fine|safe|legal|illegal|bad|rude|weird|normal|better|healthy|dangerous) (?:if|to|for) "
)
_WHERE_FROM = re.compile(
    r"(?<!\S)what (?:song|movie|film|book|show|quote|game|line|meme) is (?:that|this|it) from(?!\S)"
)
_SMALL_TALK = re.compile(r"[hqo]by[jl]*$")  # how are you, who are you
_NOTICES = word_set("psa fyi note update reminder announcement warning tip")
_FIRST_CHANNELS_TS = 1_262_304_000.0  # 2010
# "Earlier" is before 2010 as well where an old channel is replayed: only a written year says it.
_YEAR = re.compile(r"\b\d{4}\b")
# Who begins with these gives no order.
_QUESTION_HEADS = frozenset("qohdBv")


def refused(line: Line) -> str:
    """Why a line is not for us, "" if it may be."""
    if line.times and any(map(_before_channels, line.times)):
        return "a time before there were such channels"
    if len(line.letters) <= 4 and _SMALL_TALK.match(line.letters):
        return "small talk"
    if line.letters[0] in _QUESTION_HEADS:
        return _of_words(line) or _whenever(line) or _advice(line)
    if line.letters.startswith("bs") and _asks_leave(line):
        return "asks for advice"
    first = first_word(line.words, line.letters)
    return _made_up(line, first) or _of_words(line) or _whenever(line) or _ordered(line, first) or _advice(line)


def _before_channels(time: TimeMatch) -> bool:
    ended = time.span.end is not None and time.span.end < _FIRST_CHANNELS_TS
    return ended and _YEAR.search(time.phrase) is not None


def _made_up(line: Line, first: str) -> str:
    words = line.words
    if first in _PRETENCE or (first in _MAKING and not _FICTION.isdisjoint(words[:7])) or _invented(line, first):
        return "something to be made up"
    told = not {"d", "c"}.isdisjoint(line.letters)
    if words[0] == "if" and "how" in words and not told and any(word.isdecimal() for word in words):
        return "a sum"
    if words[:2] == ["would", "you"] and _what_may_be(line):
        return "asks what may be"
    should_we = words[0] in {"should", "shall"} and words[1:2] in (["i"], ["we"])
    if should_we or (words[0] in _PROGRAMS and line.letters[0] == "x"):
        return "a task"
    return "a task" if first in TASKS and _to_be_done(line, first) else ""


def _asks_leave(line: Line) -> bool:
    """ "Is it ok if we mix them"; not "is it ok to ask what I missed"."""
    return _OF_THE_TALK.isdisjoint(line.letters) and _ALLOWED.match(" ".join(line.words)) is not None


def _what_may_be(line: Line) -> bool:
    """ "Would you lie if I asked you to"; not "would you mind checking if I sent it"."""
    doing = line.letters[2:3] == "x" and line.words[2] != "mind"
    return doing and _IF_I.search(" ".join(line.words)) is not None


def _invented(line: Line, first: str) -> bool:
    words = line.words
    if first not in {"invent", "make", "come"} or _ANOTHER_QUESTION.search(line.letters):
        return False
    after = words[words.index(first) + 1 : words.index(first) + 3]
    return first == "invent" or (after[:1] == ["up"] and (first == "make" or after == ["up", "with"]))


def _to_be_done(line: Line, first: str) -> bool:
    at = line.words.index(first)
    named = first == "name" and line.words[at + 1 : at + 2] == ["of"]
    if first == "count" and not TALK_NOUNS.isdisjoint(line.words):
        return False
    if first == "translate" and _THEIR_WORDS.search(line.letters):
        return False  # "translate what Yuki said"
    return line.letters[at] == "x" and not named and {"q", "o", "h"}.isdisjoint(line.letters)


def _of_words(line: Line) -> str:
    words = line.words
    if not LANGUAGES.isdisjoint(words):
        translated = words[0] == "translate" and not line.persons
        if translated or not _UNDERSTANDING.isdisjoint(words):
            return "a question about a language"
    if words[:2] == ["what", "is"] and words[2:3] in (["a"], ["an"]) and not _HERE.search(line.letters):
        return "asks what a thing is"
    if "from" in words and _WHERE_FROM.search(" ".join(words)):
        return "asks where words come from"
    asked = not _WORDS.isdisjoint(words) and _WORDING.search(" ".join(words))
    return "a question about a word" if asked else ""


def _whenever(line: Line) -> str:
    """What people mean when they say so: a rule of talk, nobody's words."""
    asked = line.words[0] in {"when", "if"} and _WHENEVER.match(" ".join(line.words))
    return "asks what such words mean in general" if asked else ""


def _ordered(line: Line, first: str) -> str:
    """Something to be said or done."""
    letters, words = line.letters, line.words
    if "let" in words and any(word == "let" and letters[i + 1 : i + 2] in {"N", "g"} for i, word in enumerate(words)):
        return "something to be passed on"
    if words[1:2] == [":"] and words[0] in _NOTICES:
        return "a notice"
    if first in _ORDERS or words[:2] == ["never", "mind"] or words[:3] == ["remind", "me", "to"]:
        return "an order"
    if words[0] == "say" and "again" not in words and letters[1:2] != "M":
        return "words to be said"
    at = words.index(first) if first else 0
    if words[at] == "say" and "again" in words:
        return ""
    told = letters[at] == "C" and _TOLD_WHAT.match(letters, at + 1) is None
    ordered = told and not _EXPLAINED.match(" ".join(words[at:]))
    called = letters[at : at + 2] == "KN" and words[at] != "quote" and not _POSTED.match(letters, at)
    noted = letters[0] == "K" and words[0] != "quote" and "q" not in letters and not _POSTED.match(letters)
    given = (ordered or noted or called) and not _ANOTHER_QUESTION.search(letters)
    return "an order to say or do something" if given else ""


def _advice(line: Line) -> str:
    letters = line.letters
    asked_how = ("D" in letters or "m" in letters) and _asked_how(line)
    how_to = letters[0] in "qh" and line.words[1:2] == ["to"]
    return "asks how things are done, not what was said" if asked_how or how_to else ""


def _asked_how(line: Line) -> bool:
    letters, words = line.letters, line.words
    advice = _ADVICE.match(letters.lstrip("lj,."))
    if advice is None or not PRESENT_GROUP.isdisjoint(words[: advice.end()]) or "here" in words:
        return False
    asked_again = "W" in letters and not {"again", "far"}.isdisjoint(words)
    felt = "feel" in words and re.search("a[tNP]", letters)
    return not ("mean" in words or "owe" in words or asked_again or felt or _REPORTED.search(letters))
