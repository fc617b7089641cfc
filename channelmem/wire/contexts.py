"""What a language model is given, and search, in JSON."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from channelmem.summaries.pyramid import Shared, Summary, SummaryLine
from channelmem.summaries.reader import Breakdown
from channelmem.types import ContextRequest, Mode, Origin
from channelmem.wire.answers import MAX_QUESTION, AnswerShown, AskBody, HitShown, PersonShown, ReportShown
from channelmem.wire.messages import MAX_BATCH, MessageBody, MessageShown, OriginShown
from channelmem.wire.scalars import MAX_LIST, Body, Flag, Id, Mirror, Moment, Name, Shown, SourceId, Span


class ContextBody(AskBody):
    answer: AnswerShown | None = Field(None, description="What POST /ask answered; asked now if absent.")


class LookBody(AskBody):
    """A call of the tool `get_channel_context` by a language model."""

    query: Annotated[str, Field(strict=True, max_length=500)] = Field("", description="A topic; empty: the latest.")
    speaker: Annotated[str, Field(strict=True, max_length=100)] = ""
    since_s: Span | None = Field(None, description="How far back, in seconds before `ts`.")
    limit: Annotated[int, Field(strict=True, ge=1, le=100)] = 15

    def request(self) -> ContextRequest:
        return ContextRequest(self.value(), self.query, self.speaker, self.since_s, self.limit)


class SourceBody(Body, Mirror[Origin]):
    """A message or a summary that a language model was given, as it was then."""

    channel_id: Id
    id: SourceId
    revision: Moment = 0.0


class SourceShown(Shown, Mirror[Origin]):
    channel_id: Id
    id: SourceId = Field(description="Of a message; a summary has a negative number.")
    revision: float = 0.0


class ChatMessage(Shown):
    role: str
    content: str


class ContextShown(Shown):
    """The block for a language model, and what it was made of."""

    text: str
    messages: tuple[ChatMessage, ...] = Field((), description="The same, ready for a chat completion.")
    shown: tuple[OriginShown, ...] = Field((), description="For `derived_from` of the answer that is made of it.")
    given: tuple[SourceShown, ...] = Field((), description="All that is in it; POST /standing tells what still stands.")
    needs_history: bool = False
    needs_members: tuple[str, ...] = ()
    needs_messages: tuple[OriginShown, ...] = Field((), description="Fetch them, and ask again with `referenced`.")


class StandingBody(Body):
    guild_id: Id
    channel_id: Id
    origins: Annotated[tuple[SourceBody, ...], Field(max_length=MAX_BATCH)]
    character: Name = ""
    thread_of: Id = 0


class StandingShown(Shown):
    origins: tuple[SourceShown, ...]


class WindowBody(Body):
    """A span of time in epoch seconds, both ends included; absent leaves an end open."""

    start: Moment | None = None
    end: Moment | None = None


class SearchBody(Body):
    """At least one channel: who may read which is for the caller to know."""

    guild_id: Id
    channels: Annotated[tuple[Id, ...], Field(min_length=1, max_length=MAX_LIST)]
    query: Annotated[str, Field(strict=True, max_length=MAX_QUESTION)] = Field("", examples=["lunch"])
    speakers: Annotated[tuple[Id, ...], Field(max_length=MAX_LIST)] = Field((), description="Ids of authors.")
    window: WindowBody = WindowBody()
    mode: Mode | None = Field(None, description="By topic if there is a query, else the latest.")
    limit: Annotated[int, Field(strict=True, ge=1, le=100)] = 10


class SearchShown(Shown):
    hits: tuple[HitShown, ...]
    messages: tuple[MessageShown, ...] = Field((), description="For a recap: the window's messages, oldest first.")
    tried: tuple[ReportShown, ...]
    embed_ms: float
    search_ms: float


# --- summaries ---


MAX_ABSORBED = 5_000


class LineShown(Shown, Mirror[SummaryLine]):
    """A sentence that a summary keeps."""

    message_id: Id
    author_id: Id
    author: str
    ts: float
    text: str
    weight: float = 1.0


class SummaryShown(Shown, Mirror[Summary]):
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
    shared: Shared = Shared()


class SummariesShown(Shown):
    """On all levels, oldest first."""

    summaries: tuple[SummaryShown, ...]


class SummariesMade(Shown):
    made: int


class AbsorbBody(Body):
    """Messages of the channel, oldest first, that are too old to be stored: they are summarised, not stored."""

    messages: Annotated[tuple[MessageBody, ...], Field(max_length=MAX_ABSORBED)]
    more: Flag = Field(False, description="Whether others follow: the last window may be incomplete then.")


class Absorbed(Shown):
    left: int = Field(description="How many of the last messages belong in front of the next ones.")


class BreakdownShown(Shown, Mirror[Breakdown]):
    """What a language model would be given of a channel's past, in numbers."""

    summaries: tuple[SummaryShown, ...] = ()
    raw: int = Field(0, description="Recent messages shown as they were written.")
    chars: int = 0
    limit: int = 0
    dropped: tuple[SummaryShown, ...] = Field((), description="Had no room.")
    dropped_raw: int = 0
