"""`scripts.flake_hunt` plans, reads pytest's summary and goes on where it was; the suite itself is not run here."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from scripts.flake_hunt import (
    HOURS,
    Failure,
    Hunt,
    HuntError,
    Result,
    Run,
    arguments,
    begun,
    by_test,
    commands,
    failures,
    group,
    moment,
    planned,
    save,
)

SUMMARY = """
=================================== FAILURES ===================================
E   FAILED is a word that output may hold
=========================== short test summary info ============================
FAILED tests/test_a.py::test_one - assert 38 == 36
\x1b[31mFAILED\x1b[0m tests/test_b.py::\x1b[1mtest_two[what did Ann say - or not?]\x1b[0m - AssertionError: no
ERROR tests/test_c.py::test_three - ConnectionError
ERROR tests/test_d.py
3 failed, 800 passed in 60.00s
ERROR: this process outlived the test run: 12 sleep 9 (started by tests/test_e.py::test_x)
"""


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning needs no time-machine."""
    monkeypatch.setattr("scripts.flake_hunt.find_spec", lambda name: name)


def hunt(*results: Result, pytest: tuple[str, ...] = ()) -> Hunt:
    return Hunt(7, list(pytest), True, list(results))


def result(number: int, *tests: str) -> Result:
    return Result(planned(number, 7)[-1], "2028-02-29T10:10:00+00:00", 1.5, tuple(map(Failure, tests)))


def test_every_hour_meets_idle_and_busy_cores_and_every_run_has_its_seed() -> None:
    runs = planned(2 * len(HOURS), 100)
    assert {(run.hour, run.busy) for run in runs} == {(hour, busy) for hour in HOURS for busy in (False, True)}
    assert [run.seed for run in runs] == list(range(101, 101 + len(runs)))
    assert sum(run.busy for run in planned(10, 0)) == 5
    assert planned(3, 100) == runs[:3]


def test_an_hour_without_a_date_is_todays() -> None:
    today = date(2027, 5, 6)
    assert moment("before midnight", today) == datetime(2027, 5, 6, 23, 59, 50, tzinfo=UTC)
    assert moment("29 February", today) == datetime(2028, 2, 29, 10, 10, tzinfo=UTC)
    assert all(moment(hour, today).tzinfo is UTC for hour in HOURS)


def test_process_tests_run_one_after_the_other_and_pytests_arguments_are_passed_on() -> None:
    given = arguments(["--runs", "3", "--", "-n", "1", "tests/telling/test_recap.py"])
    suite, alone = commands(Run(1, "31 December", 8, busy=False), hunt(pytest=tuple(given.pytest)))
    assert suite[-9:] == [
        "-n",
        "auto",
        "--dist",
        "worksteal",
        "-m",
        "not slow and not process",
        "-n",
        "1",
        "tests/telling/test_recap.py",
    ]
    assert alone[-4:] == ["-n", "0", "-m", "process and not slow"]
    assert "tests/telling/test_recap.py" in alone
    assert all("--random-order-seed=8" in command for command in (suite, alone))
    assert len(commands(Run(1, "31 December", 8, busy=False), Hunt(7, [], False, []))) == 1


def test_failures_are_read_from_the_summary() -> None:
    assert failures(SUMMARY, 1) == (
        Failure("tests/test_a.py::test_one", "assert 38 == 36"),
        Failure("tests/test_b.py::test_two[what did Ann say - or not?]", "AssertionError: no"),
        Failure("tests/test_c.py::test_three", "ConnectionError"),
        Failure("tests/test_d.py"),
        Failure("the run", "this process outlived the test run: 12 sleep 9 (started by tests/test_e.py::test_x)"),
    )


@pytest.mark.parametrize(("status", "count"), [(0, 0), (5, 0), (3, 1), (-9, 1)])
def test_a_run_without_a_summary_fails_by_its_status(status: int, count: int) -> None:
    found = failures("usage: pytest\nerror: unknown option\n\n", status)
    assert len(found) == count
    assert all("unknown option" in one.why for one in found)


def test_the_most_frequent_failure_comes_first_with_its_runs() -> None:
    told = by_test([result(1, "a", "b"), result(2), result(3, "b")])
    assert [(test, count, [run.number for run in runs]) for test, count, runs in told] == [
        ("b", 2, [1, 3]),
        ("a", 1, [1]),
    ]


def test_the_same_command_goes_on_where_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "hunt"
    assert begun(folder, hunt(), fresh=False).results == []
    save(folder / "state.json", hunt(result(1, "a"), result(2)))
    assert begun(folder, hunt(), fresh=False).results == [result(1, "a"), result(2)]
    with pytest.raises(HuntError, match="pass --fresh"):
        begun(folder, hunt(pytest=("tests/test_a.py",)), fresh=False)
    assert begun(folder, hunt(), fresh=True).results == []


@pytest.mark.process
def test_a_process_ends_with_its_block() -> None:
    with group([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert process.poll() is None
    assert process.poll() is not None
