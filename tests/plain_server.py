"""A throw-away Redis without modules, for tests of what channelmem says about an unsuitable server."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from clock import pause
from processes import quiet_port, started

from channelmem.server.lease import candidates
from channelmem.server.supervisor import ask

PASSWORD = "plain"


@contextlib.contextmanager
def plain_server(folder: Path, *, cluster: bool = False) -> Iterator[str]:
    """Yields its URL. The first installed server program that runs here, started without the search module."""
    log = folder / "plain.log"
    port = quiet_port()
    for candidate in candidates():
        command = [str(candidate.binary), str(_config(folder, port, cluster=cluster))]
        with log.open("a") as out, started(command, stdout=out, stderr=out) as process:
            if _answers(process, port):
                yield f"redis://:{PASSWORD}@127.0.0.1:{port}/0"
                return
    raise RuntimeError(f"No server program runs here: {log.read_text()}")


def _config(folder: Path, port: int, *, cluster: bool) -> Path:
    lines = ["bind 127.0.0.1", f"port {port}", f"requirepass {PASSWORD}", 'save ""', f'dir "{folder}"']
    if cluster:
        lines += ["cluster-enabled yes", f"cluster-config-file nodes-{port}.conf", f"cluster-port {quiet_port()}"]
    config = folder / "plain.conf"
    config.write_text("\n".join(lines) + "\n")
    return config


def _answers(process: subprocess.Popen[str], port: int) -> bool:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if ask(port, PASSWORD, "PING").startswith("+PONG"):
            return True
        pause()
    return False
