"""Attachments as text. Enters: a message with attachments. Leaves: its words, with a note per attachment.

`[image: cat.png]`, `[image: cat.png: a grey cat on a sofa]`, `[voice 0:12: on my way]`. What people wrote as alt text
comes before what a model saw. All of it is somebody's text: one line, cut, and unable to end its own note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from channelmem.media_kinds import READABLE, MediaKey, MediaKind, kind_of
from channelmem.telling.quote import ELLIPSIS, Phrasing, counted, cut, flatten, listed, safe
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
