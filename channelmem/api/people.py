"""People: forgetting them, opting out and in, and everything stored of somebody.

A token that is bound to guilds acts in these guilds only, even if no guild is named.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from channelmem.access import Caller, Scope
from channelmem.api.auth import Exporter, Reader, Writer, check
from channelmem.api.problems import responses
from channelmem.api.service import Given, Service
from channelmem.errors import DecisionDelayedError
from channelmem.types import Message
from channelmem.wire.channels import Done, OptedOutShown, ReturnShown
from channelmem.wire.messages import MessageShown
from channelmem.wire.scalars import PathId

JSON_LINES = "application/jsonl"
EXPORT: dict[int | str, dict[str, Any]] = {
    200: {"description": "One message per line.", "content": {JSON_LINES: {"schema": {"type": "string"}}}}
}

router = APIRouter(prefix="/v1/people/{author_id}", tags=["people"], responses=responses())

InGuild = Annotated[PathId | None, Query(description="Only in this guild; everywhere the token may reach if absent.")]


@router.post("/forget")
async def forget(author_id: PathId, caller: Writer, given: Given, guild_id: InGuild = None) -> Done:
    """Opts a person out, and removes everything of theirs. Invisible at once; removed in the background."""
    await _decided(given.memory.forget(author_id, one) for one in _guilds(caller, guild_id))
    return Done()


@router.post("/opt-out")
async def opt_out(author_id: PathId, caller: Writer, given: Given, guild_id: InGuild = None) -> Done:
    """Neither remembers nor shows what a person writes; what is stored stays until it expires."""
    await _decided(given.memory.opt_out(author_id, one) for one in _guilds(caller, guild_id))
    return Done()


@router.post("/opt-in")
async def opt_in(author_id: PathId, caller: Writer, given: Given, guild_id: InGuild = None) -> ReturnShown:
    """Undoes an opt-out: at once, or when what was forgotten is removed."""
    return _shown(caller, [await given.memory.opt_in(author_id, one) for one in _guilds(caller, guild_id)])


@router.get("/opted-out")
async def opted_out(author_id: PathId, caller: Reader, given: Given, guild_id: InGuild = None) -> OptedOutShown:
    """Whether nothing of a person may be shown. Whoever keeps names for a while asks before showing them."""
    guilds = _guilds(caller, guild_id, Scope.READ)
    return OptedOutShown(opted_out=all([await given.memory.opted_out(author_id, one) for one in guilds]))


@router.get("/returning")
async def returning(author_id: PathId, caller: Reader, given: Given, guild_id: InGuild = None) -> ReturnShown:
    """Whether an opt-in still waits for a removal."""
    guilds = _guilds(caller, guild_id, Scope.READ)
    return _shown(caller, [await given.memory.returning(author_id, one) for one in guilds])


@router.get("/export", response_class=StreamingResponse, responses=EXPORT)
async def export(author_id: PathId, caller: Exporter, given: Given, guild_id: InGuild = None) -> StreamingResponse:
    """Everything stored of a person, as JSON lines, also what answers hide; for a token with the export scope."""
    guilds = _guilds(caller, guild_id, Scope.EXPORT)
    lines = _lines(given, author_id, None if guilds == [None] else frozenset(guilds))
    first = await anext(lines, b"")  # so that an unreachable Redis is still a proper error
    return StreamingResponse(_joined(first, lines), media_type=JSON_LINES)


async def _decided(decisions: Iterable[Awaitable[None]]) -> None:
    """All of them, also after one that Redis could not write yet: each holds in this process at once."""
    delayed: DecisionDelayedError | None = None
    for decision in decisions:
        try:
            await decision
        except DecisionDelayedError as error:
            delayed = error
    if delayed is not None:
        raise delayed


def _guilds(caller: Caller, guild_id: int | None, scope: Scope = Scope.WRITE) -> Sequence[int | None]:
    """Where this applies; [None] is everywhere."""
    if guild_id is not None:
        check(caller, scope, guild_id)
        return [guild_id]
    return [None] if caller.guild_ids is None else sorted(caller.guild_ids)


def _shown(caller: Caller, left: Sequence[int | None]) -> ReturnShown:
    """Redis counts what is left in all guilds, which is not for everybody to know."""
    waiting = [one for one in left if one is not None]
    told = sum(waiting) if waiting and caller.guild_ids is None else None
    return ReturnShown(returning=bool(waiting), left=told)


async def _lines(given: Service, author_id: int, guild_ids: frozenset[int | None] | None) -> AsyncIterator[bytes]:
    async for message in given.memory.export(author_id):
        if guild_ids is None or message.guild_id in guild_ids:
            yield _line(message)


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for line in rest:
        yield line


def _line(message: Message) -> bytes:
    return MessageShown.model_validate(message).model_dump_json().encode() + b"\n"
