"""What this process keeps, and how all of it goes when its source goes.

`Rosters` know who is in each channel and when they last spoke, so that the router recognises names; `FollowUps` what
was asked last. All of that is bounded and can be read again from Redis or from the platform's history, so a restart
loses nothing. `LocalCopies` drop what is removed before the removal is sent and once more after it. What other
processes remove goes when it is announced, and at the latest with the next question, whose reads tell which change is
the newest.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from cachetools import LRUCache

from channelmem import text as line
from channelmem.errors import RedisUnavailableError
from channelmem.ids import ChannelId
from channelmem.linking.linker import ChannelLinkers
from channelmem.media.media import Media
from channelmem.policy.policy import Policy
from channelmem.recalling import answering
from channelmem.routing.people import Previous, Roster, Scene, name_words
from channelmem.store import documents
from channelmem.store.buckets import Changes
from channelmem.store.documents import RosterEntry
from channelmem.store.keys import guild_and_channel
from channelmem.store.store import Store
from channelmem.summaries import pyramid as summaries
from channelmem.summaries import reader as past
from channelmem.telling.references import parse_links, visible
from channelmem.types import History, Hit, Kind, Message, Person, Question, Route

CHANNELS = 2_000
"""How many channels are kept; the least recently used one goes first."""
REFRESH_S = 30.0
"""Other processes hear people too; this one learns their names within this time."""
READS = 2
"""How often a roster is read if removals keep interfering; the last read then serves one question and is not kept."""

Gone = Callable[[ChannelId], bool]
HeardHere = Callable[[int, int], Iterable[Person]]
"""The authors in a channel whose messages passed through this process."""
T = TypeVar("T")


@dataclass(slots=True)
class KnownPeople:
    """The people of a channel, and when they last spoke (to people, not to the bot)."""

    seen: dict[int, Person] = field(default_factory=dict)
    spoke: dict[int, float] = field(default_factory=dict)
    read_at: float = 0.0
    """0 if they were not read from Redis."""
    made: Roster | None = None
    """Built from `seen` when a question needs it."""

    @property
    def roster(self) -> Roster:
        if self.made is None:
            self.made = Roster(self.seen.values())
        return self.made

    def roster_of(self, mentioned: Sequence[Person]) -> Roster:
        """The roster for a question with mentions: who is mentioned is meant, and nobody else of that name."""
        meant = {person.id: person for person in mentioned}
        namesakes = {one.id for person in mentioned for one in self._called(person.name)} - meant.keys()
        if not namesakes and meant.keys() <= self.seen.keys():
            return self.roster
        others = [one for one in self.seen.values() if one.id not in meant and one.id not in namesakes]
        return Roster([*others, *meant.values()])

    def _called(self, name: str) -> tuple[Person, ...]:
        words = name_words(name)
        people, length = self.roster.find(words, 0) if words else ((), 0)
        return people if length >= len(words) else ()  # otherwise it is only the beginning of the name

    def hear(self, message: Message) -> None:
        person = Person(message.author_id, message.author, message.aliases)
        if self.seen.get(person.id) != person:
            self.seen[person.id] = person
            self.made = None
        if not message.addressed:
            self.spoke[person.id] = max(message.ts, self.spoke.get(person.id, message.ts))


def scene_of(question: Question, people: KnownPeople, policy: Policy, previous: Previous | None) -> Scene:
    """What is known about the moment of a question."""
    return Scene(
        asker=Person(question.asker_id, question.asker),
        bot=question.bot,
        roster=people.roster_of(question.mentions),
        now=question.ts,
        mentions=question.mentions,
        tz=policy.tz.key,
        horizon_s=policy.limits.buffer_s,
        last_spoke_ts=people.spoke.get(question.asker_id),
        joined_ts=question.joined_ts,
        previous=previous,
        reply_to=question.reply_to,
        linked=_linked(question),
        channel_id=question.channel_id,
        is_dm=question.is_dm,
    )


def _linked(question: Question) -> tuple[int, int] | None:
    if "://" not in question.text:
        return None
    links = parse_links(question.text)
    readable = next(iter(visible(links, question)), None)
    if readable is not None:
        return readable.channel_id, readable.message_id
    return (0, 0) if links else None


class Rosters:
    def __init__(self, store: Store, history: History | None, heard_here: HeardHere) -> None:
        self._store, self._history, self._heard_here = store, history, heard_here
        self._channels: LRUCache[ChannelId, KnownPeople] = LRUCache(CHANNELS)
        self._removals = 0
        """A roster that was read before a removal and arrives after it is not kept."""

    def hear(self, message: Message) -> None:
        people = self._channels.get(ChannelId(message.guild_id, message.channel_id))
        if people is not None and not message.own:
            people.hear(message)

    async def of(self, question: Question, policy: Policy) -> KnownPeople:
        """The people of the question's channel, mostly from this process's own memory; nobody where memory is off."""
        if not policy.enabled:
            return KnownPeople()
        channel = ChannelId(question.guild_id, question.channel_id)
        people = self._channels.get(channel)
        if people is not None and time.monotonic() - people.read_at < REFRESH_S:
            return people
        try:
            entries, current = await self._read(question, policy)
        except RedisUnavailableError:
            return people or KnownPeople({person.id: person for person in self._heard_here(*channel)})
        fresh = KnownPeople({one.person.id: one.person for one in entries}, read_at=time.monotonic())
        # Talking to the bot does not count as speaking, least of all asking this question.
        fresh.spoke = {one.person.id: one.last_ts for one in entries if one.last_ts < question.ts}
        fresh.spoke |= people.spoke if people else {}
        if current:
            self._channels[channel] = fresh
        return fresh

    def somebody(self, question: Question) -> str:
        """The name of whoever wrote last in the question's channel, except the asker and the bot; empty if nobody is
        known. From this process's own memory, which removals and opt-outs clear."""
        people = self._channels.get(ChannelId(question.guild_id, question.channel_id)) or KnownPeople()
        others = (people.spoke.keys() & people.seen.keys()) - {question.asker_id, question.bot.id}
        latest = max(others, key=people.spoke.__getitem__, default=None)
        return "" if latest is None else people.seen[latest].name

    def is_unknown(self, question: Question, people: KnownPeople) -> bool:
        """Whether nobody is known from what is stored of this channel, but the platform's history could help."""
        return self._history is not None and not question.is_dm and not (people.seen and people.read_at)

    async def from_history(self, question: Question, policy: Policy) -> KnownPeople:
        """For a channel that is not known yet: the people who spoke last, from the platform's history."""
        assert self._history is not None, "called only if is_unknown is true"  # noqa: S101  (types)
        past = await self._history.fetch(question, policy.history_limit, policy.history_max_age_s)
        spoken = [message for message in past.messages if not message.own]
        return KnownPeople({one.author_id: Person(one.author_id, one.author, one.aliases) for one in spoken})

    async def beyond(
        self, question: Question, policy: Policy, routed: Route, people: KnownPeople
    ) -> KnownPeople | None:
        """With the people that only the platform knows, if the question seems to need them; else None.

        Nobody is known in a new channel, so no name can be recognised there: its history knows who speaks. And somebody
        who never spoke may still be a member.
        """
        if self._history is None or question.is_dm or question.kind is Kind.NONE:
            return None
        unknown = self.is_unknown(question, people) and (routed.kind is Kind.NONE or bool(routed.stranger))
        if unknown:
            people = await self.from_history(question, policy)
        if not routed.stranger:
            return people if unknown else None
        members = await self._history.find_members(question.guild_id, routed.stranger.split()[0])
        return KnownPeople({person.id: person for person in members} | people.seen, people.spoke)

    def note_removal(self) -> None:
        """Something was removed: rosters that are being read right now may still contain it."""
        self._removals += 1

    def drop(self, gone: Gone) -> None:
        """Of these channels; of any where somebody was forgotten, since any may know them."""
        self.note_removal()
        for channel in filter(gone, list(self._channels)):
            del self._channels[channel]

    async def _read(self, question: Question, policy: Policy) -> tuple[list[RosterEntry], bool]:
        """Who spoke in the channel, and whether nothing was removed while that was read."""
        for _ in range(READS):
            removals = self._removals
            entries = await self._store.channels.roster(question.guild_id, question.channel_id, policy)
            if removals == self._removals:
                return entries, True
        return entries, False


# --- follow ups ---


FOLLOW_UPS = 5_000
FOLLOW_UP_S = 600.0
"""How long a question can build on the one before."""


class FollowUps:
    def __init__(self) -> None:
        self._asked: LRUCache[tuple[ChannelId, int], tuple[float, Previous]] = LRUCache(FOLLOW_UPS)

    def previous(self, question: Question) -> Previous | None:
        """The asker's last question in this channel, while it is fresh."""
        ts, asked = self._asked.get(_key(question), (0.0, None))
        return asked if question.ts - ts <= FOLLOW_UP_S else None

    def note(self, question: Question, route: Route, hits: Sequence[Hit], messages: Sequence[Message] = ()) -> None:
        """Keeps what was asked and what its answer shows first, also if nothing was found; what was not about the
        channel changes nothing."""
        if route.kind is not Kind.NONE:
            first = hits[0].message if hits else messages[-1] if messages else None
            hit = (first.id, first.ts) if first else (None, None)
            self._asked[_key(question)] = (question.ts, Previous(route, *hit))

    def drop(self, gone: Gone) -> None:
        for key in [key for key in self._asked if gone(key[0])]:
            del self._asked[key]

    def drop_author(self, author_id: int) -> None:
        """What they asked, and what others asked about them."""
        for key, (_, asked) in list(self._asked.items()):
            if author_id in (key[1], *(person.id for person in asked.route.speakers)):
                del self._asked[key]


def _key(question: Question) -> tuple[ChannelId, int]:
    return ChannelId(question.guild_id, question.channel_id), question.asker_id


# --- removals ---


class LocalCopies:
    """Linkers, rosters, follow-ups, readings of media and text caches."""

    def __init__(
        self, linkers: ChannelLinkers, rosters: Rosters, follow_ups: FollowUps, media: Media, changes: Changes
    ) -> None:
        self._linkers, self._rosters, self._follow_ups, self._media = linkers, rosters, follow_ups, media
        changes.on_removal = self._follow

    def drop(self, guild_id: int, channel_id: int, ids: Iterable[int]) -> None:
        self._rosters.note_removal()
        self._media.drop()
        self._linkers.drop(guild_id, channel_id, ids)

    def drop_channel(self, guild_id: int, channel_id: int) -> None:
        self._linkers.drop_channel(guild_id, channel_id)
        self._drop(lambda one: one == (guild_id, channel_id))

    def drop_guild(self, guild_id: int) -> None:
        self._linkers.drop_guild(guild_id)
        self._drop(lambda one: one.guild_id == guild_id)

    def drop_author(self, author_id: int) -> None:
        self._media.drop()
        self._linkers.drop_author(author_id)
        self._rosters.drop(lambda _: True)
        self._follow_ups.drop_author(author_id)

    def _drop(self, gone: Gone) -> None:
        for copies in (self._rosters, self._follow_ups):
            copies.drop(gone)
        self._media.drop()

    def _follow(self, kind: str, what: str) -> None:
        """A removal that another process noted, or this one."""
        name, *ids = what.split(" ")
        match kind:
            case "person":  # '<author>' or '<guild>:<author>'
                self.drop_author(int(name.rpartition(":")[2]))
            case "room":
                self.drop_channel(*guild_and_channel(name.encode()))
            case "guild":
                self.drop_guild(int(name))
            case "messages":
                self.drop(*guild_and_channel(name.encode()), map(int, ids))
            case _:
                self._linkers.drop_everything()
                self._drop(lambda _: True)
        _forget_read()


async def removed(drop: Callable[[], None], removal: Awaitable[T]) -> T:
    """Runs a removal that leaves nothing in this process: `drop` runs twice, to catch what was read meanwhile."""
    drop()
    try:
        return await removal
    finally:
        drop()
        _forget_read()


def _forget_read() -> None:
    """Equal texts are read once only; removed ones must not stay in memory for that."""
    for reader in (documents, summaries, past, line, answering):
        reader.forget_read()
