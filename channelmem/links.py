"""Implicit replies: which earlier message of the channel does a message answer, if any?

Enters: the messages of one channel in order. Leaves: for a message, up to three probable parents with their
probabilities; what is missing to 1 is the chance that it starts something new. An explicit reply is certain.

Nothing is learned while running and no embedding is needed: who is addressed, who answered whom, time, authorship and
words in common become one row of numbers per candidate, and a small averaged network (`links.npz`, made by
scripts/train_links.py) turns the rows into a distribution. Only what came before a message is ever looked at.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from channelmem.types import Message

SPAN: Final = 50
"""How many earlier messages may be the parent: 98 % of the annotated replies lie within."""
PARENTS: Final = 3
FEATURES_VERSION: Final = 1

Floats = NDArray[np.float32]

_WORD = re.compile(r"[^\W_][\w'.+-]*[\w+]|[^\W_]")
_UNKNOWN_ADDRESS = re.compile(r"\s*@?[^\s:,]{2,32}[:,](?:\s|$)")


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


class _Turn(NamedTuple):
    """A message with everything that depends on its own text and on who was known when it came."""

    message: Message
    words: frozenset[str]
    addressed: frozenset[int]
    """People named at the beginning, mentioned by id, or explicitly replied to."""
    named: frozenset[int]
    """Everybody named anywhere in the text, the addressed included."""
    row: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Weights:
    """Several small networks of the same shape, averaged: (nets, in, out) matrices and (nets, 1, out) biases."""

    mean: Floats
    scale: Floats
    layers: tuple[tuple[Floats, Floats], ...]

    def chances(self, rows: Floats) -> Floats:
        """One probability per row; the rows are the alternatives of one choice."""
        hidden: Floats = (rows - self.mean) * self.scale
        for matrix, bias in self.layers[:-1]:
            hidden = np.maximum(hidden @ matrix + bias, 0)
        matrix, bias = self.layers[-1]
        scores = (hidden @ matrix + bias)[..., 0]
        odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
        chances: Floats = (odds / odds.sum(axis=-1, keepdims=True)).mean(axis=0)
        return chances


@cache
def shipped() -> Weights:
    """The weights of this package, read once."""
    with resources.files("channelmem").joinpath("links.npz").open("rb") as file, np.load(file) as archive:
        about = json.loads(str(archive["about"]))
        if about["features"] != list(FEATURES):
            raise ValueError("links.npz was made for other features; run scripts/train_links.py again")
        layers = tuple(
            (archive[f"matrix{i}"].astype(np.float32), archive[f"bias{i}"].astype(np.float32))
            for i in range(about["layers"])
        )
        return Weights(archive["mean"].astype(np.float32), archive["scale"].astype(np.float32), layers)


class Linker:
    """The last messages of one channel, and what a message among or after them probably answers."""

    def __init__(self, recent: Iterable[Message] = (), weights: Weights | None = None) -> None:
        self._weights = shipped() if weights is None else weights
        self._turns: list[_Turn] = []
        self._names: dict[str, int] = {}
        self._frequency: Counter[str] = Counter()
        self._rebuild(recent)

    def __len__(self) -> int:
        return len(self._turns)

    def parents(self, message: Message) -> tuple[tuple[int, float], ...]:
        """What it probably answers, likeliest first; the missing mass is "nothing: it starts a thread"."""
        if message.reply_to is not None:
            return ((message.reply_to, 1.0),)
        ids, rows = self.features(message)
        if not ids:
            return ()
        chances = self._weights.chances(rows)[1:]
        best = np.argsort(-chances, kind="stable")[:PARENTS]
        return tuple((ids[i], round(float(chances[i]), 4)) for i in best)

    def add(self, message: Message) -> None:
        """Remember it as a candidate; a known id is an edit, and a late message is put where it belongs."""
        if any(turn.message.id == message.id for turn in self._turns):
            self.edit(message)
        elif self._turns and _order(message) < _order(self._turns[-1].message):
            self._rebuild([*self._messages(), message])
        else:
            self._append(message)

    def edit(self, message: Message) -> None:
        """Replace what is known of it; unknown messages stay unknown."""
        if any(turn.message.id == message.id for turn in self._turns):
            self._rebuild(message if old.id == message.id else old for old in self._messages())

    def drop(self, ids: Iterable[int]) -> None:
        """Forget these messages."""
        gone = frozenset(ids)
        if any(turn.message.id in gone for turn in self._turns):
            self._rebuild(old for old in self._messages() if old.id not in gone)

    def drop_author(self, author_id: int) -> None:
        """Forget everything this person wrote."""
        self.drop([turn.message.id for turn in self._turns if turn.message.author_id == author_id])

    def features(self, message: Message) -> tuple[list[int], Floats]:
        """Ids of the candidates, oldest first, and a row per alternative: "self" first, then the candidates."""
        turns = self._before(message)
        return [turn.message.id for turn in turns], _rows(self._turn(message), turns, self._frequency)

    def _before(self, message: Message) -> list[_Turn]:
        """Candidates: what came before it."""
        if not self._turns or _order(self._turns[-1].message) < _order(message):
            return self._turns
        return [turn for turn in self._turns if _order(turn.message) < _order(message)]

    def _messages(self) -> list[Message]:
        return [turn.message for turn in self._turns]

    def _rebuild(self, messages: Iterable[Message]) -> None:
        newest = sorted(messages, key=_order)[-SPAN:]
        self._turns, self._names, self._frequency = [], {}, Counter()
        for message in newest:
            self._append(message)

    def _append(self, message: Message) -> None:
        turn = self._turn(message)
        self._turns.append(turn)
        self._frequency.update(turn.words)
        for name in (message.author, *message.aliases):
            if name.strip():
                self._names[name.strip().casefold()] = message.author_id
        if len(self._turns) > SPAN:
            self._evict()

    def _evict(self) -> None:
        gone = self._turns.pop(0)
        for word in gone.words:
            self._frequency[word] -= 1
            if not self._frequency[word]:
                del self._frequency[word]
        person = gone.message.author_id
        if all(turn.message.author_id != person for turn in self._turns):
            self._names = {name: owner for name, owner in self._names.items() if owner != person}

    def _turn(self, message: Message) -> _Turn:
        text = message.content.casefold()
        start, anywhere = _named(text, self._names)
        by_id = frozenset(message.mentions)
        replied = {turn.message.author_id for turn in self._turns if message.reply_to == turn.message.id is not None}
        addressed = (start | by_id | replied) - {message.author_id}
        named = (anywhere | addressed) - {message.author_id}
        words = _WORD.findall(text)
        first_here = all(turn.message.author_id != message.author_id for turn in self._turns)
        row = _text_row(text, words, addressed, named, first_here=first_here)
        kept = frozenset(word[:6] for word in words if len(word) > 1 and word not in _STOP and word not in self._names)
        return _Turn(message, kept, addressed, named, row)


def _order(message: Message) -> tuple[float, int]:
    return message.ts, message.id


def _named(text: str, names: dict[str, int]) -> tuple[frozenset[int], frozenset[int]]:
    """Who is addressed at the beginning, and who is named at all. `text` and `names` are case-folded."""
    start: set[int] = set()
    anywhere: set[int] = set()
    for name, person in names.items():
        at = text.find(name)
        while at >= 0:
            end = at + len(name)
            if not (_inside(text, at - 1) or _inside(text, end)):
                lead = text[:at].strip(" @<•*\"'")
                if not lead:
                    start.add(person)
                if not lead or len(name) > 2 or text[at - 1] == "@":
                    anywhere.add(person)
                break
            at = text.find(name, at + 1)
    return frozenset(start), frozenset(anywhere)


def _inside(text: str, at: int) -> bool:
    """Whether the character there would make a name part of a longer word."""
    return 0 <= at < len(text) and (text[at].isalnum() or text[at] in "_|-`[]{}^\\")


TEXT_FEATURES: Final = (
    "question", "length", "addresses", "names", "unknown address", "greeting", "command", "opener", "short reply",
    "first here", "link", "emote",
)  # fmt: skip


def _text_row(
    text: str, words: Sequence[str], addressed: frozenset[int], named: frozenset[int], *, first_here: bool
) -> tuple[float, ...]:
    head = words[:4]
    return (
        float("?" in text),
        float(np.log1p(len(words))),
        float(bool(addressed)),
        float(bool(named)),
        float(not addressed and _UNKNOWN_ADDRESS.match(text) is not None),
        float(any(word in _GREETING for word in head[:2])),
        float(text[:1] == "!"),
        float(any(word in _OPENER for word in head)),
        float(any(word in _SHORT_REPLY for word in head[:2])),
        float(first_here),
        float("://" in text or "www." in text),
        float(text[:2] == "* "),
    )


MESSAGE_FEATURES: Final = (
    *TEXT_FEATURES,
    "messages since own", "time since own", "addressed since own", "messages since addressed", "time since previous",
)  # fmt: skip
PAIR_FEATURES: Final = (
    "distance", "previous", "time", "same author", "own last", "addressed", "named", "newest of author",
    "newest and addressed", "newest and named", "addresses me", "names me", "newest to me", "later by author",
    "mine since", "addresses others", "same addressee", "answered", "answered by me", "author's partner is me",
    "my partner is author", "common words", "rarest common word", "author's common words", "partner of my last",
    *(f"its {name}" for name in TEXT_FEATURES),
)  # fmt: skip
FEATURES: Final = ("self", *MESSAGE_FEATURES, *PAIR_FEATURES)


def _rows(turn: _Turn, turns: Sequence[_Turn], frequency: Counter[str]) -> Floats:
    """One row per alternative, in the order of FEATURES; row 0 is "starts something new"."""
    rows = np.zeros((len(turns) + 1, len(FEATURES)), np.float32)
    rows[0, 0] = 1
    pairs = rows[1:, 1 + len(MESSAGE_FEATURES) :]
    if turns:
        _pair_rows(pairs, turn, turns, frequency)
    rows[:, 1 : 1 + len(MESSAGE_FEATURES)] = (*turn.row, *_situation(turn, turns))
    return rows


def _situation(turn: _Turn, turns: Sequence[_Turn]) -> tuple[float, ...]:
    """Where the author stands: how long silent, and whether somebody has spoken to them since."""
    me, now = turn.message.author_id, turn.message.ts
    own = to_me = len(turns) + 1
    for back, earlier in enumerate(reversed(turns), 1):
        if earlier.message.author_id == me:
            own = back
            break
    for back, earlier in enumerate(reversed(turns), 1):
        if me in earlier.addressed:
            to_me = back
            break
    silent_s = now - turns[-own].message.ts if own <= len(turns) else 3600.0
    pause_s = now - turns[-1].message.ts if turns else 3600.0
    return (
        float(np.log1p(own)),
        float(np.log1p(max(silent_s, 0.0))),
        float(to_me < own),
        float(np.log1p(to_me)),
        float(np.log1p(max(pause_s, 0.0))),
    )


def _pair_rows(out: Floats, turn: _Turn, turns: Sequence[_Turn], frequency: Counter[str]) -> None:
    me = turn.message.author_id
    count = len(turns)
    authors = np.array([t.message.author_id for t in turns])
    mine = authors == me
    same = authors[:, None] == authors
    later = _LATER[:count, :count]
    own_after = (same & later).sum(axis=1)
    newest = own_after == 0
    addressed = np.array([t.message.author_id in turn.addressed for t in turns])
    named = np.array([t.message.author_id in turn.named for t in turns])
    to_me = np.array([me in t.addressed for t in turns])
    names_me = np.array([me in t.named for t in turns])
    mine_since = np.cumsum(mine[::-1])[::-1] - mine
    answers = np.array([[t.message.author_id in k.addressed for k in turns] for t in turns]) & later
    distance = np.arange(count, 0, -1)
    has_address = np.array([bool(t.addressed) for t in turns])
    common, rarest = _overlap(turn, turns, frequency)
    partners: dict[int, frozenset[int]] = {t.message.author_id: t.addressed for t in turns if t.addressed}
    my_partner = partners.get(me, frozenset())
    out[:, 0] = np.log1p(distance)
    out[:, 1] = distance == 1
    out[:, 2] = np.log1p(np.maximum(turn.message.ts - np.array([t.message.ts for t in turns]), 0))
    out[:, 3] = mine
    out[:, 4] = mine & newest
    out[:, 5] = addressed
    out[:, 6] = named
    out[:, 7] = newest
    out[:, 8] = newest & addressed
    out[:, 9] = newest & named
    out[:, 10] = to_me
    out[:, 11] = names_me
    out[:, 12] = to_me & (np.cumsum(to_me[::-1])[::-1] == 1)
    out[:, 13] = np.log1p(own_after)
    out[:, 14] = np.log1p(mine_since)
    out[:, 15] = has_address & ~to_me
    out[:, 16] = [bool(t.addressed & turn.addressed) for t in turns]
    out[:, 17] = np.log1p(answers.sum(axis=1))
    out[:, 18] = (answers & mine).any(axis=1)
    out[:, 19] = [me in partners.get(t.message.author_id, ()) for t in turns]
    out[:, 20] = [t.message.author_id in my_partner for t in turns]
    out[:, 21] = common
    out[:, 22] = rarest
    out[:, 23] = np.minimum(same @ common - common, 2)
    last = next((t for t in reversed(turns) if t.message.author_id == me), None)
    out[:, 24] = 0 if last is None else [t.message.author_id in last.addressed for t in turns]
    out[:, 25:] = [t.row for t in turns]


_LATER: Final = np.triu(np.ones((SPAN, SPAN), bool), 1)
"""[j, k]: whether the k-th message comes after the j-th."""


def _overlap(turn: _Turn, turns: Sequence[_Turn], frequency: Counter[str]) -> tuple[Floats, Floats]:
    """Words in common with each candidate: cosine with weights by rarity, and the weight of the rarest."""
    weight = {word: float(np.log((len(turns) + 1) / (frequency[word] + 0.5))) for word in turn.words}
    total = sum(value * value for value in weight.values()) or 1.0
    common = np.zeros(len(turns), np.float32)
    rarest = np.zeros(len(turns), np.float32)
    for at, earlier in enumerate(turns):
        shared = earlier.words & turn.words
        if shared:
            values = [weight[word] for word in shared]
            common[at] = sum(v * v for v in values) / (total * max(len(earlier.words), 1) * 4) ** 0.5
            rarest[at] = max(values)
    return common, rarest
