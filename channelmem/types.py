"""The nouns every stage shares: frozen values, no behaviour beyond what follows from their fields.

Times are epoch seconds (UTC, float), ids are Discord-sized integers (beyond 2^53), spans end in `_s`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

LAST_TS = 250_246_627_200.0
"""The year 9900 begins: later times are milliseconds mistaken for seconds. Calendars end with 9999, and a question may
ask for "next year"."""


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
    duration_s: float | None = None
    """How long a voice message lasts."""
    text: str = ""
    """A description or transcript, empty until known. Search reads it, but answers never quote it: nobody said it."""
    embed: bool = False
    """A picture of a link preview. The platform gives it no id, so its id is made of its address (`media_kinds`)."""


class Origin(NamedTuple):
    """A message as it was when something was made of it. It belongs to the same guild."""

    channel_id: int
    id: int
    revision: float = 0.0


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
    """What it probably answers: (message id, probability), most likely first. Filled in by `remember`."""
    attachments: tuple[Attachment, ...] = ()
    thread_of: int = 0
    """The channel of the thread it was written in, whose settings apply; 0 if it is in no thread. Not read back."""
    age_restricted: bool = False
    """Whether its channel is for adults only: its media are read only where a setting allows that. Not read back."""
    derived_from: tuple[Origin, ...] = ()
    """What an answer of the bot quotes: it is stored only while all of that is, and goes with the first of it. Stored,
    but not read back."""

    @property
    def origin(self) -> Origin:
        return Origin(self.channel_id, self.id, self.revision)

    @property
    def searchable(self) -> str:
        """What search reads: the content, then what is known about attachments. Only the content may be quoted."""
        if not self.attachments:
            return self.content
        known = [f"[{one.name or 'attachment'}: {one.text}]" for one in self.attachments if one.text]
        return "\n".join((self.content, *known))


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody known in a channel; `name` is what people see, `aliases` are their nick and user name."""

    id: int
    name: str
    aliases: tuple[str, ...] = ()


class RelatedChannel(NamedTuple):
    """Another channel of the guild, by the name that people see."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Question:
    """What somebody asks the bot, plus what the adapter knows about the moment."""

    guild_id: int
    channel_id: int
    id: int
    asker_id: int
    asker: str
    text: str
    ts: float
    reply_to: int | None = None
    mentions: tuple[Person, ...] = ()
    """People mentioned in the text, except the bot."""
    bot: Person = Person(0, "bot")
    is_dm: bool = False
    joined_ts: float | None = None
    """When the asker joined, if known."""
    readable_channel_ids: tuple[int, ...] = ()
    """Other channels of the guild that both asker and bot may read; the question may search them too."""
    kind: Kind | None = None
    """Forces the route's kind; the router still decides everything else."""
    character: str = ""
    """Who answers: a character may have settings of its own."""
    thread_of: int = 0
    """The channel of the thread it is asked in; 0 if it is in no thread."""
    attachments: tuple[Attachment, ...] = ()
    """Files that came with the question itself."""
    age_restricted: bool = False
    """Whether it is asked in a channel for adults only."""
    related_channels: tuple[RelatedChannel, ...] = ()
    """Those of the channel's policy that everybody who can read the answer may read."""

    def __post_init__(self) -> None:
        """A message with an impossible time is ignored, but a question has somebody who waits for its answer."""
        if not 0 <= self.ts <= LAST_TS:  # NaN compares as False
            raise ValueError(f"Question.ts is {self.ts!r}; it must be a time in epoch seconds, such as time.time()")


class Kind(StrEnum):
    """Which memory a question is about."""

    CHANNEL = "channel"
    MEMORY = "memory"
    NONE = "none"


class Mode(StrEnum):
    """How to look it up."""

    LATEST = "latest"
    FIRST = "first"
    """The same from the other end: the oldest first."""
    TOPIC = "topic"
    RECAP = "recap"


class Wants(StrEnum):
    """What the answer to a question has to be."""

    WORDS = "words"
    """What somebody said."""
    FACT = "fact"
    """What people's words say, no matter who wrote them."""
    WHO = "who"
    WHETHER = "whether"
    WHEN = "when"
    WHERE = "where"
    WHY = "why"
    AMOUNT = "amount"
    LINK = "link"
    FILE = "file"
    """A picture or another attachment."""
    COUNT = "count"
    """How many messages there are."""
    RECAP = "recap"
    HELLO = "hello"
    """Nothing: it is a greeting, thanks, or asks what the bot can do."""


class Aside(StrEnum):
    """Why a question is not read any further."""

    DIRECT = "direct message"
    FLAG = "flag"
    """It asks for an answer in isolation."""
    COMMAND = "command"
    MATERIAL = "material"
    """A task that brings what it is about."""
    GREETING = "greeting"
    THANKS = "thanks"
    GOODBYE = "goodbye"
    NOD = "nod"
    """ "ok", "nice", "got it"."""
    LAUGH = "laugh"
    PRAISE = "praise"
    COMPLAINT = "complaint"
    SORRY = "sorry"
    FEELING = "how are you"
    NAME = "who are you"
    HELP = "help"
    UNREACHABLE = "unreachable"
    """The service that reads questions did not answer."""


class Borrowed(StrEnum):
    """What a question leaves out, taken from the asker's question before or from the message it replies to."""

    PEOPLE = "people"
    TOPIC = "topic"
    TIME = "time"
    ANSWER = "answer"
    """Its place: right before or after the message that was found then."""
    REPLY = "reply"


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time, both ends included; None leaves an end open (the beginning, or the moment of the question)."""

    start: float | None = None
    end: float | None = None

    def contains(self, ts: float) -> bool:
        return (self.start is None or ts >= self.start) and (self.end is None or ts <= self.end)


class Source(StrEnum):
    """Where to look; a route lists sources in order."""

    BUFFER = "buffer"
    ARCHIVE = "archive"
    HISTORY = "history"


@dataclass(frozen=True, slots=True)
class That:
    """The one message that a question asks about: "what is this about?", as a reply or with a link."""

    channel_id: int
    id: int
    """0 if it is a link to something that the asker can't read."""
    linked: bool = False
    """Whether it is a link, so that the asker may not have it in sight; else the question replies to it."""
    answers: bool = False
    """Whether the question asks for what answers it."""


@dataclass(frozen=True, slots=True)
class Route:
    """What a question asks for: which memory, how, when, whose words and about what; and why we think so."""

    kind: Kind
    mode: Mode = Mode.TOPIC
    window: Window = Window()
    speakers: tuple[Person, ...] = ()
    topic: str = ""
    """What is left after removing scaffolding, names and time words; this is what gets embedded."""
    why: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    """What to try, in order; empty for `none`."""
    to_bot: bool = False
    """Whether it asks about what was said to or by the bot, so that flagged messages count too."""
    wants: Wants = Wants.WORDS
    saying: bool = False
    """Whether it asks about somebody saying something: "who mentioned", "what did Ann suggest"."""
    binds: bool = True
    """Whether speakers and window are conditions: yes if the question is about somebody's words or about the channel.
    "When did Ann go to Rome?" may be answered by something Bob wrote at another time."""
    p: float = 1.0
    """How likely it is about this conversation, by its wording. `kind` follows from it until the evidence decides."""
    forced: bool = False
    """Whether the adapter said what it is about, so that weak evidence is better than none."""
    if_about: Kind = Kind.CHANNEL
    """Which memory it is about if the evidence says that it is about this conversation after all."""
    time_words: str = ""
    """The words that made the window, such as "on Thursday": part of the topic if the window turns out to be wrong."""
    dropped: str = ""
    """These words, once the window was dropped because nothing was said in it."""
    literal: tuple[str, ...] = ()
    """Exact words that a hit must have: quoted ones, or a topic of nothing but stop words ("who said hi?")."""
    of_questions: bool = False
    """Whether it asks for what somebody asked, so that a question is as good as an answer."""
    named: tuple[Person, ...] = ()
    """Everybody it names, whether their words are asked for or not."""
    stranger: str = ""
    """Whose words it asks for, if nobody known has that name."""
    anchors: tuple[int, ...] = ()
    """The messages that a follow-up refers to: what it replies to, then the first hit of the question before."""
    follows: bool = False
    """Whether it cannot be understood without its anchors: "and until when?"."""
    missed: bool = False
    """Whether it asks for everything since the asker was last here."""
    that: That | None = None
    aside: Aside | None = None
    borrowed: tuple[Borrowed, ...] = ()

    @property
    def of_somebody(self) -> bool:
        """Whether it asks for the words of people it names."""
        return self.binds and bool(self.speakers)


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was found. `score` ranks it; the other fields say why."""

    message: Message
    score: float
    similarity: float | None = None
    """Cosine of the topic and the message, if both have a vector."""
    text_score: float | None = None
    age_s: float = 0.0
    source: Source = Source.BUFFER
    around: tuple[Message, ...] = ()
    """The message it answers and the ones that follow, in order of time: people speak in fragments."""
    answers: bool = False
    """Whether it is part of the answer; the other hits come close, and are not shown."""

    @property
    def messages(self) -> tuple[Message, ...]:
        return (self.message, *self.around)


def answering(hits: Sequence[Hit]) -> Sequence[Hit]:
    """The hits that are the answer: those marked so, or else the best one."""
    return [hit for hit in hits if hit.answers] or hits[:1]


@dataclass(frozen=True, slots=True)
class Evidence:
    """How well the first hits fit a question, before anything is decided."""

    coverage: float = 0.0
    """The share of the topic's words, weighted by rarity, that the first hits have."""
    thread: float = 0.0
    """The same with the words of what they answer and of their threads."""
    similarity: float = 0.0
    """The best cosine of the topic and one of the first hits."""
    missing: float = 0.0
    """The share of the topic's words that no message has which could have been a hit."""
    compared: int = 0
    """Among how many messages they were found."""
    fits: bool = False
    """Whether the first hit has the kind of thing that is asked for: a time, a number, a link."""


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
    """In addition to `embed`: the channel is read while the model runs."""
    total: float = 0.0


class Unread(NamedTuple):
    """How much of what was searched nobody has read: no description, transcript or alt text is known."""

    pictures: int = 0
    voices: int = 0


class Unsearched(StrEnum):
    """Why a source was not searched, where that is no fault."""

    OFF = "off"
    """The channel's memory is off: that is the whole answer."""
    NOT_SENT = "not sent"
    """A service can't fetch the channel's own history. That is for the caller to know (`needs_history`), not for the
    person who asks."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What was searched, for an honest no: how many messages from which source, back to when."""

    source: Source
    count: int = 0
    oldest_ts: float | None = None
    problem: str = ""
    """Why this source could not be searched, as a plain sentence; empty if it could."""
    unread: Unread = Unread()  # noqa: RUF009  (frozen)
    unsearched: Unsearched | None = None


MEMORY_OFF = "Memory is off in this channel."
NOT_SENT = "The channel's own history was not sent with the question."


@dataclass(frozen=True, slots=True)
class Answer:
    """What `ask` returns: a text that quotes, and everything it is based on."""

    text: str
    route: Route
    hits: tuple[Hit, ...] = ()
    threads: tuple[Thread, ...] = ()
    ms: Timing = Timing()
    tried: tuple[SourceReport, ...] = ()
    found: bool = False
    sure: float = 0.0
    """How likely the hits answer the question, from the evidence and the wording."""
    evidence: Evidence | None = None
    pointed: tuple[Message, ...] = ()
    """Messages with pictures or voices that the question points at, as far as these could be read."""
    summarised: tuple[Origin, ...] = ()
    """Messages that a recap quotes from summaries."""

    @property
    def off(self) -> bool:
        """Whether it is about a channel whose memory is off."""
        return self.route.kind is not Kind.NONE and any(one.unsearched is Unsearched.OFF for one in self.tried)

    @property
    def from_history(self) -> bool:
        """Whether it rests on the platform's history, which nothing stored can be compared with."""
        return bool(self.tried) and self.tried[-1].source is Source.HISTORY

    @property
    def messages(self) -> tuple[Message, ...]:
        """All that it shows: hits with what lies beside them, and threads."""
        hits = (one for hit in self.hits for one in hit.messages)
        return (*hits, *(one for thread in self.threads for one in thread.messages))

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The messages it quotes."""
        threads = (one for thread in self.threads for one in thread.messages)
        quoted = (*self.pointed, *(hit.message for hit in self.hits), *threads)
        return tuple(dict.fromkeys((*(message.origin for message in quoted), *self.summarised)))


class Outcome(StrEnum):
    """What became of a message given to `remember`."""

    STORED = "stored"
    QUEUED = "queued"
    """Redis is unreachable; kept in a bounded queue and stored when it is back."""
    DROPPED = "dropped"
    """The queue was full."""
    IGNORED = "ignored"
    """Empty, opted out, paused, deleted before, or older than its lifetime."""


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """What a channel's memory holds, for display."""

    messages: int = 0
    pending: int = 0
    oldest_ts: float | None = None
    newest_ts: float | None = None
    paused: bool = False
    archive: bool = True


@dataclass(frozen=True, slots=True)
class Stored:
    """A message and the state of its document."""

    message: Message
    embedded: bool
    ttl_s: float


@dataclass(frozen=True, slots=True)
class Activity:
    """How many messages of a channel were sent lately and are still stored."""

    last_minute: int
    hours: tuple[int, ...]
    """Per hour of the last day, oldest first."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch of a channel's past that is still to be fetched: between two ids, both excluded."""

    channel_id: int
    newest_id: int | None
    """None: up to the newest message."""
    oldest_id: int


@dataclass(frozen=True, slots=True)
class Load:
    """A stretch of a channel's past that somebody wants, and how far it has been fetched, oldest first."""

    channel_id: int
    start_id: int
    """Where it began."""
    done_id: int
    """Everything up to this id is stored or summarised."""
    end_id: int
    """Excluded: what came later was heard."""
    stored: int = 0
    summarised: int = 0
    """Messages too old to be stored."""

    @property
    def share(self) -> float:
        """How much of it is done, by time: ids grow with it."""
        return min(1.0, (self.done_id - self.start_id) / max(1, self.end_id - self.start_id))


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """What a language model asks the memory for in a tool call."""

    question: Question
    """On whose behalf, where and when it looks."""
    query: str = ""
    speaker: str = ""
    since_s: float | None = None
    limit: int = 15


@dataclass(frozen=True, slots=True)
class Context:
    """What a language model is given because of a question. Whoever asks keeps it until the answer is stored."""

    text: str = ""
    shown: frozenset[Origin] = frozenset()
    """The answer goes with any of these. Ambient messages do not count: an answer mostly says nothing of them."""
    given: frozenset[Origin] = frozenset()
    """All of it, with ambient messages and summaries (`Summary.origin_in`)."""

    def __add__(self, other: Context) -> Context:
        text = "\n".join(one for one in (self.text, other.text) if one.strip())
        return Context(text, self.shown | other.shown, self.given | other.given)


@dataclass(frozen=True, slots=True)
class Past:
    """What the platform's own history returned for one answer; never stored."""

    messages: tuple[Message, ...] = field(default=())
    problem: str = ""
    unsearched: Unsearched | None = None


class History(Protocol):
    """The platform's own history, offered by an adapter: the last resort of `ask`."""

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        """The newest `limit` messages of the question's channel, oldest first; reports a problem instead of raising."""

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        """One message, to fill a hole in a reply chain; None if it cannot be fetched."""

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        """A link that opens the message; empty if the platform has none."""

    async def find_members(self, guild_id: int, prefix: str) -> tuple[Person, ...]:
        """A few people whose name begins like this, even if they never spoke; optional, and never raises."""
        del guild_id, prefix
        return ()
