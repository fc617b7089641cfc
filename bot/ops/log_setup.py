"""Log configuration. In: settings. Out: one line shape on stderr, for our own lines and for those of libraries.

What people write is never passed to a logger.
"""

from __future__ import annotations

import logging
import sys

import structlog

from channelmem.settings import Settings

LIBRARIES_THAT_LOG_MESSAGES = ("discord", "aiohttp")
"""At DEBUG these log what people write, so they stay at INFO or above."""


def configure_logging(settings: Settings) -> None:
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            *shared,
            structlog.processors.StackInfoRenderer(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_rendering(as_json=settings.log_json))
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    for name in LIBRARIES_THAT_LOG_MESSAGES:
        logging.getLogger(name).setLevel(max(logging.INFO, logging.getLevelName(settings.log_level)))


def _rendering(*, as_json: bool) -> list[structlog.typing.Processor]:
    bare = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if as_json:
        return [bare, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # structlog's default traceback shows local variables wherever rich is installed: messages, keys, tokens.
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    return [bare, plain]
