"""Python loads this at the start of each process that a test starts while TEST_CLOCK is set: clock.py says why."""

import os
import sys
import time

if "TEST_CLOCK_SHIFT_S" in os.environ:
    sys.modules["pytest"] = None  # type: ignore[assignment]  # time-machine would load it, for fixtures of its own
    try:
        import time_machine
    finally:
        del sys.modules["pytest"]
    time_machine.travel(time.time() + float(os.environ["TEST_CLOCK_SHIFT_S"])).start()  # noqa: TID251
