"""Looks at the embedded server's file locks: held or not, by whom. What each means: supervisor.py.

Nothing here trusts a recorded pid: pids are reused, the kernel's lock and open-file tables are not stale.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import psutil

from channelmem.errors import ServerError
from channelmem.server.sentences import os_sentence

if sys.platform != "win32":
    import fcntl


def locked(path: Path) -> bool:
    """Whether somebody holds it exclusively."""
    try:
        fd = os.open(path, os.O_RDWR)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError as error:
        raise ServerError(os_sentence(error, path.parent)) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def await_unlocked(path: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while locked(path):
        if time.monotonic() > deadline:
            raise ServerError(f"The embedded server does not stop; look at {path.with_name('server.log')}.")
        time.sleep(0.02)


def having_open(path: Path) -> list[psutil.Process]:
    """Processes of this user that have the file open, this one excepted."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and any(file.path == str(path) for file in process.open_files()):
                found.append(process)
    return found


def command_of(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())[:100]
    return "?"


def await_death(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)
