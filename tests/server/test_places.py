"""Where the embedded server's socket lies: short enough for the kernel, and in a directory of our own."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from channelmem.server.lease import LONGEST_SOCKET, socket_path

DEEP = Path("/home/somebody") / ("d" * 120) / "redis"


@pytest.fixture
def short() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cm", dir="/tmp") as folder:
        yield Path(folder)


def test_a_short_path_is_the_servers_own_directory(tmp_path: Path) -> None:
    assert socket_path(Path("/data/redis"), None) == Path("/data/redis/redis.sock")
    assert socket_path(Path("/data/redis"), "/tmp/other/redis.sock") == Path("/data/redis/redis.sock")  # noqa: S108


def test_a_long_path_goes_to_the_runtime_directory(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    path = socket_path(DEEP, None)
    assert path.is_relative_to(short)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len(os.fsencode(path)) <= LONGEST_SOCKET
    assert socket_path(DEEP, str(path)) == path, "clients that have its URL find it again"


@pytest.mark.parametrize("runtime", ["", ".", "missing", "open"])
def test_a_runtime_directory_that_is_not_our_own_is_not_used(
    short: Path, monkeypatch: pytest.MonkeyPatch, runtime: str
) -> None:
    (short / "open").mkdir()
    (short / "open").chmod(0o755)
    monkeypatch.chdir(short)
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime if len(runtime) < 2 else str(short / runtime))
    path = socket_path(DEEP, None)
    try:
        assert path.parent.parent == Path("/tmp")  # noqa: S108
    finally:
        path.parent.rmdir()


def test_the_last_directory_is_not_used_if_others_could_have_made_it(short: Path) -> None:
    (short / "planted").mkdir()
    (short / "planted").chmod(0o755)
    (short / "link").symlink_to(short)
    for name in ("planted", "link", "gone"):
        path = socket_path(DEEP, str(short / name / "redis.sock"))
        path.parent.rmdir()
        assert path.parent.parent != short
