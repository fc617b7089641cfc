"""What endpoints are given: the memory, the settings, and metrics, in which no label holds an id or a name. What
each of them asks of its caller, whom the gate knows. And the endpoints on health."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, TypeVar

from fastapi import APIRouter, Depends, Request, Response, Security
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel
from starlette.types import Scope as AsgiScope

from channelmem.access import Caller, Scope
from channelmem.api.gate import Pressure
from channelmem.api.problems import ProblemError, redis_away, responses
from channelmem.errors import RedisUnavailableError
from channelmem.memory import Memory
from channelmem.policy.policies import Policies
from channelmem.settings import Settings
from channelmem.types import Message, Question
from channelmem.wire.channels import FlushBody, Flushed, ServiceStatus
from channelmem.wire.messages import PathId

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
UNKNOWN = "(no such path)"


class ServiceMetrics:
    """Each app has its own registry, so two can run in one process."""

    def __init__(self) -> None:
        self.registry = one = CollectorRegistry()
        by_path = ["method", "path"]
        self.requests = Counter(
            "channelmem_http_requests", "Requests by path and status.", [*by_path, "status"], registry=one
        )
        about = "Time until a response begins, by path."
        self.seconds = Histogram("channelmem_http_seconds", about, by_path, registry=one, buckets=SECONDS)
        self.messages = Counter("channelmem_messages", "Messages received, by outcome.", ["outcome"], registry=one)
        self.asks = Counter("channelmem_asks", "Questions, by kind and whether found.", ["kind", "found"], registry=one)
        self.asking = Gauge("channelmem_asking", "Questions waiting or being answered.", registry=one)
        self.redis = Gauge("channelmem_redis_up", "1 if Redis is reachable.", registry=one)
        self.queued = Gauge("channelmem_queue_depth", "Messages waiting for Redis.", registry=one)
        self.dropped = Gauge("channelmem_dropped", "Events lost because the queue was full.", registry=one)
        self.pending = Gauge("channelmem_pending", "Stored messages waiting for an embedding.", registry=one)
        self.lag = Gauge("channelmem_embedding_lag_seconds", "How long the oldest has waited.", registry=one)

    def observe(self, scope: AsgiScope, status: int, seconds: float) -> None:
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
    found: Service = request.app.state.service
    return found


Given = Annotated[Service, Depends(service_of)]


# --- callers ---


Claiming = TypeVar("Claiming", Message, Question)

_BEARER = HTTPBearer(auto_error=False, description="A token made by `channelmem token add NAME --scopes ...`.")
"""For the documentation; the gate has checked the token before."""


def caller_of(request: Request) -> Caller:
    caller = request.scope["state"].get("caller")
    if not isinstance(caller, Caller):
        raise ProblemError(401, "This path needs a token.")
    return caller


def check(caller: Caller, scope: Scope, *guild_ids: int) -> None:
    """Raises 403 unless the caller has the scope and may reach all of these guilds."""
    if scope not in caller.scopes:
        raise ProblemError(403, f"The token {caller.name!r} lacks the {scope.value} scope.")
    if not all(map(caller.may_reach, guild_ids)):
        raise ProblemError(403, f"The token {caller.name!r} is bound to other guilds.")


def check_unbound(caller: Caller) -> None:
    if caller.guild_ids is not None:
        raise ProblemError(403, f"The token {caller.name!r} is bound to guilds; this concerns all of them.")


def thread_of(caller: Caller, policies: Policies, guild_id: int, claimed: int) -> int:
    """The channel of a thread, as far as the caller is believed. It decides which settings apply, so it counts from who
    may change settings; from others it can only close something."""
    may_say = Scope.ADMIN in caller.scopes or not policies.storing(guild_id, claimed).enabled
    return claimed if may_say else 0


def believed(caller: Caller, policies: Policies, value: Claiming) -> Claiming:
    """The same for a message or question."""
    told = thread_of(caller, policies, value.guild_id, value.thread_of) if value.thread_of else 0
    return value if told == value.thread_of else replace(value, thread_of=told)


Dependency = Callable[..., Awaitable[Caller]]


def _holder(scope: Scope, *, in_guild: bool = False) -> Dependency:
    """`in_guild`: for paths with a `guild_id`, which the caller may also reach."""

    async def holder(request: Request, _: Annotated[object, Security(_BEARER)]) -> Caller:
        check(caller := caller_of(request), scope)
        return caller

    async def holder_in(guild_id: PathId, request: Request, _: Annotated[object, Security(_BEARER)]) -> Caller:
        check(caller := caller_of(request), scope, guild_id)
        return caller

    return holder_in if in_guild else holder


Reader = Annotated[Caller, Security(_holder(Scope.READ))]
Writer = Annotated[Caller, Security(_holder(Scope.WRITE))]
Exporter = Annotated[Caller, Security(_holder(Scope.EXPORT))]
Admin = Annotated[Caller, Security(_holder(Scope.ADMIN))]
GuildReader = Annotated[Caller, Security(_holder(Scope.READ, in_guild=True))]
GuildWriter = Annotated[Caller, Security(_holder(Scope.WRITE, in_guild=True))]

# The same for endpoints that need to know no more than that the caller may.
WRITES = [Security(_holder(Scope.WRITE))]
MAY_READ = [Security(_holder(Scope.READ, in_guild=True))]
MAY_WRITE = [Security(_holder(Scope.WRITE, in_guild=True))]
MAY_ADMINISTER = [Security(_holder(Scope.ADMIN, in_guild=True))]


# --- health ---


router = APIRouter(tags=["health"])


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
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        **{status: responses()[status] for status in (401, 403, 503)},
    },
)
async def metrics(caller: Reader, given: Given) -> Response:
    """For Prometheus. They concern all guilds, so the token must not be bound to some."""
    check_unbound(caller)
    memory, shown = given.memory, given.metrics
    shown.asking.set(given.pressure.asking)
    shown.redis.set(memory.available)
    shown.queued.set(memory.queued)
    shown.dropped.set(memory.dropped)
    with suppress(RedisUnavailableError):
        shown.pending.set(await memory.pending())
        shown.lag.set(await memory.lag_s())
    return Response(generate_latest(given.metrics.registry), media_type=CONTENT_TYPE_LATEST)
