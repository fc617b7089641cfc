"""Summaries in JSON. In: a channel's summaries, or a past to be summarised. Out: the same for the other side."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from channelmem.summarising.past import Breakdown
from channelmem.summarising.pyramid import Line, Shared, Summary
from channelmem.wire.answers import PersonShown
from channelmem.wire.messages import MessageBody, OriginShown
from channelmem.wire.scalars import Body, Flag, Id, Shown

MAX_PAST = 5_000


class LineShown(Shown):
    """A sentence that a summary keeps."""

    message_id: Id
    author_id: Id
    author: str
    ts: float
    text: str
    weight: float = 1.0

    def value(self) -> Line:
        return Line(self.message_id, self.author_id, self.author, self.ts, self.text, self.weight)


class SharedShown(Shown):
    """What was attached to the messages."""

    images: int = 0
    voice_messages: int = 0
    files: int = 0

    def value(self) -> Shared:
        return Shared(self.images, self.voice_messages, self.files)


class SummaryShown(Shown):
    """A stretch of a channel in few words. Level 1 is a window; each higher level combines two neighbours."""

    id: str
    level: int
    start: float
    end: float
    text: str
    message_count: int
    authors: tuple[PersonShown, ...]
    topics: tuple[str, ...]
    model: str = Field(description="Who wrote it.")
    created: float
    origins: tuple[OriginShown, ...] = Field((), description="Level 1: the messages of its window.")
    parts: tuple[str, ...] = Field((), description="Higher levels: the ids of the two summaries it came from.")
    lines: tuple[LineShown, ...] = Field((), description="What an extractive summary keeps.")
    shared: SharedShown = SharedShown()

    def value(self) -> Summary:
        return Summary(
            self.level,
            self.start,
            self.end,
            self.text,
            self.message_count,
            tuple(one.value() for one in self.authors),
            self.topics,
            self.model,
            self.created,
            tuple(one.value() for one in self.origins),
            self.parts,
            tuple(one.value() for one in self.lines),
            self.shared.value(),
        )


class SummariesShown(Shown):
    """On all levels, oldest first."""

    summaries: tuple[SummaryShown, ...]


class SummariesMade(Shown):
    made: int


class AbsorbBody(Body):
    """Messages of the channel, oldest first, that are too old to be stored: they are summarised, not stored."""

    messages: Annotated[tuple[MessageBody, ...], Field(max_length=MAX_PAST)]
    more: Flag = Field(False, description="Whether others follow: the last window may be incomplete then.")


class Absorbed(Shown):
    left: int = Field(description="How many of the last messages belong in front of the next ones.")


class BreakdownShown(Shown):
    """What a language model would be given of a channel's past, in numbers."""

    summaries: tuple[SummaryShown, ...] = ()
    raw: int = Field(0, description="Recent messages shown as they were written.")
    chars: int = 0
    limit: int = 0
    dropped: tuple[SummaryShown, ...] = Field((), description="Had no room.")
    dropped_raw: int = 0

    def value(self) -> Breakdown:
        return Breakdown(
            tuple(one.value() for one in self.summaries),
            self.raw,
            self.chars,
            self.limit,
            tuple(one.value() for one in self.dropped),
            self.dropped_raw,
        )
