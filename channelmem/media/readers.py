"""What reads attachments. In: a file. Out: its description or transcript. `opening.py` says which readers there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from channelmem.media_kinds import MediaKind
from channelmem.types import Attachment

OFFLINE, PROVIDER = 1, 2
"""Ranks: what a provider's model saw is never replaced by less."""
PICTURE_BYTES: Final = 10_000_000
VOICE_BYTES: Final = 25_000_000
LONGEST_SIDE: Final = 1024
"""Of a picture as models see it, in pixels."""

OnSpent = Callable[[float], None]
"""Told what a call cost, in US dollars."""


@dataclass(frozen=True, slots=True)
class File:
    """An attachment with its content, and for which channel it is read."""

    attachment: Attachment
    content: bytes
    place: tuple[int, int]
    """Guild and channel."""


@dataclass(frozen=True, slots=True)
class Picture:
    """As models take it, or as rows of RGB."""

    content: bytes
    media_type: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Recording:
    """What was measured of one."""

    seconds: float
    kind: str
    """Its format, such as "ogg"."""


class Reader(Protocol):
    @property
    def name(self) -> str:
        """As it is kept with what it read."""

    @property
    def rank(self) -> int: ...

    @property
    def max_bytes(self) -> int: ...

    async def read(self, file: File) -> str:
        """A description or transcript, empty if there is nothing in it; raises UnreadableError."""

    async def close(self) -> None:
        """Called once, after the last file."""


@dataclass(frozen=True, slots=True)
class Readers:
    pictures: Reader | None = None
    voices: Reader | None = None
    close_decoder: Callable[[], Awaitable[None]] | None = None

    def of(self, kind: MediaKind) -> Reader | None:
        if kind is MediaKind.PICTURE:
            return self.pictures
        return self.voices if kind in {MediaKind.VOICE, MediaKind.AUDIO} else None

    async def close(self) -> None:
        for reader in (self.pictures, self.voices):
            if reader is not None:
                await reader.close()
        if self.close_decoder is not None:
            await self.close_decoder()
