"""Metrics of the bot, and the small server that shows them and whether the bot is well."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from operator import itemgetter
from types import SimpleNamespace

import aiohttp
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from channelmem.types import Answer

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
MOST_CHANNELS = 100
"""With a series of their own."""


class Metrics:
    """Each bot has its own registry, so two bots can run in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        self.asks = counter("channelmem_asks", "Questions by route and outcome.", ["kind", "mode", "outcome"])
        self.stage = Histogram(
            "channelmem_stage_seconds", "Time per answer, by stage.", ["stage"], registry=self.registry, buckets=SECONDS
        )
        self.disliked = counter("channelmem_disliked", "Answers that received a thumbs down.", ["kind", "mode"])
        self.cooldowns = counter("channelmem_cooldowns", "Questions refused by a cooldown.")
        self.messages = counter("channelmem_messages", "Messages received, by outcome.", ["outcome"])
        self.backfilled = counter("channelmem_backfilled", "Messages fetched after downtime.")
        discord = "Requests to Discord, by method and status."
        self.discord = counter("channelmem_discord_requests", discord, ["method", "status"])
        self.tokens = counter("channelmem_llm_tokens", "Language model tokens, by direction.", ["direction"])
        self.media = counter("channelmem_media", "Pictures and voices looked at, by outcome.", ["kind", "outcome"])
        self.media_usd = counter("channelmem_media_usd", "What reading them cost, in US dollars.")
        spent = "Spent or reserved today (UTC) on language models, by channel; the largest."
        self.spent = gauge("channelmem_llm_spent_usd", spent, ["channel_id"])
        self.redis = gauge("channelmem_redis_up", "1 if Redis is reachable.")
        self.queued = gauge("channelmem_queue_depth", "Messages waiting for Redis.")
        self.pending = gauge("channelmem_pending", "Stored messages waiting for an embedding.")
        self.lag = gauge("channelmem_ingest_lag_seconds", "Longest current wait for an embedding.")
        self.dropped = gauge("channelmem_dropped", "Messages dropped because the queue was full.")

    def answered(self, answer: Answer) -> None:
        outcome = "found" if answer.found else "nothing"
        route = answer.route
        self.asks.labels(kind=route.kind.value, mode=route.mode.value, outcome=outcome).inc()
        for stage in ("route", "embed", "search", "total"):
            self.stage.labels(stage=stage).observe(getattr(answer.ms, stage) / 1000)

    def tokens_used(self, direction: str, count: int) -> None:
        self.tokens.labels(direction=direction).inc(count)

    def spent_today(self, usd_by_channel: Mapping[int, float]) -> None:
        """Replaces yesterday's channels; bounded, because every label is a series that Prometheus keeps."""
        self.spent.clear()
        for channel_id, usd in sorted(usd_by_channel.items(), key=itemgetter(1), reverse=True)[:MOST_CHANNELS]:
            self.spent.labels(channel_id=str(channel_id)).set(usd)

    def trace(self) -> aiohttp.TraceConfig:
        """Counts every request that discord.py makes."""
        config = aiohttp.TraceConfig()

        async def done(
            _session: aiohttp.ClientSession, _context: SimpleNamespace, params: aiohttp.TraceRequestEndParams
        ) -> None:
            self.discord.labels(method=params.method, status=str(params.response.status)).inc()

        config.on_request_end.append(done)
        return config


# --- status server ---


class StatusServer:
    def __init__(
        self, metrics: Metrics, health: Callable[[], dict[str, bool]], refresh: Callable[[], Awaitable[None]]
    ) -> None:
        self._metrics, self._health, self._refresh = metrics, health, refresh
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, port: int, host: str = "0.0.0.0") -> None:  # noqa: S104  (scraped from other machines)
        app = web.Application()
        app.router.add_get("/metrics", self.metrics)
        app.router.add_get("/healthz", self.healthz)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def metrics(self, request: web.Request) -> web.Response:
        await self._refresh()
        return web.Response(body=generate_latest(self._metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthz(self, request: web.Request) -> web.Response:
        """Only Discord decides: without Redis the bot still answers from history, so it is degraded, not down."""
        parts = self._health()
        return web.json_response(parts, status=200 if parts["discord"] else 503)
