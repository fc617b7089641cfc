"""Attachments as text. Enters: a message with attachments. Leaves: its words, with a note per attachment.

`[image: cat.png]`, `[image: cat.png: a grey cat on a sofa]`, `[voice 0:12: on my way]`. What people wrote as alt text
comes before what a model saw. All of it is somebody's text: one line, cut, and unable to end its own note.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from channelmem.display import ELLIPSIS, Phrasing, counted, cut, flatten, listed, safe
from channelmem.media.kinds import READABLE, MediaKey, MediaKind, kind_of
from channelmem.types import Attachment, Message, Mode, Question, Route, Unread, Wants

NAME_CHARS: Final = 60
AMBIENT_CHARS: Final = 120
"""Of a description in passing."""
POINTED_CHARS: Final = 600
"""Of one that the question is about."""
NOUNS: Final = {MediaKind.PICTURE: "picture", MediaKind.VOICE: "voice message", MediaKind.AUDIO: "recording"}
VOICE_MESSAGE: Final = "[voice message]"
_NO_BRACKETS: Final = str.maketrans("[]", "()")


def note(one: Attachment, chars: int = AMBIENT_CHARS) -> str:
    kind, name = kind_of(one), _plain(one.name, NAME_CHARS)
    known = _plain(known_text(one), chars)
    if kind is MediaKind.VOICE:
        head = f"voice {clock(one.duration_s or 0)}"
    else:
        head = f"{kind.value}: {name}" if name else kind.value
    return f"[{head}: {known}]" if known else f"[{head}]"


def known_text(one: Attachment) -> str:
    """What is known of it: what its sender says, then what a model saw or heard."""
    if one.alt and one.text and one.alt.casefold() not in one.text.casefold():
        return f"{one.alt}; {one.text}"
    return one.text or one.alt


def clock(seconds: float) -> str:
    """ "0:12", "61:05": as players show it."""
    whole = int(seconds)
    return f"{whole // 60}:{whole % 60:02d}"


def with_seen(message: Message, seen: Mapping[MediaKey, str]) -> Message:
    """The message with what was read of its attachments for one answer."""
    return replace(message, attachments=_with_texts(message.attachments, message.channel_id, message.id, seen))


def question_files(question: Question, seen: Mapping[MediaKey, str]) -> tuple[Attachment, ...]:
    return _with_texts(question.attachments, question.channel_id, question.id, seen)


def _with_texts(
    files: tuple[Attachment, ...], channel_id: int, message_id: int, seen: Mapping[MediaKey, str]
) -> tuple[Attachment, ...]:
    return tuple(replace(one, text=seen.get((channel_id, message_id, one.id), one.text)) for one in files)


def notes(message: Message, chars: int = AMBIENT_CHARS) -> str:
    """One note per attachment; empty without attachments."""
    return " ".join(note(one, chars) for one in message.attachments)


def told(message: Message) -> str:
    """A message's words and notes, for people who look through what is stored."""
    return " ".join(filter(None, (bare(message).strip(), notes(message, POINTED_CHARS))))


def bare(message: Message) -> str:
    """The content without what its adapter wrote in place of the files."""
    words = message.content
    for one in message.attachments:
        written = next((text for text in _adapters_notes(one) if text in words), "")
        words = words.replace(written, "", 1) if written else words
    return words


def _adapters_notes(one: Attachment) -> tuple[str, ...]:
    kind = kind_of(one)
    if kind is MediaKind.VOICE:
        return (VOICE_MESSAGE,)
    return f"[{kind.value}: {one.name} ({one.alt})]", f"[{kind.value}: {one.name}]"


def _plain(text: str, chars: int) -> str:
    return cut(flatten(text), chars).translate(_NO_BRACKETS)


# --- answers without a language model ---


def is_about_media(route: Route) -> bool:
    """Whether a question that points at media asks about these, and not about what people said."""
    about_words = route.mode is Mode.RECAP or (route.topic and not route.follows)
    return route.wants is Wants.FILE or not about_words


def shows(phrasing: Phrasing, messages: Sequence[Message]) -> list[str]:
    """A sentence for each picture and recording: "The picture cat.png (Ann, 2 minutes ago) shows: a grey cat"."""
    return [
        _sentence(phrasing, message, one)
        for message in messages
        for one in message.attachments
        if kind_of(one) in READABLE
    ]


def _sentence(phrasing: Phrasing, message: Message, one: Attachment) -> str:
    kind = kind_of(one)
    what, verb = NOUNS[kind], "shows" if kind is MediaKind.PICTURE else "says"
    name = "" if kind is MediaKind.VOICE else safe(_plain(one.name, NAME_CHARS))
    if message.author_id == phrasing.question.asker_id:
        told = " ".join(filter(None, ("your", what, name)))
    else:
        who = f"({phrasing.who(message)}, {phrasing.when(message)})"
        told = " ".join(filter(None, ("the", what, name, who)))
    known = safe(_plain(known_text(one), POINTED_CHARS))
    if not known:
        return f"I could not make out what {told} {verb}."
    return f"{told[0].upper()}{told[1:]} {verb}: {known}{_stop(known)}"


def _stop(text: str) -> str:
    return "" if text.endswith((".", "!", "?", ELLIPSIS)) else "."


def not_read(unread: Unread) -> str:
    """ "2 pictures and 1 voice message not read"; empty if everything was."""
    parts = [(unread.pictures, "picture"), (unread.voices, "voice message")]
    some = [counted(count, noun) for count, noun in parts if count]
    return f"{listed(some)} not read" if some else ""


# --- references ---


Fetch = Callable[[int, Sequence[int]], Awaitable[Sequence[Message]]]
"""Gets messages of one channel by id, without those that cannot be fetched."""
FetchOne = Callable[[int, int], Awaitable[Message | None]]
"""Gets one message of a channel from the platform (`History.fetch_message`)."""

HISTORY_CALLS: Final = 5
"""The most single fetches from the platform for one answer: each is a slow, rate-limited call."""
_INLINE_CHARS: Final = 60
_LINK: Final = re.compile(
    r"<?https?://(?:(?:ptb|canary)\.)?discord(?:app)?\.com/channels/"
    r"(?P<guild>\d{1,20}|@me)/(?P<channel>\d{1,20})/(?P<message>\d{1,20})(?![\d/])/?>?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a message; `guild_id` is 0 for a private conversation."""

    guild_id: int
    channel_id: int
    message_id: int


def parse_links(text: str) -> list[Link]:
    """The message links in a text, in order, each once."""
    if "/channels/" not in text.lower():
        return []
    return list(dict.fromkeys(_link(found) for found in _LINK.finditer(text)))


async def collect(question: Question, fetch: Fetch, limit: int = 20) -> tuple[Message, ...]:
    """The message replied to, then what the question links to, then what those link to, and so on."""
    own = () if question.reply_to is None else (Link(question.guild_id, question.channel_id, question.reply_to),)
    wave = visible((*own, *parse_links(question.text)), question)
    seen: set[Link] = set()
    found: list[Message] = []
    while wave and len(found) < limit:
        # A wave never fetches more than can still be shown: a text with a thousand links is one round of `limit`.
        wave = wave[: limit - len(found)]
        seen.update(wave)
        got = await _get(wave, fetch)
        found.extend(got)
        linked = (link for message in got for link in parse_links(message.content))
        wave = [link for link in visible(linked, question) if link not in seen]
    return tuple(found)


async def reply_chain(question: Question, fetch: Fetch, limit: int = 20) -> tuple[Message, ...]:
    """The messages above the question, oldest first, each a reply to the one before."""
    chain: list[Message] = []
    above, seen = question.reply_to, {question.id}
    while above is not None and above not in seen and len(chain) < limit:
        seen.add(above)
        got = await _get([Link(question.guild_id, question.channel_id, above)], fetch)
        if not got:
            break
        chain.append(got[0])
        above = got[0].reply_to
    return tuple(reversed(chain))


async def linked(messages: Iterable[Message], question: Question, fetch: Fetch, limit: int = 10) -> dict[int, Message]:
    """What ambient messages link to, by id, for `inline`: one level deep, newest linking message first."""
    newest = sorted(messages, key=lambda message: message.ts, reverse=True)
    links = visible((link for message in newest for link in parse_links(message.content)), question)
    return {message.id: message for message in await _get(links[:limit], fetch)}


def inline(
    text: str,
    targets: Mapping[int, Message],
    name_of: Callable[[Message], str],
    pointers: Mapping[int, str] | None = None,
) -> str:
    """The text with each known link as a short quote; links inside that quote stay unopened (depth 1).

    `pointers` map the ids of messages shown elsewhere to what to write instead.
    """
    if "/channels/" not in text.lower():
        return text
    told = pointers or {}
    return _LINK.sub(lambda found: told.get(int(found["message"])) or _inlined(found, targets, name_of), text)


def layered(known: Iterable[Message], stored: Fetch | None = None, history: FetchOne | None = None) -> Fetch:
    """A `Fetch` that looks in the messages already in hand, then in the store, then (a few times) on the platform."""
    in_hand = {(message.channel_id, message.id): message for message in known}
    calls = HISTORY_CALLS if history else 0

    async def fetch(channel_id: int, ids: Sequence[int]) -> Sequence[Message]:
        nonlocal calls
        found = {i: in_hand[channel_id, i] for i in ids if (channel_id, i) in in_hand}
        missing = [i for i in ids if i not in found]
        if missing and stored is not None:
            found |= {message.id: message for message in await stored(channel_id, missing)}
        missing = [i for i in missing if i not in found][:calls]
        if missing and history is not None:
            calls -= len(missing)
            got = await asyncio.gather(*(history(channel_id, i) for i in missing))
            found |= {message.id: message for message in got if message is not None}
        in_hand.update({(channel_id, i): message for i, message in found.items()})
        return [found[i] for i in ids if i in found]

    return fetch


def _link(found: re.Match[str]) -> Link:
    guild = found["guild"]
    return Link(0 if guild.startswith("@") else int(guild), int(found["channel"]), int(found["message"]))


def visible(links: Iterable[Link], question: Question) -> list[Link]:
    """Those of the links that the asker can read, each once."""
    channels = {question.channel_id, *question.readable_channel_ids}
    return [
        link
        for link in dict.fromkeys(links)
        if link.guild_id == question.guild_id and link.channel_id in channels and link.message_id != question.id
    ]


async def _get(links: Sequence[Link], fetch: Fetch) -> list[Message]:
    """The messages in the order of the links; one call per channel, and nothing that was not requested."""
    by_channel: dict[int, list[int]] = {}
    for link in links:
        by_channel.setdefault(link.channel_id, []).append(link.message_id)
    batches = await asyncio.gather(*(fetch(channel_id, ids) for channel_id, ids in by_channel.items()))
    found = {Link(m.guild_id, m.channel_id, m.id): m for batch in batches for m in batch}
    return [found[link] for link in links if link in found]


def _inlined(found: re.Match[str], targets: Mapping[int, Message], name_of: Callable[[Message], str]) -> str:
    link = _link(found)
    message = targets.get(link.message_id)
    if message is None or (message.guild_id, message.channel_id) != (link.guild_id, link.channel_id):
        return "(a message link)"
    words = cut(flatten(_LINK.sub("(a message link)", message.content)).replace('"', "'"), _INLINE_CHARS)
    return f'(link to {name_of(message)}: "{words}")'
