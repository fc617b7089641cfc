"""A program at a terminal: what it shows, without styles, for what somebody types."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from clock import pause
from processes import started

LIMIT_S = 300.0
"""Against a hang only: beside busy cores a command takes its time."""
UP, LEFT, CTRL_C, CTRL_D, ENTER = "\x1b[A", "\x1b[D", "\x03", "\x04", "\r"
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WAITS = {"x86_64": {"23", "270"}, "aarch64": {"72"}}.get(os.uname().machine, set())
"""The system calls select and pselect6, in which readline waits for a key."""
# The child takes the terminal for its own, so that Ctrl-C reaches it. A test run in the background ignores SIGINT.
PRELUDE = (
    "import fcntl, signal, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "signal.signal(signal.SIGINT, signal.default_int_handler); "
)


class Terminal:
    def __init__(self, fd: int, process: subprocess.Popen[bytes]) -> None:
        self._fd, self._process = fd, process
        self._unread = b""

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def until(self, text: str) -> str:
        """What is shown up to this text and with it; what follows is left for the next call."""
        while text not in (shown := self._shown()):
            piece = self._read()
            assert piece, f"{text!r} never came: {shown!r}"
            self._unread += piece
        before, _, after = shown.partition(text)
        self._unread = after.encode()
        return before + text

    def interrupt(self) -> None:
        """Ctrl-C at the prompt. A signal just before readline waits for a key would be noticed after that key only."""
        deadline = time.monotonic() + LIMIT_S
        while Path(f"/proc/{self._process.pid}/syscall").read_text().split()[0] not in WAITS:
            assert time.monotonic() < deadline, "the prompt never waited for a key"
            pause()
        self.type(CTRL_C)

    def end(self) -> tuple[int, str]:
        """The exit status, and all that was shown last."""
        while piece := self._read():
            self._unread += piece
        return self._process.wait(LIMIT_S), self._shown()

    def _shown(self) -> str:
        return STYLE.sub("", self._unread.decode(errors="replace"))

    def _read(self) -> bytes:
        assert select.select([self._fd], [], [], LIMIT_S)[0], f"nothing more came: {self._shown()!r}"
        try:
            return os.read(self._fd, 65_536)
        except OSError:  # how Linux says that nobody is left at the other end
            return b""


@contextmanager
def terminal(python: str, code: str, *arguments: str, env: Mapping[str, str]) -> Iterator[Terminal]:
    """Runs Python code at a terminal that is wide enough for every line."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 300))
    command = [python, "-c", PRELUDE + code, *arguments]
    # No ~/.inputrc of the developer.
    env = {**env, "TERM": "xterm", "INPUTRC": "/dev/null"}
    try:
        with started(command, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            yield Terminal(ours, process)
    finally:
        os.close(ours)
