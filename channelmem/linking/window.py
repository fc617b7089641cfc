"""The last turns of a channel, and what they look like when the next message arrives.

Enters: turns in order. Leaves: a `LinkInput` for the next turn, which `features` turns into numbers.

A set of candidates is an int, here called marks: bit 0 is the oldest candidate. Most clues are such sets, computed by a
few operations on whole sets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from math import log, log1p
from typing import Any, Final

import numpy as np

from channelmem.linking.features import SPAN, LinkInput, Marks
from channelmem.linking.turn import TEXT_FEATURES, Turn
from channelmem.types import Message

_NEVER_S: Final = 3600.0
_TIE: Final = 1 - 1e-6

Index = dict[Any, Marks]


class TurnWindow:
    """The last turns of a channel, and who wrote, addressed, named and said what in them.

    The turns move through twice as many slots as there are candidates; `_first` is the slot of the oldest. Older turns
    stay in the indexes until the slots are used up, then everything moves back at once.
    """

    def __init__(self) -> None:
        self.turns: deque[Turn] = deque()
        self.names: dict[str, int] = {}
        self._partners: dict[int, frozenset[int]] = {}
        """Whom each person last addressed."""
        self._first = 0
        # Sets of slots: who wrote there, who is addressed or named there, which words occur there.
        self._by: Index = {}
        self._addressing: Index = {}
        self._naming: Index = {}
        self._words: Index = {}
        # Sets of slots for all messages: those to somebody, each author's newest, each author's newest to nobody.
        self._addresses: Marks = 0
        self._newest: Marks = 0
        self._newest_open: Marks = 0
        self._times = np.zeros(2 * SPAN, np.float64)
        self._later = bytearray(2 * SPAN)
        """Per slot: how many messages the same author has written from there on."""
        self._later_by_slot = np.frombuffer(self._later, np.uint8)
        self._texts = np.zeros((len(TEXT_FEATURES), 2 * SPAN), np.float32)

    def has(self, author_id: int) -> bool:
        """Whether this person wrote one of the turns."""
        return self._by.get(author_id, 0) >> self._first > 0

    def heard(self, author_id: int) -> bool:
        """Whether there is a trace of this person, even from before the oldest turn."""
        return author_id in self._by

    def learn_names(self, message: Message) -> None:
        for name in (message.author, *message.aliases):
            if known := name.strip().casefold():
                self.names[known] = message.author_id

    def append(self, turn: Turn) -> None:
        if len(self.turns) == SPAN:
            self._forget_oldest()
        if self._first == SPAN:
            self.forget_older()
        slot = self._first + len(self.turns)
        self.turns.append(turn)
        self.learn_names(turn.message)
        self._mark(turn, 1 << slot)
        self._later[slot] = 1
        self._times[slot] = turn.message.ts
        self._texts[:, slot] = turn.row

    def _mark(self, turn: Turn, here: Marks) -> None:
        author = turn.message.author_id
        before = self._by.get(author, 0)
        for at in _places(before >> self._first):
            self._later[self._first + at] += 1
        self._by[author] = before | here
        self._newest = self._newest & ~before | here
        if turn.addressed:
            self._addresses |= here
            self._partners[author] = turn.addressed
        else:
            self._newest_open = self._newest_open & ~before | here
        _add(self._words, turn.words, here)
        _add(self._addressing, turn.addressed, here)
        _add(self._naming, turn.named, here)

    def _forget_oldest(self) -> None:
        person = self.turns.popleft().message.author_id
        self._first += 1
        if not self.has(person):
            self.names = {name: owner for name, owner in self.names.items() if owner != person}
            self._partners.pop(person, None)

    def forget_older(self) -> None:
        """Removes every trace of what is older than the turns."""
        first = self._first
        self._by, self._addressing, self._naming, self._words = (
            {key: marks >> first for key, marks in index.items() if marks >> first}
            for index in (self._by, self._addressing, self._naming, self._words)
        )
        self._addresses >>= first
        self._newest >>= first
        self._newest_open >>= first
        for column in (self._times, self._later_by_slot, self._texts.T):
            column[:SPAN] = column[first : first + SPAN]
        self._first = 0

    def take(self, turn: Turn) -> LinkInput:
        """What there is to see when this turn comes; from now on it is one of the last."""
        seen = self.see(turn)
        self.append(turn)
        return seen

    def see(self, turn: Turn) -> LinkInput:
        """What the channel looks like if this turn comes next."""
        message, slots = turn.message, slice(self._first, self._first + len(self.turns))
        mine = self._by.get(message.author_id, 0) >> self._first
        to_me = self._addressing.get(message.author_id, 0) >> self._first
        return LinkInput(
            message,
            tuple(self.turns),
            (*turn.row, *self._situation(message, mine, to_me)),
            self._sets(turn, mine, to_me),
            self._common(turn),
            message.ts + 1 - self._times[slots],
            self._later_by_slot[slots].copy(),
            self._texts[:, slots].copy(),
        )

    def _situation(self, message: Message, mine: Marks, to_me: Marks) -> tuple[float, ...]:
        """The author's situation: how long they were silent, and whether somebody has spoken to them since."""
        count = len(self.turns)
        own, spoken_to = count + 1 - mine.bit_length(), count + 1 - to_me.bit_length()
        silent_s = message.ts - self.turns[-own].message.ts if mine else _NEVER_S
        pause_s = message.ts - self.turns[-1].message.ts if count else _NEVER_S
        return log1p(own), log1p(silent_s), float(spoken_to < own), log1p(spoken_to), log1p(pause_s)

    def _sets(self, turn: Turn, mine: Marks, to_me: Marks) -> list[Marks]:
        """The three sets whose members after a candidate are counted, including the turn itself; then SETS."""
        me, first = turn.message.author_id, self._first
        my_partners = self._partners.get(me, ())
        with_me = [person for person, partners in self._partners.items() if me in partners]
        newest, addresses = self._newest >> first, self._addresses >> first
        addressed = self._marked(self._by, turn.addressed)
        same_addressee = self._marked(self._addressing, turn.addressed)
        newest_to_me, newest_compatible = self._newest_of_each(to_me)
        now = 1 << len(self.turns)
        return [
            now | mine,  # mine since
            now | addressed,  # addressee since
            now | mine | to_me,  # mine or to me since
            now >> 1,
            mine,
            mine & newest,
            addressed,
            self._marked(self._by, turn.named),
            newest,
            to_me,
            self._naming.get(me, 0) >> first,
            _last(to_me),
            addresses & ~to_me,
            same_addressee,
            self._answered_by(mine & addresses),
            self._marked(self._by, with_me),
            self._marked(self._by, my_partners),
            self._marked(self._addressing, my_partners),
            newest_to_me,
            newest_compatible,
            _last(mine & same_addressee),
        ]

    def _marked(self, index: Mapping[int, Marks], people: Iterable[int]) -> Marks:
        """Which candidates the index has for any of these people."""
        marks = 0
        for person in people:
            marks |= index.get(person, 0)
        return marks >> self._first

    def _answered_by(self, mine: Marks) -> Marks:
        """The candidates whose author I have addressed since; `mine` are my messages that address somebody."""
        last = {person: at for at in _places(mine) for person in self.turns[at].addressed}
        answered = 0
        for person, at in last.items():
            answered |= self._by.get(person, 0) >> self._first & ~(-1 << at)
        return answered

    def _newest_of_each(self, to_me: Marks) -> tuple[Marks, Marks]:
        """Each author's newest message to me, and each author's newest to me or to nobody."""
        to_me_newest, compatible, rest = 0, self._newest_open >> self._first, to_me
        while rest:
            newest = _last(rest)
            theirs = self._by[self.turns[newest.bit_length() - 1].message.author_id] >> self._first
            to_me_newest |= newest
            compatible = compatible & ~theirs | max(compatible & theirs, newest)
            rest &= ~theirs
        return to_me_newest, compatible

    def _common(self, turn: Turn) -> list[tuple[int, float, float, bool]]:
        """For each candidate that shares words: the cosine weighted by rarity, the weight of the rarest shared word,
        and whether its cosine is the highest."""
        shared: dict[int, float] = {}
        top: dict[int, float] = {}
        total = 0.0
        for word in turn.words:
            places = self._words.get(word, 0) >> self._first
            weight = log((len(self.turns) + 1) / (places.bit_count() + 0.5))
            square = weight * weight
            total += square
            for at in _places(places):
                shared[at] = shared.get(at, 0.0) + square
                top[at] = max(top.get(at, 0.0), weight)
        if not shared:
            return []
        # Summing the candidate's own weights is not worth it: a word weighs about 2.
        cosines = {at: squares / (total * len(self.turns[at].words) * 4) ** 0.5 for at, squares in shared.items()}
        highest = _TIE * max(cosines.values())
        return [(at, cosine, top[at], cosine > highest) for at, cosine in cosines.items()]


def _add(index: Index, keys: Iterable[str | int], here: Marks) -> None:
    for key in keys:
        index[key] = index.get(key, 0) | here


def _last(marks: Marks) -> Marks:
    """Only the newest of them."""
    return 1 << marks.bit_length() - 1 if marks else 0


def _places(marks: Marks) -> list[int]:
    """The positions of the marks, oldest first."""
    places = []
    while marks:
        lowest = marks & -marks
        places.append(lowest.bit_length() - 1)
        marks ^= lowest
    return places
