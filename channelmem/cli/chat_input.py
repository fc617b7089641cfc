"""What people type into `channelmem chat`: lines, those of earlier runs, `/context`, and a text in their own editor.

At a terminal, readline edits a line and recalls earlier ones. It comes with Python on Linux and macOS; a Python built
without it reads lines as they come, and so does the chat when its input or output is not a terminal.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from channelmem.context_window import Command, ContextWindow, Step, decode
from channelmem.display import visible
from channelmem.extras import load
from channelmem.interface import ChannelMemory
from channelmem.settings import Settings

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
    before = signal.signal(signal.SIGINT, lambda *_: None)  # not SIG_IGN, which the editor would inherit
    try:
        # A pipe's lines are for the chat.
        stdin = None if sys.stdin.isatty() else subprocess.DEVNULL
        done = subprocess.run([*shlex.split(editor), str(path)], stdin=stdin, check=False)  # noqa: S603  (their own)
    except (OSError, ValueError) as problem:
        said = getattr(problem, "strerror", None) or problem
        raise EditorError(NOT_STARTED.format(editor=editor, problem=said)) from problem
    finally:
        signal.signal(signal.SIGINT, before)
    if done.returncode:
        raise EditorError(FAILED.format(status=done.returncode))


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
        known = self._characters
        choose = load("channelmem.llm.prompts", "llm", CONTEXT).choose_character
        return str(choose(text, known).name) if known else "bot"

    @cached_property
    def _characters(self) -> Sequence[Any]:
        """Read once: an edited file counts from the next chat on."""
        known: Sequence[Any] = load("channelmem.llm.prompts", "llm", CONTEXT).known_characters(self._settings)
        return known

    def _command(self, character: str) -> Command:
        return Command(self._guild_id, self._channel_id, by=0, at=time.time(), character=character)


# --- typed lines ---


LINE_CHARS: Final = 4_000
"""As much as Discord accepts in one message."""
NOT_UTF8: Final = "That line is not valid UTF-8; check the terminal's encoding."
TOO_LONG: Final = f"That line is too long; I took its first {LINE_CHARS:,} characters."
NOT_KEPT: Final = "Can't keep typed lines in {path}: {problem}. The chat works without that."
NOT_FORGOTTEN: Final = "Can't remove the lines of this chat from {path}: {problem}."


class Typed:
    """Reads lines; with `keep`, Up recalls those of earlier runs and later runs recall these."""

    def __init__(self, console: Console, channel_id: int, history: ChatHistory, *, keep: bool) -> None:
        self._console, self._channel_id, self._history = console, channel_id, history
        self._readline = _readline()
        self._keep = keep and self._readline is not None
        self._interrupted = False
        if self._readline is not None:
            self._readline.set_auto_history(False)  # it would offer blank lines too
        if self._keep:
            with self._or_note(NOT_KEPT):
                for line in history.of(channel_id):
                    self._offer(visible(line))

    def read(self, name: str) -> list[str]:
        """The lines typed or pasted at once, none if they are empty; EOFError when the chat is over."""
        prompt = f"{' '.join(visible(name).split())}> "
        try:
            # Where there is readline, not through the console: it must know the prompt to redraw the line behind it.
            text = input(prompt) if self._readline is not None else self._console.input(Text(prompt, "bold"))
        except UnicodeDecodeError:
            self._note(NOT_UTF8)
            return []
        except (EOFError, KeyboardInterrupt) as ending:
            self._end(ending)
            return []
        self._interrupted = False
        return [self._cut(line) for line in map(str.strip, text.splitlines()) if line]

    def add(self, line: str) -> None:
        """Lets Up recall the line, here and in later runs."""
        self._offer(line)
        if self._keep:
            with self._or_note(NOT_KEPT):
                self._history.add(self._channel_id, line)

    def forget(self) -> None:
        """Forgets what was typed into this conversation, here and in earlier runs."""
        if self._readline is not None:
            self._readline.clear_history()
        with self._or_note(NOT_FORGOTTEN):
            self._history.forget(self._channel_id)

    def _end(self, ending: BaseException) -> None:
        """Ctrl-C drops what is half typed; on an empty line, or a second time, it ends the chat like Ctrl-D."""
        if at_terminal():
            print()
        half_typed = self._readline is not None and self._readline.get_line_buffer()
        if isinstance(ending, EOFError) or self._interrupted or not half_typed:
            raise EOFError from ending
        self._interrupted = True

    def _cut(self, line: str) -> str:
        if len(line) > LINE_CHARS:
            self._note(TOO_LONG)
        return line[:LINE_CHARS]

    def _offer(self, line: str) -> None:
        if self._readline is not None:
            with suppress(UnicodeEncodeError):  # another terminal had more letters
                self._readline.add_history(line)

    @contextmanager
    def _or_note(self, sentence: str) -> Iterator[None]:
        """If the file can't be used, one sentence says so and the chat goes on without it."""
        try:
            yield
        except OSError as problem:
            self._keep = False
            self._note(sentence.format(path=self._history.path, problem=problem.strerror or problem))

    def _note(self, text: str) -> None:
        self._console.print(Text(text, "yellow"), soft_wrap=True)


def at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _readline() -> ModuleType | None:
    """Loaded for a terminal only, because loading it may already write an escape sequence."""
    if not at_terminal():
        return None
    try:
        return import_module("readline")
    except ImportError:
        return None
