"""Reading without asking a question: pages of what is stored, one message, search, an overview of channels, and the
platform's own history as far as it may be shown.

What is hidden from answers is hidden here: nothing of channels whose memory is off, nothing by people who opted out.
Everything but the history may raise RedisUnavailableError.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from channelmem.errors import RedisUnavailableError
from channelmem.policy.policies import Policies
from channelmem.policy.policy import Policy
from channelmem.recalling.candidates import Asked
from channelmem.recalling.recall import Found, Recall
from channelmem.store.channel_state import ChannelState, GuildNames, NameStore
from channelmem.store.decisions import Decisions
from channelmem.store.search import Contents, Query, Search
from channelmem.store.store import Store
from channelmem.summaries.extractive import SUMMARY_CHARS, combine, summarise
from channelmem.summaries.pyramid import ClosedWindow, Summary, roots
from channelmem.summaries.reader import SummaryReader
from channelmem.types import (
    LAST_TS,
    MEMORY_OFF,
    Activity,
    ChannelStatus,
    History,
    Kind,
    Message,
    Mode,
    Origin,
    Past,
    Person,
    Question,
    Route,
    Source,
    SourceReport,
    Stored,
    Unsearched,
    Window,
)

MOST: Final = 200
"""Messages of a page."""
WHY: Final = ("asked for by the caller",)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last message of a page; the next page begins after it."""

    ts: float
    id: int

    def __str__(self) -> str:
        return f"{self.ts!r}_{self.id}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """ValueError if it is none."""
        ts, _, id_ = text.partition("_")
        return cls(float(ts), int(id_))

    def follows(self, message: Message) -> bool:
        """Whether a message belongs to a later page."""
        return (message.ts, message.id) < (self.ts, self.id)


@dataclass(frozen=True, slots=True)
class Page:
    """Newest first."""

    messages: tuple[Message, ...] = ()
    next: Cursor | None = None
    """None at the end."""


@dataclass(frozen=True, slots=True)
class SearchTerms:
    guild_id: int
    channel_ids: tuple[int, ...]
    query: str = ""
    author_ids: tuple[int, ...] = ()
    window: Window = Window()  # noqa: RUF009  (frozen)
    mode: Mode | None = None
    """None: by topic if there is a query, else the latest."""
    limit: int = 10


class Browse:
    def __init__(
        self, search: Search, recall: Recall, channels: ChannelState, policies: Policies, summaries: SummaryReader
    ) -> None:
        self._search, self._recall, self._channels, self._policies = search, recall, channels, policies
        self._summaries = summaries

    async def newest(self, guild_id: int, channel_id: int, limit: int, since: float | None = None) -> list[Message]:
        """The newest messages of a channel, newest first, whatever a language model would be given of them."""
        policy = self._policies.of(guild_id, channel_id)
        if not policy.enabled:
            return []
        return await self._search.newest(archived(guild_id, channel_id, policy, Window(since), limit))

    async def page(self, guild_id: int, channel_id: int, limit: int, after: Cursor | None = None) -> Page:
        """A page of a channel, newest first; `after` is the cursor of the page before."""
        policy, wanted = self._policies.of(guild_id, channel_id), min(limit, MOST) + 1
        if not policy.enabled:
            return Page()
        query = archived(guild_id, channel_id, policy, Window(end=after.ts if after else None), wanted)
        while True:
            newest = await self._search.newest(query)
            found = [one for one in newest if after is None or after.follows(one)]
            if len(found) >= wanted or len(newest) < query.limit:
                break
            query = replace(query, limit=2 * query.limit)  # many messages of the very moment of the cursor
        shown = tuple(found[: wanted - 1])
        return Page(shown, Cursor(shown[-1].ts, shown[-1].id) if len(found) >= wanted else None)

    async def message(self, guild_id: int, channel_id: int, message_id: int) -> Message | None:
        policy = self._policies.of(guild_id, channel_id)
        if not policy.enabled:
            return None
        found = await self._search.get(guild_id, channel_id, [message_id], limits=policy.limits)
        return found[0] if found else None

    async def person(self, guild_id: int, channel_id: int, author_id: int) -> Person | None:
        """Somebody who wrote in a channel, with their other names, which no message holds."""
        people = await self._channels.roster(guild_id, channel_id, self._policies.of(guild_id, channel_id))
        return next((one.person for one in people if one.person.id == author_id), None)

    async def standing(
        self, guild_id: int, channel_id: int, origins: Iterable[Origin], character: str = "", thread_of: int = 0
    ) -> frozenset[Origin]:
        """Those of these that are visible and unchanged, by the policy of the conversation that they were given to;
        summaries too (`Summary.origin_in`)."""
        policy, wanted = self._policies.of(guild_id, channel_id, character, thread_of), frozenset(origins)

        def policy_of(channel: int) -> Policy:
            return policy if channel == channel_id else self._policies.of(guild_id, channel, character)

        by_channel: dict[int, set[int]] = {}
        for one in wanted:
            if one.id >= 0:
                by_channel.setdefault(one.channel_id, set()).add(one.id)
        found = [
            message.origin
            for channel, ids in by_channel.items()
            if policy_of(channel).enabled  # that something stands would be news of it, too
            for message in await self._search.get(guild_id, channel, ids, limits=policy.limits)
        ]
        for channel in {one.channel_id for one in wanted if one.id < 0}:
            here = policy_of(channel)
            summaries = await self._summaries.read(guild_id, channel, here)
            found += [one.origin_in(channel) for one in summaries]
        return wanted & frozenset(found)

    async def shown_of(self, guild_id: int, channel_id: int, status: ChannelStatus) -> tuple[ChannelStatus, int | None]:
        """As much of a channel's status as answers could show, and its newest message."""
        policy = self._policies.of(guild_id, channel_id)
        newest = next(iter(await self.newest(guild_id, channel_id, 1)), None)
        if newest is None:  # closed, or all of it is hidden
            return replace(status, messages=0, pending=0, oldest_ts=None, newest_ts=None), None
        count = (await self._search.matches(archived(guild_id, channel_id, policy, Window(), 1))).total
        return replace(status, messages=count, pending=min(status.pending, count), newest_ts=newest.ts), newest.id

    async def rooms(self, guild_id: int = 0) -> list[tuple[int, int]]:
        """Guild and channel of everything that holds messages, in one guild or in all."""
        return sorted(await self._channels.rooms(guild_id))

    async def search(self, terms: SearchTerms) -> Found:
        """Ranked like the hits of a question, but nothing decides whether they answer one."""
        channel_ids = [one for one in terms.channel_ids if self._policies.of(terms.guild_id, one).enabled]
        topic = terms.query.strip()
        wanted = terms.mode or Mode.TOPIC
        mode = Mode.LATEST if wanted is Mode.TOPIC and not topic else wanted
        speakers = tuple(Person(one, "") for one in terms.author_ids)
        route = Route(Kind.CHANNEL, mode, terms.window, speakers, topic, WHY, (Source.ARCHIVE,), to_bot=True)
        if not channel_ids:
            off = SourceReport(Source.ARCHIVE, problem=MEMORY_OFF, unsearched=Unsearched.OFF)
            return Found(route, reports=(off,))
        question = Question(
            terms.guild_id, channel_ids[0], 0, 0, "", topic, time.time(), readable_channel_ids=tuple(channel_ids[1:])
        )
        policy = self._policies.of(terms.guild_id, channel_ids[0])
        return await self._recall(Asked.of(question, route, replace(policy, recall_limit=terms.limit)))


def archived(
    guild_id: int, channel_id: int, policy: Policy, window: Window, limit: int, *, flagged: bool = True
) -> Query:
    """Everything that answers could show of a channel."""
    query = Query(guild_id, (channel_id,), window, limit=limit, limits=policy.limits)
    return replace(query, flagged=flagged, source=Source.ARCHIVE)


# --- overview ---


SUMMARISED: Final = 500
"""Messages that one summary is made of, at most."""


@dataclass(frozen=True, slots=True)
class ListedChannel:
    """A channel that holds messages."""

    guild_id: int
    channel_id: int
    guild: str
    """Empty, like `name`, if no adapter told it."""
    name: str
    status: ChannelStatus
    enabled: bool
    parent_id: int = 0
    """The channel of a thread, if it is one."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A page of a channel, newest first."""

    stored: tuple[Stored, ...]
    next: Cursor | None


class Overview:
    def __init__(self, store: Store, policies: Policies, browse: Browse) -> None:
        self._channels, self._policies, self._browse = store.channels, policies, browse
        self._contents, self._names = Contents(store.buckets), NameStore(store.buckets)
        self.clock = store.buckets.clock

    async def channels(self, guild_ids: Collection[int] | None = None) -> list[ListedChannel]:
        """Every channel with messages, of these guilds or of all; the most recently active guild and channel first."""
        if guild_ids is None:
            rooms = await self._channels.rooms()
        else:
            rooms = [place for guild_id in sorted(set(guild_ids)) for place in await self._channels.rooms(guild_id)]
        statuses = await self._channels.statuses(rooms, self._policies.storing)
        names = await self._names.of(guild_id for guild_id, _ in rooms)
        listed = [self._listed(*place, names[place[0]], status) for place, status in zip(rooms, statuses, strict=True)]
        newest: dict[int, float] = {}
        for one in listed:
            newest[one.guild_id] = max(newest.get(one.guild_id, 0.0), one.status.newest_ts or 0.0)
        listed.sort(key=lambda one: (-newest[one.guild_id], one.guild_id, -(one.status.newest_ts or 0.0)))
        return listed

    async def channel(self, guild_id: int, channel_id: int) -> ListedChannel:
        """One channel, whether it holds messages or not."""
        (status,) = await self._channels.statuses([(guild_id, channel_id)], self._policies.storing)
        names = await self._names.of([guild_id])
        return self._listed(guild_id, channel_id, names[guild_id], status)

    def _listed(self, guild_id: int, channel_id: int, names: GuildNames, status: ChannelStatus) -> ListedChannel:
        enabled = self._policies.of(guild_id, channel_id).enabled
        if not enabled:  # how much there is would be news of it, too
            status = replace(status, messages=0, pending=0, oldest_ts=None, newest_ts=None)
        parent = self._policies.channel_of(guild_id, channel_id)
        return ListedChannel(
            guild_id,
            channel_id,
            names.guild,
            names.channel(channel_id),
            status,
            enabled,
            parent if parent != channel_id else 0,
        )

    async def rows(self, guild_id: int, channel_id: int, limit: int, after: Cursor | None = None) -> Rows:
        """A page of a channel, newest first, with the state of each message."""
        page = await self._browse.page(guild_id, channel_id, limit, after)
        return Rows(tuple(await self._contents.states(page.messages)), page.next)

    async def vectors(self, guild_id: int, channel_id: int, limit: int) -> tuple[list[Message], NDArray[np.float32]]:
        """The newest messages that have a vector, newest first, and the vectors."""
        return await self._contents.vectors(await self._browse.newest(guild_id, channel_id, limit))

    async def summary(
        self,
        guild_id: int,
        channel_id: int,
        since: float | None = None,
        limit_chars: int = SUMMARY_CHARS,
        stored: Sequence[Summary] = (),
    ) -> Summary | None:
        """What was said since some time, as one summary; None if nothing was.

        `stored` has what `memory.summaries` knows, which may reach further back than the messages."""
        parts = list(roots(one for one in stored if since is None or one.start >= since))
        newer = math.nextafter(parts[-1].end, math.inf) if parts else since
        messages = tuple(reversed(await self._browse.newest(guild_id, channel_id, SUMMARISED, newer)))
        return await asyncio.to_thread(_one_summary, parts, messages, self.clock(), limit_chars)

    async def activity(self, channels: Sequence[ListedChannel]) -> dict[tuple[int, int], Activity]:
        """How much was said lately in each of these channels."""
        guilds: dict[int, list[int]] = {}
        for one in channels:
            if one.enabled:
                guilds.setdefault(one.guild_id, []).append(one.channel_id)
        return {
            (guild_id, channel_id): counts
            for guild_id, ids in guilds.items()
            for channel_id, counts in zip(ids, await self._contents.activity(guild_id, ids), strict=True)
        }

    async def people(self, guild_id: int, channel_id: int) -> list[Person]:
        """Who is known in a channel, the latest speaker first."""
        policy = self._policies.of(guild_id, channel_id)
        if not policy.enabled:
            return []
        return [one.person for one in await self._channels.roster(guild_id, channel_id, policy)]

    async def size_bytes(self, guild_id: int, channel_id: int) -> int:
        """What a channel's messages take in Redis, without the index; an estimate."""
        return await self._contents.size_bytes(guild_id, channel_id)

    async def tell_names(self, guild_id: int, guild: str = "", channels: Mapping[int, str] | None = None) -> None:
        """What the platform calls a guild and its channels; an empty name changes nothing."""
        await self._names.tell(guild_id, guild, channels)


def _one_summary(
    parts: Sequence[Summary], messages: tuple[Message, ...], now: float, limit_chars: int
) -> Summary | None:
    parts = list(parts)
    if messages:
        people = {one.author_id: one.author for one in messages}
        stretch = ClosedWindow(messages[0].ts, messages[-1].ts, messages)
        parts.append(summarise(stretch, created=now, limit=limit_chars, people=people))
    return reduce(partial(combine, created=now, limit=limit_chars), parts) if parts else None


# --- history ---


UNDECIDED = "I can't check who opted out right now, so I don't quote this channel's history."
UNKNOWN = "I can't check this channel's settings right now, so I don't quote its history."


class FilteredHistory(History):
    """The platform's history without what people and managers decided against: nothing by people who opted out, nothing
    from before a clear or since a pause. If these decisions can't be looked up, nothing is shown. Nor are the bot's own
    answers: they may quote what is gone by now, and only stored ones say what they were made of."""

    def __init__(self, history: History, decisions: Decisions, policies: Policies) -> None:
        self._history, self._decisions, self._policies = history, decisions, policies

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        if not self._policies.of_question(question).enabled:
            return Past()
        past = await self._history.fetch(question, limit, max_age_s)
        if past.messages and not self._policies.known:
            return Past(problem=UNKNOWN)
        others = [one for one in past.messages if 0 <= one.ts <= LAST_TS and not one.own]  # as for messages to remember
        try:
            shown = await self._decisions.allowed(question.guild_id, question.channel_id, others)
        except RedisUnavailableError:
            return Past(problem=UNDECIDED)
        return replace(past, messages=tuple(map(self._cut, shown)))

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        message = await self._history.fetch_message(channel_id, message_id)
        if message is None or message.own:
            return None
        if not (self._policies.known and self._policies.of_message(message).enabled):
            return None
        try:
            shown = await self._decisions.allowed(message.guild_id, channel_id, [message])
        except RedisUnavailableError:
            return None
        return self._cut(message) if shown else None

    def _cut(self, message: Message) -> Message:
        chars = self._policies.of_message(message).history_content_chars
        return message if len(message.content) <= chars else replace(message, content=message.content[:chars])

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        return self._history.jump_url(guild_id, channel_id, message_id)

    def link(self, message: Message) -> str:
        return self.jump_url(message.guild_id, message.channel_id, message.id)

    async def find_members(self, guild_id: int, prefix: str) -> tuple[Person, ...]:
        find = getattr(self._history, "find_members", None)  # an adapter may have no such method
        found: tuple[Person, ...] = await find(guild_id, prefix) if find else ()
        try:
            hidden = await self._decisions.hidden(guild_id, {person.id for person in found})
        except RedisUnavailableError:
            return ()
        return tuple(person for person in found if person.id not in hidden)
