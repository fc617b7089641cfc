"""Hunts tests that fail by chance: runs the suite again and again in random order, at awkward hours, beside busy cores.

    python -m scripts.flake_hunt --runs 10
    python -m scripts.flake_hunt --runs 14 --without-process -- tests/telling

Each run is `pytest -n auto` without slow and process tests, then the process tests one after the other. Every test of a
run begins at the same moment: just before midnight, in the night when clocks change, on 29 February, and so on. Every
second run shares the machine with two busy processes. The seed of run N is --seed plus N. To repeat a single test:

    TEST_CLOCK=2028-02-29T10:10:00+00:00 python -m pytest tests/telling/test_recap.py::test_name

Redis keeps the real clock; a test that holds ours against it asks for the fixture `real_time`.

It keeps what is done in a folder (.flake_hunt), with the full output of each run. Stop it with Ctrl-C; the same command
goes on where it was, --fresh begins again. After `--` stand arguments for pytest: files, -k, -x.

Exit status: 0 if nothing failed, 1 if something did, 2 if it could not begin, 130 if it was stopped before that.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from importlib.util import find_spec
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".flake_hunt"
BUSY = 2
"""Processes beside every second run."""
SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
"""It ends by itself if this script is killed."""
SUITE, ALONE = "not slow and not process", "process and not slow"
NO_TESTS = 5
"""What pytest exits with if it found no tests."""
STOPPED = 130
ENDING_S = 60.0
FAILED = re.compile(r"^(?:FAILED|ERROR) (?P<test>\S+\.py(?:::[^\s\[]+(?:\[.*?\](?= - |$))?)?)(?: - (?P<why>.*))?$")
LEFT_BEHIND = re.compile(r"^ERROR: (?P<why>this process outlived the test run: .*)$")

HOURS = {
    "before midnight": "23:59:50",
    "after midnight": "00:00:05",
    "before half past twelve": "12:29:55",
    "the hour that is skipped": "2027-03-28T00:59:50",  # 2:00 becomes 3:00 in Europe/Berlin, the tests' time zone
    "the hour that comes twice": "2027-10-31T00:59:50",
    "29 February": "2028-02-29T10:10:00",
    "31 December": "2026-12-31T15:00:00",
}
"""In UTC; an hour without a date is today's. An odd number, so that each hour meets both idle and busy cores."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run as planned."""

    number: int
    hour: str
    seed: int
    busy: bool


@dataclass(frozen=True, slots=True)
class Failure:
    test: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """A run that has ended."""

    run: Run
    at: str
    seconds: float
    failures: tuple[Failure, ...]


@dataclass(slots=True)
class Hunt:
    """What the folder keeps."""

    seed: int
    pytest: list[str]
    process: bool
    results: list[Result]


class HuntError(Exception):
    """One sentence for whoever started it."""


# --- the plan ---


def planned(runs: int, seed: int) -> list[Run]:
    hours = list(HOURS)
    return [
        Run(number, hours[(number - 1) % len(hours)], seed + number, number % 2 == 0) for number in range(1, runs + 1)
    ]


def moment(hour: str, today: date) -> datetime:
    text = HOURS[hour]
    return datetime.fromisoformat(text if "T" in text else f"{today}T{text}").replace(tzinfo=UTC)


def commands(run: Run, hunt: Hunt) -> list[list[str]]:
    """The suite on all cores, then the tests that start and kill processes, one after the other."""
    order = ["--random-order", f"--random-order-seed={run.seed}", "-rfE", "--tb=short"]
    pytest = [sys.executable, "-m", "pytest", *order]
    suite = [*pytest, "-n", "auto", "--dist", "worksteal", "-m", SUITE, *hunt.pytest]
    return [suite, [*pytest, *hunt.pytest, "-n", "0", "-m", ALONE]] if hunt.process else [suite]


# --- what came out ---


def failures(output: str, status: int) -> tuple[Failure, ...]:
    """Read from pytest's short summary; a run that failed without one is a failure of its own."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in output.splitlines()]
    found = [Failure(hit["test"], hit["why"] or "") for hit in map(FAILED.match, lines) if hit]
    found += [Failure("the run", hit["why"]) for hit in map(LEFT_BEHIND.match, lines) if hit]
    if not found and status not in {0, NO_TESTS}:
        last = next((line for line in reversed(lines) if line.strip()), "no output")
        found = [Failure("the run", f"pytest ended with status {status}: {last}")]
    return tuple(found)


def by_test(results: Sequence[Result]) -> list[tuple[str, int, list[Run]]]:
    """Each test that failed, how often, and in which runs; the most frequent first."""
    seen = Counter(one.test for result in results for one in set(result.failures))
    return [
        (test, count, [result.run for result in results if test in {one.test for one in result.failures}])
        for test, count in sorted(seen.items(), key=lambda item: (-item[1], item[0]))
    ]


# --- the state ---


def load(file: Path) -> Hunt:
    kept = json.loads(file.read_text("utf-8"))
    results = [
        Result(Run(**one["run"]), one["at"], one["seconds"], tuple(Failure(**failed) for failed in one["failures"]))
        for one in kept.pop("results")
    ]
    return Hunt(**kept, results=results)


def save(file: Path, hunt: Hunt) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(asdict(hunt), indent=1), "utf-8")
    new.replace(file)


def begun(folder: Path, asked: Hunt, *, fresh: bool) -> Hunt:
    """What is left of an earlier call with the same arguments, else a new hunt."""
    if find_spec("time_machine") is None:
        raise HuntError("time-machine is not installed; run `make install`.")
    file = folder / "state.json"
    if fresh or not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        return asked
    hunt = load(file)
    if (hunt.seed, hunt.pytest, hunt.process) != (asked.seed, asked.pytest, asked.process):
        raise HuntError(
            f"{folder} holds a hunt with other arguments; pass --fresh to replace it, or --folder for another."
        )
    return hunt


# --- running ---


@contextmanager
def group(command: Sequence[str], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, which ends with the block: gently, then not."""
    process = subprocess.Popen(command, start_new_session=True, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        for sign in (signal.SIGINT, signal.SIGKILL):
            if process.poll() is None:
                os.killpg(process.pid, sign)
                try:
                    process.wait(ENDING_S)
                except subprocess.TimeoutExpired:
                    continue


def carried_out(run: Run, hunt: Hunt, folder: Path) -> Result:
    at, began, found = moment(run.hour, datetime.now(UTC).date()), time.monotonic(), list[Failure]()
    environment = {**os.environ, "TEST_CLOCK": at.isoformat()}
    with ExitStack() as beside:
        for _ in range(BUSY * run.busy):
            beside.enter_context(group([sys.executable, "-c", SPIN], stderr=subprocess.DEVNULL))
        for part, command in enumerate(commands(run, hunt), 1):
            log = folder / f"run-{run.number:03d}-{part}.log"
            with log.open("wb") as out, group(command, cwd=ROOT, env=environment, stdout=out, stderr=out) as pytest:
                status = pytest.wait()
            found += failures(log.read_text("utf-8", errors="replace"), status)
    return Result(run, at.isoformat(), round(time.monotonic() - began, 1), tuple(found))


def hunted(hunt: Hunt, runs: int, folder: Path, told: Console) -> None:
    """Carries out what is left to do. Ctrl-C forgets the run that it interrupts."""
    for run in planned(runs, hunt.seed)[len(hunt.results) :]:
        told.print(f"[bold]{heading(run)}[/bold] ... ", end="", highlight=False)
        result = carried_out(run, hunt, folder)
        hunt.results.append(result)
        save(folder / "state.json", hunt)
        told.print(f"{len(result.failures)} failed in {result.seconds:.0f} s", highlight=False)
        for one in result.failures:
            told.print(f"  {one.test}  {one.why}", highlight=False, markup=False, soft_wrap=True)


def heading(run: Run) -> str:
    beside = "beside busy cores" if run.busy else "alone"
    return f"Run {run.number}, {run.hour} ({HOURS[run.hour]} UTC), seed {run.seed}, {beside}"


# --- telling ---


def table(hunt: Hunt) -> Table:
    shown = Table("test", "failed", "runs", box=box.SIMPLE, title=f"Runs: {len(hunt.results)}")
    for test, count, runs in by_test(hunt.results):
        shown.add_row(test, str(count), "\n".join(f"{one.number}: {one.hour}, seed {one.seed}" for one in runs))
    return shown


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.flake_hunt", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10, help="how many runs in all, those already done included")
    parser.add_argument("--seed", type=int, default=0, help="where the seeds of the orders begin")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where state and output are kept")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier call did")
    parser.add_argument("--without-process", action="store_true", help="leave out tests that start and kill processes")
    parser.add_argument(
        "--json", action="store_true", help="print the state as JSON at the end; progress goes to stderr"
    )
    parser.add_argument("pytest", nargs="*", metavar="-- PYTEST", help="arguments for pytest")
    return parser.parse_args(given)


def main() -> int:
    options = arguments()
    told = Console(stderr=options.json)
    try:
        asked = Hunt(options.seed, options.pytest, not options.without_process, [])
        hunt = begun(options.folder, asked, fresh=options.fresh)
    except HuntError as error:
        told.print(str(error), highlight=False, markup=False)
        return 2
    status = 0
    try:
        hunted(hunt, options.runs, options.folder, told)
    except KeyboardInterrupt:
        status = STOPPED
        told.print("\nStopped; the same command goes on from here.")
    if options.json:
        print(json.dumps(asdict(hunt)))
    elif any(result.failures for result in hunt.results):
        told.print(table(hunt))
        told.print(f"Output: {options.folder}/run-*.log", highlight=False)
    else:
        told.print(f"Nothing failed; runs: {len(hunt.results)}.", highlight=False)
    return 1 if any(result.failures for result in hunt.results) else status


if __name__ == "__main__":
    sys.exit(main())
