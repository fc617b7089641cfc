"""Runs bench_knn, bench_peers and bench_ingest and compares every target ratio in one table.

    python -m scripts.bench [--quick] [--json]          (`make bench`)

Each benchmark runs in its own process, since the peers' torch would disturb the others. It takes a few minutes, mostly
to build the graph of 100,000 messages; --quick stops at 10,000 and takes fewer rounds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any, Final

from scripts import measure

FULL: Final = {
    "bench_knn": ("--sizes", "1000", "100000", "--variants", "hnsw-float16"),
    "bench_peers": (),
    "bench_ingest": ("--workers", "1", "--stored", "10000"),
}
QUICK: Final = {
    "bench_knn": ("--sizes", "1000", "10000", "--variants", "hnsw-float16"),
    "bench_peers": ("--rounds", "4", "--starts", "1", "--backlog", "1000"),
    "bench_ingest": ("--workers", "--stored", "--rounds", "4"),
}


def main() -> None:
    options = _options().parse_args()
    console = measure.wide_console()
    ratios: list[dict[str, Any]] = []
    reports = []
    for name, arguments in (QUICK if options.quick else FULL).items():
        report = _run(name, *arguments)
        reports.append(report)
        ratios += report["ratios"]
        if not options.json:
            measure.show(console, report)
    if options.json:
        print(json.dumps(reports, indent=2))
        return
    measure.show_ratios(console, ratios)


def _options() -> argparse.ArgumentParser:
    parser = measure.parser(__doc__, "bench")
    parser.add_argument("--quick", action="store_true", help="store at most 10,000 messages and take fewer rounds")
    return parser


def _run(name: str, *arguments: str) -> dict[str, Any]:
    """Runs one benchmark; its progress bar on stderr stays visible."""
    command = [sys.executable, "-m", f"scripts.{name}", "--json", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


if __name__ == "__main__":
    main()
