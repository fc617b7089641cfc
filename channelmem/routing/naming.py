"""Which words of a question are people, told by name, part of a name, mention or id.

Enters: the tokens with their class letters, and who may be meant. Leaves: persons by place, and their letters:
N for a known person, P for a known person's, y and U for the bot. A name that is also an English word counts
only where nothing but a person can stand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from channelmem.routing.dates import MONTHS, WEEKDAYS
from channelmem.routing.lexicon import AMBIGUOUS, word_set
from channelmem.routing.people import Roster, fold
from channelmem.routing.reading import Token
from channelmem.routing.verbs import PLACES, STATES
from channelmem.routing.when import Found
from channelmem.routing.world import SURNAMES
from channelmem.types import Person

_MENTION = re.compile(r"<@!?(\d+)>")
_AUXILIARY = frozenset("dDbBv&f,")
_VERBAL = frozenset("cCGKjxRv")
_BE = frozenset("vBb")
_BEFORE_SUBJECT = frozenset({"", ".", ",", "q"})
_BEFORE_CLAUSE = word_set("if whether because ago yesterday today night morning afternoon evening week month earlier")
_AFTER_OBJECT = frozenset({"", ".", ",", "&", "z"})
_WITH = word_set("to with at against")
_HELPING = word_set("help go come try start stop dare bother")
_TIMES = frozenset({*MONTHS, *WEEKDAYS}) | word_set(
    "today yesterday tomorrow night day time summer spring winter autumn"
)
_BEFORE_SPEAKER = frozenset({"", "q", ".", ",", "l", "z", "x", "R", "s", "L", "K"})


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
        owner = word[:-1]
        if codes[i] == "x" and word.endswith("s") and codes[i + 1] in "KL" and roster.find([owner], 0)[1]:
            line.tokens[i], line.words[i] = Token(line.tokens[i].text, owner, possessive=True), owner


def _person_at(line: Line, codes: list[str], i: int, known: Known, bot_name: str) -> tuple[tuple[Person, ...], int]:
    words = line.words
    mention = _MENTION.fullmatch(words[i]) if words[i].startswith("<@") else None
    if mention:
        person = known.by_id(int(mention[1]))
        return ((person,), 1) if person else ((), 1)
    called = i > 0 and words[i - 1] == "@"
    people, length = known.roster.find(words, i)
    if length == 1 and _goes_on(line, codes, i) and not known.roster.find(words, i + 1)[1]:
        return (), 1
    if not people and words[i] == bot_name:
        people, length = (known.bot,), 1
    if not people and length == 0 and codes[i] == "x" and _stands_alone(codes, i):
        people, length = known.roster.part(words[i]), 1
    if people:
        plain = length == 1 and words[i] in AMBIGUOUS and not called
        return (people, length) if not plain or _in_name_slot(line, codes, i) else ((), 1)
    if codes[i] == "x" and words[i] not in AMBIGUOUS and (called or _in_name_slot(line, codes, i)):
        return known.roster.guess(words[i]), 1
    return (), 1


def _goes_on(line: Line, codes: list[str], i: int) -> bool:
    """ "Bob Marley" and "did Mark Twain write" are somebody else: a surname nobody here has."""
    if i + 1 >= len(codes) or codes[i + 1] != "x" or line.tokens[i].possessive:
        return False
    after = line.words[i + 1]
    if after in SURNAMES:
        return True
    then = next((k for k in range(i + 2, len(codes)) if codes[k] != "j"), i)
    verb = codes[then] == "C" or line.words[then] == "born"
    return verb and i > 0 and codes[i - 1] in "dDB" and after not in _HELPING and not after.endswith("ly")


def _stands_alone(codes: list[str], i: int) -> bool:
    """ "my uncle" and "the uncle" are not the Uncle Rob of the roster."""
    return i == 0 or codes[i - 1] not in "tuUw"


def _in_name_slot(line: Line, codes: list[str], i: int) -> bool:
    """Where only a person can stand: between auxiliary and verb, before a verb of saying, as an owner."""
    at = next((k for k in range(i - 1, -1, -1) if codes[k] not in "jl"), -1)
    before = codes[at] if at >= 0 else ""
    after = next((code for code in codes[i + 1 :] if code != "j"), "")
    if before in {"N", "t"} or line.tokens[i].possessive:
        return before not in {"N", "t"}
    if before == "b":
        return after in {"G", "n"} or _is_asked_of(line.words, at, i)
    if before in _AUXILIARY and line.words[at] != "got":
        return after in _VERBAL or (after == "" and before in "&f,") or (after in "&," and before in "dBv")
    if before == "p":
        return after in _AFTER_OBJECT and line.words[at] in _WITH and line.words[i] not in _TIMES
    if after in _BE and (before in _BEFORE_SUBJECT or line.words[at] in _BEFORE_CLAUSE):
        return after == "v" or line.words[i] not in _TIMES
    return after in {"c", "G"} and before in _BEFORE_SPEAKER


def _is_asked_of(words: list[str], verb: int, i: int) -> bool:
    """ "Why is Rose", "is Rose mad"; but "what is rose gold", "is hope lost"."""
    asked = verb > 0 and words[verb - 1] in {"why", "where", "when", "how"}
    placed = i + 1 < len(words) and words[-1] in PLACES
    return asked or placed or not STATES.isdisjoint(words[i + 1 : i + 3])
