"""Lets several bots live a random history while processes and Redis are killed, stopped, filled and broken, and checks
what is promised: nothing acknowledged is lost, nothing removed comes back, nothing leaves its channel.

    python -m scripts.torture [--minutes 20] [--steps 1000000] [--seed 1] [--processes 3] [--no-service] [--json]

It starts an embedded Redis Stack of its own, and a service with one more bot, whose memory is a `Client`. Exit
status 1: something was violated; the examples say what. The seed decides what is said, decided, asked and broken, and
in which order; how that falls together in time is up to the machine, so a violation may need more than one run to come
back.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from channelmem.server.lease import lease
from scripts.torturing.actor import settings_for
from scripts.torturing.faults import Faults
from scripts.torturing.model import Why
from scripts.torturing.plan import Plan
from scripts.torturing.processes import OwnProcess
from scripts.torturing.run import Run
from scripts.torturing.service import Service


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--no-service", action="store_true", help="only bots with a memory of their own")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


async def tortured(options: argparse.Namespace, folder: Path) -> Run:
    settings = settings_for(folder)
    with lease(settings) as server:
        service = None if options.no_service else Service(settings, folder / "service.log")
        faults = Faults(server.url, server.data_dir, service)
        processes = [OwnProcess(folder, folder / f"process-{number}.log") for number in range(options.processes)]
        if service is not None:
            processes.append(OwnProcess(folder, folder / "client.log", service))
        run = Run(Plan(options.seed, len(processes), faults.names), processes, faults)
        try:
            await run(options.steps, options.minutes * 60)
        finally:
            for process in processes:
                await process.kill()
            if service is not None:
                await service.close()
    return run


def figures(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    found = run.figures
    return {
        "seed": options.seed,
        "processes": options.processes,
        "processes on a service": 0 if options.no_service else 1,
        "seconds": round(found.seconds, 1),
        "steps": found.total,
        "by act": dict(found.steps.most_common()),
        "acknowledged messages": run.model.acknowledged,
        "looked for": run.model.looked_for,
        "came out and judged": run.model.judged,
        "checkpoints": found.checkpoints,
        "faults": dict(found.faults.most_common()),
        "violations": {why.value: run.model.violations[why] for why in Why},
        "examples": run.model.examples,
    }


def show(told: dict[str, Any]) -> None:
    for name, value in told.items():
        if isinstance(value, dict):
            print(f"\n{name}")
            for one, count in value.items():
                print(f"  {one:<40}{count:>10,}")
        elif not isinstance(value, list):
            print(f"{name:<42}{value:>10,}")
    for example in told["examples"]:
        print(example)


def main() -> int:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="torture-", ignore_cleanup_errors=True) as folder:
        run = asyncio.run(tortured(options, Path(folder)))
    told = figures(run, options)
    if options.json:
        print(json.dumps(told, indent=2))
    else:
        show(told)
    return 1 if run.model.violations else 0


if __name__ == "__main__":
    sys.exit(main())
