"""Logs: one line shape on stderr, for our own lines and for those of libraries.

What people write is never passed to a logger. What libraries write is logged without secrets, without effect on a
terminal, and on one line.
"""

from __future__ import annotations

import logging
import sys

import structlog

from channelmem.display import one_line, visible
from channelmem.settings import Settings, hide

LIBRARIES_THAT_LOG_MESSAGES = ("discord", "aiohttp")
"""At DEBUG these log what people write, so they stay at INFO or above."""
OURS = {"level", "logger", "timestamp"}
LONG = {"exception", "stack"}


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
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=_rendering(settings)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    for name in LIBRARIES_THAT_LOG_MESSAGES:
        logging.getLogger(name).setLevel(max(logging.INFO, logging.getLevelName(settings.log_level)))


def _rendering(settings: Settings) -> list[structlog.typing.Processor]:
    bare = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    # structlog's default traceback shows local variables wherever rich is installed: messages, keys, tokens.
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    renderer = structlog.processors.JSONRenderer() if settings.log_json else plain

    def safe(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {name: value if name in OURS else _safe(name, value, settings) for name, value in event.items()}

    return [bare, structlog.processors.format_exc_info, safe, renderer]


def _safe(name: str, value: object, settings: Settings) -> object:
    """Numbers stay numbers; a traceback keeps its lines."""
    if value is None or isinstance(value, int | float):
        return value
    text = hide(str(value), settings)
    return visible(text) if name in LONG else one_line(text)
