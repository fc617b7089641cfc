"""Operations: log lines, figures, health. In: settings and what the cogs count. Out: stderr, and a port if set."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import aiohttp
import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from channelmem.settings import Settings
from channelmem.types import Answer

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


def configure_logging(settings: Settings) -> None:
    """One shape for our own lines and for those of libraries; text of messages is never given to a logger."""
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
    # Where rich is installed, structlog's own choice of a traceback shows every local variable: words, keys, tokens.
    console = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer() if settings.log_json else console
    last: list[structlog.typing.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if settings.log_json:
        last.append(structlog.processors.format_exc_info)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[*last, renderer]))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    # At DEBUG these two would print what people write.
    for chatty in ("discord", "aiohttp"):
        logging.getLogger(chatty).setLevel(max(logging.INFO, logging.getLevelName(settings.log_level)))


class Metrics:
    """What is counted. Each bot has its own registry, so that two of them can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        kept = self.registry
        self.asks = Counter(
            "channelmem_asks", "Questions by route and outcome.", ["kind", "mode", "outcome"], registry=kept
        )
        self.stage = Histogram(
            "channelmem_stage_seconds", "Time of one answer by stage.", ["stage"], registry=kept, buckets=SECONDS
        )
        self.disliked = Counter(
            "channelmem_disliked", "Answers that got a thumbs down.", ["kind", "mode"], registry=kept
        )
        self.refused = Counter("channelmem_cooldowns", "Questions refused by a cool-down.", registry=kept)
        self.remembered = Counter("channelmem_messages", "Messages heard, by outcome.", ["outcome"], registry=kept)
        self.backfilled = Counter("channelmem_backfilled", "Messages fetched after an absence.", registry=kept)
        self.discord = Counter(
            "channelmem_discord_requests", "Requests to Discord.", ["method", "status"], registry=kept
        )
        self.tokens = Counter("channelmem_llm_tokens", "Language model tokens.", ["direction"], registry=kept)
        self.redis = Gauge("channelmem_redis_up", "1 while Redis answers.", registry=kept)
        self.queued = Gauge("channelmem_queue_depth", "Messages waiting for Redis.", registry=kept)
        self.pending = Gauge("channelmem_pending", "Stored messages waiting for their vector.", registry=kept)
        self.lag = Gauge("channelmem_ingest_lag_seconds", "Longest wait for a vector right now.", registry=kept)
        self.dropped = Gauge("channelmem_dropped", "Messages dropped because the queue was full.", registry=kept)

    def answered(self, answer: Answer) -> None:
        outcome = "found" if answer.found else "nothing"
        route = answer.route
        self.asks.labels(kind=route.kind.value, mode=route.mode.value, outcome=outcome).inc()
        for stage in ("route", "embed", "search", "total"):
            self.stage.labels(stage=stage).observe(getattr(answer.ms, stage) / 1000)

    def trace(self) -> aiohttp.TraceConfig:
        """Counts every request that discord.py makes."""
        config = aiohttp.TraceConfig()

        async def done(
            _session: aiohttp.ClientSession, _context: SimpleNamespace, params: aiohttp.TraceRequestEndParams
        ) -> None:
            self.discord.labels(method=params.method, status=str(params.response.status)).inc()

        config.on_request_end.append(done)
        return config


class Door:
    """The port for Prometheus (/metrics) and for health checks (/healthz)."""

    def __init__(
        self, metrics: Metrics, health: Callable[[], dict[str, bool]], refresh: Callable[[], Awaitable[None]]
    ) -> None:
        self._metrics, self._health, self._refresh = metrics, health, refresh
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def open(self, port: int, host: str = "0.0.0.0") -> None:  # noqa: S104  (scraped from other machines)
        app = web.Application()
        app.router.add_get("/metrics", self.metrics)
        app.router.add_get("/healthz", self.healthz)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def metrics(self, request: web.Request) -> web.Response:
        await self._refresh()
        return web.Response(body=generate_latest(self._metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthz(self, request: web.Request) -> web.Response:
        """Without Redis the bot still answers from history: degraded, not dead, so only Discord decides."""
        parts = self._health()
        return web.json_response(parts, status=200 if parts["discord"] else 503)
