"""The only place where tests touch the wall clock; ruff bans `time.time`, `time.sleep` and the like elsewhere in tests.

Prefer the `clock` fixture and `NOW` of conftest.py. `wall_now` is for tests whose product code has no clock to set: a
command, a page, a child process. Data of such a test must hold at any hour, on both sides of midnight and of a window.
"""

from __future__ import annotations

import time

POLL_S = 0.01


def wall_now() -> float:
    """Epoch seconds, as the product code of this process sees them."""
    return time.time()


def pause() -> None:
    """Between two looks at something that another process does; async code waits with waiting.py."""
    time.sleep(POLL_S)
