"""Traces: what the latest answers were based on, for /why and thumbs down. In: an Answer. Out: a Trace without quotes.

A trace keeps ids, authors, scores and times of messages, never their text: a deleted message must not survive here.
Of the question it keeps the route, topic included. People who opt out or ask to be forgotten lose every trace that
names them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from channelmem.types import Answer, Hit, Question, Route, SourceReport, Timing

MAX_TRACES = 1000
MESSAGE_URL = "https://discord.com/channels/{hit.guild_id}/{hit.channel_id}/{hit.id}"


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


@dataclass(frozen=True, slots=True)
class Trace:
    request_id: str
    asker_id: int
    channel_id: int
    route: Route
    hits: tuple[TraceHit, ...]
    ms: Timing
    tried: tuple[SourceReport, ...]
    disliked_by: set[int] = field(default_factory=set)

    def names(self, person_id: int) -> bool:
        people = {self.asker_id, *(hit.author_id for hit in self.hits), *(each.id for each in self.route.speakers)}
        return person_id in people


def trace_of(request_id: str, question: Question, answer: Answer) -> Trace:
    hits = tuple(_without_text(hit) for hit in answer.hits)
    return Trace(request_id, question.asker_id, question.channel_id, answer.route, hits, answer.ms, answer.tried)


def _without_text(hit: Hit) -> TraceHit:
    one = hit.message
    return TraceHit(one.guild_id, one.channel_id, one.id, one.author_id, one.author, hit.score, hit.similarity)


class Traces:
    """The newest traces, by asker and channel, and by the id of the bot's message."""

    def __init__(self) -> None:
        self._by_asker: OrderedDict[tuple[int, int], Trace] = OrderedDict()
        self._by_message: OrderedDict[int, Trace] = OrderedDict()
        self.drops = 0
        """How often somebody's traces were dropped. An answer in progress meanwhile may still name them."""

    def keep(self, trace: Trace) -> None:
        """Called before the answer is visible, so /why knows it as soon as the asker sees it."""
        self._by_asker[trace.asker_id, trace.channel_id] = trace
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
        for message_id in [each for each, trace in self._by_message.items() if trace.names(person_id)]:
            del self._by_message[message_id]
        for asked in [each for each, trace in self._by_asker.items() if trace.names(person_id)]:
            del self._by_asker[asked]

    def of_message(self, message_id: int) -> Trace | None:
        return self._by_message.get(message_id)

    def latest(self, asker_id: int, channel_id: int) -> Trace | None:
        return self._by_asker.get((asker_id, channel_id))


def _trim(table: OrderedDict[int, Trace] | OrderedDict[tuple[int, int], Trace]) -> None:
    while len(table) > MAX_TRACES:
        table.popitem(last=False)


def explain(trace: Trace) -> str:
    """What /why shows."""
    route, ms = trace.route, trace.ms
    speakers = ", ".join(person.name for person in route.speakers) or "anyone"
    lines = [
        f"**Route** {route.kind.value}, {route.mode.value}; speaker: {speakers}; topic: {route.topic or 'none'}",
        "**Clues** " + ("; ".join(route.why) or "none"),
        "**Tried** " + ("; ".join(_tried(looked) for looked in trace.tried) or "nothing"),
        *(f"{n}. {_describe(hit)}" for n, hit in enumerate(trace.hits, 1)),
        f"**Time** {ms.total:.1f} ms (route {ms.route:.1f}, embed {ms.embed:.1f}, search {ms.search:.1f})",
        f"**Request** `{trace.request_id}`",
    ]
    return "\n".join(lines)


def _tried(looked: SourceReport) -> str:
    return f"{looked.source.value}: {looked.problem or f'{looked.count} messages'}"


def _describe(hit: TraceHit) -> str:
    similarity = "" if hit.similarity is None else f", similarity {hit.similarity:.2f}"
    return f"{hit.author}, score {hit.score:.2f}{similarity} [↗]({MESSAGE_URL.format(hit=hit)})"
