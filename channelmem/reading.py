"""Reading what is stored without asking a question: pages of a channel, one message, search, and which channels there
are. In: ids, a cursor, or search terms. Out: messages and hits.

What is hidden from answers is hidden here: nothing of channels whose memory is off, nothing by people who opted out.
Everything may raise RedisUnavailableError.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from channelmem.given_messages import summary_origin
from channelmem.policies import Policies
from channelmem.policy import Policy
from channelmem.recalling.recall import Recall, Recalled
from channelmem.store.channel_state import ChannelState
from channelmem.store.search import Query, Search
from channelmem.summarising.reader import SummaryReader
from channelmem.types import (
    MEMORY_OFF,
    ChannelStatus,
    Kind,
    Message,
    Mode,
    Origin,
    Person,
    Question,
    Route,
    Source,
    SourceReport,
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


class Reading:
    def __init__(
        self, search: Search, recall: Recall, channels: ChannelState, policies: Policies, summaries: SummaryReader
    ) -> None:
        self._search, self._recall, self._channels, self._policies = search, recall, channels, policies
        self._summaries = summaries

    async def page(self, guild_id: int, channel_id: int, limit: int, after: Cursor | None = None) -> Page:
        """A page of a channel, newest first; `after` is the cursor of the page before."""
        policy, wanted = self._policies.of(guild_id, channel_id), min(limit, MOST) + 1
        if not policy.enabled:
            return Page()
        query = Query(
            guild_id,
            (channel_id,),
            Window(end=after.ts if after else None),
            limit=wanted,
            flagged=True,
            source=Source.ARCHIVE,
            limits=policy.limits,
        )
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
        summaries too (`given_messages.summary_origin`)."""
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
            found += [summary_origin(channel, one) for one in summaries]
        return wanted & frozenset(found)

    async def shown_of(self, guild_id: int, channel_id: int, status: ChannelStatus) -> tuple[ChannelStatus, int | None]:
        """As much of a channel's status as answers could show, and its newest message."""
        policy = self._policies.of(guild_id, channel_id)
        newest = next(iter((await self.page(guild_id, channel_id, 1)).messages), None)
        if newest is None:  # closed, or all of it is hidden
            return replace(status, messages=0, pending=0, oldest_ts=None, newest_ts=None), None
        query = Query(guild_id, (channel_id,), limit=1, flagged=True, source=Source.ARCHIVE, limits=policy.limits)
        count = (await self._search.matches(query)).total
        return replace(status, messages=count, pending=min(status.pending, count), newest_ts=newest.ts), newest.id

    async def rooms(self, guild_id: int = 0) -> list[tuple[int, int]]:
        """Guild and channel of everything that holds messages, in one guild or in all."""
        return sorted(await self._channels.rooms(guild_id))

    async def search(self, terms: SearchTerms) -> Recalled:
        """Ranked like the hits of a question, but nothing decides whether they answer one."""
        channel_ids = [one for one in terms.channel_ids if self._policies.of(terms.guild_id, one).enabled]
        if not channel_ids:
            return Recalled(reports=(SourceReport(Source.ARCHIVE, problem=MEMORY_OFF),))
        topic = terms.query.strip()
        question = Question(
            terms.guild_id, channel_ids[0], 0, 0, "", topic, time.time(), readable_channel_ids=tuple(channel_ids[1:])
        )
        mode = terms.mode or (Mode.TOPIC if topic else Mode.LATEST)
        if mode is Mode.TOPIC and not topic:
            mode = Mode.LATEST
        speakers = tuple(Person(one, "") for one in terms.author_ids)
        route = Route(Kind.CHANNEL, mode, terms.window, speakers, topic, WHY, (Source.ARCHIVE,), to_bot=True)
        policy = self._policies.of(terms.guild_id, channel_ids[0])
        return await self._recall(question, route, replace(policy, recall_limit=terms.limit))
