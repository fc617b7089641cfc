"""The only place where tests touch the wall clock; ruff bans `time.time`, `time.sleep` and the like elsewhere in tests.

Prefer the `clock` fixture and `NOW` of conftest.py. `wall_now` is for tests whose product code has no clock to set: a
command, a page, a child process. Data of such a test must hold at any hour, on both sides of midnight and of a window.

`scripts.flake_hunt` moves that hour: with TEST_CLOCK=2028-02-29T10:00:00+00:00 every test begins at that moment, time
goes on from there, and Python processes that tests start follow (shifted/sitecustomize.py). Redis keeps the real clock.
"""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from time_machine import Traveller

POLL_S = 0.01
WINDOW_S = 1_800.0
MOMENT = "TEST_CLOCK"
SHIFT_S = "TEST_CLOCK_SHIFT_S"
"""For child processes: seconds between their clock and the real one."""
SHIFTED = str(Path(__file__).with_name("shifted"))

_moved: list[Traveller] = []


def wall_now() -> float:
    """Epoch seconds, as the product code of this process sees them."""
    return time.time()


def mid_window(ago_s: float) -> float:
    """The middle of a summary window about so long ago: what is within ten minutes of it is in that window, too."""
    return (wall_now() - ago_s) // WINDOW_S * WINDOW_S + WINDOW_S / 2


def pause() -> None:
    """Between two looks at something that another process does; async code waits with waiting.py."""
    time.sleep(POLL_S)


def begin_test() -> None:
    """Every test begins at the moment of TEST_CLOCK, so that a hunt takes no luck to meet midnight."""
    if MOMENT in os.environ:
        _move(datetime.fromisoformat(os.environ[MOMENT]).timestamp())


def to_real_time() -> None:
    """For a test that holds our clock against one that nobody moves, such as that of Redis."""
    if MOMENT in os.environ:
        _move(_real_now())


def _move(to: float) -> None:
    import time_machine  # noqa: PLC0415  (only a hunt needs it)

    if _moved:
        _moved[0].move_to(to)
    else:
        _moved.append(time_machine.travel(to).start())
    os.environ[SHIFT_S] = repr(to - _real_now())
    others = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one and one != SHIFTED]
    os.environ["PYTHONPATH"] = os.pathsep.join([SHIFTED, *others])


def _real_now() -> float:
    import time_machine  # noqa: PLC0415

    return time_machine.escape_hatch.time.time() if _moved else time.time()
