"""What the process itself keeps of the channels it hears: who speaks there, what may answer what, who asked what.

All of it is bounded and can be made again from Redis, or from the platform's history: nothing here is memory that
could be lost. Enters: messages and questions as they pass. Leaves: linked messages, and the `Scene` of a question.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Generic, TypeVar

from channelmem.errors import RedisUnavailableError
from channelmem.linking.features import LinkInput
from channelmem.linking.linker import Linker, guess
from channelmem.routing.people.roster import Roster
from channelmem.routing.route import Scene
from channelmem.store import documents
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.types import History, Message, Outcome, Person, Question, Route, Source

CHANNELS = 2_000
"""Channels kept at a time; the one heard least recently goes first."""
LINKED = 50
"""Messages that may still be answered."""
FOLLOW_UPS = 5_000
FOLLOW_UP_S = 600.0
"""A question inherits from the one before for so long."""
ROSTER_S = 30.0
"""Other processes may hear people too; their names reach this one after so long."""
ROSTER_READS = 2
"""What was read while something was removed is read again, so often in all; then it serves this one question."""

K = TypeVar("K")
V = TypeVar("V")
Place = tuple[int, int]
"""Guild and channel."""


class Recent(OrderedDict[K, V], Generic[K, V]):
    """A dictionary of bounded size that forgets what was used least recently."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def use(self, key: K) -> V | None:
        if key not in self:
            return None
        self.move_to_end(key)
        return self[key]

    def put(self, key: K, value: V) -> V:
        self[key] = value
        self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)
        return value


@dataclass(slots=True)
class People:
    """Who is known in a channel, and when they last spoke (to people, not to the bot)."""

    seen: dict[int, Person] = field(default_factory=dict)
    spoke: dict[int, float] = field(default_factory=dict)
    read_at: float = 0.0
    roster: Roster | None = None
    """Made from `seen` when a question needs it."""

    def hear(self, message: Message) -> None:
        if message.own:
            return
        person = Person(message.author_id, message.author, message.aliases)
        if self.seen.get(person.id) != person:
            self.seen[person.id] = person
            self.roster = None
        if not message.addressed:
            self.spoke[person.id] = max(message.ts, self.spoke.get(person.id, message.ts))


@dataclass(slots=True)
class Slot:
    """A channel's linker, and the door to it: those who come while it is loaded enter in the order they came."""

    door: asyncio.Lock = field(default_factory=asyncio.Lock)
    linker: Linker | None = None
    earlier: Linker | None = None
    """For what is fetched afterwards, page by page: messages older than all that the linker still knows."""

    def hear(self, message: Message) -> LinkInput:
        assert self.linker is not None, "loaded before anybody enters"  # noqa: S101  (types)
        if not (self.linker.is_full and self.linker.begins_after(message)):
            return self.linker.hear(message)
        if self.earlier is None or self.earlier.begins_after(message):
            self.earlier = Linker()
        return self.earlier.hear(message)

    def linkers(self) -> list[Linker]:
        return [linker for linker in (self.linker, self.earlier) if linker is not None]


class Channels:
    def __init__(self, store: Store, search: Search, history: History | None) -> None:
        self._store, self._search, self._history = store, search, history
        self._settings = store.buckets.settings
        self._slots: Recent[Place, Slot] = Recent(CHANNELS)
        self._people: Recent[Place, People] = Recent(CHANNELS)
        self._asked: Recent[tuple[Place, int], tuple[float, Route]] = Recent(FOLLOW_UPS)
        self._removals = 0
        """What was read before one of them and comes after it is not kept."""

    # --- messages ---

    async def link(self, messages: Iterable[Message]) -> list[Message]:
        """The messages with what they probably answer. Waits only for the first message of a channel, in order."""
        heard: list[Message] = []
        seen: list[LinkInput] = []
        for place, some in groupby(messages, key=attrgetter("guild_id", "channel_id")):
            slot = await self._slot(*place)
            for message in some:
                seen.append(slot.hear(message))
                heard.append(message)
        return [replace(message, parents=parents) for message, parents in zip(heard, guess(seen), strict=True)]

    async def relink(self, message: Message) -> Message:
        """The same for an edit: what it answers may have changed with its words."""
        slot = await self._slot(message.guild_id, message.channel_id)
        for linker in slot.linkers():
            linker.edit(message)
        knowing = next((linker for linker in slot.linkers() if message.id in linker), slot.linkers()[0])
        return replace(message, parents=knowing.parents(message))

    def settle(self, outcomes: Iterable[tuple[Message, Outcome]]) -> None:
        """What was refused (an opt-out, a pause, a delete that came first) leaves no trace here either."""
        for message, outcome in outcomes:
            if outcome is Outcome.IGNORED:
                self.drop(message.guild_id, message.channel_id, [message.id])
            elif (people := self._people.use((message.guild_id, message.channel_id))) is not None:
                people.hear(message)

    def drop(self, guild_id: int, channel_id: int, ids: Iterable[int]) -> None:
        ids, slot = list(ids), self._slots.get((guild_id, channel_id))
        self._removals += 1
        for linker in slot.linkers() if slot else ():
            linker.drop(ids)

    def drop_channel(self, guild_id: int, channel_id: int) -> None:
        self._removals += 1
        self._slots.pop((guild_id, channel_id), None)
        self._people.pop((guild_id, channel_id), None)
        self._forget_asked(lambda place, _asker, _route: place == (guild_id, channel_id))

    def drop_guild(self, guild_id: int) -> None:
        self._removals += 1
        for guild, channel in {*self._slots, *self._people, *(place for place, _ in self._asked)}:
            if guild == guild_id:
                self.drop_channel(guild, channel)

    def drop_author(self, author_id: int) -> None:
        for slot in self._slots.values():
            for linker in slot.linkers():
                linker.drop_author(author_id)
        self._removals += 1
        self._people.clear()
        self._forget_asked(lambda _place, asker, route: author_id in (asker, *(person.id for person in route.speakers)))

    def _forget_asked(self, gone: Callable[[Place, int, Route], bool]) -> None:
        for place, asker in [key for key, (_, route) in self._asked.items() if gone(*key, route)]:
            del self._asked[place, asker]

    async def _slot(self, guild_id: int, channel_id: int) -> Slot:
        """The channel's, with its linker loaded."""
        slot = self._slots.use((guild_id, channel_id)) or self._slots.put((guild_id, channel_id), Slot())
        # The lock is fair: nobody overtakes those who wait, also in the moment after the linker came.
        async with slot.door:
            if slot.linker is None:
                slot.linker = await self._load(guild_id, channel_id)
        return slot

    async def _load(self, guild_id: int, channel_id: int) -> Linker:
        query = Query(guild_id, (channel_id,), limit=LINKED, flagged=True, source=Source.ARCHIVE)
        try:
            return Linker(await self._search.newest(query))
        except RedisUnavailableError:
            return Linker()

    # --- questions ---

    async def scene(self, question: Question) -> Scene:
        """What is known about the moment of a question, mostly from this process' own memory."""
        people = await self._known(question)
        if people.roster is None:
            people.roster = Roster(people.seen.values())
        return self._scene(question, people.roster, people.spoke.get(question.asker_id))

    def is_unknown(self, question: Question) -> bool:
        """Whether nobody is known in this channel and the platform could tell."""
        people = self._people.get(_place(question))
        return self._history is not None and not question.is_dm and not (people and people.seen)

    async def scene_from_history(self, question: Question) -> Scene:
        """For a channel that is not known yet: the people who spoke last, by the platform's history."""
        assert self._history is not None, "asked for only where is_unknown says so"  # noqa: S101  (types)
        settings = self._settings
        past = await self._history.fetch(question, settings.history_limit, settings.history_max_age_minutes * 60)
        people = {one.author_id: Person(one.author_id, one.author, one.aliases) for one in past.messages if not one.own}
        return self._scene(question, Roster(people.values()), None)

    def asked(self, question: Question, route: Route) -> None:
        """Remembers the route for a follow-up such as "and Bob?"."""
        if route.sources:
            self._asked.put((_place(question), question.asker_id), (question.ts, route))

    async def _known(self, question: Question) -> People:
        people = self._people.use(_place(question))
        if people is not None and time.monotonic() - people.read_at < ROSTER_S:
            return people
        try:
            seen, current = await self._seen(question)
        except RedisUnavailableError:
            return people or self._heard(_place(question))
        fresh = People({one.person.id: one.person for one in seen}, read_at=time.monotonic())
        # What was said to the bot does not count as speaking, the question itself least of all.
        fresh.spoke = {one.person.id: one.last_ts for one in seen if one.last_ts < question.ts}
        fresh.spoke |= people.spoke if people else {}
        return self._people.put(_place(question), fresh) if current else fresh

    async def _seen(self, question: Question) -> tuple[list[documents.RosterEntry], bool]:
        """Who spoke in the channel, and whether nothing was removed while that was read."""
        for _ in range(ROSTER_READS):
            removals = self._removals
            seen = await self._store.channels.roster(question.guild_id, question.channel_id)
            if removals == self._removals:
                return seen, True
        return seen, False

    def _heard(self, place: Place) -> People:
        """Those whose messages passed through this process: whoever asks for somebody unknown asks nothing of us."""
        slot = self._slots.get(place)
        older_first = reversed(slot.linkers()) if slot else ()
        return People({one.id: one for linker in older_first for one in linker.authors()})

    def _scene(self, question: Question, roster: Roster, last_spoke_ts: float | None) -> Scene:
        ts, previous = self._asked.get((_place(question), question.asker_id), (0.0, None))
        return Scene(
            asker=Person(question.asker_id, question.asker),
            bot=question.bot,
            roster=roster,
            now=question.ts,
            mentions=question.mentions,
            tz=self._settings.timezone,
            horizon_s=self._settings.buffer_s,
            last_spoke_ts=last_spoke_ts,
            joined_ts=question.joined_ts,
            previous=previous if question.ts - ts <= FOLLOW_UP_S else None,
            is_dm=question.is_dm,
        )


def _place(question: Question) -> Place:
    return question.guild_id, question.channel_id
