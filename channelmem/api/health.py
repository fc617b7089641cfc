"""Is the process alive, can it use its memory, and what goes on in it? Only /metrics needs a token."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel

from channelmem.api.auth import WRITES, Reader, check_unbound
from channelmem.api.problems import redis_away, responses
from channelmem.api.service import Given, Service
from channelmem.errors import RedisUnavailableError
from channelmem.wire.channels import FlushBody, Flushed, ServiceStatus

router = APIRouter(tags=["health"])

_PLAIN: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


@router.get("/v1/status", responses=responses())
async def status(caller: Reader, given: Given) -> ServiceStatus:
    """Whether Redis answers, and how much is waiting."""
    memory = given.memory
    if caller.guild_ids is not None:
        return ServiceStatus(redis=memory.available)
    pending = lag_s = None
    with suppress(RedisUnavailableError):
        pending, lag_s = await memory.pending(), await memory.lag_s()
    return ServiceStatus(
        redis=memory.available, queued=memory.queued, dropped=memory.dropped, pending=pending, lag_s=lag_s
    )


@router.post("/v1/flush", responses=responses(), dependencies=WRITES)
async def flush(body: FlushBody, given: Given) -> Flushed:
    """Waits until everything accepted is searchable by meaning, for tests and imports."""
    return Flushed(searchable=await given.memory.flush(body.timeout_s))


class Alive(BaseModel):
    status: str = "ok"


@router.get("/healthz")
async def healthz() -> Alive:
    """Whether the process answers, with or without Redis."""
    return Alive()


@router.get("/readyz", responses={503: responses()[503]})
async def readyz(given: Given) -> Alive:
    """Whether Redis answers: without it messages are only queued."""
    try:
        await given.memory.pending()
    except RedisUnavailableError:
        raise redis_away() from None
    return Alive()


@router.get(
    "/metrics",
    response_class=Response,
    responses=_PLAIN | {status: responses()[status] for status in (401, 403, 503)},
)
async def metrics(caller: Reader, given: Given) -> Response:
    """For Prometheus. They concern all guilds, so the token must not be bound to some."""
    check_unbound(caller)
    await _refresh(given)
    return Response(generate_latest(given.metrics.registry), media_type=CONTENT_TYPE_LATEST)


async def _refresh(given: Service) -> None:
    memory, shown = given.memory, given.metrics
    shown.asking.set(given.pressure.asking)
    shown.redis.set(memory.available)
    shown.queued.set(memory.queued)
    shown.dropped.set(memory.dropped)
    with suppress(RedisUnavailableError):
        shown.pending.set(await memory.pending())
        shown.lag.set(await memory.lag_s())
