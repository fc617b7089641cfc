"""From tokens to letters: who and when are found here, every other word gets its class from the lexicon.

Enters: tokens and the scene. Leaves: a `Line`: one letter per token, with persons and time expressions beside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from channelmem import when
from channelmem.lexicon import AMBIGUOUS, CODES
from channelmem.people import Roster
from channelmem.reading import QUOTED, Token
from channelmem.spans import Clue, Moment
from channelmem.types import Person
from channelmem.when import Found

_MENTION = re.compile(r"<@!?(\d+)>")
_AUXILIARY = frozenset("dDbBv&f,")
_VERBAL = frozenset("cCGKjx")


@dataclass(slots=True)
class Line:
    """A question, letter by letter; `letters[i]` is the class of `tokens[i]`."""

    tokens: list[Token]
    words: list[str]
    letters: str = ""
    persons: dict[int, tuple[Person, ...]] = field(default_factory=dict)
    times: list[Found] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Known:
    """Who may be meant by a word of the question."""

    roster: Roster
    bot: Person
    mentions: tuple[Person, ...] = ()

    def by_id(self, person_id: int) -> Person | None:
        named = next((person for person in self.mentions if person.id == person_id), None)
        return self.bot if person_id == self.bot.id else named or self.roster.by_id(person_id)


def spell(tokens: list[Token], known: Known, moment: Moment) -> Line:
    """The line of a question."""
    words = [token.word for token in tokens]
    line = Line(tokens, words)
    codes = [CODES.get(word) or _code(word) for word in words]
    _phrases(words, codes)
    _name(line, words, codes, known)
    line.times = [each for each in when.find(_unnamed(words, codes), moment) if _counts(each, codes, words, tokens)]
    for each in line.times:
        if each.span.clue is not Clue.FUTURE:
            codes[each.first : each.last] = "z" * (each.last - each.first)
    line.letters = "".join(codes)
    return line


def _code(word: str) -> str:
    if word == QUOTED:
        return "Z"
    if word.isalnum() or len(word) > 1:
        return "x"
    return "." if word in ".?!;…:" else "," if word in ",-–—/()" else "@" if word == "@" else "x"


def _phrases(words: list[str], codes: list[str]) -> None:
    """Words that are communication only with their particle, and groups of two words."""
    for i, word in enumerate(words[:-1]):
        after = words[i + 1]
        if word in _WITH_PARTICLE and _WITH_PARTICLE[word][0] in words[i + 1 : i + 4]:
            codes[i] = _WITH_PARTICLE[word][1]
            codes[words.index(_WITH_PARTICLE[word][0], i + 1)] = "j"
        elif (word == "you" and after in {"guys", "all", "folks", "people", "lot", "two", "lads", "boys"}) or (
            word in {"no", "any", "every", "some"} and after == "one"
        ):
            codes[i], codes[i + 1] = "g", "j"
        elif word in {"in", "on", "of", "from"} and (place := _place(codes, i + 1)):
            codes[i:place] = "k" * (place - i)
        elif word == "on" and after == "about":
            codes[i] = "G"
        elif word == "the" and after == "bot":
            codes[i], codes[i + 1] = "j", "y"
        elif after == "of" and i + 2 < len(words) and words[i + 2] in {"you", "us", "them"} and word in _SOME_OF:
            codes[i : i + 3] = [_SOME_OF[word], "j", "j"]


_WITH_PARTICLE = {
    "bring": ("up", "C"), "brought": ("up", "c"), "bringing": ("up", "G"), "came": ("up", "c"), "come": ("up", "C"),
    "point": ("out", "C"), "pointed": ("out", "c"), "pointing": ("out", "G"), "going": ("about", "G"), "go": ("about", "C"),
    "went": ("about", "c"), "call": ("out", "C"), "called": ("out", "c"), "end": ("up", "C"), "ended": ("up", "c"),
}  # fmt: skip


def _place(codes: list[str], i: int) -> int:
    """Where "(in) this channel" ends, 0 if it does not begin here."""
    if i < len(codes) and codes[i] in "tw":
        i += 1
    return i + 1 if i < len(codes) and codes[i] in "Hk" else 0


_SOME_OF = {
    "both": "e", "two": "e", "either": "e", "three": "e", "neither": "e",
    "any": "g", "some": "g", "one": "g", "all": "g", "none": "g", "most": "g",
}  # fmt: skip


def _name(line: Line, words: list[str], codes: list[str], known: Known) -> None:
    i = 0
    while i < len(words):
        people, length = _person_at(line, words, codes, i, known)
        if people:
            possessive = line.tokens[i + length - 1].possessive
            line.persons[i] = people
            codes[i] = "P" if possessive else "N"
            if people == (known.bot,):
                codes[i] = "U" if possessive else "y"
            codes[i + 1 : i + length] = "j" * (length - 1)
            if i and codes[i - 1] == "@":
                codes[i - 1] = "j"
        i += max(length, 1)


def _person_at(line: Line, words: list[str], codes: list[str], i: int, known: Known) -> tuple[tuple[Person, ...], int]:
    mention = _MENTION.fullmatch(words[i]) if words[i].startswith("<@") else None
    if mention:
        person = known.by_id(int(mention[1]))
        return ((person,), 1) if person else ((), 1)
    called = i > 0 and words[i - 1] == "@"
    people, length = known.roster.find(words, i)
    if not people and words[i] == known.bot.name.lower():
        people, length = (known.bot,), 1
    if people:
        plain = length == 1 and words[i] in AMBIGUOUS and not called
        return (people, length) if not plain or _in_name_slot(line, codes, i) else ((), 1)
    if codes[i] == "x" and words[i] not in AMBIGUOUS and (called or _in_name_slot(line, codes, i)):
        return known.roster.guess(words[i]), 1
    return (), 1


def _in_name_slot(line: Line, codes: list[str], i: int) -> bool:
    """Where only a person can stand: between auxiliary and verb, before a verb of saying, as an owner."""
    before = next((code for code in reversed(codes[:i]) if code not in "jl"), "")
    after = next((code for code in codes[i + 1 :] if code != "j"), "")
    if before in {"N", "t"}:
        return False
    if line.tokens[i].possessive:
        return True
    if before == "b":
        return after == "G"
    if before in _AUXILIARY:
        return after in _VERBAL or (after == "" and before in "&f,") or (after in "&," and before in "dBv")
    if after in {"v", "B"} and before in {"", "."}:
        return True
    return after in {"c", "G"} and before in {"", "q", ".", ",", "l", "z", "x", "R", "s", "L", "K"}


def _unnamed(words: list[str], codes: list[str]) -> list[str]:
    """The words with names blanked, so that April who wrote is no month."""
    return [QUOTED if code in "NPZ" else word for word, code in zip(words, codes, strict=True)]


def _counts(each: Found, codes: list[str], words: list[str], tokens: list[Token]) -> bool:
    """ "about last night" and "yesterday's talk" name a topic, not a time to look at."""
    if tokens[each.last - 1].possessive:
        return False
    before = each.first
    while before and codes[before - 1] == "t":
        before -= 1
    if not before or codes[before - 1] != "a":
        return True
    # "What did we talk about yesterday": the preposition belongs to "what", not to the day.
    fronted = any(code in "qo" for code in codes[:before])
    verb = next((words[i] for i in range(before - 1, -1, -1) if codes[i] in "CcGK"), "")
    return fronted and (words[each.first] in {"on", "in", "at", "over", "during"} or verb not in _TAKES_OBJECT)


_TAKES_OBJECT = frozenset(
    [
        "say",
        "said",
        "saying",
        "tell",
        "told",
        "telling",
        "think",
        "thought",
        "mention",
        "mentioned",
        "mentioning",
        "post",
        "posted",
        "write",
        "wrote",
        "share",
        "shared",
        "ask",
        "asked",
        "reply",
        "replied",
        "respond",
        "responded",
        "answer",
        "answered",
        "mean",
        "meant",
        "suggest",
        "suggested",
        "explain",
        "explained",
        "decide",
        "decided",
    ]
)
