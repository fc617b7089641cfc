"""What is known about the moment of a question: who asks, who may be meant, and when.

Enters: what the adapter knows; display names, nicks and user names. Leaves: a `Scene`, from which every stage of the
router takes people and the time. Its `Roster` finds people by a run of folded words: case and accents do not matter,
and a prefix of three letters is enough if only one person has it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from channelmem.routing.lexicon import CODES
from channelmem.routing.slang import EXPAND
from channelmem.routing.tokens import fold_word
from channelmem.times.spans import Moment
from channelmem.types import Person, Route

_PIECE = re.compile(r"\w+(?:['.\-]\w+)*|[^\w\s!-/:-@\[-`{-~]")
_MIN_PREFIX = 3
_MIN_TYPO = 5
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
        "_by_id", "_full", "_parts", "_sorted", "beginnings", "first_words", "initials", "people", "single_words",
        "slang",
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
        ) | {"<@"}
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

    def part(self, word: str) -> tuple[Person, ...]:
        """The only person whose name has this word."""
        found = self._parts.get(word, ()) if len(word) >= _MIN_PREFIX else ()
        return found if len(found) == 1 else ()

    def guess(self, word: str) -> tuple[Person, ...]:
        """The only person that a part of a name, a prefix or a typo can mean."""
        if len(word) < _MIN_PREFIX:
            return ()
        return self.part(word) or self._with_prefix(word) or self._misspelt(word)

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

    def _misspelt(self, word: str) -> tuple[Person, ...]:
        if len(word) < _MIN_TYPO:
            return ()
        found: list[Person] = []
        low = bisect_left(self._sorted, word[:2])
        for name in self._sorted[low : low + _MOST_COMPARED]:
            if name[:2] != word[:2]:
                break
            if len(name) >= _MIN_TYPO and word != f"{name}s" and one_slip(name, word):
                found += [person for person in self._parts[name] if person not in found]
        return tuple(found) if len(found) == 1 else ()


def _append(index: dict[_Key, tuple[Person, ...]], key: _Key, person: Person) -> None:
    known = index.get(key, ())
    if person not in known:
        index[key] = (*known, person)


def one_slip(one: str, other: str) -> bool:
    """Whether one insertion, deletion, substitution or swap of neighbours turns one word into the other."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    rest, other_rest = one[start:], other[start:]
    return (
        rest[1:] == other_rest[1:]
        or rest[1:] == other_rest
        or rest == other_rest[1:]
        or (len(rest) > 1 and len(other_rest) > 1 and rest[1] + rest[0] + rest[2:] == other_rest)
    )


@dataclass(frozen=True, slots=True)
class Asked:
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
    previous: Asked | None = None
    reply_to: int | None = None
    """The message that the question is a reply to."""
    is_dm: bool = False

    @property
    def moment(self) -> Moment:
        return Moment(self.now, self.tz, self.horizon_s, self.last_spoke_ts, self.joined_ts)

    def by_id(self, person_id: int) -> Person | None:
        """Whom a mention means."""
        named = next((person for person in self.mentions if person.id == person_id), None)
        return self.bot if person_id == self.bot.id else named or self.roster.by_id(person_id)
