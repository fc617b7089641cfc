"""Traces: what the latest answers were based on, for /why and thumbs down. In: an Answer. Out: a Trace without quotes.

A trace keeps ids, authors, scores and times of messages, never their text: a deleted message must not survive here.
Of the question it keeps the route, topic included. People who opt out or ask to be forgotten lose every trace that
names them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from channelmem.attached import Use
from channelmem.telling.quote import flatten, name, safe
from channelmem.types import Answer, Hit, Question, Route, SourceReport, Timing

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
    asker_id: int
    guild_id: int
    channel_id: int
    question_id: int
    route: Route
    hits: tuple[TraceHit, ...]
    ms: Timing
    tried: tuple[SourceReport, ...]
    disliked_by: set[int] = field(default_factory=set)

    @property
    def people(self) -> frozenset[int]:
        """Everybody whom it names."""
        speakers = (each.id for each in self.route.speakers)
        return frozenset((self.asker_id, *(hit.author_id for hit in self.hits), *speakers))


def trace_of(request_id: str, question: Question, answer: Answer) -> Trace:
    hits = tuple(_without_text(hit) for hit in answer.hits)
    place = (question.guild_id, question.channel_id, question.id)
    return Trace(request_id, question.asker_id, *place, answer.route, hits, answer.ms, answer.tried)


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


def explain(trace: Trace, media: Sequence[Use] = ()) -> str:
    """What /why shows. `media`: pictures and recordings that were looked at for the answer."""
    route, ms = trace.route, trace.ms
    speakers = ", ".join(name(person.name) for person in route.speakers) or "anyone"
    lines = [
        f"**Route** {route.kind.value}, {route.mode.value}; speaker: {speakers}; topic: {_safe(route.topic) or 'none'}",
        "**Clues** " + ("; ".join(map(_safe, route.why)) or "none"),
        "**Tried** " + ("; ".join(_tried(looked) for looked in trace.tried) or "nothing"),
        *(f"{n}. {_describe(hit)}" for n, hit in enumerate(trace.hits, 1)),
        *(f"**{use.kind.value.capitalize()}** {_looked_at(use)}" for use in media[:MOST_MEDIA]),
        f"**Time** {ms.total:.1f} ms (route {ms.route:.1f}, embed {ms.embed:.1f}, search {ms.search:.1f})",
        f"**Request** `{trace.request_id}`",
    ]
    return "\n".join(lines)


def _tried(looked: SourceReport) -> str:
    return f"{looked.source.value}: {looked.problem or f'{looked.count} messages'}"


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
