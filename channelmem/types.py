"""The nouns every stage shares: frozen values, no behaviour beyond what follows from their fields.

Times are epoch seconds (UTC, float), ids are Discord-sized integers (beyond 2^53), spans end in `_s`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message, and what a later step learned from it."""

    id: int
    url: str = ""
    content_type: str = ""
    name: str = ""
    size: int = 0
    """In bytes."""
    alt: str = ""
    """The alternative text that its sender wrote."""
    duration_s: float | None = None
    """How long a voice message lasts."""
    text: str = ""
    """A description or transcript, empty until known. Search reads it; nobody said it, so answers never quote it."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a channel, as people see it."""

    guild_id: int
    channel_id: int
    id: int
    author_id: int
    author: str
    content: str
    ts: float
    reply_to: int | None = None
    """The message this one explicitly answers."""
    mentions: tuple[int, ...] = ()
    """Ids of the people it mentions."""
    own: bool = False
    """Written by the bot itself."""
    addressed: bool = False
    """Addressed to the bot (a mention of it or a reply to it)."""
    revision: float = 0.0
    """When it was last edited; a newer revision replaces an older one."""
    aliases: tuple[str, ...] = ()
    """Other names of the author: nick, user name."""
    parents: tuple[tuple[int, float], ...] = ()
    """What it probably answers: (message id, probability), likeliest first. Filled in by `remember`."""
    attachments: tuple[Attachment, ...] = ()

    @property
    def searchable(self) -> str:
        """What search reads: the content, then what is known of the attachments. Only the content may be quoted."""
        if not self.attachments:
            return self.content
        known = [f"[{one.name or 'attachment'}: {one.text}]" for one in self.attachments if one.text]
        return "\n".join((self.content, *known))


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody known in a channel; `name` is what people see, `aliases` are nick and user name."""

    id: int
    name: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """What somebody asks the bot, with what the adapter knows about the moment."""

    guild_id: int
    channel_id: int
    id: int
    asker_id: int
    asker: str
    text: str
    ts: float
    reply_to: int | None = None
    mentions: tuple[Person, ...] = ()
    """People mentioned in the text, the bot left out."""
    bot: Person = Person(0, "bot")
    is_dm: bool = False
    joined_ts: float | None = None
    """When the asker joined, where that is known."""
    readable_channel_ids: tuple[int, ...] = ()
    """Further channels of the guild that asker and bot may both read; the question may look there too."""
    kind: Kind | None = None
    """Forces the route's kind; everything else stays the router's own."""


class Kind(StrEnum):
    """Which memory a question wants."""

    CHANNEL = "channel"
    MEMORY = "memory"
    NONE = "none"


class Mode(StrEnum):
    """How it is looked up."""

    LATEST = "latest"
    TOPIC = "topic"
    RECAP = "recap"


class Wants(StrEnum):
    """What the answer to a question has to be."""

    WORDS = "words"
    """What somebody said."""
    FACT = "fact"
    """What their words tell, whoever wrote them."""
    WHO = "who"
    WHETHER = "whether"
    WHEN = "when"
    AMOUNT = "amount"
    LINK = "link"
    RECAP = "recap"


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time, both ends included; None is open (the beginning, or the moment of the question)."""

    start: float | None = None
    end: float | None = None

    def contains(self, ts: float) -> bool:
        return (self.start is None or ts >= self.start) and (self.end is None or ts <= self.end)


class Source(StrEnum):
    """Where to look, in the order that a route names."""

    BUFFER = "buffer"
    ARCHIVE = "archive"
    HISTORY = "history"


@dataclass(frozen=True, slots=True)
class Route:
    """What a question wants: which memory, how, when, whose words and about what; and why we think so."""

    kind: Kind
    mode: Mode = Mode.TOPIC
    window: Window = Window()
    speakers: tuple[Person, ...] = ()
    topic: str = ""
    """What is left without scaffolding, names and time words; this is what gets embedded."""
    why: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    """What to try, in order; empty for `none`."""
    to_bot: bool = False
    """About what was said to or by the bot: flagged messages count too."""
    wants: Wants = Wants.WORDS
    saying: bool = False
    """Whether it asks about an act of saying: "who mentioned", "what did Ann suggest"."""
    binds: bool = True
    """Whether speakers and window are conditions. They are where somebody's words are wanted, or the channel is meant;
    "When did Ann go to Rome?" may be answered by what Bob wrote, at another time."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was found. `score` ranks; the parts say why."""

    message: Message
    score: float
    similarity: float | None = None
    """Cosine of the topic and the message, where both have a vector."""
    text_score: float | None = None
    age_s: float = 0.0
    source: Source = Source.BUFFER
    around: tuple[Message, ...] = ()
    """The message it answers and the next ones, in order of time: people speak in fragments."""


@dataclass(frozen=True, slots=True)
class Thread:
    """Messages that belong together, oldest first."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Timing:
    """Where the milliseconds of one answer went."""

    route: float = 0.0
    embed: float = 0.0
    search: float = 0.0
    """Beyond `embed`: the channel is read while the model is at work."""
    total: float = 0.0


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What was looked at, for an honest no: how many messages of which source, back to when."""

    source: Source
    count: int = 0
    oldest_ts: float | None = None
    problem: str = ""
    """Why this source could not be asked, as a plain sentence; empty if it could."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What `ask` returns: a text that quotes, and everything it rests on."""

    text: str
    route: Route
    hits: tuple[Hit, ...] = ()
    threads: tuple[Thread, ...] = ()
    ms: Timing = Timing()
    tried: tuple[SourceReport, ...] = ()
    found: bool = False


class Outcome(StrEnum):
    """What became of a message given to `remember`."""

    STORED = "stored"
    QUEUED = "queued"
    """Redis is away; kept in a bounded queue and stored when it is back."""
    DROPPED = "dropped"
    """The queue was full."""
    IGNORED = "ignored"
    """Empty, opted out, paused, deleted before, or older than its lifetime."""


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """What a channel's memory holds, for people."""

    messages: int = 0
    pending: int = 0
    oldest_ts: float | None = None
    newest_ts: float | None = None
    paused: bool = False
    archive: bool = True


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch of a channel's past that is still to be fetched: between two ids, both left out."""

    channel_id: int
    newest_id: int | None
    """None: up to the newest there is."""
    oldest_id: int


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """What a language model asks of the memory by tool call."""

    question: Question
    """In whose name, where and when it looks."""
    query: str = ""
    speaker: str = ""
    since_s: float | None = None
    limit: int = 15


@dataclass(frozen=True, slots=True)
class Past:
    """What a platform's own history gave for one answer; never stored."""

    messages: tuple[Message, ...] = field(default=())
    problem: str = ""


class History(Protocol):
    """The platform's own history, offered by an adapter: the last resort of `ask`."""

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        """Newest `limit` messages of the question's channel, oldest first; a problem instead of an exception."""

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        """One message, to fill a hole in a reply chain; None if it cannot be had."""

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        """A link that opens the message; empty where the platform has none."""
