"""Keeps the markers honest that say what a test needs. conftest.py registers this module as a plugin.

`process`: the test starts, kills, stops or freezes a process. Such tests depend on how busy the machine is, so they run
one by one (`make test-process`). A test that starts a process without the marker fails with a sentence that names it.
`redis`: the test needs the run's Redis. It is added here, never by hand; `make test-fast` runs the tests without it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import pytest

EVENTS = {"subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.kill", "os.killpg"}
"""What Python tells its audit hooks. asyncio and multiprocessing go the same ways."""
OWN = {"own_server", "cluster"}
"""Fixtures that start processes: whoever asks for them has the marker `process`."""
SHARED = {"redis_url", "browser"}
"""Fixtures that start processes for a whole run or module: whoever is first to ask for them is not to blame."""


class _Watch:
    def __init__(self) -> None:
        self.watching = False
        self.seen: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.watching and event in EVENTS and not _only_asks(event, arguments):
            self.seen.append(f"{event} {arguments[:2]}")


ASKING = {"uname", "ip", "ifconfig"}
"""Programs that packages run once to learn what machine this is; whichever test comes first would be to blame."""


def _only_asks(event: str, arguments: tuple[Any, ...]) -> bool:
    """Signal 0 asks whether a process is there."""
    if event == "subprocess.Popen":
        return PurePath(str(arguments[0])).name in ASKING
    return event in {"os.kill", "os.killpg"} and arguments[1] == 0


_watch = _Watch()
sys.addaudithook(_watch)


def _marked(item: pytest.Item) -> bool:
    return item.get_closest_marker("process") is not None


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        asked = set(getattr(item, "fixturenames", ()))
        if asked & OWN and not _marked(item):
            item.add_marker("process")
        if "redis_url" in asked:
            item.add_marker("redis")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    _watch.seen = []
    _watch.watching = not _marked(item)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
    before = _watch.watching
    _watch.watching = before and fixturedef.argname not in SHARED
    try:
        return (yield)
    finally:
        _watch.watching = before


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    try:
        yield
    finally:
        _watch.watching = False
    if _watch.seen:
        pytest.fail(
            f"{item.name} starts or signals a process ({_watch.seen[0]}); mark it with @pytest.mark.process, "
            "so that it runs beside no other test.",
            pytrace=False,
        )
