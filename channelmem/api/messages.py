"""Messages: remembering, editing, deleting and reading them. People: forgetting them, opting out and in, and everything
stored of somebody; a token that is bound to guilds acts in these guilds only, even if no guild is named."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.responses import StreamingResponse

from channelmem.access import Caller, Scope
from channelmem.api.problems import ProblemError, responses
from channelmem.api.service import (
    MAY_READ,
    MAY_WRITE,
    Exporter,
    Given,
    GuildWriter,
    Reader,
    Service,
    Writer,
    believed,
    check,
)
from channelmem.browse import MOST, Cursor
from channelmem.errors import DecisionDelayedError
from channelmem.types import Message, Outcome
from channelmem.wire.channels import (
    DeleteBody,
    Done,
    EditBody,
    EnrichBody,
    Enriched,
    OptedOutShown,
    PageShown,
    Removed,
    ReturnShown,
)
from channelmem.wire.messages import MAX_BATCH, MessageBody, MessageShown, Outcomes, PathId, Remembered

router = APIRouter(prefix="/v1", tags=["messages"], responses=responses())

CHANNEL = "/guilds/{guild_id}/channels/{channel_id}"
MESSAGE = f"{CHANNEL}/messages/{{message_id}}"

Batch = Annotated[list[MessageBody], Body(min_length=1, max_length=MAX_BATCH)]
CursorText = Annotated[
    str,
    Query(
        pattern=r"^([0-9]{1,12}(\.[0-9]{1,20})?(e-[0-9]{1,2})?_[0-9]{1,19})?$",
        description="`next` of the page before; empty for the newest.",
    ),
]


@router.post("/messages", status_code=202)
async def remember(body: MessageBody | Batch, caller: Writer, given: Given) -> Outcomes:
    """Remembers one message, or up to 1,000 in order; the same id twice is one message.

    `stored` messages are visible at once and searchable by meaning a moment later. `queued`: Redis is unreachable, and
    the message waits for it in memory. `ignored`: empty, opted out, paused, deleted before, or too old. `dropped`: the
    queue was full.
    """
    bodies = body if isinstance(body, list) else [body]
    check(caller, Scope.WRITE, *{one.guild_id for one in bodies})
    await given.pressure.messages(len(bodies))
    messages = [believed(caller, given.memory.policies, one.value()) for one in bodies]
    outcomes = await given.memory.remember_many(messages)
    for outcome in outcomes:
        given.metrics.messages.labels(outcome.value).inc()
    return Outcomes(outcomes=tuple(map(_remembered, messages, outcomes)))


@router.post("/messages/previews", status_code=202)
async def attach(body: MessageBody, caller: Writer, given: Given) -> None:
    """Adds the pictures of link previews, which come after their message, to a stored one. This is not an edit."""
    check(caller, Scope.WRITE, body.guild_id)
    await given.memory.media.attach(believed(caller, given.memory.policies, body.value()))


@router.get(f"{CHANNEL}/messages", dependencies=MAY_READ)
async def page(
    guild_id: PathId,
    channel_id: PathId,
    given: Given,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
    cursor: CursorText = "",
) -> PageShown:
    """Stored messages of a channel, newest first."""
    found = await given.memory.browse.page(guild_id, channel_id, limit, Cursor.parse(cursor) if cursor else None)
    following = None if found.next is None else str(found.next)
    return PageShown(messages=tuple(map(MessageShown.model_validate, found.messages)), next=following)


@router.get(MESSAGE, responses=responses(404), dependencies=MAY_READ)
async def message(guild_id: PathId, channel_id: PathId, message_id: PathId, given: Given) -> MessageShown:
    """One stored message."""
    found = await given.memory.browse.message(guild_id, channel_id, message_id)
    if found is None:
        raise ProblemError(404, "There is no such message.")
    return MessageShown.model_validate(found)


@router.patch(MESSAGE, responses=responses(404))
async def edit(
    guild_id: PathId, channel_id: PathId, message_id: PathId, body: EditBody, caller: GuildWriter, given: Given
) -> Remembered:
    """Replaces text and vector. An older revision than the stored one changes nothing."""
    revision = time.time() if body.revision is None else body.revision
    if body.complete:
        known = Message(guild_id, channel_id, message_id, 0, "", "", 0.0)
    else:
        found = await given.memory.browse.message(guild_id, channel_id, message_id)
        if found is None:
            raise ProblemError(404, "There is no such message; send author_id, author and ts to store it.")
        author = await given.memory.browse.person(guild_id, channel_id, found.author_id)
        known = replace(found, aliases=author.aliases if author else ())
    edited = believed(caller, given.memory.policies, body.applied(known, revision))
    return _remembered(edited, await given.memory.edit(edited))


@router.delete(MESSAGE, dependencies=MAY_WRITE)
async def delete(guild_id: PathId, channel_id: PathId, message_id: PathId, given: Given) -> Removed:
    """Removes a message and everything made of it; it is gone when this returns, or was not there."""
    return removal(given, guild_id, await given.memory.delete(guild_id, channel_id, [message_id]))


@router.post(f"{CHANNEL}/messages/bulk-delete", dependencies=MAY_WRITE)
async def delete_many(guild_id: PathId, channel_id: PathId, body: DeleteBody, given: Given) -> Removed:
    """The same for up to 1,000 messages."""
    return removal(given, guild_id, await given.memory.delete(guild_id, channel_id, body.ids))


@router.put(f"{MESSAGE}/attachments/{{attachment_id}}/text", dependencies=MAY_WRITE)
async def enrich(
    guild_id: PathId,
    channel_id: PathId,
    message_id: PathId,
    attachment_id: PathId,
    body: EnrichBody,
    given: Given,
) -> Enriched:
    """Makes a message findable by what is in its attachment. This is not an edit, and nobody is quoted with it."""
    return Enriched(added=await given.memory.enrich(guild_id, channel_id, message_id, attachment_id, body.text))


def removal(given: Service, guild_id: int, removed: int) -> Removed:
    return Removed(removed=removed, queued=given.memory.is_queued(guild_id))


def _remembered(one: Message, outcome: Outcome) -> Remembered:
    return Remembered(guild_id=one.guild_id, channel_id=one.channel_id, id=one.id, outcome=outcome)


# --- people ---


JSON_LINES = "application/jsonl"
EXPORT: dict[int | str, dict[str, Any]] = {
    200: {"description": "One message per line.", "content": {JSON_LINES: {"schema": {"type": "string"}}}}
}

people_router = APIRouter(prefix="/v1/people/{author_id}", tags=["people"], responses=responses())

InGuild = Annotated[PathId | None, Query(description="Only in this guild; everywhere the token may reach if absent.")]


@people_router.post("/forget")
async def forget(author_id: PathId, caller: Writer, given: Given, guild_id: InGuild = None) -> Done:
    """Opts a person out, and removes everything of theirs. Invisible at once; removed in the background."""
    await _decided(given.memory.forget(author_id, one) for one in _guilds(caller, guild_id))
    return Done()


@people_router.post("/opt-out")
async def opt_out(author_id: PathId, caller: Writer, given: Given, guild_id: InGuild = None) -> Done:
    """Neither remembers nor shows what a person writes; what is stored stays until it expires."""
    await _decided(given.memory.opt_out(author_id, one) for one in _guilds(caller, guild_id))
    return Done()


@people_router.post("/opt-in")
async def opt_in(author_id: PathId, caller: Writer, given: Given, guild_id: InGuild = None) -> ReturnShown:
    """Undoes an opt-out: at once, or when what was forgotten is removed."""
    return _shown(caller, [await given.memory.opt_in(author_id, one) for one in _guilds(caller, guild_id)])


@people_router.get("/opted-out")
async def opted_out(author_id: PathId, caller: Reader, given: Given, guild_id: InGuild = None) -> OptedOutShown:
    """Whether nothing of a person may be shown. Whoever keeps names for a while asks before showing them."""
    guilds = _guilds(caller, guild_id, Scope.READ)
    return OptedOutShown(opted_out=all([await given.memory.opted_out(author_id, one) for one in guilds]))


@people_router.get("/returning")
async def returning(author_id: PathId, caller: Reader, given: Given, guild_id: InGuild = None) -> ReturnShown:
    """Whether an opt-in still waits for a removal."""
    guilds = _guilds(caller, guild_id, Scope.READ)
    return _shown(caller, [await given.memory.returning(author_id, one) for one in guilds])


@people_router.get("/export", response_class=StreamingResponse, responses=EXPORT)
async def export(author_id: PathId, caller: Exporter, given: Given, guild_id: InGuild = None) -> StreamingResponse:
    """Everything stored of a person, as JSON lines, also what answers hide; for a token with the export scope."""
    guilds = _guilds(caller, guild_id, Scope.EXPORT)
    lines = _lines(given, author_id, guilds)
    first = await anext(lines, b"")  # so that an unreachable Redis is still a proper error

    async def body() -> AsyncIterator[bytes]:
        yield first
        async for line in lines:
            yield line

    return StreamingResponse(body(), media_type=JSON_LINES)


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


async def _lines(given: Service, author_id: int, guild_ids: Sequence[int | None]) -> AsyncIterator[bytes]:
    async for message in given.memory.export(author_id):
        if guild_ids == [None] or message.guild_id in guild_ids:
            yield MessageShown.model_validate(message).model_dump_json().encode() + b"\n"
