"""The last messages of a channel as a linker sees them: each is read once, on its own (`Turn`); the window then says
whom it addresses, who answered whom, and which words it shares with the others, as features for the network."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from math import log, log1p
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from channelmem.types import Message

TEXT_FEATURES: Final = (
    "question", "length", "addresses", "names", "unknown address", "greeting", "command", "opener", "short reply",
    "first here", "bot",
)  # fmt: skip

_STEM: Final = 6  # words are compared by their first letters: a stemmer takes more time than the whole linker
_WORD = re.compile(r"[^\W_][\w'.+-]*[\w+]|[^\W_]")
_UNKNOWN_ADDRESS = re.compile(r"\s*@?[^\s:,]{2,32}[:,](?:\s|$)")
_MISSPELT_ADDRESS = re.compile(r"\W*([^\s:,]{4,32})(?:[:,>]|\s*$)")
_NAME_CHARACTERS: Final = "_|-`[]{}^\\"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_GREETING = _words("hi hello hey hiya greetings morning evening howdy yo sup")
_SHORT_REPLY = _words(
    "yes yeah yep yup no nope ok okay k kk thanks thank thx ty cheers lol haha hehe heh hmm hm ah oh right sure "
    "np exactly true correct indeed agreed nice cool great well"
)
_OPENER = _words(
    "anyone anybody someone somebody everyone everybody all guys folks is does do can could how what where which why "
    "who has have if i i'm im my when are"
)
_STOP = _words(
    "a about after all also am an and any anyone are as at be because been but by can can't cant could did do does "
    "doesn't don't dont for from get go got had has have he hello help hey hi how i i'd i'll i'm i've if im in into is "
    "isn't it it's its just know like lol me more my need no not now of off ok on one only or other our out please "
    "right same say see she should so some still such sure thank thanks that that's the them then there these they "
    "thing think this those to too try up use used using want was way we well were what what's when where which who "
    "why will with would yeah yes you you're your"
)


@dataclass(frozen=True, slots=True)
class Turn:
    """A message with everything that depends on its own text and on who was known when it came."""

    message: Message
    words: frozenset[str]
    addressed: frozenset[int]  # people named at the beginning, mentioned by id, or explicitly replied to
    named: frozenset[int]  # everybody named anywhere in the text, including those addressed
    row: tuple[float, ...]  # the values of TEXT_FEATURES


def read(message: Message, names: Mapping[str, int], replied: int | None, *, first_here: bool) -> Turn:
    """`names` are case-folded; `replied` is the author of the message that this one explicitly answers."""
    text = message.content.casefold()
    addressed, everybody = named(text, names)
    addressed.update(message.mentions)
    if replied is not None:
        addressed.add(replied)
    everybody |= addressed
    addressed.discard(message.author_id)
    everybody.discard(message.author_id)
    words = _WORD.findall(text)
    telling = [word[:_STEM] for word in words if len(word) > 1 and word not in _STOP and word not in names]
    row = (
        *_kind(text, words, addressed, everybody),
        float(first_here),
        float(message.own or "bot" in message.author.casefold()),
    )
    return Turn(message, frozenset(telling), frozenset(addressed), frozenset(everybody), row)


def _kind(text: str, words: Sequence[str], addressed: Collection[int], everybody: Collection[int]) -> tuple[float, ...]:
    head, first_two = words[:4], words[:2]
    return (
        float("?" in text),
        log1p(len(words)),
        float(bool(addressed)),
        float(bool(everybody)),
        float(not addressed and _UNKNOWN_ADDRESS.match(text) is not None),
        float(not _GREETING.isdisjoint(first_two)),
        float(text[:1] == "!"),
        float(not _OPENER.isdisjoint(head)),
        float(not _SHORT_REPLY.isdisjoint(first_two)),
    )


def named(text: str, names: Mapping[str, int]) -> tuple[set[int], set[int]]:
    """Who is addressed at the beginning, and who is named at all. Both arguments are case-folded."""
    start: set[int] = set()
    anywhere: set[int] = set()
    for name, person in names.items():
        if name in text and (at := _whole(text, name)) >= 0:
            leads = not text[:at].strip(" @<•*\"'")
            if leads:
                start.add(person)
            # One or two letters count as a name only where a name is expected.
            if leads or len(name) > 2 or text[at - 1] == "@":
                anywhere.add(person)
    if not start and (meant := _misspelt(text, names)) is not None:
        start.add(meant)
        anywhere.add(meant)
    return start, anywhere


def _whole(text: str, name: str) -> int:
    """Where the name occurs as a whole word; -1 if it does not."""
    at = text.find(name)
    while at >= 0 and (_inside(text, at - 1) or _inside(text, at + len(name))):
        at = text.find(name, at + 1)
    return at


def _inside(text: str, at: int) -> bool:
    """Whether the character there would make a name part of a longer word."""
    return 0 <= at < len(text) and (text[at].isalnum() or text[at] in _NAME_CHARACTERS)


def _misspelt(text: str, names: Mapping[str, int]) -> int | None:
    """Whom "actionparsnio:" means: the name with the longest common prefix, if that is most of it."""
    match = _MISSPELT_ADDRESS.match(text)
    if match is None:
        return None
    token = match[1]
    similar = [(_likeness(name, token), person) for name, person in names.items() if name[:4] == token[:4]]
    likeness, person = max(similar, default=(0.0, 0))
    return person if likeness >= 0.6 else None


def _likeness(one: str, other: str) -> float:
    """Their common prefix, as a share of the longer one."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return same / max(len(one), len(other))


# --- features ---


SPAN: Final = 50
"""How many earlier messages may be the parent: covers 98 % of the annotated replies. Marks must fit in 64 bits."""

SITUATION: Final = (
    "messages since own", "time since own", "addressed since own", "messages since addressed", "time since previous",
)  # fmt: skip
LOGARITHMIC: Final = (
    "distance", "time", "later by author", "mine since", "addressee since", "mine or to me since",
)  # fmt: skip
SETS: Final = (
    "previous", "same author", "own last", "addressed", "named", "newest of author", "addresses me", "names me",
    "newest to me", "addresses others", "same addressee", "answered by me", "author's partner is me",
    "my partner is author", "to my partner", "newest to me of author", "newest compatible of author",
    "mine to addressee",
)  # fmt: skip
WORDS: Final = ("common words", "rarest common word", "most common words")
FEATURES: Final = (
    "self", *TEXT_FEATURES, *SITUATION, *LOGARITHMIC, *SETS, *WORDS, *(f"its {name}" for name in TEXT_FEATURES)
)  # fmt: skip

_DISTANCE: Final = FEATURES.index("distance")
"""The first feature that differs between candidates; "self" has zeros from there on."""
_TIME: Final = FEATURES.index("time")
_LATER: Final = FEATURES.index("later by author")
_SINCE: Final = FEATURES.index("mine since")
_SETS: Final = FEATURES.index(SETS[0])
_WORDS: Final = FEATURES.index(WORDS[0])
_ITS: Final = len(FEATURES) - len(TEXT_FEATURES)
_COUNTED: Final = _SETS - _SINCE  # how many features count the members of a set that come later
_UINT64: Final = np.dtype("<u8")
_PASSED: Final = np.arange(1, SPAN + 1, dtype=_UINT64)
"""How many turns there are up to each candidate: a set shifted by that number of bits holds what came later."""

Floats = NDArray[np.float32]
Marks = int  # a set of candidates: bit 0 is the oldest one


class LinkInput(NamedTuple):
    """What a channel looks like at the moment a message arrives."""

    message: Message
    turns: tuple[Turn, ...]  # the candidates, oldest first
    alone: tuple[float, ...]  # TEXT_FEATURES and SITUATION of the message; the same for all alternatives
    sets: list[Marks]
    """First three sets whose members after a candidate are counted, including the message itself: messages by its
    author, by the addressee, and by or to its author. Then SETS."""
    common: list[tuple[int, float, float, bool]]
    """For each candidate that shares words with the message: its place, then WORDS."""
    ages_s: NDArray[np.float64]  # per candidate: its age plus 1
    later: NDArray[np.uint8]
    """Per candidate: how many messages its author has written from there on, including the candidate."""
    texts: Floats  # TEXT_FEATURES of the candidates


def tabulate(seen: Sequence[LinkInput]) -> Floats:
    """Per message, a row for each of FEATURES and a row of ones; a column for each alternative: "starts something new",
    then the candidates, oldest first. Padding precedes the candidates if other messages have more (`absent`)."""
    gaps = absent(seen)
    table = np.repeat(_blank(len(seen[0].turns) + gaps[0]), len(seen), axis=0)
    for rows, one, gap in zip(table, seen, gaps, strict=True):
        rows[1:_DISTANCE].T[:] = one.alone
        candidates = rows[:, 1 + gap :]
        candidates[_TIME] = one.ages_s
        candidates[_LATER] = one.later
        candidates[_ITS:-1] = one.texts
        for at, *values in one.common:
            candidates[_WORDS:_ITS, at] = values
    _fill_in_sets(table, [[marks << gap for marks in one.sets] for one, gap in zip(seen, gaps, strict=True)])
    # We need log(1 + n), and the numbers already include the 1: `log1p` takes ten times as long as `log`.
    np.log(table[:, _TIME:_SETS], out=table[:, _TIME:_SETS])
    return table


def absent(seen: Sequence[LinkInput]) -> list[int]:
    """How many fewer candidates each has than the one with the most."""
    counts = [len(one.turns) for one in seen]
    most = max(counts)
    return [most - count for count in counts]


def _fill_in_sets(table: Floats, marks: Sequence[Sequence[Marks]]) -> None:
    count, sets = table.shape[2] - 1, np.array(marks, _UINT64)
    table[:, _SINCE:_SETS, 1:] = np.bitwise_count(sets[:, :_COUNTED, None] >> _PASSED[:count])
    bits = np.unpackbits(sets.view(np.uint8), bitorder="little").reshape(len(sets), -1, 64)
    table[:, _SETS:_WORDS, 1:] = bits[:, _COUNTED:, :count]


@cache
def _blank(count: int) -> Floats:
    """The part of the table that is the same for all messages with `count` candidates."""
    table = np.zeros((1, len(FEATURES) + 1, count + 1), np.float32)
    table[:, 0, 0] = 1
    table[:, _DISTANCE, 1:] = np.log1p(np.arange(count, 0, -1))
    table[:, _TIME:_SETS] = 1
    table[:, -1] = 1
    return table


# --- window ---


_NEVER_S: Final = 3600.0
_TIE: Final = 1 - 1e-6

Index = dict[Any, Marks]


class TurnWindow:
    """The last turns of a channel, and who wrote, addressed, named and said what in them. They move through twice as
    many slots as there are candidates; `_first` is the slot of the oldest. Older turns stay in the indexes until the
    slots are used up, then everything moves back at once."""

    def __init__(self) -> None:
        self.turns: deque[Turn] = deque()
        self.names: dict[str, int] = {}
        self._partners: dict[int, frozenset[int]] = {}  # whom each person last addressed
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
        self._later = bytearray(2 * SPAN)  # per slot: how many messages the same author has written from there on
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
            person = self.turns.popleft().message.author_id
            self._first += 1
            if not self.has(person):
                self.names = {name: owner for name, owner in self.names.items() if owner != person}
                self._partners.pop(person, None)
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
