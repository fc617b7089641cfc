"""What a caller may do: the gate knows who it is, and each endpoint says what it asks of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, TypeVar

from fastapi import Request, Security
from fastapi.security import HTTPBearer

from channelmem.access import Caller, Scope
from channelmem.api.problems import ProblemError
from channelmem.policy.policies import Policies
from channelmem.types import Message, Question
from channelmem.wire.scalars import PathId

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


def _holder(scope: Scope) -> Dependency:
    async def holder(request: Request, _: Annotated[object, Security(_BEARER)]) -> Caller:
        check(caller := caller_of(request), scope)
        return caller

    return holder


def _holder_in(scope: Scope) -> Dependency:
    """For paths with a `guild_id`, which the caller may also reach."""

    async def holder(guild_id: PathId, request: Request, _: Annotated[object, Security(_BEARER)]) -> Caller:
        check(caller := caller_of(request), scope, guild_id)
        return caller

    return holder


Reader = Annotated[Caller, Security(_holder(Scope.READ))]
Writer = Annotated[Caller, Security(_holder(Scope.WRITE))]
Exporter = Annotated[Caller, Security(_holder(Scope.EXPORT))]
Admin = Annotated[Caller, Security(_holder(Scope.ADMIN))]
GuildReader = Annotated[Caller, Security(_holder_in(Scope.READ))]
GuildWriter = Annotated[Caller, Security(_holder_in(Scope.WRITE))]

# The same for endpoints that need to know no more than that the caller may.
WRITES = [Security(_holder(Scope.WRITE))]
MAY_READ = [Security(_holder_in(Scope.READ))]
MAY_WRITE = [Security(_holder_in(Scope.WRITE))]
MAY_ADMINISTER = [Security(_holder_in(Scope.ADMIN))]
