"""No process outlives a test run unnoticed."""

import os
import socket
import subprocess
import sys

import psutil
import pytest
from processes import RUN_ID, leftovers, quiet_port, started

pytestmark = pytest.mark.process

SLEEP = "import sys, time; print(flush=True); time.sleep(600)"
DETACHED = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"
PARENT = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {SLEEP!r}]); print(p.pid); p.wait()"


def test_a_process_that_detached_itself_is_found_named_by_its_test_and_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUN_ID, f"{os.environ[RUN_ID]}-nested")
    with started([sys.executable, "-c", DETACHED], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"\n", "the detached one runs"
        parent.wait()
    (found,) = leftovers(wait_s=0)
    assert "time.sleep(600)" in found
    assert "test_a_process_that_detached_itself" in found
    assert leftovers(wait_s=60) == []


def test_a_run_without_processes_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUN_ID, f"{os.environ[RUN_ID]}-nested")
    assert leftovers(wait_s=0) == []


def test_children_end_with_the_process_that_a_test_started() -> None:
    with started([sys.executable, "-uc", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
    child.wait(60)
    assert not child.is_running()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a port be kept for a server that is down")
def test_a_port_is_kept_for_the_server_that_a_test_starts_stops_and_starts_again() -> None:
    port = quiet_port()
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
            pass
