"""A throw-away Redis without modules, for tests of what channelmem says about an unsuitable server."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from processes import quiet_port, started

from channelmem.server.find import candidates
from channelmem.server.supervisor import ask


@contextlib.contextmanager
def plain_server(folder: Path, *, cluster: bool = False) -> Iterator[str]:
    """Yields its URL. The first installed server program that runs here, started without the search module."""
    port, password = quiet_port(), "plain"
    config = folder / "plain.conf"
    config.write_text(f'bind 127.0.0.1\nport {port}\nrequirepass {password}\nsave ""\ndir "{folder}"\n')
    if cluster:
        config.write_text(f"{config.read_text()}cluster-enabled yes\n")
    for candidate in candidates():
        with started([candidate.binary, config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            if _answers(process, port, password):
                yield f"redis://:{password}@127.0.0.1:{port}/0"
                return
    raise RuntimeError("no server program runs here")


def _answers(process: subprocess.Popen[bytes], port: int, password: str) -> bool:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if ask(port, password, "PING").startswith("+PONG"):
            return True
        time.sleep(0.02)
    return False
