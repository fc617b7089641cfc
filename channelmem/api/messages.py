"""Messages: remembering, editing, deleting and reading them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Body, Query

from channelmem.access import Scope
from channelmem.api.auth import MAY_READ, MAY_WRITE, GuildWriter, Writer, believed, check
from channelmem.api.problems import ProblemError, responses
from channelmem.api.service import Given, Service
from channelmem.browse import MOST, Cursor
from channelmem.types import Message, Outcome
from channelmem.wire.channels import DeleteBody, EditBody, EnrichBody, Enriched, PageShown, Removed
from channelmem.wire.messages import MAX_BATCH, MessageBody, MessageShown, Outcomes, Remembered
from channelmem.wire.scalars import PathId

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
