"""Tests that start processes say so: the marker's guard, and what runs once more alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from processes import run

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.process

CONFTEST = """
import subprocess, sys
import process_guard, pytest

def pytest_configure(config):
    config.pluginmanager.register(process_guard)
    config.addinivalue_line("markers", "process: starts processes")
    config.addinivalue_line("markers", "redis: needs Redis")

def start():
    subprocess.run([sys.executable, "-c", ""], check=True)

@pytest.fixture(scope="session")
def redis_url():
    start()

@pytest.fixture
def helper():
    start()

@pytest.fixture
def own_server():
    start()
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    return tmp_path


def outcome(suite: Path, tests: str, *arguments: str, program: str = "pytest") -> CompletedProcess[str]:
    """The tests' own run, in a process of its own: it must not turn off the guard that watches this one."""
    (suite / "test_it.py").write_text(
        f"import asyncio, os, subprocess, sys\nimport pytest\nfrom conftest import start\n{tests}"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent), str(suite)])}
    return run([sys.executable, "-m", program, *arguments], cwd=suite, env=env, timeout_s=100)


@pytest.mark.parametrize(
    "test",
    [
        "def test_it(): start()",
        "def test_it(helper): ...",
        "def test_it(): os.kill(os.getppid(), 18)",
        "async def test_it(): await (await asyncio.create_subprocess_exec(sys.executable, '-c', '')).wait()",
    ],
)
def test_a_test_that_starts_or_signals_a_process_without_the_marker_fails_and_is_told_its_name(
    suite: Path, test: str
) -> None:
    done = outcome(suite, test)
    assert done.returncode == 1, done.stdout
    assert "1 failed" in done.stdout
    assert "mark it with @pytest.mark.process" in done.stdout


@pytest.mark.parametrize(
    "test",
    [
        "@pytest.mark.process\ndef test_it(helper): start()",
        "def test_it(own_server): start()",  # marked by its fixture
        "def test_it(redis_url): ...",  # the server of the whole run
        "def test_it(): os.kill(os.getpid(), 0)",
        "def test_it(): ...",
    ],
)
def test_marked_tests_and_the_shared_server_are_let_through(suite: Path, test: str) -> None:
    done = outcome(suite, test)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout


def test_tests_that_need_redis_are_found_by_their_fixtures(suite: Path) -> None:
    tests = "@pytest.fixture\ndef settings(redis_url): ...\ndef test_a(settings): ...\ndef test_b(): ..."
    done = outcome(suite, tests, "-v", "-m", "not redis")
    assert "test_b PASSED" in done.stdout
    assert "test_a" not in done.stdout


FLAKY = """
from pathlib import Path
pytestmark = pytest.mark.process
def test_that_passes_when_run_again():
    ran = Path("ran")
    if not ran.exists():
        ran.touch()
        pytest.fail("beside others")
    assert Path("rest").exists(), "it runs again after the rest"
def test_of_the_rest(): Path("rest").touch()
"""


def test_a_process_test_that_passes_when_run_again_is_named_flaky_and_fails_nothing(suite: Path) -> None:
    done = outcome(suite, FLAKY, program="scripts.process_tests")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "FLAKY test_it.py::test_that_passes_when_run_again"


def test_a_process_test_that_fails_twice_fails_the_run(suite: Path) -> None:
    tests = FLAKY + "def test_broken(): assert False\n"
    done = outcome(suite, tests, program="scripts.process_tests")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-2:] == [
        "FAILED twice: test_it.py::test_broken",
        "FLAKY test_it.py::test_that_passes_when_run_again",
    ]


def test_a_file_that_cannot_be_read_fails_the_run(suite: Path) -> None:
    assert outcome(suite, "def test_it(:", program="scripts.process_tests").returncode == 2
