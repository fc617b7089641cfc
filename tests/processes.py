"""Processes that tests start. They are gone, with all their children, when the block ends.

`leftovers` finds what a test run left behind: every process carries the run's id in its environment, even one that
detached itself, and pytest's own PYTEST_CURRENT_TEST names the test that started it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

RUN_ID = "TEST_RUN_ID"
ROOT = Path(__file__).resolve().parents[1]
_reserved: list[socket.socket] = []


@contextlib.contextmanager
def started(command: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process in a group of its own; the whole group is killed when the block ends, however it ends."""
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        yield process
    finally:
        end_group(process)


def end_group(process: subprocess.Popen[Any]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):  # what was written and never read
                stream.close()


def run(
    command: Sequence[str | Path], *, stdin: str = "", timeout_s: float, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Like `subprocess.run` with text captured, but a timeout ends the command's children too."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(command, text=True, **pipes, **options) as process:
        out, err = process.communicate(stdin, timeout=timeout_s)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def python_path() -> str:
    """With which a child in another folder imports this repository, besides what this process was given."""
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))


def quiet_port() -> int:
    """A port that nobody else is given while this process lives: it stays bound, but nothing listens on it.

    A server that names the port and sets SO_REUSEADDR, as all of ours do, may listen on it, stop, and listen again.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port = int(holder.getsockname()[1])
    if sys.platform == "linux":  # elsewhere no second socket may have the port
        _reserved.append(holder)
    else:
        holder.close()
    return port


# --- what a run left behind ---


def begin_run() -> None:
    os.environ[RUN_ID] = uuid.uuid4().hex


def leftovers(wait_s: float) -> list[str]:
    """Describes and kills the processes of this run that are still alive after `wait_s`."""
    deadline = time.monotonic() + wait_s
    while (alive := _of_this_run()) and (left_s := deadline - time.monotonic()) > 0:
        psutil.wait_procs(alive, timeout=left_s)
    described = [_described(process) for process in alive]
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return described


def _of_this_run() -> list[psutil.Process]:
    ours = os.environ[RUN_ID]
    return [one for one in psutil.process_iter() if one.pid != os.getpid() and _environment(one).get(RUN_ID) == ours]


def _environment(process: psutil.Process) -> dict[str, str]:
    with contextlib.suppress(psutil.Error, OSError):
        return process.environ()
    return {}


def _described(process: psutil.Process) -> str:
    test = _environment(process).get("PYTEST_CURRENT_TEST", "no test")
    with contextlib.suppress(psutil.Error):
        return f"{process.pid} {' '.join(process.cmdline())} (started by {test})"
    return f"{process.pid} (started by {test})"
