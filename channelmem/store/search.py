"""Search: everything that reads messages. In: one Query. Out: messages, or hits with what is still pending.

Every call is one round trip to one bucket. The buffer view of a few channels is read straight from their order,
vectors included, and compared here: this is exact, independent of the index, and sees what was stored a moment ago.
The archive and wide views query the index. Neither returns anything outside a channel's lifetime, nor removed messages
that wait to be unlinked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from redis.exceptions import ResponseError

from channelmem.policy import Limits
from channelmem.store.buckets import VERSION, Bucket, Buckets
from channelmem.store.connection import answered, reads
from channelmem.store.documents import from_row, pack_limits, to_message
from channelmem.store.keys import padded, room
from channelmem.store.schema import FIELDS
from channelmem.store.withdrawn import Withdrawn
from channelmem.store.words import tokens
from channelmem.types import Hit, Message, Source, Window

VIEW_MESSAGES = 400
"""The largest view that is read whole; beyond it, the index is queried."""
WALK_CHANNELS = 8
"""The most channels whose archive is walked in order; beyond them, the index is queried."""
MAX_WORDS = 32

StoredRow = tuple[int, float, bytes, list[Any]]
"""Channel, time, id, and what SORT returned for a message: id, the fields of schema.FIELDS, the vector if requested.
Sorting puts them in channel order, oldest first; no id occurs twice in a channel."""


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for. Each field narrows the search; the defaults do not."""

    guild_id: int
    channel_ids: tuple[int, ...] = ()
    """Empty: every channel of the guild."""
    window: Window = Window()  # noqa: RUF009  (frozen)
    author_ids: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    """Full text: any of these, stemmed."""
    vector: NDArray[np.float32] | None = None
    limit: int = 10
    """For each of the nearest and the best by text. A buffer view of a few channels comes whole."""
    flagged: bool = False
    """Include the bot's own messages and those addressed to it."""
    source: Source = Source.BUFFER
    """BUFFER: the newest messages of each channel within the buffer's age; ARCHIVE: everything within its lifetime."""
    counts: bool = False
    """Count, for each word, the messages that contain it (archive and wide views)."""
    limits: Limits | None = None
    """Of the asker's policy, for all channels of the query; None: the default."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What `nearest` found."""

    hits: tuple[Hit, ...] = ()
    """Nearest first, those without a vector last. `similarity` and `text_score` say why they were found; a buffer view
    that came whole has no text scores, because its reader has all the texts."""
    pending: tuple[Message, ...] = ()
    """Messages that match the query's filters and have no vector yet."""
    total: int = 0
    """How many messages the channels hold within the window, for an honest answer."""
    oldest_ts: float | None = None
    """The oldest message that could have been found."""
    counts: tuple[int, ...] = ()
    """Per word of the query, if `counts` was requested."""


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

    rows: list[StoredRow]
    total: int
    oldest_ts: float | None


class Search:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._default = buckets.policy.limits
        self._no_vector = np.full(buckets.dims, np.nan, np.float16).tobytes()
        self._sorts = True
        """Whether this Redis allows SORT to read documents; the first view finds out."""

    @reads
    async def newest(self, query: Query) -> list[Message]:
        """Newest first; no vector is involved."""
        if self._is_small(query):
            rows = (await self._visible_rows(query, vectors=False)).rows
            rows.sort(key=lambda row: row[1:3], reverse=True)
            newest = rows[: query.limit]
            messages = [to_message(query.guild_id, channel, id_, row[1:]) for channel, _, id_, row in newest]
        elif 0 < len(query.channel_ids) <= WALK_CHANNELS and not query.author_ids:
            withdrawn = self._buckets.withdrawn()
            messages = _shown(await self._walk(query), withdrawn)
        else:
            withdrawn = self._buckets.withdrawn()
            _, _, found, _, _ = await self._find(query, newest=True)
            messages = _shown(found, withdrawn)
        messages.sort(key=lambda message: (message.ts, message.id), reverse=True)
        return messages[: query.limit]

    @reads
    async def nearest(self, query: Query) -> SearchResult:
        """By vector, by words, or both, in one round trip."""
        if (view := await self.view(query)) is not None:
            return self._nearest_in_view(view, query)
        withdrawn = self._buckets.withdrawn()
        total, oldest, rows, late, counts = await self._find(query, newest=False)
        now = self._buckets.clock()
        hits = [hit for hit in [_found_hit(query, row, now) for row in rows] if not withdrawn.hides(hit.message)]
        hits.sort(key=lambda hit: (-(hit.similarity or -2.0), -(hit.text_score or 0.0)))
        return SearchResult(
            tuple(hits),
            tuple(_shown(late, withdrawn)),
            total,
            float(oldest) if oldest else None,
            _counts(query, counts),
        )

    @reads
    async def view(self, query: Query) -> BufferView | None:
        """The whole buffer view, in one round trip and without the index; None if it is too large for that."""
        if not self._is_small(query):
            return None
        rows, total, oldest_ts = await self._visible_rows(query, vectors=True)
        if not any(row[-1] for _, _, _, row in rows):
            await self._check_version(query.guild_id)
        rows.sort()
        messages = [to_message(query.guild_id, channel, id_, row[1:-1]) for channel, _, id_, row in rows]
        return BufferView(messages, self._vectors([row[-1] for _, _, _, row in rows]), total, oldest_ts)

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
        place = (room(guild_id, channel_id), radius)
        arguments = [*self._head(guild_id, Source.ARCHIVE, limits), *place, len(left_out), *left_out, *names]
        withdrawn = self._buckets.withdrawn()
        rows = await self._buckets.run("around", self._buckets.bucket(guild_id), arguments)
        messages = _shown(rows, withdrawn)
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

    def _vectors(self, blobs: Sequence[bytes | None]) -> NDArray[np.float32]:
        packed = b"".join([blob or self._no_vector for blob in blobs])
        return np.frombuffer(packed, np.float16).astype(np.float32).reshape(len(blobs), self._buckets.dims)

    async def _visible_rows(self, query: Query, *, vectors: bool) -> _Visible:
        """The newest messages of each channel. SORT reads order and documents at half the cost of a script."""
        withdrawn = self._buckets.withdrawn()
        bucket = await self._buckets.ready(self._buckets.bucket(query.guild_id))
        limits = query.limits or self._default
        names = (*FIELDS, bucket.vector_field) if vectors else FIELDS
        replies, opted_out = await self._newest_rows(bucket, query, names, limits.max_messages)
        oldest, size = self._buckets.clock() - limits.buffer_s, len(names) + 1
        rows = [
            (channel, ts, row[0], row)
            for channel, flat in zip(query.channel_ids, replies, strict=True)
            for row in (flat[at : at + size] for at in range(0, len(flat), size))
            if row[5] and (ts := float(row[3])) >= oldest
        ]
        if withdrawn:  # before anything is counted
            rows = [one for one in rows if not withdrawn.hides(_stored(query, one))]
        return await self._visible(query, rows, hidden=opted_out > 0)

    async def _newest_rows(
        self, bucket: Bucket, query: Query, names: Sequence[str], count: int
    ) -> tuple[list[Any], int]:
        """Per channel a flat list of id and fields of its newest messages, and how many people opted out."""
        pipe = self._buckets.redis.pipeline(transaction=False)
        optouts = bucket.keys.one("optout")
        if self._sorts:
            for channel in query.channel_ids:
                pipe.execute_command(*_sort(*bucket.keys.channel(query.guild_id, channel), names, count))
        pipe.scard(optouts)  # last, so that it sees an opt-out that came while the messages were read
        try:
            *replies, opted_out = await answered(pipe.execute())
        except ResponseError as error:
            if "denied" not in str(error):
                raise
            self._sorts = False  # an ACL user with key patterns, or a cluster before 7.4
            return await self._newest_rows(bucket, query, names, count)
        if not self._sorts:
            replies = await self._buckets.run("rows", bucket.number, [count, len(names), *names, *_rooms(query)])
        return replies, opted_out

    async def _check_version(self, guild_id: int) -> None:
        """Without any vector, either the channel is new or a reindex has replaced the model."""
        bucket = await self._buckets.ready(self._buckets.bucket(guild_id))
        version = await answered(self._buckets.redis.hget(bucket.keys.one("meta"), "version"))
        if version is None or int(version) != bucket.version:
            await self._buckets.renew(bucket.number)

    async def _visible(self, query: Query, rows: list[StoredRow], *, hidden: bool) -> _Visible:
        """The part of a view that may be shown: nothing by people who opted out, and only what the query wants."""
        if hidden and rows:
            # Before anything is counted: "I have the last 6 messages" must not reveal that five of them are hidden.
            out = await self._opted_out(query.guild_id, list({row[1] for _, _, _, row in rows}))
            rows = [one for one in rows if one[3][1] not in out]
        total, oldest_ts = len(rows), min((ts for _, ts, _, _ in rows), default=None)
        if not query.flagged:
            rows = [one for one in rows if not one[3][4]]
        if query.author_ids:
            by = {b"%d" % author for author in query.author_ids}
            rows = [one for one in rows if one[3][1] in by]
        if query.window != Window():
            rows = [one for one in rows if query.window.contains(one[1])]
        return _Visible(rows, total, oldest_ts)

    async def _opted_out(self, guild_id: int, authors: list[bytes]) -> set[bytes]:
        key = self._buckets.guild_keys(guild_id).one("optout")
        names = [*authors, *[b"%d:%b" % (guild_id, author) for author in authors]]
        flags: Any = await answered(self._buckets.redis.smismember(key, names))
        return {name.rpartition(b":")[2] for name, flag in zip(names, flags, strict=True) if flag}

    async def _walk(self, query: Query) -> Any:
        """The archive of a few channels, newest first, without the index."""
        arguments = [
            *self._head(query.guild_id, query.source, query.limits),
            *_narrowing(query, query.limit),
            len(query.author_ids),
            *query.author_ids,
            *_rooms(query),
        ]
        _, _, rows = await self._buckets.run("view", self._buckets.bucket(query.guild_id), arguments)
        return rows

    async def _find(self, query: Query, *, newest: bool) -> Any:
        bucket = self._buckets.bucket(query.guild_id)
        vector = b"" if query.vector is None or newest else query.vector.astype(np.float16).tobytes()
        asked = [tokens(word) for word in query.words[:MAX_WORDS]]
        text = "|".join(token for word in asked for token in word)
        counted = [f"@text:({' '.join(word)})" for word in asked if word] if query.counts else []
        arguments = [
            *self._head(query.guild_id, query.source, query.limits),
            VERSION,
            *_narrowing(query, query.limit),
            vector,
            f"@text:({text})" if text and not newest else "",
            int(newest),
            len(query.author_ids),
            *query.author_ids,
            len(counted),
            *counted,
            *_rooms(query),
        ]
        return await self._buckets.run("find", bucket, arguments)

    def _head(self, guild_id: int, source: Source, limits: Limits | None) -> tuple[Any, ...]:
        """The arguments that read.lua expects."""
        now, packed = repr(self._buckets.clock()), pack_limits(limits or self._default)
        return now, packed, guild_id, int(source is not Source.ARCHIVE)


def _rooms(query: Query) -> list[str]:
    return [room(query.guild_id, channel) for channel in query.channel_ids]


def _sort(order: str, messages: str, names: Sequence[str], count: int) -> list[str | int]:
    wanted = [part for name in names for part in ("GET", f"{messages}*->{name}")]
    return ["SORT_RO", order, "BY", "nosort", "LIMIT", 0, count, "GET", "#", *wanted, "DESC"]


def _shown(rows: Iterable[Any], withdrawn: Withdrawn) -> list[Message]:
    """The rows of a script, which leaves out what Redis knows to be hidden."""
    return [message for message in map(from_row, rows) if not withdrawn.hides(message)]


def _stored(query: Query, row: StoredRow) -> Message:
    channel, _, id_, fields = row
    return to_message(query.guild_id, channel, id_, fields[1 : 1 + len(FIELDS)])


def _counts(query: Query, counted: list[int]) -> tuple[int, ...]:
    """Per word of the query; words without a searchable part were not queried and count 0."""
    answers = iter(counted)
    words = query.words[:MAX_WORDS] if query.counts else ()
    return tuple(next(answers, 0) if tokens(word) else 0 for word in words)


def _narrowing(query: Query, limit: int) -> tuple[Any, ...]:
    start = -math.inf if query.window.start is None else query.window.start
    end = math.inf if query.window.end is None else query.window.end
    return limit, repr(start), repr(end), int(query.flagged)


def _found_hit(query: Query, row: list[Any], now: float) -> Hit:
    message = from_row(row)
    similarity = 1.0 - float(row[3]) if row[3] is not None else None
    text_score = float(row[4]) if row[4] is not None else None
    score = similarity if similarity is not None else text_score or 0.0
    return Hit(message, score, similarity, text_score, now - message.ts, query.source)
