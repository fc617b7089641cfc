"""Directories of the embedded server. In: a data directory. Out: paths that only this user can change, or an error.

Whoever may replace the directory could put a socket of their own there, and would get the password from our clients.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from channelmem.errors import ServerError

SOCKET = "redis.sock"
LONGEST_SOCKET = 100
"""Bytes of a socket's path: the kernel takes 107 on Linux and 103 on macOS."""


def refuse_foreign(folder: Path) -> None:
    """Raises if the directory is a symlink, belongs to somebody else or lets others replace its contents."""
    try:
        found = folder.lstat()
    except OSError:
        return  # it does not exist or cannot be used, which whoever creates it will say
    if stat.S_ISLNK(found.st_mode):
        raise _refusal(f"{folder} is a symbolic link", "set CHANNELMEM_DATA_DIR to the directory it points to")
    if found.st_uid not in (os.geteuid(), 0):
        raise _refusal(f"{folder} belongs to another user", "set CHANNELMEM_DATA_DIR to a directory of your own")
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise _refusal(f"everybody may write to {folder}", f"run `chmod o-w {folder}`")


def _refusal(why: str, fix: str) -> ServerError:
    return ServerError(f"The embedded server keeps private messages, but {why}; {fix}.")


def socket_path(root: Path, last: str | None) -> Path:
    """Where the server listens: in its own directory or, if that path is too long for a socket, in a short new one.

    `last` is where it listened before: clients that still use that path must find the server there again.
    """
    path = root / SOCKET
    if len(os.fsencode(path)) <= LONGEST_SOCKET:
        return path
    if last and _is_private(Path(last).parent):
        return Path(last)
    return Path(tempfile.mkdtemp(prefix="channelmem-", dir=_short_base())) / SOCKET


def _short_base() -> str:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = runtime.startswith("/") and len(os.fsencode(runtime)) < LONGEST_SOCKET / 2 and _is_private(Path(runtime))
    return runtime if usable else "/tmp"  # noqa: S108  (mkdtemp makes a private directory there)


def _is_private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o700
