"""What the bot remembers of its answers: what its own messages were made of, and the traces that /why explains.

Discord announces an answer on the gateway, maybe before it confirms the request that sent it. So whoever stores the
message waits until the deliveries in that channel have learned the ids of what they sent.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import tzinfo

from channelmem.display import flatten, name, safe
from channelmem.media.media import Use
from channelmem.telling.explanation import explanation, searched
from channelmem.types import Answer, Hit, Origin, Question, Route, SourceReport, Timing

MAX_ANSWERS = 2000
WAIT_S = 30.0
"""Discord may hold back its confirmation for as long as discord.py retries. A message still unknown then is not
stored."""

Origins = Callable[[], tuple[Origin, ...]]
"""Asked late: a language model may look up more while it writes."""


class OwnAnswers:
    def __init__(self) -> None:
        self._origins: OrderedDict[int, Origins] = OrderedDict()
        self._delivering: dict[int, int] = {}
        """Deliveries in progress, by channel."""
        self._changed = asyncio.Event()

    @contextmanager
    def delivering(self, channel_id: int) -> Iterator[None]:
        self._delivering[channel_id] = self._delivering.get(channel_id, 0) + 1
        try:
            yield
        finally:
            self._delivering[channel_id] -= 1
            if not self._delivering[channel_id]:
                del self._delivering[channel_id]
            self._tell()

    def sent(self, message_id: int, origins: Origins) -> None:
        self._origins[message_id] = origins
        while len(self._origins) > MAX_ANSWERS:
            self._origins.popitem(last=False)
        self._tell()

    async def origins(self, channel_id: int, message_id: int) -> tuple[Origin, ...] | None:
        """Empty if the message is no answer; None if that can't be found out."""
        try:
            async with asyncio.timeout(WAIT_S):
                while message_id not in self._origins and channel_id in self._delivering:
                    await self._changed.wait()
        except TimeoutError:
            return None
        return self._origins[message_id]() if message_id in self._origins else ()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


# --- traces ---


MAX_TRACES = 1000
MOST_MEDIA = 10


@dataclass(frozen=True, slots=True)
class TraceHit:
    """A recalled message without its text."""

    guild_id: int
    channel_id: int
    id: int
    author_id: int
    author: str
    score: float
    similarity: float | None
    described: bool = False
    """Whether it was found with the help of what its pictures show or its recordings say."""


@dataclass(frozen=True, slots=True)
class Trace:
    request_id: str
    question: Question
    """Without its text and its files."""
    route: Route
    hits: tuple[TraceHit, ...]
    ms: Timing
    tried: tuple[SourceReport, ...]
    disliked_by: set[int] = field(default_factory=set)

    @property
    def people(self) -> frozenset[int]:
        """Everybody whom it names."""
        told = (*self.route.speakers, *self.question.mentions)
        hits = (hit.author_id for hit in self.hits)
        return frozenset((self.question.asker_id, *hits, *(person.id for person in told)))


def trace_of(request_id: str, question: Question, answer: Answer) -> Trace:
    hits = tuple(_without_text(hit) for hit in answer.hits)
    asked = replace(question, text="", attachments=())
    return Trace(request_id, asked, answer.route, hits, answer.ms, answer.tried)


def _without_text(hit: Hit) -> TraceHit:
    one = hit.message
    described = any(file.text for file in one.attachments)
    place = (one.guild_id, one.channel_id, one.id)
    return TraceHit(*place, one.author_id, one.author, hit.score, hit.similarity, described)


class Traces:
    """The newest traces, by asker and channel, and by the id of the bot's message."""

    def __init__(self) -> None:
        self._by_asker: OrderedDict[tuple[int, int], Trace] = OrderedDict()
        self._by_message: OrderedDict[int, Trace] = OrderedDict()
        self.drops = 0
        """How often somebody's traces were dropped. An answer in progress meanwhile may still name them."""

    def keep(self, trace: Trace) -> None:
        """Called before the answer is visible, so /why knows it as soon as the asker sees it."""
        self._by_asker[trace.question.asker_id, trace.question.channel_id] = trace
        _trim(self._by_asker)

    def link(self, message_id: int, trace: Trace) -> None:
        """Connects one of the answer's messages to the trace, for reactions to it."""
        self._by_message[message_id] = trace
        _trim(self._by_message)

    def discard(self, request_id: str) -> None:
        """Nobody saw this answer, so there is nothing to explain."""
        for asked in [each for each, trace in self._by_asker.items() if trace.request_id == request_id]:
            del self._by_asker[asked]

    def drop_person(self, person_id: int) -> None:
        self.drops += 1
        for message_id in [each for each, trace in self._by_message.items() if person_id in trace.people]:
            del self._by_message[message_id]
        for asked in [each for each, trace in self._by_asker.items() if person_id in trace.people]:
            del self._by_asker[asked]

    def of_message(self, message_id: int) -> Trace | None:
        return self._by_message.get(message_id)

    def latest(self, asker_id: int, channel_id: int) -> Trace | None:
        return self._by_asker.get((asker_id, channel_id))


def _trim(table: OrderedDict[int, Trace] | OrderedDict[tuple[int, int], Trace]) -> None:
    while len(table) > MAX_TRACES:
        table.popitem(last=False)


def explain(trace: Trace, tz: tzinfo, media: Sequence[Use] = (), *, verbose: bool = False) -> str:
    """What /why shows. `media`: pictures and recordings that were looked at for the answer. `verbose`: with the weights
    behind the route."""
    ms = trace.ms
    lines = [
        f"**Understood** {explanation(trace.question, trace.route, tz)}",
        *(_clues(trace.route) if verbose else ()),
        "**Tried** " + ("; ".join(searched(trace.question, looked, tz) for looked in trace.tried) or "nothing"),
        *(f"{n}. {_describe(hit)}" for n, hit in enumerate(trace.hits, 1)),
        *(f"**{use.kind.value.capitalize()}** {_looked_at(use)}" for use in media[:MOST_MEDIA]),
        f"**Time** {ms.total:.1f} ms (route {ms.route:.1f}, embed {ms.embed:.1f}, search {ms.search:.1f})",
        f"**Request** `{trace.request_id}`",
    ]
    return "\n".join(lines)


def _clues(route: Route) -> Iterator[str]:
    speakers = ", ".join(name(person.name) for person in route.speakers) or "anyone"
    topic = _safe(route.topic) or "none"
    yield f"**Route** {route.kind.value}, {route.mode.value}; speaker: {speakers}; topic: {topic}"
    yield "**Clues** " + ("; ".join(map(_safe, route.why)) or "none")


def _describe(hit: TraceHit) -> str:
    similarity = "" if hit.similarity is None else f", similarity {hit.similarity:.2f}"
    described = ", by what is attached" if hit.described else ""
    score = f"score {hit.score:.2f}{similarity}{described}"
    return f"{name(hit.author)}, {score} {_link(hit.guild_id, hit.channel_id, hit.id)}"


def _looked_at(use: Use) -> str:
    return f"by {name(use.author)}: {_safe(use.how)} {_link(use.guild_id, use.channel_id, use.message_id)}"


def _safe(text: str) -> str:
    return safe(flatten(text))


def _link(guild_id: int, channel_id: int, message_id: int) -> str:
    return f"[↗](https://discord.com/channels/{guild_id}/{channel_id}/{message_id})"
