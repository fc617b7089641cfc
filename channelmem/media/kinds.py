"""What an attachment is, by what the platform says about it. In: an attachment. Out: its kind, the key under which what
is known of it is cached, and whether anybody has read it. Also the values that stand for reading one.

The platform's word decides only who gets to look: the type of a file is checked by its content before it is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from channelmem.types import Attachment, Message, Unread

PLATFORM_HOSTS: Final = (
    "cdn.discordapp.com",
    "media.discordapp.net",
    "images-ext-1.discordapp.net",
    "images-ext-2.discordapp.net",
)
"""Where Discord keeps attachments and the pictures of link previews."""

MediaKey = tuple[int, int, int]
"""Channel, message and attachment."""

EXTENSIONS: Final = {
    ".png": "image", ".jpg": "image", ".jpeg": "image", ".gif": "image", ".webp": "image", ".bmp": "image",
    ".ogg": "audio", ".opus": "audio", ".mp3": "audio", ".wav": "audio", ".m4a": "audio", ".flac": "audio",
    ".mp4": "video", ".webm": "video", ".mov": "video", ".mkv": "video",
}  # fmt: skip


class MediaKind(StrEnum):
    PICTURE = "image"
    VOICE = "voice"
    """Somebody speaks into the chat: audio that the platform gives a duration."""
    AUDIO = "audio"
    VIDEO = "video"
    FILE = "file"


READABLE: Final = (MediaKind.PICTURE, MediaKind.VOICE, MediaKind.AUDIO)


NO_LINK: Final = "its link has expired, and the platform gives no new one"


@dataclass(frozen=True, slots=True)
class Item:
    """An attachment to read."""

    message: Message
    attachment: Attachment
    pointed: bool = False
    """Whether somebody refers to it."""

    @property
    def key(self) -> MediaKey:
        return self.message.channel_id, self.message.id, self.attachment.id

    @property
    def kind(self) -> MediaKind:
        return kind_of(self.attachment)


@dataclass(frozen=True, slots=True)
class MediaResult:
    """What became of one."""

    text: str = ""
    by: str = ""
    """Who read it."""
    why: str = ""
    """Why it could not be read, if it could not."""
    fresh: bool = False
    """Whether it was read just now."""


def kind_of(one: Attachment) -> MediaKind:
    word = one.content_type.partition("/")[0].lower() if one.content_type else ""
    word = word or EXTENSIONS.get(PurePosixPath(one.name.lower()).suffix, "")
    if word == "audio":
        return MediaKind.VOICE if one.duration_s else MediaKind.AUDIO
    return {"image": MediaKind.PICTURE, "video": MediaKind.VIDEO}.get(word, MediaKind.FILE)


def of_preview(url: str, name: str = "", alt: str = "") -> Attachment:
    """The picture of a link preview, which the platform gives no id."""
    id_ = int(_digest(without_query(url))[:16], 16) >> 1  # 63 bits, as all ids of platforms
    return Attachment(id_, url, "image/*", name or PurePosixPath(urlsplit(url).path).name, alt=alt, embed=True)


def cache_key(one: Attachment, hosts: Collection[str] = ()) -> str:
    """Its id. For a preview the hash of its address: without the query, which holds a signature that changes, where
    the host is known to sign; elsewhere the query may say which picture it is."""
    if not one.embed:
        return f"{one.id:020d}"
    parts = urlsplit(one.url)
    known = {parts.netloc.lower(), parts.hostname} & {*PLATFORM_HOSTS, *hosts}
    return _digest(without_query(one.url) if known else one.url)


def without_query(url: str) -> str:
    return url.partition("#")[0].partition("?")[0]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def readable(messages: Iterable[Message], *, pointed: bool = False) -> Iterator[Item]:
    """What can be read at all of these messages, in their order."""
    for message in messages:
        for one in message.attachments:
            if kind_of(one) in READABLE:
                yield Item(message, one, pointed)


def unread(messages: Iterable[Message]) -> Unread:
    """How much of these messages nobody has read."""
    kinds = [kind_of(one) for message in messages for one in message.attachments if not (one.text or one.alt)]
    return Unread(kinds.count(MediaKind.PICTURE), kinds.count(MediaKind.VOICE))


# --- problems ---


class UnreadableError(Exception):
    """Says why in a few words of our own: "it is not an image". A server's words may hold keys or people's text."""

    def __init__(self, why: str, *, lasting: bool) -> None:
        super().__init__(why)
        self.lasting = lasting
        """Whether trying again in a minute would not help: not an image, gone, refused."""


def lasting(why: str) -> UnreadableError:
    return UnreadableError(why, lasting=True)


def passing(why: str) -> UnreadableError:
    return UnreadableError(why, lasting=False)
