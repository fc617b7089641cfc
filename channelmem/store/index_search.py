"""What is asked of the search index: the nearest messages, those with certain words, or the newest of many channels.

Three round trips to one bucket: `scope.lua` says what may be looked at, a pipeline of FT.SEARCH finds candidates with
their fields, `shown.lua` says which of them may be shown and reads what lies beside the best. Only that last word
counts: whatever was removed or hidden while the index was searched stays out.

A search that takes too long is cut off by Redis, which then returns what it has, without a word. No search can be cut
off before its time is over, so a reply that came earlier is complete; any other is asked for again, more narrowly, and
says that it was cut short.

redisvl keeps the schema (index.py); the searches are written here by hand. Its HybridQuery is one FT.HYBRID, which
Redis Stack lacks. Its other queries are run by `AsyncSearchIndex`, which makes a document and a dictionary of each of
hundreds of rows, decoded, where `shown.lua` needs ids and authors as bytes and most rows are never shown.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from channelmem.durations import DAY_S, HOUR_S
from channelmem.errors import CommandRefusedError, SearchCutShortError
from channelmem.policy.policy import Limits
from channelmem.store.buckets import VERSION, Buckets
from channelmem.store.documents import StoredMessage, clean, from_row, pack_limits, to_stored, whole
from channelmem.store.keys import room
from channelmem.store.outbox import Withdrawn
from channelmem.types import Hit, Message, Source, Window

_STOP_WORDS = (
    "a is the an and are as at be but by for if in into it no not of on or such that their then there these they "
    "this to was will with"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
# What RediSearch splits text at; the underscore is a letter to it.
_SEPARATORS = re.compile(r"[\s,.<>{}\[\]\"':;!@#$%^&*()\-+=~|/\\?`\u0000-\u001f]+")


def tokens(word: str) -> list[str]:
    """A word as RediSearch indexed it: split at its separators, with everything escaped that it could read as syntax.

    Leaves out stop words: no index holds them, and a clause of nothing else would match every message.
    """
    parts = [part for part in _SEPARATORS.split(clean(word)) if part and part.lower() not in STOP_WORDS]
    return [re.sub(r"(\W)", r"\\\1", part, flags=re.ASCII) if part.isascii() else part for part in parts]


# --- query ---


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
    beside: int = 0
    """How many of the best hits of the index come with their neighbours."""
    radius: int = 0
    """How many positions on either side count as neighbours."""


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
    neighbours: tuple[Message, ...] = ()
    """What lies beside the best hits, if `beside` was requested."""
    cut_short: bool = False
    """Whether the search took too long and may have missed something: that nothing was found says nothing then."""


class Match(NamedTuple):
    """A message that a search of the index found, and why."""

    message: StoredMessage
    similarity: float | None
    text_score: float | None


@dataclass(frozen=True, slots=True)
class Matches:
    """The same for ranking, which compares hundreds of messages to show a few: none of them is a whole `Message` yet,
    and they are in no particular order."""

    found: list[Match] = field(default_factory=list)
    pending: list[StoredMessage] = field(default_factory=list)
    total: int = 0
    oldest_ts: float | None = None
    counts: tuple[int, ...] = ()
    neighbours: list[StoredMessage] = field(default_factory=list)
    cut_short: bool = False


# --- the searches ---


MAX_WORDS = 32
MOST = 1000
"""Candidates requested from the index at most, when leftovers take the first places."""
SMOOTH = 60
"""Of reciprocal rank fusion: how little the first places of a list count more than the next ones."""
MANY = 2_000
"""Messages: sorting more of them by time takes longer than a search for the latest ones alone."""
LATEST_S = (HOUR_S, DAY_S)
TIMED_OUT = "timeout limit was reached"
"""What a Redis says that is set to fail rather than to return what it has."""

_RETURNED = ("author", "text", "flag", "about")  # without the time, which the index would round
_UNFLAGGED = ("author", "text", "about")
"""The same where the query leaves out what has a flag."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SearchScope:
    """What a search may look at."""

    total: int
    oldest_ts: float | None
    filter: str
    hidden: str
    late: list[Any]


@dataclass(slots=True)
class FoundRow:
    """A message, as the searches found it."""

    channel: bytes
    id: bytes
    author: bytes
    text: bytes
    flag: bytes | None
    about: bytes
    distance: float | None = None
    text_score: float | None = None
    fused: float = 0.0
    ts: bytes | None = None
    """Exact; None until it is known that it may be shown."""

    @property
    def row(self) -> tuple[bytes, bytes, tuple[Any, ...]]:
        """As the reading scripts return one: its fields are those of index.FIELDS."""
        return self.channel, self.id, (self.author, self.text, self.ts, self.flag, self.about)


@dataclass(slots=True)
class Searched:
    """The candidates of one pass, and whether any of its lists has more of them."""

    candidates: list[FoundRow] = field(default_factory=list)
    full: list[list[FoundRow]] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    hidden: int = 0
    cut_short: bool = False


class IndexSearch:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        # All of a pipeline's searches together must end before the client stops waiting for their replies.
        self.limit_ms = max(1, int(buckets.settings.redis_timeout_s * 250))

    async def newest(self, query: Query) -> list[Message]:
        """Newest first."""
        withdrawn = self._buckets.undelivered.withdrawn()
        scope = await self._scope(query, late=False)
        if not scope.filter:
            return []
        plain = replace(query, vector=None, words=(), counts=False, beside=0)
        for narrowed in _latest_first(query, scope, self._buckets.clock()):
            searched, candidates, _ = await self._searched(plain, narrowed, newest=True)
            if searched.cut_short:
                raise SearchCutShortError("The search for the newest messages took too long.")
            messages = shown([candidate.row for candidate in candidates], withdrawn)
            if len(messages) >= query.limit:
                break
        return messages[: query.limit]

    async def nearest(self, query: Query) -> SearchResult:
        """By vector, by words, or both."""
        matches = await self.matches(query)
        now = self._buckets.clock()
        hits = [_hit(query, match, now) for match in matches.found]
        hits.sort(key=lambda hit: (-(hit.similarity or -2.0), -(hit.text_score or 0.0)))
        return SearchResult(
            tuple(hits),
            tuple(map(whole, matches.pending)),
            matches.total,
            matches.oldest_ts,
            matches.counts,
            tuple(map(whole, matches.neighbours)),
            matches.cut_short,
        )

    async def matches(self, query: Query) -> Matches:
        """The same, read only as far as ranking needs it."""
        result = await self._matches(query)
        if not result.cut_short:
            return result
        log.warning("A search took more than %d ms and was cut short; searching less", self.limit_ms)
        less = replace(query, channel_ids=query.channel_ids[:1], limit=max(1, query.limit // 4), counts=False)
        return replace(await self._matches(less), total=result.total, oldest_ts=result.oldest_ts, cut_short=True)

    async def _matches(self, query: Query) -> Matches:
        withdrawn = self._buckets.undelivered.withdrawn()
        scope = await self._scope(query, late=query.vector is not None)
        if not scope.filter:
            return Matches(oldest_ts=scope.oldest_ts)
        searched, candidates, near = await self._searched(query, scope)
        matches = map(_match, candidates)
        return Matches(
            [match for match in matches if not withdrawn.hides(match.message)],
            _visible(scope.late, withdrawn),
            max(0, scope.total - searched.hidden),
            scope.oldest_ts,
            _counts(query, searched.counts),
            _visible(near, withdrawn),
            searched.cut_short,
        )

    async def _scope(self, query: Query, *, late: bool) -> SearchScope:
        arguments = [
            *head(self._buckets, query.guild_id, query.source, query.limits),
            *(VERSION, *narrowing(query), int(late), len(query.author_ids), *query.author_ids, *rooms(query)),
        ]
        reply = await self._buckets.run_for(query.guild_id, "scope", arguments)
        total, oldest, where, hidden, rows, newest = reply
        self._buckets.changes.saw(self._buckets.bucket(query.guild_id), newest)
        return SearchScope(total, float(oldest) if oldest else None, where.decode(), hidden.decode(), rows)

    async def _searched(
        self, query: Query, scope: SearchScope, *, newest: bool = False
    ) -> tuple[Searched, list[FoundRow], list[Any]]:
        """What may be shown, and rows beside it. Asks for more while leftovers (removed, not yet unlinked) take
        places."""
        wanted = query.limit
        while True:
            searched = await self._search(query, scope, wanted, newest=newest)
            near = await self._show(query, searched.candidates)
            enough = all(len(_shown(candidates)) >= query.limit for candidates in searched.full)
            if enough or wanted >= MOST or searched.cut_short:
                return searched, _shown(searched.candidates), near
            wanted = min(MOST, wanted * 4)

    async def _search(self, query: Query, scope: SearchScope, wanted: int, *, newest: bool) -> Searched:
        bucket = await self._buckets.ready(self._buckets.bucket(query.guild_id))
        asked = [tokens(word) for word in query.words[:MAX_WORDS]]
        text = "|".join(token for word in asked for token in word)
        names = _RETURNED if query.flagged else _UNFLAGGED
        returned = ("RETURN", len(names), *names)
        lists: list[tuple[Any, ...]] = []
        if query.vector is not None:
            near = f"({scope.filter})=>[KNN {wanted} @{bucket.vector_field} $v AS d]"
            vector = ("PARAMS", 2, "v", query.vector.astype(np.float16).tobytes())
            lists.append((near, *vector, "RETURN", len(names) + 1, "d", *names, "LIMIT", 0, wanted))
        if text:
            scored = ("WITHSCORES", "SCORER", "BM25STD")
            lists.append((f"({scope.filter}) @text:({text})", *returned, *scored, "LIMIT", 0, wanted))
        if newest:
            lists.append((scope.filter, *returned, "SORTBY", "ts", "DESC", "LIMIT", 0, wanted))
        counted = [f"({scope.filter}) @text:({' '.join(word)})" for word in asked if word] if query.counts else []
        counts = [(one, "LIMIT", 0, 0) for one in (*counted, *filter(None, [scope.hidden]))]
        replies, cut_short = await self._replies(query, lists, counts)
        if replies is None:
            return Searched(cut_short=True)
        numbers = [reply[0] for reply in replies[len(lists) :]]
        searched = Searched(counts=numbers[: len(counted)], hidden=sum(numbers[len(counted) :]), cut_short=cut_short)
        steps = [3 if "WITHSCORES" in one else 2 for one in lists]  # values per row
        skip = len(bucket.keys.one("msg"))
        parsed = [_parsed(reply, skip, step) for reply, step in zip(replies, steps, strict=False)]
        known = _fused(parsed)
        searched.candidates = sorted(known.values(), key=lambda candidate: -candidate.fused)
        for candidates, reply, step in zip(parsed, replies, steps, strict=False):
            if len(reply) > wanted * step:
                searched.full.append([known[candidate.channel, candidate.id] for candidate in candidates])
        return searched

    async def _replies(
        self, query: Query, lists: Sequence[tuple[Any, ...]], counts: Sequence[tuple[Any, ...]]
    ) -> tuple[list[Any] | None, bool]:
        """The replies, and whether one of the lists may have been cut off. A count may be: it only weighs words."""
        number = self._buckets.bucket(query.guild_id)
        name, each_ms = self._buckets.keys(number).one("idx"), max(1, self.limit_ms // max(1, len(counts)))
        commands = [("FT.SEARCH", name, *one, "TIMEOUT", self.limit_ms, "DIALECT", 2) for one in lists]
        commands += [("FT.SEARCH", name, *one, "TIMEOUT", each_ms, "DIALECT", 2) for one in counts]
        started = time.monotonic()
        try:
            replies = await self._buckets.search(number, commands)
        except CommandRefusedError as error:
            if TIMED_OUT not in str(error).lower():
                raise
            return None, True
        return replies, (time.monotonic() - started) * 1000 >= self.limit_ms

    async def _show(self, query: Query, candidates: Sequence[FoundRow]) -> list[Any]:
        """Notes which of them may be shown; returns rows beside the best."""
        if not candidates:
            return []
        channels = dict.fromkeys(candidate.channel for candidate in candidates)
        number = {channel: at for at, channel in enumerate(channels, start=1)}
        names = b" ".join([b"%d:%b:%b" % (number[one.channel], one.id, one.author) for one in candidates])
        visible = head(self._buckets, query.guild_id, query.source, query.limits)
        arguments = [*visible, query.radius, query.beside, names, *number]
        times, near = await self._buckets.run_for(query.guild_id, "shown", arguments)
        for candidate, ts in zip(candidates, times, strict=True):
            candidate.ts = ts
        rows: list[Any] = near
        return rows


def head(buckets: Buckets, guild_id: int, source: Source, limits: Limits | None) -> tuple[Any, ...]:
    """The arguments that lib/visible.lua expects."""
    packed = pack_limits(limits or buckets.policy.limits)
    return repr(buckets.clock()), packed, guild_id, int(source is not Source.ARCHIVE)


def narrowing(query: Query) -> tuple[Any, ...]:
    start = -math.inf if query.window.start is None else query.window.start
    end = math.inf if query.window.end is None else query.window.end
    return query.limit, repr(start), repr(end), int(query.flagged)


def rooms(query: Query) -> list[str]:
    return [room(query.guild_id, channel) for channel in query.channel_ids]


def shown(rows: Iterable[Any], withdrawn: Withdrawn) -> list[Message]:
    """Rows of which Redis has left out what it knows to be hidden."""
    return [message for message in map(from_row, rows) if not withdrawn.hides(message)]


def _latest_first(query: Query, scope: SearchScope, now: float) -> Iterator[SearchScope]:
    """A large scope begins with its last hour, then its last day: sorting reads the time of every message in it."""
    if scope.total > MANY:
        end = now if query.window.end is None else min(now, query.window.end)
        for span_s in LATEST_S:
            yield replace(scope, filter=f"({scope.filter}) @ts:[{end - span_s!r} +inf]")
    yield scope


def _visible(rows: Iterable[Any], withdrawn: Withdrawn) -> list[StoredMessage]:
    """The same for ranking."""
    return [message for message in map(to_stored, rows) if not withdrawn.hides(message)]


def _shown(candidates: Iterable[FoundRow]) -> list[FoundRow]:
    return [candidate for candidate in candidates if candidate.ts is not None]


def _parsed(reply: list[Any], skip: int, step: int) -> list[FoundRow]:
    """The candidates of a reply, best first. A row is a key, a score if there are three values, and fields."""
    candidates: list[FoundRow] = []
    scores: Iterable[bytes | None] = reply[2::step] if step == 3 else repeat(None)
    for key, score, fields in zip(reply[1::step], scores, reply[step::step], strict=False):
        if not fields or fields[-2] != b"about":
            continue  # it expired during the search
        *distance, author, text, flag, about = _values(fields)
        channel, _, id_ = key[skip:].partition(b":")
        near, best = (float(distance[0]) if distance else None), (None if score is None else float(score))
        candidates.append(FoundRow(channel, id_, author, text, flag, about, near, best))
    if candidates and candidates[0].distance is not None:
        candidates.sort(key=lambda candidate: candidate.distance or 0.0)
    return candidates


def _values(fields: list[Any]) -> list[Any]:
    """Distance, if a vector was compared, author, text, flag and about; only the flag may be missing."""
    values: list[Any] = fields[1::2]
    if b"flag" not in fields[-4:-3]:
        values.insert(-1, None)
    return values


def _fused(lists: Sequence[Sequence[FoundRow]]) -> dict[tuple[bytes, bytes], FoundRow]:
    """Each candidate once, scored by reciprocal rank fusion of the lists."""
    known: dict[tuple[bytes, bytes], FoundRow] = {}
    for candidates in lists:
        for rank, candidate in enumerate(candidates):
            kept = known.setdefault((candidate.channel, candidate.id), candidate)
            kept.fused += 1.0 / (SMOOTH + rank)
            if kept.text_score is None:
                kept.text_score = candidate.text_score
    return known


def _counts(query: Query, counted: Sequence[int]) -> tuple[int, ...]:
    """Per word of the query; words without a searchable part were not queried and count 0."""
    answers = iter(counted)
    words = query.words[:MAX_WORDS] if query.counts else ()
    return tuple(next(answers, 0) if tokens(word) else 0 for word in words)


def _match(candidate: FoundRow) -> Match:
    similarity = None if candidate.distance is None else 1.0 - candidate.distance
    return Match(to_stored(candidate.row), similarity, candidate.text_score)


def _hit(query: Query, match: Match, now: float) -> Hit:
    stored, similarity, text_score = match
    score = similarity if similarity is not None else text_score or 0.0
    return Hit(whole(stored), score, similarity, text_score, now - stored.ts, query.source)
