"""`python -m bot`: starts the Discord bot; what keeps it from starting is one plain sentence."""

from __future__ import annotations

import asyncio
import sys

from bot.client import run
from bot.errors import START_UP, start_up_sentence
from bot.ops.metrics import configure_logging
from channelmem.settings import load_settings


def main() -> int:
    try:
        settings = load_settings()
        configure_logging(settings)
        asyncio.run(run(settings))
    except START_UP as error:
        sys.stderr.write(f"{start_up_sentence(error)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
