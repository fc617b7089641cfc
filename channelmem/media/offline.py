"""Readers without a provider, a key or a network. In: a file. Out: the text in a picture, or what a recording says.

Files are decoded in a process of their own (`decoder.py`): what reaches an engine is pixels or samples. The engines
(`ocr.py`, `whisper.py`) are optional packages of some weight: they are loaded by the first file, off the event loop,
and work one at a time in one lane, however many files there are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol

from channelmem.extras import load
from channelmem.media.aside import Aside
from channelmem.media.readers import OFFLINE, File
from channelmem.settings import Settings

Decode = Callable[[bytes], Awaitable[Any]]
"""What the engine takes, of a file; raises UnreadableError."""


class Engine(Protocol):
    def read(self, decoded: Any) -> str:
        """Blocking; raises UnreadableError."""


class OfflineReader:
    """A Reader."""

    rank: Final = OFFLINE

    def __init__(self, name: str, extra: str, max_bytes: int, decode: Decode, settings: Settings, lane: Aside) -> None:
        self.name, self.max_bytes, self._decode = name, max_bytes, decode
        self._extra, self._settings, self._lane = extra, settings, lane
        self._engine: Engine | None = None

    async def read(self, file: File) -> str:
        decoded = await self._decode(file.content)
        return await self._lane.run(partial(self._run, decoded))

    async def close(self) -> None:
        """An engine goes with its process."""

    def _run(self, decoded: object) -> str:
        if self._engine is None:
            module = load(f"channelmem.media.{self.name}", self._extra, "Reading media offline")
            self._engine = module.open_engine(self._settings)
        return self._engine.read(decoded)
