"""What people type into `channelmem chat`.

At a terminal, readline edits a line and recalls earlier ones. It comes with Python on Linux and macOS; a Python built
without it reads lines as they come, and so does the chat when its input or output is not a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import ModuleType
from typing import Final

from rich.console import Console
from rich.text import Text

from channelmem.cli.chat_context import ChatHistory
from channelmem.display import visible

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
        self._offer_earlier_lines()

    @property
    def at_terminal(self) -> bool:
        return _at_terminal()

    def read(self, name: str) -> list[str]:
        """The lines typed or pasted at once, none if they are empty; EOFError when the chat is over."""
        try:
            text = self._ask_for_line(f"{' '.join(visible(name).split())}> ")
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

    def _ask_for_line(self, prompt: str) -> str:
        if self._readline is None:
            return self._console.input(Text(prompt, "bold"))
        # Not through the console: readline must know the prompt to redraw the line behind it.
        return input(prompt)

    def _end(self, ending: BaseException) -> None:
        """Ctrl-C drops what is half typed; on an empty line, or a second time, it ends the chat like Ctrl-D."""
        if self.at_terminal:
            print()
        half_typed = self._readline is not None and self._readline.get_line_buffer()
        if isinstance(ending, EOFError) or self._interrupted or not half_typed:
            raise EOFError from ending
        self._interrupted = True

    def _cut(self, line: str) -> str:
        if len(line) > LINE_CHARS:
            self._note(TOO_LONG)
        return line[:LINE_CHARS]

    def _offer_earlier_lines(self) -> None:
        if self._keep:
            with self._or_note(NOT_KEPT):
                for line in self._history.of(self._channel_id):
                    self._offer(visible(line))

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


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _readline() -> ModuleType | None:
    """Loaded for a terminal only, because loading it may already write an escape sequence."""
    if not _at_terminal():
        return None
    try:
        return import_module("readline")
    except ImportError:
        return None
