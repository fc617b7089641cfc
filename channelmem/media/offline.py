"""Readers without a provider, a key or a network. In: a file. Out: the text in a picture, or what a recording says.

The engines (`ocr.py`, `whisper.py`) are optional packages of some weight: they are loaded by the first file, off the
event loop, and work one at a time in one lane, however many files there are.
"""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol

from channelmem.extras import load
from channelmem.media.aside import Aside
from channelmem.media.readers import OFFLINE, File
from channelmem.settings import Settings


class Engine(Protocol):
    def read(self, file: File) -> str:
        """Blocking; raises UnreadableError."""


class OfflineReader:
    """A Reader."""

    rank: Final = OFFLINE

    def __init__(self, name: str, extra: str, max_bytes: int, settings: Settings, lane: Aside) -> None:
        self.name, self.max_bytes = name, max_bytes
        self._extra, self._settings, self._lane = extra, settings, lane
        self._engine: Engine | None = None

    async def read(self, file: File) -> str:
        return await self._lane.run(partial(self._run, file))

    async def close(self) -> None:
        """An engine goes with its process."""

    def _run(self, file: File) -> str:
        if self._engine is None:
            module = load(f"channelmem.media.{self.name}", self._extra, "Reading media offline")
            self._engine = module.open_engine(self._settings)
        return self._engine.read(file)
