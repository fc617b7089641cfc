"""`/context` in `channelmem chat`, with a person's own editor, and the typed lines that Up recalls."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from channelmem.context.edit_file import decode
from channelmem.context.window import Command, ContextWindow, Step
from channelmem.extras import load
from channelmem.interface import ChannelMemory
from channelmem.settings import Settings

if TYPE_CHECKING:
    from channelmem.llm.prompts import Character


FALLBACK: Final = "vi"
NOT_STARTED: Final = "Can't start the editor {editor!r}: {problem}. Set $EDITOR to another one. Nothing was changed."
FAILED: Final = "The editor ended with status {status}, so nothing was changed."
NOT_SAVED: Final = "You didn't save the file, so nothing was changed."
FILE_NAME: Final = "context.txt"


class EditorError(Exception):
    """Nothing was edited; the sentence says why."""


def edited(text: str) -> bytes:
    """What somebody made of the text, as their editor saved it."""
    # A directory of its own, because editors leave backups and swap files beside the file.
    with tempfile.TemporaryDirectory(prefix="channelmem-") as folder:
        path = Path(folder) / FILE_NAME
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        os.utime(path, (0, 0))
        _run(path)
        if path.stat().st_mtime == 0:
            raise EditorError(NOT_SAVED)
        return path.read_bytes()


def _run(path: Path) -> None:
    editor = os.environ.get("EDITOR", "").strip() or FALLBACK
    try:
        with _interrupts_ignored():
            # A pipe's lines are for the chat.
            stdin = None if sys.stdin.isatty() else subprocess.DEVNULL
            done = subprocess.run([*shlex.split(editor), str(path)], stdin=stdin, check=False)  # noqa: S603  (their own)
    except (OSError, ValueError) as problem:
        said = getattr(problem, "strerror", None) or problem
        raise EditorError(NOT_STARTED.format(editor=editor, problem=said)) from problem
    if done.returncode:
        raise EditorError(FAILED.format(status=done.returncode))


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """A handler that does nothing, and not SIG_IGN, which the editor would inherit."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# --- chat history ---


FILE: Final = "chat-history"
MAX_LINES: Final = 500
_ENTRY: Final = re.compile(r"(?P<ts>\d{1,12}) (?P<channel>\d{1,20}) (?P<text>.+)")


@dataclass(frozen=True, slots=True)
class TypedLine:
    ts: int
    channel_id: int
    text: str


class ChatHistory:
    """Its methods raise OSError if the file can't be used."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self.path = settings.data_dir / FILE
        self._keep_s, self._clock = settings.lifetime_s, clock

    def of(self, channel_id: int) -> list[str]:
        """The lines of one conversation, oldest first."""
        return [entry.text for entry in self._read() if entry.channel_id == channel_id]

    def add(self, channel_id: int, line: str) -> None:
        # Read again each time, because other chats may share the file.
        self._write([*self._read(), TypedLine(int(self._clock()), channel_id, line)][-MAX_LINES:])

    def forget(self, channel_id: int) -> None:
        entries = self._read()
        others = [entry for entry in entries if entry.channel_id != channel_id]
        if others != entries:
            self._write(others)

    def _read(self) -> list[TypedLine]:
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return []
        oldest = self._clock() - self._keep_s
        found = (_ENTRY.fullmatch(line) for line in text.split("\n"))
        entries = (TypedLine(int(one["ts"]), int(one["channel"]), one["text"]) for one in found if one)
        return [entry for entry in entries if entry.ts >= oldest]

    def _write(self, entries: Iterable[TypedLine]) -> None:
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


# --- chat context ---


CONTEXT: Final = "/context"
NEW: Final = "/new"
EDIT: Final = "edit"
HAND_BACK: Final = "When you save and close it:"


def is_edit(line: str) -> bool:
    return line.split() == [CONTEXT, EDIT]


class ChatContext:
    def __init__(self, memory: ChannelMemory, settings: Settings, guild_id: int, channel_id: int) -> None:
        self._window, self._settings = ContextWindow(memory), settings
        self._guild_id, self._channel_id = guild_id, channel_id

    def takes(self, line: str) -> bool:
        return line.split()[:1] in ([CONTEXT], [NEW])

    async def take(self, line: str) -> str:
        """Anything but `/context edit`, which needs the terminal."""
        first, *words = line.split()
        if first == NEW:
            return await self._window.begin(self._command(""))
        command, text = self._command(self.character("")), " ".join(words)
        if text in {"", "show"}:
            return await self._window.show(command)
        if text == "reset":
            return await self._window.reset(command)
        if words[0] in set(Step):
            return await self._window.change(Step(words[0]), " ".join(words[1:]), command)
        return await self._window.change(Step.SET, text, command)

    async def edit_file(self) -> str:
        """EditError if there is nothing to edit."""
        return await self._window.edit_file(self._command(self.character("")), HAND_BACK)

    async def keep(self, data: bytes) -> str:
        """EditError if it is not a text."""
        return await self._window.keep(decode(data), self._command(self.character("")))

    def character(self, text: str) -> str:
        """Who answers a question."""
        chosen = load("channelmem.llm.prompts", "llm", CONTEXT).choose_character
        return str(chosen(text, self._characters).name) if self._characters else "bot"

    @cached_property
    def _characters(self) -> tuple[Character, ...]:
        known: tuple[Character, ...] = load("channelmem.llm.prompts", "llm", CONTEXT).known_characters(self._settings)
        return known

    def _command(self, character: str) -> Command:
        return Command(self._guild_id, self._channel_id, by=0, at=time.time(), character=character)
