"""Supervises one embedded server: starts it, restarts it after a crash, stops it when its last user leaves.

In: one JSON request on stdin (root, socket, port, grace_s, candidates). Out: one JSON line on stdout (ready, or what
was tried and why it failed), then an up-to-date `state.json` in the server's directory. It runs by path with
`python -I -S` and imports only the standard library: it idles for days next to the bot and should cost almost nothing.

All coordination uses file locks, since the kernel drops them however a process dies, and pids get reused:

lease.lock       shared by every user; if this process gets it exclusively, nobody is left
supervisor.lock  exclusive here; users block on it in a thread, so they notice our death at once
server.lock      exclusive here and inherited by the server: held while a server of this directory is alive

On Linux the server gets SIGTERM when this process dies, so it cannot be orphaned; elsewhere the next start
ends whichever process still holds server.lock.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

POLL_S = 0.2
ANSWER_S = 20.0  # without any reply; a server that is loading its data says so and may take longer
EXIT_S = 60.0  # for the last fsync; then SIGKILL, which the append-only file survives
BACKOFF_S = (0.1, 10.0)
STEADY_S = 60.0  # after running this long, a crash starts the back-off from the beginning
LOG_BYTES = 4_000_000
IN_USE = "Address already in use"
SEARCH_LIMITS = ("MAXSEARCHRESULTS", "10000", "MAXAGGREGATERESULTS", "10000")
"""As Redis Stack's image sets them: what works here works there."""
USER = "channelmem"  # our own login, for the socket. The default user's is for the port, and a new one with each start.


class StartFailedError(Exception):
    """No candidate started; `tried` has one entry for each."""

    def __init__(self, tried: list[dict[str, str]]) -> None:
        super().__init__("no candidate started")
        self.tried = tried


class Supervisor:
    def __init__(self, root: Path, request: dict[str, Any]) -> None:
        self.root = root
        self.request = request
        self.state = read_state(root)
        self.state.setdefault("password", secrets.token_urlsafe(24))
        self.state["supervisor_pid"] = os.getpid()
        self.process: subprocess.Popen[bytes] | None = None
        self.stopping = False
        self.server_fd = -1

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with (
            # The lease is outermost: whoever gets it after our shutdown finds the other locks free.
            opened(self.root / "lease.lock") as lease,
            held(self.root / "supervisor.lock"),
            held(self.root / "server.lock") as self.server_fd,
        ):
            try:
                self._start_first_that_works()
                report({"ok": True})
                self._supervise(lease)
            finally:
                self._stop()
                self._remove_socket()

    def _on_term(self, *_: object) -> None:
        self.stopping = True

    # --- starting ---

    def _start_first_that_works(self) -> None:
        tried: list[dict[str, str]] = []
        last = self.state.get("binary")
        # The program that wrote the data comes first: Redis and Valkey cannot read each other's files.
        for candidate in sorted(self.request["candidates"], key=lambda c: c["binary"] != last):
            why = self._start(candidate, self.request["port"])
            if why is None:
                return
            tried.append({"label": candidate["label"], "binary": candidate["binary"], "why": why})
            if IN_USE in why or "No space left" in why:
                break
        raise StartFailedError(tried)

    def _start(self, candidate: dict[str, Any], port: int) -> str | None:
        """None once the server answers a search command, else its last output."""
        if port and taken(port):
            return IN_USE
        self.state.update(
            socket=self.request["socket"],
            port=port,
            # Whoever took the port of a crashed server may have been sent the last one.
            port_password=secrets.token_urlsafe(24),
            binary=candidate["binary"],
            name=candidate["label"],
        )
        config = self.root / "redis.conf"
        write_private(config, config_text(self.root, candidate["modules"], self.state))
        log = self.root / "server.log"
        start = log.stat().st_size if log.exists() else 0
        try:
            with log.open("ab") as out:
                self.process = subprocess.Popen(  # noqa: S603  (a path we found ourselves, no shell)
                    [candidate["binary"], str(config)],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    pass_fds=(self.server_fd,),
                    preexec_fn=_end_with(os.getpid()),  # noqa: PLW1509  (this process has one thread)
                )
        except OSError as error:
            return str(error)
        why = self._await_answer(self.process)
        if why is not None:
            self._stop()
            return f"{why}\n{log.read_bytes()[start:][-3000:].decode(errors='replace')}".strip()
        self.state.update(pid=self.process.pid, modules=candidate["modules"])
        write_private(self.root / "state.json", json.dumps(self.state, indent=1))
        return None

    def _await_answer(self, process: subprocess.Popen[bytes]) -> str | None:
        deadline = time.monotonic() + ANSWER_S
        while time.monotonic() < deadline and not self.stopping:
            if process.poll() is not None:
                return f"it exited with status {process.returncode}"
            reply = ask(self.state["socket"], f"{USER} {self.state['password']}", "FT._LIST")
            if reply.startswith("*"):
                return None
            if "unknown command" in reply:
                return "it runs without the search module"
            if reply.startswith("-LOADING"):
                deadline = time.monotonic() + ANSWER_S
            time.sleep(0.02)
        return "it did not answer"

    # --- running ---

    def _supervise(self, lease: int) -> None:
        """Returns when it is time to stop; holds the lease exclusively if the reason is that nobody is left."""
        idle_since: float | None = None
        started, backoff = time.monotonic(), BACKOFF_S[0]
        while not self.stopping and not (self.root / "stop-requested").exists():
            if self.process is None or self.process.poll() is not None:
                backoff = BACKOFF_S[0] if time.monotonic() - started > STEADY_S else backoff
                time.sleep(backoff)
                backoff = min(backoff * 2, BACKOFF_S[1])
                self._restart()
                started = time.monotonic()
            if (self.root / "pinned").exists() or not try_lock(lease):
                idle_since = None
            else:
                idle_since = idle_since or time.monotonic()
                if time.monotonic() - idle_since >= self.request["grace_s"]:
                    return
                fcntl.flock(lease, fcntl.LOCK_UN)
            time.sleep(POLL_S)

    def _restart(self) -> None:
        candidate = {"label": self.state["name"], "binary": self.state["binary"], "modules": self.state["modules"]}
        port = self.request["port"]
        try:
            # Our own clients use the socket: a stranger on the port must not keep the server from them.
            why = self._start(candidate, 0 if taken(port) else port)
        except OSError as error:
            why = str(error)
        if why is not None:
            sys.stderr.write(f"channelmem: restarting the server failed, retrying: {why.splitlines()[0]}\n")

    def _stop(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(EXIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _remove_socket(self) -> None:
        """With its directory, if that was made for it."""
        path = Path(self.request["socket"])
        path.unlink(missing_ok=True)
        if path.parent != self.root:
            with contextlib.suppress(OSError):
                path.parent.rmdir()


def config_text(root: Path, modules: list[str], state: dict[str, Any]) -> str:
    """Holds the password, which must not be on a command line, where every user of the machine can read it."""
    lines = [
        f"unixsocket {quoted(state['socket'])}",
        "unixsocketperm 600",
        f"user {USER} on >{state['password']} ~* &* +@all",
        "bind 127.0.0.1",
        f"port {state['port']}",
        f"requirepass {state['port_password']}",
        f"dir {quoted(root)}",
        "daemonize no",
        "appendonly yes",
        "appendfsync everysec",
        'save ""',
        "maxmemory-policy noeviction",
        # Keeps a message with its FLOAT16 vector in one listpack: 220 bytes smaller, and 30 % faster to read 50.
        "hash-max-listpack-value 1024",
        *(" ".join(["loadmodule", quoted(path), *arguments]) for path, *arguments in map(loaded, modules)),
    ]
    return "\n".join(lines) + "\n"


def loaded(module: Path | str) -> list[str]:
    """A module with its arguments."""
    return [str(module), *(SEARCH_LIMITS if Path(module).name == "redisearch.so" else ())]


def quoted(path: Path | str) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def ask(where: str | int, login: str, command: str) -> str:
    """What a socket or loopback port replies to one inline command; empty if nothing does. `login`: [user] password."""
    try:
        with socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET) as connection:
            connection.settimeout(2)
            connection.connect(where if isinstance(where, str) else ("127.0.0.1", where))
            connection.sendall(f"AUTH {login}\r\n{command}\r\nQUIT\r\n".encode())
            reply = b""
            while chunk := connection.recv(4096):
                reply += chunk
    except OSError:
        return ""
    auth, _, rest = reply.decode(errors="replace").partition("\r\n")
    return rest if auth == "+OK" else auth


def taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def read_state(root: Path) -> dict[str, Any]:
    try:
        state = json.loads((root / "state.json").read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def write_private(path: Path, text: str) -> None:
    """Writes atomically, and never readable by others, not even for a moment."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    fresh.replace(path)


def try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def held(path: Path) -> Iterator[int]:
    """Locked for the block. Users take these locks (shared) for an instant to test them, so retry for a while."""
    with opened(path) as fd:
        deadline = time.monotonic() + ANSWER_S
        while not try_lock(fd):
            if time.monotonic() > deadline:
                raise OSError(errno.EAGAIN, "another server of this directory is still running", str(path))
            time.sleep(0.02)
        yield fd


def _end_with(parent: int) -> Any:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)

    def between_fork_and_exec() -> None:
        libc.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # the parent died before the call above took effect
            os._exit(1)

    return between_fork_and_exec


def report(outcome: dict[str, Any]) -> None:
    """Tells the starter, if it is still there; if not, the server stops because nobody holds a lease."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(outcome))
        sys.stdout.flush()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, sys.stdout.fileno())
    os.close(quiet)


def main() -> None:
    request = json.loads(sys.stdin.read())
    if os.fork():
        os._exit(0)  # the starter reaps this process at once; init adopts the child, so no zombie remains
    os.umask(0o077)
    os.chdir("/")
    root = Path(request["root"])
    try:
        log = root / "server.log"
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.replace(root / "server.log.1")
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(out, sys.stderr.fileno())
        os.close(out)
        Supervisor(root, request).run()
    except StartFailedError as error:  # no lock is held by now, so the next start need not wait for this process
        report({"ok": False, "tried": error.tried})
    except OSError as error:
        report({"ok": False, "errno": error.errno, "why": str(error)})
        raise


if __name__ == "__main__":
    main()
