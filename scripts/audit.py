"""Look up the locked releases in the database of known vulnerabilities.

    python -m scripts.audit

`make audit` and CI call it. It fails if a release has a known vulnerability. Without a database (no network, an index
without such data, a slow one) it says so in one line and lets CI go on: a missing answer says nothing about the code.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 20.0
PARALLEL = 6
"""pip-audit looks up one release after the other, which takes longer than the limit for all of them."""
ACCEPTED: dict[str, str] = {}
"""Vulnerabilities that do not concern us: id -> why."""
PIP_AUDIT = [sys.executable, "-m", "pip_audit"]
OPTIONS = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"]


@dataclass(slots=True)
class Report:
    audited: int = 0
    unknown: list[str] = field(default_factory=list)
    """Releases that the database does not know."""
    vulnerable: list[str] = field(default_factory=list)
    problem: str = ""
    """Why there is no result."""


def main() -> int:
    if find_spec("pip_audit") is None:
        print("Not audited: pip-audit is not installed; run `make install`.")
        return 0
    report = audit((ROOT / "constraints.txt").read_text().splitlines())
    print(verdict(report))
    return int(bool(report.vulnerable))


def audit(lock: list[str]) -> Report:
    """All parts at once, within the limit."""
    releases = [line for line in lock if line.strip() and not line.startswith("#")]
    deadline = time.monotonic() + LIMIT_S
    report = Report()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        parts = [_start(stack, folder / f"{n}.txt", releases[n::PARALLEL]) for n in range(PARALLEL)]
        for process in parts:
            _collect(process, deadline, report)
    return report


def _start(stack: ExitStack, file: Path, releases: list[str]) -> subprocess.Popen[str]:
    file.write_text("\n".join(releases))
    accepted = [part for name in ACCEPTED for part in ("--ignore-vuln", name)]
    command = [*PIP_AUDIT, "--requirement", str(file), *OPTIONS, *accepted]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    stack.enter_context(process)
    stack.callback(process.kill)  # no effect if it has ended
    return process


def _collect(process: subprocess.Popen[str], deadline: float, report: Report) -> None:
    try:
        out, err = process.communicate(timeout=max(0.0, deadline - time.monotonic()))
        found = json.loads(out)["dependencies"]
    except subprocess.TimeoutExpired:
        report.problem = f"the database did not answer within {LIMIT_S:.0f} s"
        return
    except (ValueError, KeyError):
        report.problem = (err.strip().splitlines() or ["pip-audit printed nothing"])[-1]
        return
    for one in found:
        if "skip_reason" in one:
            report.unknown.append(one["name"])
            continue
        report.audited += 1
        report.vulnerable += [_described(one, vulnerability) for vulnerability in one["vulns"]]


def _described(one: dict[str, str], vulnerability: dict[str, list[str]]) -> str:
    fixed = ", ".join(vulnerability.get("fix_versions", ())) or "no release yet"
    return f"{one['name']} {one['version']}: {vulnerability['id']}, fixed in {fixed}"


def verdict(report: Report) -> str:
    if report.vulnerable:
        return "\n".join(["Known vulnerabilities:", *report.vulnerable])
    if report.problem:
        return f"Not audited: {report.problem}."
    if not report.audited:
        return "Not audited: the package index of this machine has no data on vulnerabilities."
    rest = f"; not in the database: {', '.join(sorted(report.unknown))}" if report.unknown else ""
    return f"No known vulnerability in {report.audited} locked releases{rest}."


if __name__ == "__main__":
    sys.exit(main())
