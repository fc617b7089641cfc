"""Which words of a question are people, recognised by name, part of a name, mention or id.

Enters: the tokens with their class letters, and the scene. Leaves: people by position, and their letters: N for a known
person, P for a known person's, y and U for the bot. A name that is also an English word counts only where nothing but a
person can occur.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from operator import itemgetter

from channelmem.routing.lexicon import AMBIGUOUS, PLACES, STATES, TALK_NOUNS, word_set
from channelmem.routing.scene import Roster, Scene
from channelmem.routing.tokens import Token, fold
from channelmem.times.dates import MONTHS, WEEKDAYS
from channelmem.times.when import TimeMatch
from channelmem.types import Person

_BEGINNING = itemgetter(slice(2))
_MENTION = re.compile(r"<@!?(\d+)>")
_AUXILIARY = frozenset("dDbBv&f,")
_VERBAL = frozenset("cCGKjxRvn")
_BE = frozenset("vBb")
_BEFORE_SUBJECT = frozenset({"", ".", ",", "q"})
_BEFORE_CLAUSE = word_set("if whether because ago yesterday today night morning afternoon evening week month earlier")
_AFTER_OBJECT = frozenset({"", ".", ",", "&", "z"})
_WITH = word_set("to with at against")
_HELPING = word_set("help go come try start stop dare bother last tonight once")
TIMES = frozenset({*MONTHS, *WEEKDAYS}) | word_set(
    "today yesterday tomorrow night day time summer spring winter autumn"
)
_ORDER = word_set("last latest first previous newest")
_NO_SURNAME = _HELPING | TIMES
_BEFORE_SPEAKER = frozenset({"", "q", ".", ",", "l", "z", "x", "R", "s", "L", "K"})


@dataclass(slots=True)
class Line:
    """A question, letter by letter; `letters[i]` is the class of `tokens[i]`."""

    tokens: list[Token]
    words: list[str]
    letters: str = field(default="", init=False)
    persons: dict[int, tuple[Person, ...]] = field(default_factory=dict, init=False)
    times: list[TimeMatch] = field(default_factory=list, init=False)


def name(line: Line, codes: list[str], scene: Scene) -> None:
    """Finds the people in a line and gives them their letters."""
    words, roster, bot_name = line.words, scene.roster, fold(scene.bot.name)
    begins = roster.beginnings if bot_name not in words else roster.beginnings | {bot_name[:2]}
    if begins.isdisjoint(map(_BEGINNING, words)):
        return
    places = [i for i, word in enumerate(words) if word[:2] in begins]
    _give_back_initials(line, roster)
    _give_back_apostrophes(line, codes, roster, places)
    end = 0
    for i in places:
        if i < end or (codes[i] not in "x@" and words[i] not in roster.first_words and words[i] != bot_name):
            continue  # within a name, or a grammatical word that is not a name
        people, length = _person_at(line, codes, i, scene, bot_name)
        end = i + max(length, 1)
        if people:
            line.persons[i] = people
            possessive = line.tokens[end - 1].possessive
            if people[0].id == scene.bot.id and people == (scene.bot,):
                codes[i] = "U" if possessive else "y"
            else:
                codes[i] = "P" if possessive else "N"
            codes[i + 1 : end] = "j" * (length - 1)
            if i and codes[i - 1] == "@":
                codes[i - 1] = "j"


def _give_back_initials(line: Line, roster: Roster) -> None:
    """ "Leo R": behind a first name that it belongs to, a letter is not slang."""
    if not roster.initials:
        return
    for i in range(1, len(line.words)):
        token = line.tokens[i]
        spelt = fold(token.text).removesuffix("'s")
        if spelt in roster.initials and roster.find([line.words[i - 1], spelt], 0)[1] > 1:
            line.tokens[i] = Token(token.text, spelt, possessive=token.possessive or spelt != fold(token.text))
            line.words[i] = spelt


def _give_back_apostrophes(line: Line, codes: list[str], roster: Roster, places: list[int]) -> None:
    """ "bobs opinion": the apostrophe is the first thing people drop in chat."""
    for i in places:
        word = line.words[i]
        owner = word.removesuffix("s")
        if owner is word or owner not in roster.single_words or codes[i] != "x" or i + 1 == len(codes):
            continue
        talk = codes[i + 1] in "KL" or line.words[i + 1] in TALK_NOUNS | _ORDER
        if talk or (i and codes[i - 1] == "b" and owner not in AMBIGUOUS):
            line.tokens[i], line.words[i] = Token(line.tokens[i].text, owner, possessive=True), owner


def _person_at(line: Line, codes: list[str], i: int, scene: Scene, bot_name: str) -> tuple[tuple[Person, ...], int]:
    words, roster = line.words, scene.roster
    mention = _MENTION.fullmatch(words[i]) if words[i].startswith("<@") else None
    if mention:
        person = scene.by_id(int(mention[1]))
        return ((person,), 1) if person else ((), 1)
    called = i > 0 and words[i - 1] == "@"
    people, length = roster.find(words, i)
    if length == 1 and _goes_on(line.tokens, codes, i) and not roster.find(words, i + 1)[1]:
        return (), 1
    if not people and words[i] == bot_name:
        people, length = (scene.bot,), 1
    if not people and length == 0 and codes[i] == "x" and _stands_alone(codes, i):
        people, length = roster.part(words[i]), 1
    if people:
        plain = length == 1 and words[i] in AMBIGUOUS and not called and not _listed(words, codes, i, roster)
        return (people, length) if not plain or _in_name_slot(line.tokens, words, codes, i) else ((), 1)
    if codes[i] == "x" and words[i] not in AMBIGUOUS and (called or _in_name_slot(line.tokens, words, codes, i)):
        return roster.guess(words[i]), 1
    return (), 1


def _listed(words: list[str], codes: list[str], i: int, roster: Roster) -> bool:
    """Whether it is listed next to a person, so must be one too: "Iris and Hugo"; but "in May and June"."""
    if words[i] in TIMES:
        return False
    before = i > 1 and codes[i - 1] in "&," and codes[i - 2] in "NP"
    after = i + 2 < len(words) and codes[i + 1] == "&" and words[i + 2] in roster.first_words
    return before or after


def _stands_alone(codes: list[str], i: int) -> bool:
    """ "my uncle" and "the uncle" are not the roster's Uncle Rob."""
    return i == 0 or codes[i - 1] not in "tuUw"


def _goes_on(tokens: list[Token], codes: list[str], i: int) -> bool:
    """ "Bob Marley" and "did Mark Twain write" are other people: nobody here has that surname."""
    if i + 1 >= len(codes) or codes[i + 1] != "x" or tokens[i].possessive:
        return False
    after = tokens[i + 1].word
    both = tokens[i].text.istitle() and tokens[i + 1].text.istitle() and after not in TIMES
    if both and any(token.text.islower() for token in tokens):  # in a text of capitals they say nothing
        return True
    then = next((k for k in range(i + 2, len(codes)) if codes[k] != "j"), i)
    verb = codes[then] == "C" or tokens[then].word == "born"
    return verb and i > 0 and codes[i - 1] in "dDB" and after not in _NO_SURNAME and not after.endswith("ly")


def _in_name_slot(tokens: list[Token], words: list[str], codes: list[str], i: int) -> bool:
    """Where only a person can occur: between auxiliary and verb, before a verb of saying, as an owner."""
    at = next((k for k in range(i - 1, -1, -1) if codes[k] not in "jl"), -1)
    before = codes[at] if at >= 0 else ""
    after = next((code for code in codes[i + 1 :] if code != "j"), "")
    if before in {"N", "t"} or tokens[i].possessive:
        return before not in {"N", "t"}
    if before == "b":
        doing = i + 1 < len(words) and words[i + 1].endswith("ing")
        return doing or after in {"G", "n"} or _is_asked_of(words, at, i)
    if before in _AUXILIARY and words[at] != "got":
        return _between(words, i, before, after)
    if before == "p":
        return after in _AFTER_OBJECT and words[at] in _WITH and words[i] not in TIMES
    if after in _BE and (before in _BEFORE_SUBJECT or words[at] in _BEFORE_CLAUSE):
        has = after == "v" and words[i + 1 : i + 2] != ["have"]
        return has or (after != "v" and words[i] not in TIMES)
    return after in {"c", "G"} and before in _BEFORE_SPEAKER


def _between(words: list[str], i: int, before: str, after: str) -> bool:
    """Between auxiliary and verb: "did Rose like it"; but "when does summer start"."""
    if before == "D" and after == "x" and words[i] in TIMES:
        return False
    liked = before in "dD" and words[i + 1 : i + 2] == ["like"]
    return liked or after in _VERBAL or (after == "" and before in "&f,") or (after in "&," and before in "dBv")


def _is_asked_of(words: list[str], verb: int, i: int) -> bool:
    """ "Why is Rose", "is Rose mad"; but "what is rose gold", "is hope lost"."""
    asked = verb > 0 and words[verb - 1] in {"why", "where", "when", "how"}
    after, then = (*words[i + 1 : i + 3], "", "")[:2]
    placed = after and (words[-1] in PLACES or (after in PLACES and then in {"for", "or"}))
    return asked or bool(placed) or not STATES.isdisjoint(words[i + 1 : i + 3])
