"""What a language model is given, and search, in JSON."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from channelmem.types import ContextRequest, Mode, Origin
from channelmem.wire.answers import AnswerShown, HitShown, ReportShown
from channelmem.wire.messages import MAX_BATCH, MessageShown, OriginShown
from channelmem.wire.questions import MAX_QUESTION, AskBody
from channelmem.wire.scalars import MAX_LIST, Body, Id, Moment, Name, Shown, SourceId, Span


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


class SourceBody(Body):
    """A message or a summary that a language model was given, as it was then."""

    channel_id: Id
    id: SourceId
    revision: Moment = 0.0

    def value(self) -> Origin:
        return Origin(self.channel_id, self.id, self.revision)


class SourceShown(Shown):
    channel_id: Id
    id: SourceId = Field(description="Of a message; a summary has a negative number.")
    revision: float = 0.0

    def value(self) -> Origin:
        return Origin(self.channel_id, self.id, self.revision)


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
