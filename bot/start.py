"""Starts the Discord bot from the environment; on failure, one sentence and an exit code."""

from __future__ import annotations

import asyncio
import sys

from channelmem.display import visible
from channelmem.settings import hide, load_settings

from .client import run
from .errors import STARTUP_ERRORS, startup_sentence
from .log_setup import configure_logging


def main() -> int:
    settings = None
    try:
        settings = load_settings()
        configure_logging(settings)
        asyncio.run(run(settings))
    except STARTUP_ERRORS as error:
        sentence = startup_sentence(error)  # errors of libraries may quote a secret
        sys.stderr.write(f"{visible(hide(sentence, settings) if settings else sentence)}\n")
        return 1
    return 0
