"""Which words of a question are people, told by name, part of a name, mention or id.

Enters: the tokens with their class letters, and who may be meant. Leaves: persons by place, and their letters:
N for a known person, P for a known person's, y and U for the bot. A name that is also an English word counts
only where nothing but a person can stand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from channelmem.routing.lexicon import AMBIGUOUS
from channelmem.routing.people import Roster, fold
from channelmem.routing.reading import Token
from channelmem.routing.slots import TIMES, goes_on, in_name_slot
from channelmem.routing.when import Found
from channelmem.types import Person

_MENTION = re.compile(r"<@!?(\d+)>")


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


def name(line: Line, codes: list[str], known: Known) -> None:
    """Finds the persons of a line and gives them their letters."""
    _give_back_apostrophes(line, codes, known.roster)
    words, i = line.words, 0
    bot_name = fold(known.bot.name)
    while i < len(words):
        if codes[i] not in "x@" and words[i] not in known.roster.first_words and words[i] != bot_name:
            i += 1  # a word of grammar that is nobody's name
            continue
        people, length = _person_at(line, codes, i, known, bot_name)
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


def _give_back_apostrophes(line: Line, codes: list[str], roster: Roster) -> None:
    """ "bobs opinion": the apostrophe is the first thing that chat drops."""
    for i, word in enumerate(line.words[:-1]):
        if codes[i] != "x" or not word.endswith("s") or not roster.find([owner := word[:-1]], 0)[1]:
            continue
        if codes[i + 1] in "KL" or (i and codes[i - 1] == "b" and owner not in AMBIGUOUS):
            line.tokens[i], line.words[i] = Token(line.tokens[i].text, owner, possessive=True), owner


def _person_at(line: Line, codes: list[str], i: int, known: Known, bot_name: str) -> tuple[tuple[Person, ...], int]:
    words = line.words
    mention = _MENTION.fullmatch(words[i]) if words[i].startswith("<@") else None
    if mention:
        person = known.by_id(int(mention[1]))
        return ((person,), 1) if person else ((), 1)
    called = i > 0 and words[i - 1] == "@"
    people, length = known.roster.find(words, i)
    if length == 1 and goes_on(line.tokens, codes, i) and not known.roster.find(words, i + 1)[1]:
        return (), 1
    if not people and words[i] == bot_name:
        people, length = (known.bot,), 1
    if not people and length == 0 and codes[i] == "x" and _stands_alone(codes, i):
        people, length = known.roster.part(words[i]), 1
    if people:
        plain = length == 1 and words[i] in AMBIGUOUS and not called and not _listed(words, codes, i, known.roster)
        return (people, length) if not plain or in_name_slot(line.tokens, words, codes, i) else ((), 1)
    if codes[i] == "x" and words[i] not in AMBIGUOUS and (called or in_name_slot(line.tokens, words, codes, i)):
        return known.roster.guess(words[i]), 1
    return (), 1


def _listed(words: list[str], codes: list[str], i: int, roster: Roster) -> bool:
    """Beside a person only a person is listed: "Iris and Hugo"; but "in May and June"."""
    if words[i] in TIMES:
        return False
    before = i > 1 and codes[i - 1] in "&," and codes[i - 2] in "NP"
    after = i + 2 < len(words) and codes[i + 1] == "&" and words[i + 2] in roster.first_words
    return before or after


def _stands_alone(codes: list[str], i: int) -> bool:
    """ "my uncle" and "the uncle" are not the Uncle Rob of the roster."""
    return i == 0 or codes[i - 1] not in "tuUw"
