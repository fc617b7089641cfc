"""Normalise, the first stage of `remember`: text that Redis, the tokenizer and people can read, or nothing at all."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache
from itertools import takewhile

import regex  # type: ignore[import-untyped]  # (it has no types; re does not know \X)

from channelmem.policy.policy import Policy
from channelmem.store.documents import clean
from channelmem.types import LAST_TS, Attachment, Message

log = logging.getLogger(__name__)

LAST_ID = 2**64 - 1  # ids are snowflakes: unsigned, 64 bits. Keys, scripts and packed links have no room for others.
ATTACHMENTS = 10  # per message at most; Discord has the same limit
URL_CHARS, NAME_CHARS, ALT_CHARS, TYPE_CHARS = 2_048, 256, 1_024, 128
ENRICHMENT_CHARS = 2_000  # of a description or transcript: two minutes of speech
LARGEST = 2**40  # bytes and seconds beyond this are mistakes
_CLUSTER = regex.compile(r"\X")  # a character as people see it: an emoji sequence, a letter with its accents
_CONTROLS = dict.fromkeys((*range(32), *range(127, 160)), " ")
_INVISIBLE = {"\u200b", "\u200c", "\u200d", "\u2060", "\ufeff"}  # zero-width; str.strip keeps them


def normalise(message: Message, policy: Policy) -> Message | None:
    """The message with clean names and clean, cut text; None if the policy remembers nothing, or without visible text
    or a valid time and ids."""
    if not policy.enabled:
        return None
    if not (0 <= message.ts <= LAST_TS and 0 <= message.revision <= LAST_TS):  # NaN compares as False
        _warn_once("Ignoring messages whose time is not in epoch seconds (logged once)")
        return None
    if not all(map(_is_id, (message.id, message.channel_id, message.guild_id, message.author_id))):
        _warn_once("Ignoring messages with an id that is negative or exceeds 64 bits (logged once)")
        return None
    content, author, *aliases = map(clean, (message.content, message.author, *message.aliases))
    content = cut(content.strip(), policy.max_content_chars)
    if not any(not char.isspace() and char not in _INVISIBLE for char in content):
        return None
    reply_to = message.reply_to if message.reply_to is None or _is_id(message.reply_to) else None
    normal = replace(message, content=content, author=author, aliases=tuple(aliases), reply_to=reply_to)
    if message.attachments:
        normal = replace(normal, attachments=tidy_attachments(message.attachments))
    return message if normal == message else normal


def tidy_line(text: str, max_chars: int) -> str:
    """One clean line of at most so many characters."""
    return cut(" ".join(clean(text).translate(_CONTROLS).split()), max_chars)


def tidy_attachments(attachments: tuple[Attachment, ...]) -> tuple[Attachment, ...]:
    by_id = {one.id: one for one in reversed(attachments) if _is_id(one.id)}  # of equal ids the first
    known = [one for one in attachments if by_id.get(one.id) is one]
    return tuple(_tidy_attachment(one) for one in known[:ATTACHMENTS])


def _tidy_attachment(one: Attachment) -> Attachment:
    url = tidy_line(one.url, URL_CHARS + 1)
    return replace(
        one,
        url=url if len(url) <= URL_CHARS else "",  # the beginning of a URL leads nowhere
        content_type=tidy_line(one.content_type, TYPE_CHARS),
        name=tidy_line(one.name, NAME_CHARS),
        size=min(max(0, one.size), LARGEST),
        alt=tidy_line(one.alt, ALT_CHARS),
        duration_s=one.duration_s if 0 < (one.duration_s or 0) < LARGEST else None,
        text=tidy_line(one.text, ENRICHMENT_CHARS),
    )


def _is_id(number: int) -> bool:
    return 0 <= number <= LAST_ID


@cache
def _warn_once(what: str) -> None:
    # An adapter that gets times or ids wrong usually gets all of them wrong.
    log.warning(what)


def cut(text: str, max_chars: int) -> str:
    """The first `max_chars` characters; never splits an emoji sequence or a letter and its accent."""
    if len(text) <= max_chars:
        return text
    ends = takewhile(lambda end: end <= max_chars, (one.end() for one in _CLUSTER.finditer(text)))
    return text[: max(ends, default=max_chars)].rstrip()
