"""What a memory holds, for people and programs that look at it: channels, their messages with their state, vectors.

In: a guild, a channel. Out: what its policy lets people see; nothing where memory is off. Everything may raise
RedisUnavailableError. `tell_names` is how an adapter says what ids are called.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from channelmem.policies import Policies
from channelmem.reading import Cursor, Reading
from channelmem.store.contents import Contents
from channelmem.store.names import GuildNames, Names
from channelmem.store.store import Store
from channelmem.summarising.extractive import SUMMARY_CHARS, combine, summarise
from channelmem.summarising.pyramid import Summary, roots
from channelmem.summarising.windows import ClosedWindow
from channelmem.types import Activity, ChannelStatus, Message, Person, Stored

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
    def __init__(self, store: Store, policies: Policies, reading: Reading) -> None:
        self._channels, self._policies, self._reading = store.channels, policies, reading
        self._contents, self._names = Contents(store.buckets), Names(store.buckets)
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
        page = await self._reading.page(guild_id, channel_id, limit, after)
        return Rows(tuple(await self._contents.states(page.messages)), page.next)

    async def newest(self, guild_id: int, channel_id: int, limit: int, since: float | None = None) -> list[Message]:
        """The newest messages of a channel, newest first, page by page."""
        found: list[Message] = []
        after: Cursor | None = None
        while len(found) < limit:
            page = await self._reading.page(guild_id, channel_id, limit - len(found), after)
            found += [one for one in page.messages if since is None or one.ts >= since]
            after = page.next
            if after is None or (since is not None and after.ts < since):
                break
        return found

    async def vectors(self, guild_id: int, channel_id: int, limit: int) -> tuple[list[Message], NDArray[np.float32]]:
        """The newest messages that have a vector, newest first, and the vectors."""
        return await self._contents.vectors(await self.newest(guild_id, channel_id, limit))

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
        messages = tuple(reversed(await self.newest(guild_id, channel_id, SUMMARISED, newer)))
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
    whole = parts[0] if parts else None
    for one in parts[1:]:
        whole = combine(whole, one, created=now, limit=limit_chars) if whole else one
    if messages:
        people = {one.author_id: one.author for one in messages}
        stretch = ClosedWindow(messages[0].ts, messages[-1].ts, messages)
        newest = summarise(stretch, created=now, limit=limit_chars, people=people)
        whole = combine(whole, newest, created=now, limit=limit_chars) if whole else newest
    return whole
