"""Implicit replies: which earlier message of the channel does a message answer, if any?

Enters: the messages of one channel in order. Leaves: for a message, up to three probable parents with their
probabilities; what is missing to 1 is the chance that it starts something new. An explicit reply is certain.

Nothing is learned while running and no embedding is needed: who is addressed, who answered whom, time, authorship and
words in common become one row of numbers per candidate, and a small averaged network (`links.npz`, made by
scripts/train_links.py) turns the rows into a distribution. Only what came before a message is ever looked at.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import log, log1p
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from channelmem.recalling.turns import TEXT_FEATURES, Turn, read
from channelmem.types import Message

SPAN: Final = 50
"""How many earlier messages may be the parent: 98 % of the annotated replies lie within."""
PARENTS: Final = 3

SITUATION: Final = (
    "messages since own", "time since own", "addressed since own", "messages since addressed", "time since previous",
)  # fmt: skip
LOGARITHMIC: Final = (
    "distance", "time", "later by author", "mine since", "addressee since", "mine or to me since",
)  # fmt: skip
PLAIN: Final = (
    "previous", "same author", "own last", "addressed", "named", "newest of author", "addresses me", "names me",
    "newest to me", "addresses others", "same addressee", "answered by me", "author's partner is me",
    "my partner is author", "to my partner", "newest to me of author", "newest compatible of author",
    "mine to addressee", "common words", "rarest common word", "most common words",
)  # fmt: skip
FEATURES: Final = (
    "self", *TEXT_FEATURES, *SITUATION, *LOGARITHMIC, *PLAIN, *(f"its {name}" for name in TEXT_FEATURES)
)  # fmt: skip

_PAIRS: Final = 1 + len(TEXT_FEATURES) + len(SITUATION)
"""Where the columns begin that differ between candidates; "self" has zeros there."""
_ITS: Final = len(FEATURES) - len(TEXT_FEATURES)
_ADDRESSES: Final = TEXT_FEATURES.index("addresses")
_DISTANCE: Final = np.arange(SPAN, 0, -1)
_NEVER_S: Final = 3600.0
_NOBODY: Final[frozenset[int]] = frozenset()

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
Places = dict[str | int, deque[int]]


@dataclass(frozen=True, slots=True)
class Weights:
    """Several small networks of the same shape, averaged: (nets, in, out) matrices and (nets, 1, out) biases."""

    layers: tuple[tuple[Floats, Floats], ...]

    def chances(self, rows: Floats) -> Floats:
        """One probability per row; the rows are the alternatives of one choice."""
        hidden = rows
        for matrix, bias in self.layers[:-1]:
            hidden = hidden @ matrix
            hidden += bias
            np.maximum(hidden, 0, out=hidden)
        matrix, bias = self.layers[-1]
        scores = (hidden @ matrix + bias)[..., 0]
        odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
        odds /= odds.sum(axis=-1, keepdims=True) * len(odds)
        chances: Floats = odds.sum(axis=0)
        return chances


@cache
def shipped() -> Weights:
    """The weights of this package, read once."""
    with resources.files("channelmem.recalling").joinpath("links.npz").open("rb") as file, np.load(file) as archive:
        about = json.loads(str(archive["about"]))
        if about["features"] != list(FEATURES):
            raise ValueError("links.npz was made for other features; run scripts/train_links.py again")
        names = [(f"matrix{at}", f"bias{at}") for at in range(about["layers"])]
        return Weights(tuple((archive[m].astype(np.float32), archive[b].astype(np.float32)) for m, b in names))


class Linker:
    """The last messages of one channel, and what a message among or after them probably answers."""

    def __init__(self, recent: Iterable[Message] = (), weights: Weights | None = None) -> None:
        self._weights = shipped() if weights is None else weights
        self._rebuild(recent)

    def __len__(self) -> int:
        return len(self._turns)

    def parents(self, message: Message) -> tuple[tuple[int, float], ...]:
        """What it probably answers, likeliest first; the missing mass: it starts a thread (or answers another)."""
        if message.reply_to is not None:
            return ((message.reply_to, 1.0),)
        ids, rows = self.features(message)
        if not ids:
            return ()
        chances = self._weights.chances(rows)[1:]
        # The small change of all other candidates is left out: given to these three it joined more #ubuntu threads
        # that are apart than it helped.
        best = np.argsort(-chances, kind="stable")[:PARENTS]
        return tuple((ids[at], round(float(chances[at]), 4)) for at in best)

    def features(self, message: Message) -> tuple[list[int], Floats]:
        """Ids of the candidates, oldest first, and a row per alternative: "self" first, then the candidates."""
        if self._turns and _order(message) <= _order(self._turns[-1].message):
            earlier = [old for old in self._messages() if _order(old) < _order(message)]
            return Linker(earlier, self._weights).features(message)
        return [turn.message.id for turn in self._turns], self._rows(self._read(message))

    def add(self, message: Message) -> None:
        """Remember it as a candidate; a known id is an edit, and a late message is put where it belongs."""
        if self._knows(message.id):
            self.edit(message)
        elif self._turns and _order(message) < _order(self._turns[-1].message):
            self._rebuild([*self._messages(), message])
        else:
            self._append(message)

    def edit(self, message: Message) -> None:
        """Replace what is known of it; unknown messages stay unknown."""
        if self._knows(message.id):
            self._rebuild([message if old.id == message.id else old for old in self._messages()])

    def drop(self, ids: Iterable[int]) -> None:
        """Forget these messages."""
        gone = frozenset(ids)
        if any(self._knows(message_id) for message_id in gone):
            self._rebuild([old for old in self._messages() if old.id not in gone])

    def drop_author(self, author_id: int) -> None:
        """Forget everything this person wrote."""
        self.drop([old.id for old in self._messages() if old.author_id == author_id])

    def _knows(self, message_id: int) -> bool:
        return message_id in [turn.message.id for turn in self._turns]

    def _messages(self) -> list[Message]:
        return [turn.message for turn in self._turns]

    def _rebuild(self, messages: Iterable[Message]) -> None:
        newest = sorted(messages, key=_order)[-SPAN:]
        self._turns: deque[Turn] = deque()
        self._names: dict[str, int] = {}
        self._partners: dict[int, frozenset[int]] = {}
        """Whom each person last addressed."""
        # Which turns have a word, address a person, name a person: serial numbers, the oldest turn being `_first`.
        self._first = 0
        self._words: Places = {}
        self._addressing: Places = {}
        self._naming: Places = {}
        self._fresh: Turn | None = None
        # Aligned with the turns at their right ends; what is left of the oldest turn is meaningless.
        self._authors = np.zeros(SPAN, np.int64)
        self._times = np.zeros(SPAN, np.float64)
        self._texts = np.zeros((SPAN, len(TEXT_FEATURES)), np.float32)
        self._later = np.zeros(SPAN, np.float32)
        """How many later messages the same author has written."""
        for message in newest:
            self._learn_names(message)
        for message in newest:
            self._append(message)

    def _learn_names(self, message: Message) -> None:
        for name in (message.author, *message.aliases):
            if known := name.strip().casefold():
                self._names[known] = message.author_id

    def _append(self, message: Message) -> None:
        turn = self._read(message)
        self._fresh = None
        if len(self._turns) == SPAN:
            self._evict()
        for places, keys in self._indexed(turn):
            for key in keys:
                places.setdefault(key, deque()).append(self._first + len(self._turns))
        self._turns.append(turn)
        self._learn_names(message)
        if turn.addressed:
            self._partners[message.author_id] = turn.addressed
        self._later += self._authors == message.author_id
        _shift(self._authors, message.author_id)
        _shift(self._times, message.ts)
        _shift(self._texts, turn.row)
        _shift(self._later, 0)

    def _indexed(self, turn: Turn) -> tuple[tuple[Places, frozenset[Any]], ...]:
        return (self._words, turn.words), (self._addressing, turn.addressed), (self._naming, turn.named)

    def _evict(self) -> None:
        gone = self._turns.popleft()
        self._first += 1
        for places, keys in self._indexed(gone):
            for key in keys:
                places[key].popleft()
                if not places[key]:
                    del places[key]
        person = gone.message.author_id
        if not (self._authors[1:] == person).any():
            self._names = {name: owner for name, owner in self._names.items() if owner != person}
            self._partners.pop(person, None)

    def _read(self, message: Message) -> Turn:
        """The message as a turn; `add` after `parents` reads it only once."""
        if self._fresh is None or _substance(message) != _substance(self._fresh.message):
            replied = None
            if message.reply_to is not None:
                replied = next((m.author_id for m in self._messages() if m.id == message.reply_to), None)
            here = (self._authors[SPAN - len(self._turns) :] == message.author_id).any()
            self._fresh = read(message, self._names, replied, first_here=not here)
        return self._fresh

    def _rows(self, turn: Turn) -> Floats:
        """One row per alternative, in the order of FEATURES; row 0 is "starts something new"."""
        rows = np.zeros((len(self._turns) + 1, len(FEATURES)), np.float32)
        rows[0, 0] = 1
        to_me = self._with(self._addressing, [turn.message.author_id])
        rows[:, 1:_PAIRS] = (*turn.row, *self._situation(turn.message, to_me))
        if self._turns:
            rows[1:, _PAIRS:_ITS] = self._pairs(turn, to_me).T
            rows[1:, _ITS:] = self._texts[SPAN - len(self._turns) :]
        return rows

    def _situation(self, message: Message, to_me: Flags) -> tuple[float, ...]:
        """Where the author stands: how long silent, and whether somebody has spoken to them since."""
        count = len(self._turns)
        own = _newest(self._authors[SPAN - count :] == message.author_id)
        spoken_to = _newest(to_me)
        silent_s = message.ts - self._times[-own] if own <= count else _NEVER_S
        pause_s = message.ts - self._times[-1] if count else _NEVER_S
        return log1p(own), log1p(silent_s), float(spoken_to < own), log1p(spoken_to), log1p(pause_s)

    def _pairs(self, turn: Turn, to_me: Flags) -> Floats:
        """A row per feature of LOGARITHMIC and PLAIN, a column per candidate."""
        me, begin = turn.message.author_id, SPAN - len(self._turns)
        authors, later = self._authors[begin:], self._later[begin:]
        mine = authors == me
        newest = later == 0
        addressed = self._by(turn.addressed)
        addresses = self._texts[begin:, _ADDRESSES] > 0
        same_addressee = self._with(self._addressing, turn.addressed)
        my_partners = self._partners.get(me, _NOBODY)
        common, rarest = self._common_words(turn)
        mine_to_addressee = mine & same_addressee
        since = _since(mine, addressed, mine | to_me, to_me, mine_to_addressee)
        pairs = np.empty((len(LOGARITHMIC) + len(PLAIN), len(self._turns)), np.float32)
        for at, column in enumerate(
            (
                _DISTANCE[begin:],
                turn.message.ts - self._times[begin:],
                later,
                *since[:3],
                _DISTANCE[begin:] == 1,
                mine,
                mine & newest,
                addressed,
                self._by(turn.named),
                newest,
                to_me,
                self._with(self._naming, [me]),
                to_me & (since[3] == 0),
                addresses & ~to_me,
                same_addressee,
                self._answered_by(mine),
                self._by([person for person, partners in self._partners.items() if me in partners]),
                self._by(my_partners),
                self._with(self._addressing, my_partners),
                _newest_of_each(authors, to_me),
                _newest_of_each(authors, to_me | ~addresses),
                mine_to_addressee & (since[4] == 0),
                common,
                rarest,
                (common > 0) & (common == common.max()),
            )
        ):
            pairs[at] = column
        logarithmic = pairs[: len(LOGARITHMIC)]
        np.log1p(logarithmic, out=logarithmic)
        return pairs

    def _by(self, people: Iterable[int]) -> Flags:
        """Which candidates were written by one of these."""
        authors = self._authors[SPAN - len(self._turns) :]
        written = np.zeros(len(authors), bool)
        for person in people:
            written |= authors == person
        return written

    def _with(self, places: Places, people: Iterable[int]) -> Flags:
        """Which candidates address, or name, one of these."""
        flags = np.zeros(len(self._turns), bool)
        for person in people:
            for serial in places.get(person, ()):
                flags[serial - self._first] = True
        return flags

    def _answered_by(self, mine: Flags) -> Flags:
        """Whose author I have addressed since."""
        places = mine.nonzero()[0].tolist()
        last = {person: at for at in places for person in self._turns[at].addressed}
        answered = np.zeros(len(mine), bool)
        authors = self._authors[SPAN - len(mine) :]
        for person, at in last.items():
            answered[:at] |= authors[:at] == person
        return answered

    def _common_words(self, turn: Turn) -> tuple[Floats, Floats]:
        """Words in common with each candidate: cosine with weights by rarity, and the weight of the rarest."""
        shared: dict[int, float] = {}
        top: dict[int, float] = {}
        total = 0.0
        for word in turn.words:
            places = self._words.get(word, ())
            weight = log((len(self._turns) + 1) / (len(places) + 0.5))
            total += weight * weight
            for serial in places:
                at = serial - self._first
                shared[at] = shared.get(at, 0.0) + weight * weight
                top[at] = max(top.get(at, 0.0), weight)
        both = np.zeros((2, len(self._turns)), np.float32)
        for at, weights in shared.items():
            # The candidate's own weights are not worth summing: 2 is about what a word weighs.
            both[0, at] = weights / (total * len(self._turns[at].words) * 4) ** 0.5
            both[1, at] = top[at]
        return both[0], both[1]


def _order(message: Message) -> tuple[float, int]:
    return message.ts, message.id


def _substance(message: Message) -> tuple[object, ...]:
    """What a turn is made of."""
    return (
        message.id,
        message.author_id,
        message.author,
        message.content,
        message.ts,
        message.mentions,
        message.reply_to,
    )


def _shift(column: NDArray[Any], value: float | tuple[float, ...]) -> None:
    column[:-1] = column[1:]
    column[-1] = value


def _since(*flags: Flags) -> NDArray[np.int64]:
    """A row for each: at every position, how many of the later ones are set."""
    counts = np.array(flags).cumsum(axis=1)
    since: NDArray[np.int64] = counts[:, -1:] - counts
    return since


def _newest(flags: Flags) -> int:
    """How many steps back the last set position is; one more than there are if none is."""
    places = flags.nonzero()[0]
    return len(flags) - int(places[-1]) if places.size else len(flags) + 1


def _newest_of_each(authors: NDArray[np.int64], flags: Flags) -> Flags:
    """The last set position of every author."""
    places = flags.nonzero()[0]
    last = dict(zip(authors[places].tolist(), places.tolist(), strict=True))
    newest = np.zeros(len(flags), bool)
    newest[list(last.values())] = True
    return newest
