"""Questions in JSON. In: a question as a caller sends it, perhaps with its channel's own history. Out: a `Question`."""

from __future__ import annotations

import secrets
import time
from typing import Annotated

from pydantic import Field

from channelmem.types import (
    Answer,
    Aside,
    Borrowed,
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
    Thread,
    Timing,
    Unread,
    Unsearched,
    Wants,
    Window,
)
from channelmem.wire.messages import AttachmentBody, MessageBody, MessageShown, OriginShown, PersonBody
from channelmem.wire.scalars import MAX_LIST, Body, Flag, Id, Moment, Name, Shown

MAX_HISTORY = 200
MAX_QUESTION = 4_000
MAX_CHANNELS = 1_000
BOT = PersonBody(id=0, name="bot")


class RelatedBody(Body):
    id: Id
    name: Name = ""

    def value(self) -> RelatedChannel:
        return RelatedChannel(self.id, self.name)


class QuestionBody(Body):
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
        return Question(
            guild_id=self.guild_id,
            channel_id=self.channel_id,
            id=self.id or secrets.randbits(62),  # what one question was shown must not be taken for another's
            asker_id=self.asker_id,
            asker=self.asker,
            text=self.text,
            ts=self.ts,
            reply_to=self.reply_to,
            mentions=tuple(one.value() for one in self.mentions),
            bot=self.bot.value(),
            is_dm=self.is_dm,
            joined_ts=self.joined_ts,
            readable_channel_ids=self.readable_channel_ids,
            kind=self.kind,
            character=self.character,
            thread_of=self.thread_of,
            attachments=tuple(one.value() for one in self.attachments),
            age_restricted=self.age_restricted,
            related_channels=tuple(one.value() for one in self.related_channels),
        )


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


def person_body(person: Person) -> PersonBody:
    return PersonBody(id=person.id, name=person.name, aliases=person.aliases)


# --- answers ---


class PersonShown(Shown):
    id: Id
    name: str
    aliases: tuple[str, ...] = ()

    def value(self) -> Person:
        return Person(self.id, self.name, self.aliases)


class WindowShown(Shown):
    """A span of time in epoch seconds; null leaves an end open."""

    start: float | None = None
    end: float | None = None

    def value(self) -> Window:
        return Window(self.start, self.end)


class RouteShown(Shown):
    """What the question was taken to ask for; `why` lists the reasons."""

    kind: Kind
    mode: Mode = Mode.TOPIC
    window: WindowShown = WindowShown()
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
    stranger: str = Field("", description="Whose words it asks for, if nobody known has that name.")
    anchors: tuple[Id, ...] = ()
    follows: bool = False
    missed: bool = False
    aside: Aside | None = Field(None, description="Why the question was not read any further.")
    borrowed: tuple[Borrowed, ...] = Field((), description="What it takes from the question before, or its reply.")

    def value(self) -> Route:
        known = {name: getattr(self, name) for name in type(self).model_fields}
        return Route(**known | {"window": self.window.value(), "speakers": tuple(one.value() for one in self.speakers)})


class HitShown(Shown):
    """A message that was found: `score` ranks it, the other numbers say why."""

    message: MessageShown
    score: float
    similarity: float | None = Field(None, description="Cosine of the topic and the message.")
    text_score: float | None = None
    age_s: float = 0.0
    source: Source = Source.BUFFER
    around: tuple[MessageShown, ...] = ()
    replaced: bool = Field(False, description="Whether a later message corrected it.")

    def value(self) -> Hit:
        return Hit(
            self.message.value(),
            self.score,
            self.similarity,
            self.text_score,
            self.age_s,
            self.source,
            tuple(one.value() for one in self.around),
            self.replaced,
        )


class ThreadShown(Shown):
    messages: tuple[MessageShown, ...]

    def value(self) -> Thread:
        return Thread(tuple(one.value() for one in self.messages))


class TimingShown(Shown):
    """Milliseconds."""

    route: float = 0.0
    embed: float = 0.0
    search: float = 0.0
    total: float = 0.0

    def value(self) -> Timing:
        return Timing(self.route, self.embed, self.search, self.total)


class UnreadShown(Shown):
    """Pictures and voices among what was looked at that nobody has read."""

    pictures: int = 0
    voices: int = 0

    def value(self) -> Unread:
        return Unread(self.pictures, self.voices)


class ReportShown(Shown):
    """What was looked at: how many messages from which source, back to when."""

    source: Source
    count: int = 0
    oldest_ts: float | None = None
    problem: str = ""
    unread: UnreadShown = UnreadShown()
    unsearched: Unsearched | None = Field(None, description="Why it was not searched, where that is no fault.")

    def value(self) -> SourceReport:
        unread = self.unread.value()
        return SourceReport(self.source, self.count, self.oldest_ts, self.problem, unread, self.unsearched)


class EvidenceShown(Shown):
    coverage: float = 0.0
    thread: float = 0.0
    similarity: float = 0.0
    missing: float = 0.0
    compared: int = 0
    fits: bool = False

    def value(self) -> Evidence:
        return Evidence(self.coverage, self.thread, self.similarity, self.missing, self.compared, self.fits)


class AnswerShown(Shown):
    text: str
    route: RouteShown
    hits: tuple[HitShown, ...] = ()
    threads: tuple[ThreadShown, ...] = Field((), description="For a recap: the window's messages.")
    ms: TimingShown = TimingShown()
    tried: tuple[ReportShown, ...] = ()
    found: bool = False
    sure: float = Field(0.0, description="How likely the hits answer the question.")
    evidence: EvidenceShown | None = None
    pointed: tuple[MessageShown, ...] = Field((), description="Messages with media that the question points at, read.")
    summarised: tuple[OriginShown, ...] = Field((), description="Messages that a recap quotes from summaries.")

    def value(self) -> Answer:
        return Answer(
            self.text,
            self.route.value(),
            tuple(one.value() for one in self.hits),
            tuple(one.value() for one in self.threads),
            self.ms.value(),
            tuple(one.value() for one in self.tried),
            found=self.found,
            sure=self.sure,
            evidence=self.evidence.value() if self.evidence else None,
            pointed=tuple(one.value() for one in self.pointed),
            summarised=tuple(one.value() for one in self.summarised),
        )


class AskAnswer(AnswerShown):
    needs_history: bool = Field(
        False, description="Whether the platform's own history could help: fetch it, and ask again with `history`."
    )
    needs_members: tuple[str, ...] = Field(
        (), description="How the names of people begin whom nobody here knows: look them up, and send `members`."
    )
    needs_messages: tuple[OriginShown, ...] = Field((), description="Fetch them, and ask again with `referenced`.")
