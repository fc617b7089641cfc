"""From tokens to letters: finds people and times, and gives every other word its class from the lexicon.

Enters: tokens and the scene. Leaves: a `Line`: one letter per token, plus the people and time expressions.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress
from operator import attrgetter, itemgetter
from string import ascii_lowercase
from typing import TypeVar

from channelmem.routing.words import (
    AFFAIRS,
    AMBIGUOUS,
    CODES,
    EXPAND,
    NEAR_NAMES,
    NO_ING,
    NO_PAST,
    PLACES,
    QUOTED,
    STATES,
    TALK_NOUNS,
    Token,
    fold,
    fold_word,
    past,
    word_set,
)
from channelmem.text import slips
from channelmem.times import when
from channelmem.times.calendar import MONTHS, WEEKDAYS
from channelmem.times.spans import Clue, Moment
from channelmem.times.when import TimeMatch
from channelmem.types import Person, Route

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
    # "Everything about today" asks for all that was said today.
    if not before or codes[before - 1] != "a" or words[max(0, before - 2)] in {"everything", "all"}:
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


# --- scene ---


_PIECE = re.compile(r"\w+(?:['.\-]\w+)*|[^\w\s!-/:-@\[-`{-~]")
_MIN_PREFIX = 3
_MIN_TYPO, _MIN_TWO_TYPOS, _MIN_UNPLACED = 4, 7, 5
"""From so many letters on, one slip is forgiven, and two; and one where the sentence does not call for a name."""
_LONGEST_NAME = 64
_MOST_COMPARED = 200
_SPLIT = re.compile(r"[_.\-]+")
_Key = TypeVar("_Key")


def name_words(name: str) -> tuple[str, ...]:
    """The words of a name, spelled like the tokens of a question, without decoration."""
    return tuple(fold_word(piece) for piece in _PIECE.findall(name[:_LONGEST_NAME].replace("\u2019", "'")))


class Roster:
    """The people of a channel. Building takes a few microseconds per name; lookups do not depend on their number."""

    __slots__ = (
        "_by_id", "_full", "_parts", "_sorted", "_spelt", "beginnings", "first_words", "initials", "people",
        "single_words", "slang",
    )  # fmt: skip

    def __init__(self, people: Iterable[Person] = ()) -> None:
        self.people: tuple[Person, ...] = tuple(people)
        self._by_id = {person.id: person for person in self.people}
        self._full: dict[tuple[str, ...], tuple[Person, ...]] = {}
        self._parts: dict[str, tuple[Person, ...]] = {}
        for person in self.people:
            for name in (person.name, *person.aliases):
                self._add(person, name_words(name))
        self._sorted: list[str] = sorted(self._parts)
        self._spelt: dict[tuple[str, int], list[str]] = {}
        """Parts of names long enough to be misspelt, by first letter and length."""
        for word in self._sorted:
            if len(word) >= _MIN_TYPO:
                self._spelt.setdefault((word[0], len(word)), []).append(word)
        self.single_words: frozenset[str] = frozenset(words[0] for words in self._full if len(words) == 1)
        self.first_words: dict[str, list[int]] = {}
        """By first word: the lengths, in words, of the names that begin with it, longest first."""
        for words in sorted(self._full, key=len, reverse=True):
            lengths = self.first_words.setdefault(words[0], [])
            if len(words) not in lengths:
                lengths.append(len(words))
        self.slang: frozenset[str] = frozenset(word for word in self.single_words if word in EXPAND or "'" in word)
        """Names that look like slang or a contraction."""
        self.initials: frozenset[str] = frozenset(
            word for words in self._full for word in words[1:] if word in EXPAND or word in CODES
        )
        """Further words of names that look like something else: the "R" of "Leo R"."""
        self.beginnings: frozenset[str] = frozenset(
            beginning for word in self._parts for beginning in (word[:2], f"{word}s"[:2])
        ) | {"<@", *(first + second for first, _ in self._spelt for second in ascii_lowercase)}
        """How words that may mean somebody begin: a name or part of one, a prefix, a typo, a mention, "bobs"."""

    def _add(self, person: Person, words: tuple[str, ...]) -> None:
        if not words:
            return
        apart = tuple(part for word in words for part in _SPLIT.split(word) if part)
        for key in {words, ("".join(words),), apart if len(apart) > 1 else words}:
            _append(self._full, key, person)
        # "Mike" for "Big Mike" and "karen" for "the_real_karen", if only one person has that part.
        for word in {part for whole in words for part in (whole, *_SPLIT.split(whole))} | {"".join(words)}:
            _append(self._parts, word, person)

    def by_id(self, person_id: int) -> Person | None:
        return self._by_id.get(person_id)

    def find(self, words: Sequence[str], start: int) -> tuple[tuple[Person, ...], int]:
        """The people whose full name begins at `start`, and its length in words; the longest match wins."""
        for length in self.first_words.get(words[start], ()):
            key = tuple(words[start : start + length])
            if len(key) == length and (found := self._full.get(key)):
                return found, length
        return (), 0

    def is_name(self, word: str) -> bool:
        """Whether somebody is called this, or has it as the only one in their name."""
        return word in self.single_words or bool(self.part(word))

    def part(self, word: str) -> tuple[Person, ...]:
        """The only person whose name has this word."""
        found = self._parts.get(word, ()) if len(word) >= _MIN_PREFIX else ()
        return found if len(found) == 1 else ()

    def guess(self, word: str) -> tuple[Person, ...]:
        """The only person that a part of a name, a prefix or a typo can mean."""
        if len(word) < _MIN_PREFIX:
            return ()
        return self.part(word) or self._with_prefix(word) or self.misspelt(word)

    def _with_prefix(self, word: str) -> tuple[Person, ...]:
        found: list[Person] = []
        for at in range(bisect_left(self._sorted, word), len(self._sorted)):
            name = self._sorted[at]
            if not name.startswith(word):
                break
            found += [person for person in self._parts[name] if person not in found]
            if len(found) > 1:
                return ()
        return tuple(found)

    def misspelt(self, word: str) -> tuple[Person, ...]:
        """The only person whose name is nearest: one slip away, or two in a long word. The first letter is right."""
        if len(word) < _MIN_TYPO or word in NEAR_NAMES:
            return ()
        most = 2 if len(word) >= _MIN_TWO_TYPOS else 1
        near: dict[int, list[Person]] = {}
        for name in self._as_long_as(word, most):
            if len(set(name) ^ set(word)) <= 2 * most and (count := slips(name, word)) <= most:
                near.setdefault(count, []).extend(one for one in self._parts[name] if one not in near.get(count, ()))
        nearest = near[min(near)] if near else ()
        return tuple(nearest) if len(nearest) == 1 else ()

    def _as_long_as(self, word: str, most: int) -> list[str]:
        lengths = range(len(word) - most, len(word) + most + 1)
        names = [name for length in lengths for name in self._spelt.get((word[0], length), ())[:_MOST_COMPARED]]
        return [name for name in names if word not in {f"{name}s", name.removesuffix("s")}]


def _append(index: dict[_Key, tuple[Person, ...]], key: _Key, person: Person) -> None:
    known = index.get(key, ())
    if person not in known:
        index[key] = (*known, person)


@dataclass(frozen=True, slots=True)
class Previous:
    """The asker's question before this one: its route, and which message came first in its answer."""

    route: Route
    hit_id: int | None = None
    hit_ts: float | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known about the moment of a question."""

    asker: Person
    bot: Person
    roster: Roster
    now: float
    mentions: tuple[Person, ...] = ()
    tz: str = "UTC"
    horizon_s: float = 1_800.0
    last_spoke_ts: float | None = None
    joined_ts: float | None = None
    previous: Previous | None = None
    reply_to: int | None = None
    """The message that the question is a reply to."""
    linked: tuple[int, int] | None = None
    """Channel and id of the message that the question links to; zeros if the asker can't read that."""
    channel_id: int = 0
    is_dm: bool = False

    @property
    def moment(self) -> Moment:
        return Moment(self.now, self.tz, self.horizon_s, self.last_spoke_ts, self.joined_ts)

    def by_id(self, person_id: int) -> Person | None:
        """Whom a mention means."""
        named = next((person for person in self.mentions if person.id == person_id), None)
        return self.bot if person_id == self.bot.id else named or self.roster.by_id(person_id)


# --- people ---


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
_ENDINGS = ("ing", "tion", "ness", "ment", "ly", "ed")
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
    """ "bobs opinion", "wens aunt": the apostrophe is the first thing people drop in chat."""
    for i in places:
        word = line.words[i]
        owner = word.removesuffix("s")
        if owner is word or codes[i] != "x" or roster.is_name(word) or not roster.is_name(owner):
            continue
        if _owns(line, codes, i, owner):
            is_doing = i + 1 < len(codes) and line.words[i + 1].endswith("ing")  # "bobs coming": Bob is
            line.tokens[i], line.words[i] = Token(line.tokens[i].text, owner, possessive=not is_doing), owner


def _owns(line: Line, codes: list[str], i: int, owner: str) -> bool:
    """Whether a name with an s means that person's, and not several things ("the marks")."""
    if i + 1 < len(codes) and (codes[i + 1] in "KL" or line.words[i + 1] in TALK_NOUNS | _ORDER):
        return True
    if owner in AMBIGUOUS:
        return False
    followed = i + 1 < len(codes) and codes[i + 1] == "x"
    return (i > 0 and codes[i - 1] == "b") or (_stands_alone(codes, i) and (followed or len(owner) >= _MIN_TYPO))


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
    if codes[i] != "x" or words[i] in AMBIGUOUS:
        return (), 1
    if called or _in_name_slot(line.tokens, words, codes, i):
        return roster.guess(words[i]), 1
    return (roster.misspelt(words[i]) if _may_be_misspelt(words[i], codes, i) else ()), 1


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


def _may_be_misspelt(word: str, codes: list[str], i: int) -> bool:
    """ "How many jars for rosalynd": no grammatical form, and nothing before it that makes it a thing."""
    formed = word.endswith(_ENDINGS) or past(word)
    return len(word) >= _MIN_UNPLACED and not formed and _stands_alone(codes, i)


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
