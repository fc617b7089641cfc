"""`make audit`: a known vulnerability fails it, a missing database does not, and it ends in time."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from scripts import audit

LOCK = ["# a comment", "safe==1.0", "torn==2.0", "rare==3.0"]
FAKE = """
import json, sys, time
file = sys.argv[sys.argv.index("--requirement") + 1]
found = []
for line in open(file).read().split():
    name, _, version = line.partition("==")
    if name in {skipped!r}:
        found.append({{"name": name, "skip_reason": "not found"}})
        continue
    vulns = [{{"id": "CVE-1", "fix_versions": ["2.1"]}}] if name in {torn!r} else []
    found.append({{"name": name, "version": version, "vulns": vulns}})
{extra}
print(json.dumps({{"dependencies": found}}))
sys.exit(any(one.get("vulns") for one in found))
"""


@pytest.fixture
def pip_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "pip_audit.py"
    monkeypatch.setattr(audit, "PIP_AUDIT", [sys.executable, str(program)])
    return program


def fake(skipped: list[str], torn: list[str], extra: str = "") -> str:
    return FAKE.format(skipped=skipped, torn=torn, extra=extra)


@pytest.mark.process
def test_a_vulnerable_release_is_named_with_its_fix(pip_audit: Path) -> None:
    pip_audit.write_text(fake(["rare"], ["torn"]))
    report = audit.audit(LOCK)
    assert report.vulnerable == ["torn 2.0: CVE-1, fixed in 2.1"]
    assert audit.verdict(report) == "Known vulnerabilities:\ntorn 2.0: CVE-1, fixed in 2.1"


@pytest.mark.process
def test_releases_that_were_not_looked_up_do_not_count_as_safe(pip_audit: Path) -> None:
    pip_audit.write_text(fake(["rare"], []))
    assert audit.verdict(audit.audit(LOCK)) == "No known vulnerability in 2 locked releases; not in the database: rare."
    pip_audit.write_text(fake(["safe", "torn", "rare"], []))
    assert audit.verdict(audit.audit(LOCK)).startswith("Not audited: the package index")


@pytest.mark.process
def test_a_database_that_cannot_be_reached_is_one_line(pip_audit: Path) -> None:
    pip_audit.write_text("import sys; sys.exit('ERROR: no route to host')")
    report = audit.audit(LOCK)
    assert (audit.verdict(report), report.vulnerable) == ("Not audited: ERROR: no route to host.", [])


@pytest.mark.process
def test_a_database_that_hangs_is_left_in_time(pip_audit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "LIMIT_S", 0.5)
    pip_audit.write_text(fake([], [], "time.sleep(300)"))
    started = time.monotonic()
    assert "did not answer within" in audit.verdict(audit.audit(LOCK))
    assert time.monotonic() - started < 60


def test_a_missing_pip_audit_stops_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(audit, "find_spec", lambda _: None)
    assert audit.main() == 0
    assert capsys.readouterr().out == "Not audited: pip-audit is not installed; run `make install`.\n"


def test_ci_audits() -> None:
    assert "\nmake audit\n" in (audit.ROOT / ".ci" / "run").read_text()
