"""The port for Prometheus (/metrics) and health checks (/healthz). In: metrics and the bot's health. Out: HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from .metrics import Metrics


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
