"""A person's own editor. In: a text. Out: what they saved, or a sentence why there is nothing.

While it runs, the terminal is the editor's: Ctrl-C means something there, and must not end the chat behind it.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

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
