"""Messages as questions read them: the newest of a few channels at once, whole, or what the index finds. For people who
look at a memory: how messages are stored, and what a channel costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from channelmem.durations import HOUR_S, MINUTE_S
from channelmem.errors import CommandRefusedError, RedisUnavailableError
from channelmem.policy.policy import Limits, Policy
from channelmem.store.buckets import Bucket, Buckets, InBuckets, newest_of
from channelmem.store.cluster import Cluster
from channelmem.store.documents import to_message
from channelmem.store.index import FIELDS
from channelmem.store.index_search import (
    IndexSearch,
    Match,
    Matches,
    Query,
    SearchResult,
    head,
    narrowing,
    rooms,
    shown,
)
from channelmem.store.keys import Keys, padded, room
from channelmem.store.redis import UNREADABLE, checked, damaged, pipelined, reads
from channelmem.types import Activity, Hit, Message, Source, Stored, Window

HOURS: Final = 24
SAMPLED: Final = 20
"""Documents whose size is measured to estimate a channel's."""


class Contents(InBuckets):
    """Facts about messages that a search returned, so that nothing hidden is shown here."""

    @reads
    async def states(self, messages: Sequence[Message]) -> list[Stored]:
        """In the same order; all of one guild."""
        if not messages:
            return []
        bucket = await self._buckets.of(messages[0].guild_id)
        keys = [bucket.keys.message(message.guild_id, message.channel_id, message.id) for message in messages]
        asked = (part for key in keys for part in (("HEXISTS", key, bucket.vector_field), ("PTTL", key)))
        replies = await pipelined(self._buckets.redis, asked)
        return [
            Stored(message, bool(embedded), max(0, ttl_ms) / 1000)
            for message, embedded, ttl_ms in zip(messages, replies[::2], replies[1::2], strict=True)
        ]

    @reads
    async def vectors(self, messages: Sequence[Message]) -> tuple[list[Message], NDArray[np.float32]]:
        """The messages that have a vector, and one row for each."""
        if not messages:
            return [], np.empty((0, self._buckets.dims), np.float32)
        bucket = await self._buckets.of(messages[0].guild_id)
        keys = (bucket.keys.message(message.guild_id, message.channel_id, message.id) for message in messages)
        blobs = await pipelined(self._buckets.redis, [("HGET", key, bucket.vector_field) for key in keys])
        width = self._buckets.dims * np.dtype(np.float16).itemsize
        known = [(message, blob) for message, blob in zip(messages, blobs, strict=True) if blob and len(blob) == width]
        packed = np.frombuffer(b"".join(blob for _, blob in known), np.float16)
        return [message for message, _ in known], packed.astype(np.float32).reshape(len(known), self._buckets.dims)

    @reads
    async def activity(self, guild_id: int, channel_ids: Sequence[int]) -> list[Activity]:
        """How much was said in each of these channels, in one round trip."""
        keys, now = self._buckets.guild_keys(guild_id), self._buckets.clock()
        spans = [(now - MINUTE_S, "+inf")]
        spans += [(now - hour * HOUR_S, f"({now - (hour - 1) * HOUR_S!r}") for hour in range(HOURS, 1, -1)]
        spans += [(now - HOUR_S, "+inf")]
        orders = (keys.of("chan", room(guild_id, channel_id)) for channel_id in channel_ids)
        asked = [("ZCOUNT", order, *span) for order in orders for span in spans]
        counts: list[int] = await pipelined(self._buckets.redis, asked)
        per_channel = HOURS + 1
        return [
            Activity(counts[at], tuple(counts[at + 1 : at + per_channel])) for at in range(0, len(counts), per_channel)
        ]

    @reads
    async def size_bytes(self, guild_id: int, channel_id: int) -> int:
        """What a channel's messages take in Redis, without the index; estimated from some of them."""
        keys = self._buckets.guild_keys(guild_id)
        order = keys.of("chan", room(guild_id, channel_id))
        redis = self._buckets.redis
        count, some = await pipelined(redis, [("ZCARD", order), ("ZRANDMEMBER", order, SAMPLED)])
        measured = (order, *(keys.message(guild_id, channel_id, int(id_)) for id_ in some))
        order_bytes, *sizes = await pipelined(redis, [("MEMORY", "USAGE", key) for key in measured])
        known = [size for size in sizes if size]
        each = sum(known) / len(known) if known else 0.0
        return int(order_bytes or 0) + round(each * int(count))


# --- search ---


__all__ = ["BufferView", "Match", "Matches", "Query", "Search", "SearchResult"]

VIEW_MESSAGES = 400
"""The largest view that is read whole; beyond it, the index is queried."""
WALK_CHANNELS = 8
"""The most channels whose archive is walked in order; beyond them, the index is queried."""

Row = tuple[Message, bytes | None]
"""A message of a view, and its vector if that was requested and is there."""


@dataclass(frozen=True, slots=True)
class BufferView:
    """The whole buffer view of a few channels: comparing it with a question needs no further round trip."""

    messages: list[Message]
    """In channel order, oldest first."""
    vectors: NDArray[np.float32]
    """One row per message, NaN while it waits for its vector. Multiplied by a question's vector: the cosines."""
    total: int
    oldest_ts: float | None


class _Visible(NamedTuple):
    """The part of a view that a query may see, and the extent of the whole."""

    rows: list[Row]
    total: int
    oldest_ts: float | None


class Search:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._index = IndexSearch(buckets)
        self._default = buckets.policy.limits
        self._no_vector = np.full(buckets.dims, np.nan, np.float16).tobytes()
        self._sorts = not isinstance(buckets.redis, Cluster)  # there it is denied, or reads half of a moving slot
        """Whether this Redis allows SORT to read documents; the first view finds out."""

    @reads
    async def newest(self, query: Query) -> list[Message]:
        """Newest first; no vector is involved."""
        if self._is_small(query):
            messages = [message for message, _ in (await self._visible_rows(query, vectors=False)).rows]
        elif 0 < len(query.channel_ids) <= WALK_CHANNELS and not query.author_ids:
            withdrawn = self._buckets.undelivered.withdrawn()
            messages = shown(await self._walk(query), withdrawn)
        else:
            messages = await self._index.newest(query)
        messages.sort(key=lambda message: (message.ts, message.id), reverse=True)
        return messages[: query.limit]

    @reads
    async def nearest(self, query: Query) -> SearchResult:
        """By vector, by words, or both."""
        if (view := await self.view(query)) is not None:
            return self._nearest_in_view(view, query)
        return await self._index.nearest(query)

    @reads
    async def matches(self, query: Query) -> Matches:
        """The same for ranking, from the index alone."""
        return await self._index.matches(query)

    async def view(self, query: Query) -> BufferView | None:
        """The whole buffer view, in one round trip and without the index; None if it is too large for that."""
        if not self._is_small(query):
            return None
        try:
            rows, total, oldest_ts = await self._visible_rows(query, vectors=True)
        except UNREADABLE as error:  # as `reads` does, but a question takes this way: one call less
            raise damaged(f"{type(error).__name__} in a view") from error
        if not any(vector for _, vector in rows):
            await self._check_version(query.guild_id)
        rows.sort(key=lambda row: (row[0].channel_id, row[0].ts, row[0].id))
        packed = np.frombuffer(b"".join([vector or self._no_vector for _, vector in rows]), np.float16)
        vectors = packed.astype(np.float32).reshape(len(rows), self._buckets.dims)
        return BufferView([message for message, _ in rows], vectors, total, oldest_ts)

    @reads
    async def around(
        self,
        guild_id: int,
        channel_id: int,
        ids: Iterable[int],
        radius: int,
        *,
        known: Iterable[int] = (),
        limits: Limits | None = None,
    ) -> list[Message]:
        """Messages within `radius` positions of these in the channel's order, except those the caller knows."""
        names, left_out = [padded(one) for one in ids], [padded(one) for one in known]
        if not names:
            return []
        where = (*head(self._buckets, guild_id, Source.ARCHIVE, limits), room(guild_id, channel_id))
        arguments = [*where, radius, len(left_out), *left_out, *names]
        withdrawn = self._buckets.undelivered.withdrawn()
        messages = shown(await self._buckets.run_for(guild_id, "around", arguments), withdrawn)
        messages.sort(key=lambda message: (message.ts, message.id))
        return messages

    async def get(
        self, guild_id: int, channel_id: int, ids: Iterable[int], limits: Limits | None = None
    ) -> list[Message]:
        """Those of these messages that are visible, in the channel's order."""
        return await self.around(guild_id, channel_id, ids, 0, limits=limits)

    def _is_small(self, query: Query) -> bool:
        """Whether reading the whole view is cheaper than querying the index."""
        wanted = len(query.channel_ids) * (query.limits or self._default).max_messages
        return query.source is not Source.ARCHIVE and 0 < wanted <= VIEW_MESSAGES

    def _nearest_in_view(self, view: BufferView, query: Query) -> SearchResult:
        now = self._buckets.clock()
        cosines = np.full(len(view.messages), np.nan) if query.vector is None else view.vectors @ query.vector
        similarities = [None if math.isnan(cosine) else cosine for cosine in cosines.tolist()]
        hits = [
            Hit(message, similarity or 0.0, similarity, None, now - message.ts, Source.BUFFER)
            for message, similarity in zip(view.messages, similarities, strict=True)
        ]
        hits.sort(key=lambda hit: -2.0 if hit.similarity is None else hit.similarity, reverse=True)
        waiting = np.isnan(view.vectors[:, 0]).tolist()
        late = tuple(message for message, waits in zip(view.messages, waiting, strict=True) if waits)
        return SearchResult(tuple(hits), late, view.total, view.oldest_ts)

    async def _visible_rows(self, query: Query, *, vectors: bool) -> _Visible:
        """The newest messages of each channel. SORT reads order and documents at half the cost of a script."""
        withdrawn = self._buckets.undelivered.withdrawn()
        bucket = await self._buckets.of(query.guild_id)
        limits = query.limits or self._default
        names = (*FIELDS, bucket.vector_field) if vectors else FIELDS
        replies, opted_out = await self._newest_rows(bucket, query, names, limits.max_messages)
        oldest = self._buckets.clock() - limits.buffer_s
        rows = [
            (message, vector)
            for channel, flat in zip(query.channel_ids, replies, strict=True)
            for message, vector in _parsed(query.guild_id, channel, flat, len(names) + 1, oldest)
        ]
        if withdrawn.anything:  # before anything is counted
            rows = [(message, vector) for message, vector in rows if not withdrawn.hides(message)]
        return await self._visible(query, rows, hidden=opted_out > 0)

    async def _newest_rows(
        self, bucket: Bucket, query: Query, names: tuple[str, ...], count: int
    ) -> tuple[list[Any], int]:
        """Per channel a flat list of id and fields of its newest messages, and how many people opted out."""
        if not self._sorts:
            asked = [count, len(names), *names, *rooms(query)]
            replies, opted_out, newest = await self._buckets.run("rows", bucket.number, asked)
            self._buckets.changes.saw(bucket.number, newest)
            return replies, opted_out
        pipe = self._buckets.redis.pipeline(transaction=False)
        for channel in query.channel_ids:
            pipe.execute_command(*_sort(bucket.keys.base, query.guild_id, channel, names, count))
        pipe.scard(bucket.optout)  # last, so that it sees an opt-out that came while the messages were read
        pipe.xrevrange(bucket.changes, count=1)
        *replies, opted_out, changes = await pipe.execute(raise_on_error=False)
        try:
            checked([*replies, opted_out])
        except CommandRefusedError as error:
            if "denied" not in str(error):
                raise
            self._sorts = False  # an ACL user with key patterns
            return await self._newest_rows(bucket, query, names, count)
        self._buckets.changes.saw(bucket.number, newest_of(changes))
        return replies, opted_out

    async def _check_version(self, guild_id: int) -> None:
        """Without any vector, either the channel is new or a reindex has replaced the model."""
        bucket = await self._buckets.of(guild_id)
        version = await self._buckets.redis.hget(bucket.keys.one("meta"), "version")
        if version is None or int(version) != bucket.version:
            await self._buckets.renew(bucket.number)

    async def _visible(self, query: Query, rows: list[Row], *, hidden: bool) -> _Visible:
        """The part of a view that may be shown: nothing by people who opted out, and only what the query wants."""
        if hidden and rows:
            # Before anything is counted: "I have the last 6 messages" must not reveal that five of them are hidden.
            out = await self._opted_out(query.guild_id, list({message.author_id for message, _ in rows}))
            rows = [(message, vector) for message, vector in rows if message.author_id not in out]
        total, oldest_ts = len(rows), min((message.ts for message, _ in rows), default=None)
        if not query.flagged:
            rows = [(message, vector) for message, vector in rows if not (message.own or message.addressed)]
        if query.author_ids:
            rows = [(message, vector) for message, vector in rows if message.author_id in query.author_ids]
        if query.window != Window():
            rows = [(message, vector) for message, vector in rows if query.window.contains(message.ts)]
        return _Visible(rows, total, oldest_ts)

    async def _opted_out(self, guild_id: int, authors: list[int]) -> set[int]:
        names = [*authors, *[f"{guild_id}:{author}" for author in authors]]
        key, count = self._buckets.guild_keys(guild_id).one("optout"), len(authors)
        flags: Any = await self._buckets.redis.smismember(key, names)
        flagged = zip(authors, flags[:count], flags[count:], strict=True)
        return {author for author, everywhere, here in flagged if everywhere or here}

    async def _walk(self, query: Query) -> Any:
        """The archive of a few channels, newest first, without the index."""
        arguments = [
            *head(self._buckets, query.guild_id, query.source, query.limits),
            *narrowing(query),
            len(query.author_ids),
            *query.author_ids,
            *rooms(query),
        ]
        bucket = self._buckets.bucket(query.guild_id)
        _, _, rows, newest = await self._buckets.run("view", bucket, arguments)
        self._buckets.changes.saw(bucket, newest)
        return rows


@lru_cache(maxsize=4_096)
def _sort(base: str, guild_id: int, channel_id: int, names: tuple[str, ...], count: int) -> list[str | int]:
    order, messages = Keys(base).channel(guild_id, channel_id)
    wanted = [part for name in names for part in ("GET", f"{messages}*->{name}")]
    return ["SORT_RO", order, "BY", "nosort", "LIMIT", 0, count, "GET", "#", *wanted, "DESC"]


def _parsed(guild_id: int, channel_id: int, flat: Sequence[Any], size: int, oldest: float) -> Iterator[Row]:
    """What SORT returned of a channel: id, the fields of index.FIELDS and perhaps a vector of each message."""
    ids, authors, texts, times, flags, abouts, *rest = (flat[at::size] for at in range(size))
    fields = zip(authors, texts, times, flags, abouts, strict=True)
    vectors: Iterable[bytes | None] = rest[0] if rest else repeat(None)
    for id_, about, ts, known, vector in zip(ids, abouts, times, fields, vectors, strict=False):
        if about and float(ts) >= oldest:  # else it expired a moment ago
            yield to_message(guild_id, channel_id, id_, known), vector


# --- newest ---


LINKED = 50
"""How many of a channel's newest messages a new one may answer."""


class Newest:
    def __init__(self, search: Search, policy_of: Callable[[int, int], Policy]) -> None:
        self._search, self._policy_of = search, policy_of

    async def __call__(self, guild_id: int, channel_id: int) -> list[Message]:
        """Nothing while Redis is unreachable."""
        limits = self._policy_of(guild_id, channel_id).limits
        query = Query(guild_id, (channel_id,), limit=LINKED, flagged=True, source=Source.ARCHIVE, limits=limits)
        try:
            return await self._search.newest(query)
        except RedisUnavailableError:
            return []
