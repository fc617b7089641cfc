"""What endpoints are given: the memory, the settings, and metrics, in which no label holds an id or a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import Scope

from channelmem.api.gate import Pressure
from channelmem.memory import Memory
from channelmem.settings import Settings

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
UNKNOWN = "(no such path)"


class ServiceMetrics:
    """Each app has its own registry, so two can run in one process."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "channelmem_http_requests", "Requests by path and status.", ["method", "path", "status"], registry=registry
        )
        self.seconds = Histogram(
            "channelmem_http_seconds",
            "Time until a response begins, by path.",
            ["method", "path"],
            registry=registry,
            buckets=SECONDS,
        )
        self.messages = Counter("channelmem_messages", "Messages received, by outcome.", ["outcome"], registry=registry)
        self.asks = Counter(
            "channelmem_asks", "Questions, by kind and whether found.", ["kind", "found"], registry=registry
        )
        self.asking = Gauge("channelmem_asking", "Questions waiting or being answered.", registry=registry)
        self.redis = Gauge("channelmem_redis_up", "1 if Redis is reachable.", registry=registry)
        self.queued = Gauge("channelmem_queue_depth", "Messages waiting for Redis.", registry=registry)
        self.dropped = Gauge("channelmem_dropped", "Events lost because the queue was full.", registry=registry)
        self.pending = Gauge("channelmem_pending", "Stored messages waiting for an embedding.", registry=registry)
        self.lag = Gauge("channelmem_embedding_lag_seconds", "How long the oldest has waited.", registry=registry)

    def observe(self, scope: Scope, status: int, seconds: float) -> None:
        """Paths are templates: ids would make a new series each."""
        path = getattr(scope.get("route"), "path", UNKNOWN)
        method = scope["method"] if path != UNKNOWN else "-"
        self.requests.labels(method, path, str(status)).inc()
        self.seconds.labels(method, path).observe(seconds)


# --- service ---


@dataclass(frozen=True, slots=True)
class Service:
    memory: Memory
    settings: Settings
    pressure: Pressure
    metrics: ServiceMetrics


async def service_of(request: Request) -> Service:
    found = request.app.state.service
    assert isinstance(found, Service)  # noqa: S101  (types)
    return found


Given = Annotated[Service, Depends(service_of)]
