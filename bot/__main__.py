"""`python -m bot`: starts the Discord bot. In: the environment. Out: an exit code, and one sentence on failure."""

from __future__ import annotations

import asyncio
import sys

from bot.client import run
from bot.errors import STARTUP_ERRORS, startup_sentence
from bot.ops.log_setup import configure_logging
from channelmem.settings import load_settings


def main() -> int:
    try:
        settings = load_settings()
        configure_logging(settings)
        asyncio.run(run(settings))
    except STARTUP_ERRORS as error:
        sys.stderr.write(f"{startup_sentence(error)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
