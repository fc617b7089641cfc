"""Runs the tests with the marker `process` one by one; what fails runs once more, alone, after the rest.

A test that passes only then is printed as FLAKY and does not fail the run. Arguments go to pytest.

    python -m scripts.process_tests [--durations=25 ...]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

FAILED = 1
"""pytest's status if tests failed, and nothing worse happened."""


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        status = _pytest(folder, ["-m", "process and not slow", *arguments])
        failed = _failed(folder)
        if status != FAILED or not failed:
            return status
        print(f"\nOnce more, each alone: {len(failed)} that failed.", flush=True)
        statuses = {name: _pytest(folder, ["-m", "", name]) for name in failed}
    for name in failed:
        print(f"FLAKY {name}" if statuses[name] == 0 else f"FAILED twice: {name}")
    return max(statuses.values())


def _pytest(folder: str, arguments: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={folder}", *arguments]
    return subprocess.run(command, check=False).returncode


def _failed(folder: str) -> list[str]:
    kept = Path(folder, "v/cache/lastfailed")
    return sorted(json.loads(kept.read_text())) if kept.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
