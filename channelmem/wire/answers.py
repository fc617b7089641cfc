"""Answers in JSON: the text, the route with its reasons, hits with their scores, and what was looked at."""

from __future__ import annotations

from pydantic import Field

from channelmem.types import (
    Answer,
    Evidence,
    Hit,
    Kind,
    Mode,
    Person,
    Route,
    Source,
    SourceReport,
    Thread,
    Timing,
    Unread,
    Wants,
    Window,
)
from channelmem.wire.messages import MessageShown, OriginShown
from channelmem.wire.scalars import Id, Shown


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

    def value(self) -> SourceReport:
        return SourceReport(self.source, self.count, self.oldest_ts, self.problem, self.unread.value())


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
