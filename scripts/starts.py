"""Times process starts for bench_peers: channelmem to its first answer, against importing sentence-transformers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from channelmem.server.lease import running
from channelmem.settings import Settings
from scripts import measure
from scripts.measure import Ratio, Report

OURS: Final = "channelmem"
IMPORT: Final = "import sentence_transformers"

FIRST_ANSWER: Final = """
import asyncio, sys
from channelmem.memory import Memory
from scripts.measure import conversation, questions, subject_channel
async def main():
    async with Memory.open() as memory:
        if sys.argv[1] == "write":
            await memory.remember_many(conversation(subject_channel()))
            await memory.flush()
        else:
            answer = await memory.ask(next(questions(0)))
            assert answer.hits, answer.text
            print("answered", flush=True)
asyncio.run(main())
"""


def time_starts(report: Report, times: int) -> None:
    """Process starts, up to the first answer and including the start of the embedded server."""
    took: dict[str, list[float]] = {OURS: [], IMPORT: []}
    with tempfile.TemporaryDirectory(prefix="channelmem-bench-", ignore_cleanup_errors=True) as folder:
        settings = Settings(_env_file=None, redis_url=None, data_dir=Path(folder), embedded_grace_s=0)
        clean = {key: value for key, value in os.environ.items() if "REDIS_URL" not in key}
        env = {**clean, "CHANNELMEM_DATA_DIR": folder, "CHANNELMEM_EMBEDDED_GRACE_S": "0"}
        _first_line([sys.executable, "-c", FIRST_ANSWER, "write"], env)
        for _ in range(times):
            _await_stopped(settings)
            took[OURS].append(_first_line([sys.executable, "-c", FIRST_ANSWER, "ask"], env))
            took[IMPORT].append(_first_line([sys.executable, "-c", "import sentence_transformers; print(1)"], env))
        _await_stopped(settings)
    middle = {how: measure.spread(each).p50 for how, each in took.items()}
    for how, each in took.items():
        report.add("process start to first answer, second run", what=how, seconds=middle[how], best=min(each))
    share = middle[OURS] / middle[IMPORT]
    report.ratios.append(Ratio("start to first answer against importing sentence-transformers", share, 0.2))


def _first_line(command: list[str], env: dict[str, str]) -> float:
    started = time.perf_counter()
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        spent = time.perf_counter() - started
        assert process.wait() == 0, command
    return spent


def _await_stopped(settings: Settings) -> None:
    while running(settings) is not None:
        time.sleep(0.05)
