"""What a caller may do. In: the caller that the gate let in. Out: the same, or a refusal that names what is missing."""

from __future__ import annotations

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


async def _reader(request: Request, _: Annotated[object, Security(_BEARER)]) -> Caller:
    check(caller := caller_of(request), Scope.READ)
    return caller


async def _writer(request: Request, _: Annotated[object, Security(_BEARER)]) -> Caller:
    check(caller := caller_of(request), Scope.WRITE)
    return caller


async def _admin(request: Request, _: Annotated[object, Security(_BEARER)]) -> Caller:
    check(caller := caller_of(request), Scope.ADMIN)
    return caller


async def _exporter(request: Request, _: Annotated[object, Security(_BEARER)]) -> Caller:
    check(caller := caller_of(request), Scope.EXPORT)
    return caller


Reader = Annotated[Caller, Security(_reader)]
Writer = Annotated[Caller, Security(_writer)]
Exporter = Annotated[Caller, Security(_exporter)]
Admin = Annotated[Caller, Security(_admin)]


async def _reading_in(guild_id: PathId, caller: Reader) -> Caller:
    check(caller, Scope.READ, guild_id)
    return caller


async def _writing_in(guild_id: PathId, caller: Writer) -> Caller:
    check(caller, Scope.WRITE, guild_id)
    return caller


async def _admin_in(guild_id: PathId, caller: Admin) -> Caller:
    check(caller, Scope.ADMIN, guild_id)
    return caller


GuildReader = Annotated[Caller, Security(_reading_in)]
"""For paths with a `guild_id`: the caller may also reach it."""
GuildWriter = Annotated[Caller, Security(_writing_in)]
GuildAdmin = Annotated[Caller, Security(_admin_in)]
