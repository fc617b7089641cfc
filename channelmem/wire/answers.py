"""Questions as callers send them, perhaps with the channel's own history; answers, what a language model is given of
the channel, search, and summaries."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from channelmem.summaries.pyramid import Shared, Summary, SummaryLine
from channelmem.summaries.reader import Breakdown
from channelmem.types import (
    Answer,
    Aside,
    Borrowed,
    ContextRequest,
    Evidence,
    Hit,
    Kind,
    Mode,
    Person,
    Question,
    RelatedChannel,
    Route,
    Source,
    SourceReport,
    That,
    Thread,
    Timing,
    Unread,
    Unsearched,
    Wants,
    Window,
)
from channelmem.wire.messages import (
    MAX_BATCH,
    MAX_LIST,
    AttachmentBody,
    Body,
    Flag,
    Id,
    MessageBody,
    MessageShown,
    Mirror,
    Moment,
    Name,
    OriginBody,
    OriginShown,
    PersonBody,
    Shown,
    SourceId,
    Span,
)

MAX_HISTORY = 200
MAX_QUESTION = 4_000
MAX_CHANNELS = 1_000
BOT = PersonBody(id=0, name="bot")


class RelatedBody(Body, Mirror[RelatedChannel]):
    id: Id
    name: Name = ""


class QuestionBody(Body, Mirror[Question]):
    """What somebody asks. Who may read which channel is for the caller to know: name only channels they may read."""

    guild_id: Id
    channel_id: Id
    text: Annotated[str, Field(strict=True, max_length=MAX_QUESTION)] = Field(
        examples=["what did Ann say about lunch?"]
    )
    id: Id = Field(0, description="The message that holds the question, if it is one: it never answers itself.")
    asker_id: Id = Field(0, description='Who asks: "what did I say?" depends on it.')
    asker: Name = ""
    ts: Moment = Field(default_factory=time.time, description="When it was asked, in epoch seconds; now if absent.")
    reply_to: Id | None = None
    mentions: Annotated[tuple[PersonBody, ...], Field(max_length=MAX_LIST)] = ()
    bot: PersonBody = BOT
    is_dm: Flag = False
    joined_ts: Moment | None = None
    readable_channel_ids: Annotated[tuple[Id, ...], Field(max_length=MAX_CHANNELS)] = Field(
        (), description="Other channels of the guild that the question may search."
    )
    kind: Kind | None = Field(None, description="Forces which memory it is about.")
    character: Name = ""
    thread_of: Id = 0
    attachments: Annotated[tuple[AttachmentBody, ...], Field(max_length=MAX_LIST)] = Field(
        (), description="Files that came with the question: pictures and recordings are read."
    )
    age_restricted: Flag = False
    related_channels: Annotated[tuple[RelatedBody, ...], Field(max_length=MAX_LIST)] = Field(
        (), description="Those of the channel's Related Channels that everybody who reads the answer may read."
    )

    def value(self) -> Question:
        asked = super().value()
        # What one question was shown must not be taken for another's.
        return asked if asked.id else replace(asked, id=secrets.randbits(62))


class AskBody(QuestionBody):
    """A question; `history` and what follows come after an answer that says `needs_history` or `needs_members`."""

    history: Annotated[tuple[MessageBody, ...], Field(max_length=MAX_HISTORY)] | None = Field(
        None, description="The channel's newest messages, from the platform. Used for this answer and never stored."
    )
    history_problem: Annotated[str, Field(strict=True, max_length=300)] = Field(
        "", description="Why the platform gave no history, as a sentence for the person who asks."
    )
    members: Annotated[tuple[PersonBody, ...], Field(max_length=MAX_LIST)] | None = Field(
        None, description="People of the guild whose names begin as `needs_members` said."
    )
    referenced: Annotated[tuple[MessageBody, ...], Field(max_length=MAX_LIST)] | None = Field(
        None, description="Messages that `needs_messages` named, as far as they exist. Never stored."
    )
    link: Annotated[str, Field(strict=True, max_length=300)] = Field(
        "",
        description="Template of a link to a message, with {guild_id}, {channel_id} and {id}; quotes then have one.",
        examples=["https://discord.com/channels/{guild_id}/{channel_id}/{id}"],
    )


# --- answers ---


class PersonShown(Shown, Mirror[Person]):
    id: Id
    name: str
    aliases: tuple[str, ...] = ()


class ThatShown(Shown, Mirror[That]):
    """The one message that a question asks about, by a reply or a link; its id is 0 where the asker can't read it."""

    channel_id: Id
    id: Id
    linked: bool = False
    answers: bool = False


class RouteShown(Shown, Mirror[Route]):
    """What the question was taken to ask for; `why` lists the reasons."""

    kind: Kind
    mode: Mode = Mode.TOPIC
    window: Window = Window()
    speakers: tuple[PersonShown, ...] = ()
    topic: str = ""
    why: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    to_bot: bool = False
    wants: Wants = Wants.WORDS
    saying: bool = False
    binds: bool = True
    p: float = Field(1.0, description="How likely it is about this conversation, by its wording.")
    forced: bool = False
    if_about: Kind = Kind.CHANNEL
    time_words: str = ""
    dropped: str = ""
    literal: tuple[str, ...] = ()
    of_questions: bool = False
    named: tuple[PersonShown, ...] = ()
    stranger: str = Field("", description="Whose words it asks for, if nobody known has that name.")
    anchors: tuple[Id, ...] = ()
    follows: bool = False
    missed: bool = False
    that: ThatShown | None = None
    aside: Aside | None = Field(None, description="Why the question was not read any further.")
    borrowed: tuple[Borrowed, ...] = Field((), description="What it takes from the question before, or its reply.")


class HitShown(Shown, Mirror[Hit]):
    """A message that was found: `score` ranks it, the other numbers say why."""

    message: MessageShown
    score: float
    similarity: float | None = Field(None, description="Cosine of the topic and the message.")
    text_score: float | None = None
    age_s: float = 0.0
    source: Source = Source.BUFFER
    around: tuple[MessageShown, ...] = ()
    answers: bool = Field(False, description="Whether the answer quotes it; the other hits come close.")


class ThreadShown(Shown, Mirror[Thread]):
    messages: tuple[MessageShown, ...]


class UnreadShown(Shown, Mirror[Unread]):
    """Pictures and voices among what was looked at that nobody has read."""

    pictures: int = 0
    voices: int = 0


class ReportShown(Shown, Mirror[SourceReport]):
    """What was looked at: how many messages from which source, back to when."""

    source: Source
    count: int = 0
    oldest_ts: float | None = None
    problem: str = ""
    unread: UnreadShown = UnreadShown()
    unsearched: Unsearched | None = Field(None, description="Why it was not searched, where that is no fault.")


class AnswerShown(Shown, Mirror[Answer]):
    text: str
    route: RouteShown
    hits: tuple[HitShown, ...] = ()
    threads: tuple[ThreadShown, ...] = Field((), description="For a recap: the window's messages.")
    ms: Timing = Field(Timing(), description="In milliseconds.")
    tried: tuple[ReportShown, ...] = ()
    found: bool = False
    sure: float = Field(0.0, description="How likely the hits answer the question.")
    evidence: Evidence | None = None
    pointed: tuple[MessageShown, ...] = Field((), description="Messages with media that the question points at, read.")
    summarised: tuple[OriginShown, ...] = Field((), description="Messages that a recap quotes from summaries.")


class AskAnswer(AnswerShown):
    needs_history: bool = Field(
        False, description="Whether the platform's own history could help: fetch it, and ask again with `history`."
    )
    needs_members: tuple[str, ...] = Field(
        (), description="How the names of people begin whom nobody here knows: look them up, and send `members`."
    )
    needs_messages: tuple[OriginShown, ...] = Field((), description="Fetch them, and ask again with `referenced`.")


# --- for a language model, and search ---


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


class SourceBody(OriginBody):
    """A message or a summary that a language model was given, as it was then."""

    id: SourceId


class SourceShown(OriginShown):
    id: SourceId = Field(description="Of a message; a summary has a negative number.")


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


class WindowBody(Body, Mirror[Window]):
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
