"""Search: everything that reads. In: one Query. Out: messages, or hits with what is still pending.

Every call is one round trip to one bucket. The buffer view of a few channels is read straight from their order,
vectors included, and compared here: exact, independent of the index, and it sees what was stored a moment ago.
The archive and wide views ask the index. Nothing outside a channel's lifetime is returned by either, nor
anything that was removed and waits to be unlinked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channelmem.buckets import Buckets
from channelmem.documents import to_message
from channelmem.keys import padded
from channelmem.types import Hit, Message, Source, Window

VIEW_MESSAGES = 400
"""Up to so many messages a view is read whole; the index is asked beyond."""
MAX_WORDS = 32

# What RediSearch splits text at; the underscore is a letter to it.
_SEPARATORS = re.compile(r"[\s,.<>{}\[\]\"':;!@#$%^&*()\-+=~|/\\?`\u0000-\u001f]+")


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for. Every part narrows; the defaults do not."""

    guild_id: int
    channel_ids: tuple[int, ...] = ()
    """Empty: every channel of the guild."""
    window: Window = Window()  # noqa: RUF009  (frozen)
    author_ids: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    """Full text: any of these, stemmed."""
    vector: NDArray[np.float32] | None = None
    limit: int = 10
    """Per kind: so many nearest and so many by text. A buffer view of a few channels comes whole."""
    flagged: bool = False
    """With messages addressed to the bot and its own."""
    source: Source = Source.BUFFER
    """BUFFER: the newest messages of each channel within the buffer's age; ARCHIVE: whatever lives."""
    counts: bool = False
    """Count, for each word, the messages that carry it (archive and wide views)."""


@dataclass(frozen=True, slots=True)
class Found:
    """What `nearest` found."""

    hits: tuple[Hit, ...] = ()
    """Nearest first, those without a vector last. `similarity` and `text_score` say why they are here; a
    buffer view that came whole has no text scores (its reader has all the texts)."""
    pending: tuple[Message, ...] = ()
    """Visible messages of these channels, within the query's filters, that have no vector yet."""
    total: int = 0
    """How many messages there are in the channels and window, for an honest answer."""
    oldest_ts: float | None = None
    """The oldest message that could have been found."""
    counts: tuple[int, ...] = ()
    """Per word of the query, where `counts` was asked for."""


class Search:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._max_messages = buckets.settings.max_messages

    async def newest(self, query: Query) -> list[Message]:
        """Newest first, without any vector."""
        if query.channel_ids and (query.source is Source.BUFFER or not query.author_ids) and self._is_small(query):
            _, _, rows = await self._view(query, version="")
        else:
            _, _, rows, _, _ = await self._find(query, newest=True)
        messages = [to_message(query.guild_id, row) for row in rows]
        messages.sort(key=lambda message: (message.ts, message.id), reverse=True)
        return messages[: query.limit]

    async def nearest(self, query: Query) -> Found:
        """By vector, by words, or both, in one round trip."""
        if query.source is Source.BUFFER and query.channel_ids and self._is_small(query):
            return await self._nearest_in_view(query)
        total, oldest, rows, late, counts = await self._find(query, newest=False)
        now = self._buckets.clock()
        hits = [_found_hit(query, row, now) for row in rows]
        hits.sort(key=lambda hit: (-(hit.similarity or -2.0), -(hit.text_score or 0.0)))
        return Found(
            tuple(hits),
            tuple(to_message(query.guild_id, row) for row in late),
            total,
            float(oldest) if oldest else None,
            tuple(counts),
        )

    async def around(
        self, guild_id: int, channel_id: int, ids: Iterable[int], radius: int, *, after: int | None = None
    ) -> list[Message]:
        """Messages within `radius` positions of these in the channel's order (`after`: another reach forwards)."""
        names = [padded(one) for one in ids]
        if not names:
            return []
        reach = (radius, radius if after is None else after)
        arguments = [*self._head(guild_id, Source.ARCHIVE, ""), channel_id, *reach, *names]
        rows = await self._buckets.run("around", self._buckets.bucket(guild_id), arguments)
        messages = [to_message(guild_id, row) for row in rows]
        messages.sort(key=lambda message: (message.ts, message.id))
        return messages

    async def get(self, guild_id: int, channel_id: int, ids: Iterable[int]) -> list[Message]:
        """Those of these messages that are visible, in the channel's order."""
        return await self.around(guild_id, channel_id, ids, 0)

    def _is_small(self, query: Query) -> bool:
        return (query.source is Source.ARCHIVE and len(query.channel_ids) <= 8) or (
            query.source is not Source.ARCHIVE and len(query.channel_ids) * self._max_messages <= VIEW_MESSAGES
        )

    async def _nearest_in_view(self, query: Query) -> Found:
        total, oldest, rows = await self._view(query, version=str(self._version(query.guild_id)))
        now = self._buckets.clock()
        similarities = _similarities(query.vector, [row[2][9] for row in rows])
        messages = [to_message(query.guild_id, row) for row in rows]
        hits = [
            Hit(message, similarity or 0.0, similarity, None, now - message.ts, Source.BUFFER)
            for message, similarity in zip(messages, similarities, strict=True)
        ]
        pending = tuple(message for message, row in zip(messages, rows, strict=True) if not row[2][9])
        hits.sort(key=lambda hit: -2.0 if hit.similarity is None else hit.similarity, reverse=True)
        return Found(tuple(hits), pending, total, float(oldest) if oldest else None)

    async def _view(self, query: Query, version: str) -> Any:
        # With vectors a view comes whole: its reader ranks.
        limit = self._max_messages if version else query.limit
        arguments = [
            *self._head(query.guild_id, query.source, version),
            *_narrowing(query, limit),
            len(query.author_ids),
            *query.author_ids,
            *query.channel_ids,
        ]
        return await self._buckets.run("view", self._buckets.bucket(query.guild_id), arguments)

    async def _find(self, query: Query, *, newest: bool) -> Any:
        vector = b"" if query.vector is None or newest else query.vector.astype(np.float16).tobytes()
        asked = [tokens(word) for word in query.words[:MAX_WORDS]]
        text = "|".join(token for word in asked for token in word)
        counted = [f"@text:({' '.join(word)})" if word else "@text:(a)" for word in asked] if query.counts else []
        arguments = [
            *self._head(query.guild_id, query.source, str(self._version(query.guild_id))),
            *_narrowing(query, query.limit),
            vector,
            f"@text:({text})" if text and not newest else "",
            int(newest),
            len(query.author_ids),
            *query.author_ids,
            len(counted),
            *counted,
            *query.channel_ids,
        ]
        return await self._buckets.run("find", self._buckets.bucket(query.guild_id), arguments)

    def _version(self, guild_id: int) -> int:
        return self._buckets.version(self._buckets.bucket(guild_id))

    def _head(self, guild_id: int, source: Source, version: str) -> tuple[Any, ...]:
        return guild_id, version, int(source is not Source.ARCHIVE)


def tokens(word: str) -> list[str]:
    """A word as RediSearch indexed it: split at its separators, everything it could read as syntax escaped."""
    return [
        re.sub(r"([^\w])", r"\\\1", part, flags=re.ASCII) if part.isascii() else part
        for part in _SEPARATORS.split(word)
        if part
    ]


def _narrowing(query: Query, limit: int) -> tuple[Any, ...]:
    start = -math.inf if query.window.start is None else query.window.start
    end = math.inf if query.window.end is None else query.window.end
    return limit, repr(start), repr(end), int(query.flagged)


def _similarities(vector: NDArray[np.float32] | None, blobs: Sequence[bytes | None]) -> list[float | None]:
    here = [blob for blob in blobs if blob]
    if vector is None or not here:
        return [None] * len(blobs)
    matrix = np.frombuffer(b"".join(here), dtype=np.float16).reshape(len(here), -1)
    scores = iter((matrix.astype(np.float32) @ vector).tolist())
    return [next(scores) if blob else None for blob in blobs]


def _found_hit(query: Query, row: list[Any], now: float) -> Hit:
    message = to_message(query.guild_id, row)
    similarity = 1.0 - float(row[3]) if row[3] is not None else None
    text_score = float(row[4]) if row[4] is not None else None
    score = similarity if similarity is not None else text_score or 0.0
    return Hit(message, score, similarity, text_score, now - message.ts, query.source)
