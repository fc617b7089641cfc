"""Implicit replies: which earlier messages in its channel does a message probably answer? Up to three parents with
their probabilities; the rest is the chance that it starts something new. A small averaged network (`links.npz`, made by
scripts/train_links.py) weighs the `features` of each candidate. Nothing is learned at run time, and no embedding
needed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import groupby
from operator import attrgetter
from typing import Final

import numpy as np
from cachetools import LRUCache

from channelmem.ids import ChannelId
from channelmem.linking.window import FEATURES, SPAN, Floats, LinkInput, Turn, TurnWindow, absent, read, tabulate
from channelmem.types import Message, Person

PARENTS: Final = 3
CHANNELS: Final = 2_000  # how many channels keep their linkers; the least recently heard one goes first
TOGETHER: Final = 8
"""How many messages are scored at once; with more, the numbers no longer fit in the faster CPU caches."""

_substance = attrgetter("id", "author_id", "author", "content", "ts", "mentions", "reply_to", "own")
"""What a turn is made of."""
Parents = tuple[tuple[int, float], ...]
Layers = tuple[tuple[Floats, Floats], ...]


class Networks:
    """Several small networks of the same shape, averaged: (nets, in, out) matrices and (nets, 1, out) biases."""

    def __init__(self, layers: Layers) -> None:
        self.layers = layers
        # A bias is the row of an extra input that is always 1. The last bias is the same for all alternatives, so it
        # changes no probability and is left out.
        self._inner = [_with_bias(*layer, passed_on=at < len(layers) - 1) for at, layer in enumerate(layers[:-1], 1)]

    def chances(self, clues: Floats, missing: Iterable[int] = ()) -> Floats:
        """A probability per message and alternative. `clues` is a table from `tabulate`: (messages, features and a row
        of ones, alternatives). `missing` is how many columns after the first are padding, per message; theirs is 0."""
        hidden = clues.transpose(0, 2, 1)
        for matrix in self._inner:
            hidden = hidden @ matrix
            # An array of zeros: comparing with a scalar takes numpy three times as long.
            np.maximum(hidden, np.zeros(hidden.shape, np.float32), out=hidden)
        scores = (hidden @ self.layers[-1][0][:, None])[..., 0]
        for at, padding in enumerate(missing):
            scores[:, at, 1 : 1 + padding] = -np.inf
        odds = np.exp(scores - np.maximum.reduce(scores, axis=2, keepdims=True))
        odds /= np.add.reduce(odds, axis=2, keepdims=True) * len(odds)
        chances: Floats = np.add.reduce(odds, axis=0)
        return chances


def _with_bias(matrix: Floats, bias: Floats, *, passed_on: bool) -> Floats:
    """The matrix for an input that ends in 1; its output ends in 1 too if `passed_on`."""
    nets, inputs, outputs = matrix.shape
    whole = np.zeros((nets, inputs + 1, outputs + passed_on), np.float32)
    whole[:, :-1, :outputs] = matrix
    whole[:, -1:, :outputs] = bias
    whole[:, -1, outputs:] = 1
    return whole[:, None]


@cache
def shipped() -> Networks:
    """The networks that come with this package, read once."""
    with resources.files("channelmem.linking").joinpath("links.npz").open("rb") as file, np.load(file) as archive:
        about = json.loads(str(archive["about"]))
        if about["features"] != list(FEATURES):
            raise ValueError("links.npz was made for other features; run scripts/train_links.py again")
        names = [(f"matrix{at}", f"bias{at}") for at in range(about["layers"])]
        return Networks(tuple((archive[m].astype(np.float32), archive[b].astype(np.float32)) for m, b in names))


class Linker:
    """The last messages of one channel; says what a message among or after them probably answers."""

    _fresh: Turn | None  # the message read last, which is mostly the one to be added next

    def __init__(self, recent: Iterable[Message] = (), networks: Networks | None = None) -> None:
        self._networks = shipped() if networks is None else networks
        self._rebuild(recent)

    def __len__(self) -> int:
        return len(self._past.turns)

    def __contains__(self, message_id: int) -> bool:
        return message_id in self._ids

    @property
    def is_full(self) -> bool:
        """Whether it no longer knows what came before its oldest message."""
        return len(self) == SPAN

    def begins_after(self, message: Message) -> bool:
        """Whether everything it knows came after this message."""
        return bool(self._past.turns) and _order(message) < _order(self._past.turns[0].message)

    def authors(self) -> list[Person]:
        """The authors of the messages it knows, except the bot; if one has several names, the newest comes last."""
        written = (message for message in self._messages() if not message.own)
        return [Person(message.author_id, message.author, message.aliases) for message in written]

    def hear(self, message: Message) -> LinkInput:
        """What is seen of the channel when this message comes; from now on it is a candidate for others."""
        seen = self.see(message)
        self.add(message)
        return seen

    def parents(self, message: Message) -> Parents:
        """What it probably answers, most likely first; the missing mass: it starts a thread (or answers another)."""
        return guess([self.see(message)], self._networks)[0]

    def features(self, message: Message) -> tuple[list[int], Floats]:
        """Ids of the candidates, oldest first, and a row per alternative: "self" first, then the candidates."""
        seen = self.see(message)
        (rows,) = tabulate([seen])
        return [turn.message.id for turn in seen.turns], rows[:-1].T

    def see(self, message: Message) -> LinkInput:
        """What is seen of the channel when this message comes; only what came before it."""
        turns = self._past.turns
        if turns and _order(message) <= _order(turns[-1].message):
            earlier = [old for old in self._messages() if _order(old) < _order(message)]
            return Linker(earlier, self._networks).see(message)
        return self._past.see(self._read(message))

    def add(self, message: Message) -> None:
        """Remember it as a candidate; a known id is an edit, and a late message goes where it belongs."""
        turns = self._past.turns
        if message.id in self._ids:
            self.edit(message)
        elif turns and _order(message) < _order(turns[-1].message):
            self._rebuild([*self._messages(), message])
        else:
            self._append(message)

    def edit(self, message: Message) -> None:
        """Replace what is known about it; unknown messages stay unknown."""
        if message.id in self._ids:
            self._rebuild([message if old.id == message.id else old for old in self._messages()])

    def drop(self, ids: Iterable[int]) -> None:
        """Forget these messages, and answers of the bot that quote them."""
        ids = set(ids)
        quoting = {one.id for one in self._messages() if any(origin.id in ids for origin in one.derived_from)}
        if gone := self._ids & ids | quoting:
            self._rebuild([old for old in self._messages() if old.id not in gone])
        else:
            self._past.forget_older()

    def drop_author(self, author_id: int) -> None:
        """Forget everything this person wrote, and all answers of the bot: they may quote it."""
        if self._past.heard(author_id) or any(old.own for old in self._messages()):
            self.drop([old.id for old in self._messages() if old.author_id == author_id or old.own])

    def _messages(self) -> list[Message]:
        return [turn.message for turn in self._past.turns]

    def _rebuild(self, messages: Iterable[Message]) -> None:
        newest = sorted(messages, key=_order)[-SPAN:]
        self._past = TurnWindow()
        self._ids: set[int] = set()
        self._fresh = None
        for message in newest:
            self._past.learn_names(message)
        for message in newest:
            self._append(message)

    def _append(self, message: Message) -> None:
        turn = self._read(message)
        self._fresh = None
        if len(self) == SPAN:
            self._ids.discard(self._past.turns[0].message.id)
        self._past.append(turn)
        self._ids.add(message.id)

    def _read(self, message: Message) -> Turn:
        """The message as a turn; an `add` after `parents` does not read it again."""
        if self._fresh is None or _substance(message) != _substance(self._fresh.message):
            replied = None
            if message.reply_to is not None:
                replied = next((m.author_id for m in self._messages() if m.id == message.reply_to), None)
            first_here = not self._past.has(message.author_id)
            self._fresh = read(message, self._past.names, replied, first_here=first_here)
        return self._fresh


Load = Callable[[int, int], Awaitable[Iterable[Message]]]  # the newest messages of a channel


@dataclass(slots=True)
class _Slot:
    """A channel's linker, and the door to it: callers that arrive while it loads enter in order of arrival."""

    door: asyncio.Lock = field(default_factory=asyncio.Lock)
    linker: Linker | None = None
    earlier: Linker | None = None
    """For history pages fetched later: messages older than everything the linker still knows."""

    def hear(self, message: Message) -> LinkInput:
        assert self.linker is not None, "loaded before anybody enters"  # noqa: S101  (types)
        if not (self.linker.is_full and self.linker.begins_after(message)):
            return self.linker.hear(message)
        if self.earlier is None or self.earlier.begins_after(message):
            self.earlier = Linker()
        return self.earlier.hear(message)

    def linkers(self) -> list[Linker]:
        return [linker for linker in (self.linker, self.earlier) if linker is not None]


class ChannelLinkers:
    """The linkers of the channels this process hears; a channel's first message loads its linker."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._slots: LRUCache[ChannelId, _Slot] = LRUCache(CHANNELS)

    async def link(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with what they probably answer, in order. Only the first message of a channel has to wait."""
        seen: list[LinkInput] = []
        for channel, some in groupby(messages, key=attrgetter("guild_id", "channel_id")):
            slot = await self._slot(ChannelId(*channel))
            seen.extend([slot.hear(message) for message in some])
        return [replace(message, parents=parents) for message, parents in zip(messages, guess(seen), strict=True)]

    async def relink(self, message: Message) -> Message:
        """The same for an edit: its new words may answer something else."""
        slot = await self._slot(ChannelId(message.guild_id, message.channel_id))
        for linker in slot.linkers():
            linker.edit(message)
        knowing = next((linker for linker in slot.linkers() if message.id in linker), slot.linkers()[0])
        return replace(message, parents=knowing.parents(message))

    def authors(self, guild_id: int, channel_id: int) -> list[Person]:
        """People whose messages passed through this process; if one has several names, the newest comes last."""
        slot = self._slots.get(ChannelId(guild_id, channel_id))
        older_first = reversed(slot.linkers()) if slot else ()
        return [person for linker in older_first for person in linker.authors()]

    def drop(self, guild_id: int, channel_id: int, ids: Iterable[int]) -> None:
        ids, slot = list(ids), self._slots.get(ChannelId(guild_id, channel_id))
        for linker in slot.linkers() if slot else ():
            linker.drop(ids)

    def drop_channel(self, guild_id: int, channel_id: int) -> None:
        self._slots.pop(ChannelId(guild_id, channel_id), None)

    def drop_guild(self, guild_id: int) -> None:
        for channel in [channel for channel in self._slots if channel.guild_id == guild_id]:
            del self._slots[channel]

    def drop_everything(self) -> None:
        self._slots.clear()

    def drop_author(self, author_id: int) -> None:
        for slot in self._slots.values():
            for linker in slot.linkers():
                linker.drop_author(author_id)

    async def _slot(self, channel: ChannelId) -> _Slot:
        """The channel's slot, with its linker loaded."""
        slot = self._slots.get(channel)
        if slot is None:
            slot = self._slots[channel] = _Slot()
        # The lock is fair: nobody overtakes the waiters, not even right after the linker is loaded.
        async with slot.door:
            if slot.linker is None:
                slot.linker = Linker(await self._load(*channel))
        return slot


def guess(seen: Sequence[LinkInput], networks: Networks | None = None) -> list[Parents]:
    """What each of these messages probably answers; many at once are faster than one by one."""
    networks = shipped() if networks is None else networks
    parents: list[Parents] = [() if (reply := one.message.reply_to) is None else ((reply, 1.0),) for one in seen]
    open_ones = [at for at, one in enumerate(seen) if one.turns and not parents[at]]
    for first in range(0, len(open_ones), TOGETHER):
        some = open_ones[first : first + TOGETHER]
        for at, likeliest in zip(some, _likeliest([seen[at] for at in some], networks), strict=True):
            parents[at] = likeliest
    return parents


def _likeliest(seen: Sequence[LinkInput], networks: Networks) -> Iterator[Parents]:
    """The most likely candidates, the oldest first among equals, and their probabilities to four digits. The small
    remainders of all others are dropped: shared among these three, they joined #ubuntu threads that are separate."""
    all_chances = networks.chances(tabulate(seen), absent(seen))[:, 1:]
    for one, chances in zip(seen, all_chances, strict=True):
        best = _highest(chances[len(chances) - len(one.turns) :])
        yield tuple([(one.turns[at].message.id, chance) for at, chance in best])


def _highest(chances: Floats) -> list[tuple[int, float]]:
    found = []
    for _ in range(min(PARENTS, len(chances))):
        at = int(chances.argmax())
        found.append((at, int(chances.item(at) * 10_000 + 0.5) / 10_000))
        chances[at] = -1
    return found


def _order(message: Message) -> tuple[float, int]:
    return message.ts, message.id
