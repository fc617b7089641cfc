"""What lay behind the latest answers, for /why and thumbs down. In: an Answer. Out: a Trace without quotes.

Of messages only ids, authors, scores and times are kept: a deleted one must not live on in here. Of the question its
route is kept, topic included. Who opts out or wants to be forgotten takes every trace of themselves along.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from channelmem.types import Answer, Hit, Looked, Question, Route, Timing

KEEP = 1000


@dataclass(frozen=True, slots=True)
class Found:
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
    found: tuple[Found, ...]
    ms: Timing
    tried: tuple[Looked, ...]
    disliked_by: set[int] = field(default_factory=set)

    def names(self, person_id: int) -> bool:
        people = {self.asker_id, *(hit.author_id for hit in self.found), *(each.id for each in self.route.speakers)}
        return person_id in people


def trace_of(request_id: str, question: Question, answer: Answer) -> Trace:
    found = tuple(_found_of(hit) for hit in answer.hits)
    return Trace(request_id, question.asker_id, question.channel_id, answer.route, found, answer.ms, answer.tried)


def _found_of(hit: Hit) -> Found:
    one = hit.message
    return Found(one.guild_id, one.channel_id, one.id, one.author_id, one.author, hit.score, hit.similarity)


class Traces:
    """The newest ones, by the id of the bot's message and by who asked where."""

    def __init__(self) -> None:
        self._by_message: OrderedDict[int, Trace] = OrderedDict()
        self._by_asker: OrderedDict[tuple[int, int], Trace] = OrderedDict()
        self.drops = 0
        """How often somebody took theirs along; an answer that was under way meanwhile may name them still."""

    def keep(self, message_ids: list[int], trace: Trace) -> None:
        for id_ in message_ids:
            self._by_message[id_] = trace
        self._by_asker[trace.asker_id, trace.channel_id] = trace
        while len(self._by_message) > KEEP:
            self._by_message.popitem(last=False)
        while len(self._by_asker) > KEEP:
            self._by_asker.popitem(last=False)

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


def explain(trace: Trace, jump_url: str = "https://discord.com/channels") -> str:
    """What /why shows."""
    route, ms = trace.route, trace.ms
    speakers = ", ".join(person.name for person in route.speakers) or "anybody"
    lines = [
        f"**Route** {route.kind.value}, {route.mode.value}; speaker: {speakers}; topic: {route.topic or 'none'}",
        "**Clues** " + ("; ".join(route.why) or "none"),
        "**Tried** " + ("; ".join(_looked(looked) for looked in trace.tried) or "nothing"),
        *(f"{n}. {_found(hit, jump_url)}" for n, hit in enumerate(trace.found, 1)),
        f"**Time** {ms.total:.1f} ms (route {ms.route:.1f}, embed {ms.embed:.1f}, search {ms.search:.1f})",
        f"**Request** `{trace.request_id}`",
    ]
    return "\n".join(lines)


def _looked(looked: Looked) -> str:
    return f"{looked.source.value}: {looked.problem or f'{looked.count} messages'}"


def _found(hit: Found, base: str) -> str:
    near = "" if hit.similarity is None else f", similarity {hit.similarity:.2f}"
    url = f"{base}/{hit.guild_id}/{hit.channel_id}/{hit.id}"
    return f"{hit.author}, score {hit.score:.2f}{near} [↗]({url})"
