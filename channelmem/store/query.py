"""What a search looks for, and what it returns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from channelmem.policy.policy import Limits
from channelmem.store.documents import StoredMessage, clean
from channelmem.types import Hit, Message, Source, Window

_STOP_WORDS = (
    "a is the an and are as at be but by for if in into it no not of on or such that their then there these they "
    "this to was will with"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
# What RediSearch splits text at; the underscore is a letter to it.
_SEPARATORS = re.compile(r"[\s,.<>{}\[\]\"':;!@#$%^&*()\-+=~|/\\?`\u0000-\u001f]+")


def tokens(word: str) -> list[str]:
    """A word as RediSearch indexed it: split at its separators, with everything escaped that it could read as syntax.

    Leaves out stop words: no index holds them, and a clause of nothing else would match every message.
    """
    parts = [part for part in _SEPARATORS.split(clean(word)) if part and part.lower() not in STOP_WORDS]
    return [re.sub(r"(\W)", r"\\\1", part, flags=re.ASCII) if part.isascii() else part for part in parts]


# --- query ---


@dataclass(frozen=True, slots=True)
class Query:
    """What to look for. Each field narrows the search; the defaults do not."""

    guild_id: int
    channel_ids: tuple[int, ...] = ()
    """Empty: every channel of the guild."""
    window: Window = Window()  # noqa: RUF009  (frozen)
    author_ids: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    """Full text: any of these, stemmed."""
    vector: NDArray[np.float32] | None = None
    limit: int = 10
    """For each of the nearest and the best by text. A buffer view of a few channels comes whole."""
    flagged: bool = False
    """Include the bot's own messages and those addressed to it."""
    source: Source = Source.BUFFER
    """BUFFER: the newest messages of each channel within the buffer's age; ARCHIVE: everything within its lifetime."""
    counts: bool = False
    """Count, for each word, the messages that contain it (archive and wide views)."""
    limits: Limits | None = None
    """Of the asker's policy, for all channels of the query; None: the default."""
    beside: int = 0
    """How many of the best hits of the index come with their neighbours."""
    radius: int = 0
    """How many positions on either side count as neighbours."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What `nearest` found."""

    hits: tuple[Hit, ...] = ()
    """Nearest first, those without a vector last. `similarity` and `text_score` say why they were found; a buffer view
    that came whole has no text scores, because its reader has all the texts."""
    pending: tuple[Message, ...] = ()
    """Messages that match the query's filters and have no vector yet."""
    total: int = 0
    """How many messages the channels hold within the window, for an honest answer."""
    oldest_ts: float | None = None
    """The oldest message that could have been found."""
    counts: tuple[int, ...] = ()
    """Per word of the query, if `counts` was requested."""
    neighbours: tuple[Message, ...] = ()
    """What lies beside the best hits, if `beside` was requested."""
    cut_short: bool = False
    """Whether the search took too long and may have missed something: that nothing was found says nothing then."""


class Match(NamedTuple):
    """A message that a search of the index found, and why."""

    message: StoredMessage
    similarity: float | None
    text_score: float | None


@dataclass(frozen=True, slots=True)
class Matches:
    """The same for ranking, which compares hundreds of messages to show a few: none of them is a whole `Message` yet,
    and they are in no particular order."""

    found: list[Match] = field(default_factory=list)
    pending: list[StoredMessage] = field(default_factory=list)
    total: int = 0
    oldest_ts: float | None = None
    counts: tuple[int, ...] = ()
    neighbours: list[StoredMessage] = field(default_factory=list)
    cut_short: bool = False
