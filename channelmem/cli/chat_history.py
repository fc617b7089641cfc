"""The lines people typed into `channelmem chat`, for later runs. In: lines. Out: a file that only its owner can read.

The file holds the newest lines of all conversations, and none for longer than the memory keeps messages.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from channelmem.settings import Settings

FILE: Final = "chat-history"
MAX_LINES: Final = 500
_ENTRY: Final = re.compile(r"(?P<ts>\d{1,12}) (?P<channel>\d{1,20}) (?P<text>.+)")


@dataclass(frozen=True, slots=True)
class Entry:
    ts: int
    channel_id: int
    text: str


class History:
    """Its methods raise OSError if the file can't be used."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self.path = settings.data_dir / FILE
        self._keep_s, self._clock = settings.lifetime_s, clock

    def of(self, channel_id: int) -> list[str]:
        """The lines of one conversation, oldest first."""
        return [entry.text for entry in self._read() if entry.channel_id == channel_id]

    def add(self, channel_id: int, line: str) -> None:
        # Read again each time, because other chats may share the file.
        self._write([*self._read(), Entry(int(self._clock()), channel_id, line)][-MAX_LINES:])

    def forget(self, channel_id: int) -> None:
        entries = self._read()
        others = [entry for entry in entries if entry.channel_id != channel_id]
        if others != entries:
            self._write(others)

    def _read(self) -> list[Entry]:
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        oldest = self._clock() - self._keep_s
        found = (_ENTRY.fullmatch(line) for line in text.split("\n"))
        entries = (Entry(int(one["ts"]), int(one["channel"]), one["text"]) for one in found if one)
        return [entry for entry in entries if entry.ts >= oldest]

    def _write(self, entries: Iterable[Entry]) -> None:
        text = "".join(f"{entry.ts} {entry.channel_id} {entry.text}\n" for entry in entries)
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd, fresh = tempfile.mkstemp(prefix=f"{FILE}.", dir=self.path.parent)  # with mode 0600
        try:
            with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
            Path(fresh).replace(self.path)
        except OSError:
            Path(fresh).unlink(missing_ok=True)
            raise
