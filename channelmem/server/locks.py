"""Reads the embedded server's file locks. In: a lock file. Out: whether it is held, and by which processes.

supervisor.py explains each lock. Nothing here trusts a recorded pid: pids are reused, while the kernel's lock and
open-file tables are never stale.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import psutil

from channelmem.errors import ServerError
from channelmem.server.check import os_sentence

if sys.platform != "win32":
    import fcntl


def locked(path: Path) -> bool:
    """Whether another process holds it exclusively."""
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
            log = path.with_name("server.log")
            raise ServerError(f"The embedded server does not stop; check {log} and end its process.")
        time.sleep(0.02)


def having_open(path: Path) -> list[psutil.Process]:
    """Other processes of this user that have the file open."""
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
