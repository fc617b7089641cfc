"""Guilds and channels: names, what they hold, removals, fresh starts, and what is still to be fetched of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query

from channelmem.access import Scope
from channelmem.api.auth import MAY_ADMINISTER, MAY_READ, MAY_WRITE, GuildReader, Reader, Writer, check
from channelmem.api.messages import CHANNEL, removal
from channelmem.api.problems import responses
from channelmem.api.service import Given
from channelmem.policy.cascade import Boundary
from channelmem.types import LAST_TS
from channelmem.wire.channels import (
    Answered,
    BoundaryBody,
    ChannelShown,
    ChannelsShown,
    ClearBody,
    Done,
    GapBody,
    GapShown,
    GapsShown,
    GuildsShown,
    KnownMessage,
    KnownShown,
    NamesBody,
    RedactionsShown,
    Removed,
    StatsShown,
)
from channelmem.wire.scalars import PathId

router = APIRouter(prefix="/v1", tags=["channels"], responses=responses())


@router.put("/guilds/{guild_id}/names", dependencies=MAY_WRITE)
async def tell_names(guild_id: PathId, body: NamesBody, given: Given) -> Done:
    """Tells names; those that are not mentioned stay. They expire after 30 days unless they are told again."""
    await given.memory.overview.tell_names(guild_id, body.guild, body.by_channel())
    return Done()


# --- channels ---


MOST_KNOWN = 10_000
"""As many as a load of a channel's past compares."""

At = Annotated[
    float | None,
    Query(ge=0, le=LAST_TS, allow_inf_nan=False, description="When that happened, in epoch seconds; now if absent."),
]


@router.get("/guilds")
async def guilds(caller: Reader, given: Given) -> GuildsShown:
    """Guilds that hold messages, as far as the token may reach them."""
    bound = [None] if caller.guild_ids is None else sorted(caller.guild_ids - {0})
    rooms = [room for guild_id in bound for room in await given.memory.browse.rooms(guild_id or 0)]
    return GuildsShown(guilds=tuple(sorted({guild for guild, _ in rooms})))


@router.get("/guilds/{guild_id}/channels", dependencies=MAY_READ)
async def channels(guild_id: PathId, given: Given) -> ChannelsShown:
    """Channels of a guild that hold messages."""
    # Without a guild the memory would list all of them.
    rooms = await given.memory.browse.rooms(guild_id) if guild_id else []
    return ChannelsShown(channels=tuple(ChannelShown(guild_id=one, channel_id=channel) for one, channel in rooms))


@router.delete("/guilds/{guild_id}", dependencies=MAY_WRITE)
async def delete_guild(guild_id: PathId, given: Given, at: At = None) -> Removed:
    """Removes everything stored of a guild: the bot left it."""
    return removal(given, guild_id, await given.memory.delete_guild(guild_id, at))


@router.delete(CHANNEL, dependencies=MAY_WRITE)
async def delete_channel(guild_id: PathId, channel_id: PathId, given: Given, at: At = None) -> Removed:
    """Removes everything stored of a channel: it was deleted."""
    return removal(given, guild_id, await given.memory.delete_channel(guild_id, channel_id, at))


@router.get(f"{CHANNEL}/stats")
async def stats(guild_id: PathId, channel_id: PathId, caller: GuildReader, given: Given) -> StatsShown:
    """What a channel's memory holds: for who may only read, as far as answers could show it."""
    status = await given.memory.status(guild_id, channel_id)
    newest_id = await given.memory.last_seen(guild_id, channel_id)
    if Scope.WRITE not in caller.scopes:
        status, newest_id = await given.memory.browse.shown_of(guild_id, channel_id, status)
    return StatsShown(**asdict(status), newest_id=newest_id)


@router.post(f"{CHANNEL}/clear", dependencies=MAY_WRITE)
async def clear(guild_id: PathId, channel_id: PathId, body: ClearBody, given: Given) -> Removed:
    """Forgets what was said in a channel so far; the channel itself goes on."""
    return removal(given, guild_id, await given.memory.clear(guild_id, channel_id, body.at))


@router.put(f"{CHANNEL}/pause", dependencies=MAY_WRITE)
async def pause(guild_id: PathId, channel_id: PathId, given: Given) -> Done:
    """Remembers and shows nothing new of a channel."""
    await given.memory.pause(guild_id, channel_id)
    return Done()


@router.delete(f"{CHANNEL}/pause", dependencies=MAY_WRITE)
async def resume(guild_id: PathId, channel_id: PathId, given: Given) -> Done:
    """Remembers a channel again; what was said during the pause stays out."""
    await given.memory.resume(guild_id, channel_id)
    return Done()


@router.put(f"{CHANNEL}/boundary", dependencies=MAY_ADMINISTER)
async def begin(guild_id: PathId, channel_id: PathId, body: BoundaryBody, given: Given) -> Done:
    """A fresh start (`/new`): nothing up to this moment is given to a language model unasked."""
    await given.memory.policies.begin(guild_id, channel_id, Boundary(body.at, body.kept), by=body.by)
    return Done()


# --- for adapters that fetch a channel's past ---


@router.get(f"{CHANNEL}/known", dependencies=MAY_WRITE)
async def known(
    guild_id: PathId,
    channel_id: PathId,
    given: Given,
    newest: Annotated[int, Query(ge=1, le=MOST_KNOWN)] = 100,
) -> KnownShown:
    """Ids and revisions of the newest messages, to compare them with the platform's."""
    found = await given.memory.known(guild_id, channel_id, newest)
    return KnownShown(messages=tuple(KnownMessage(id=id_, revision=revision) for id_, revision in found.items()))


@router.get("/guilds/{guild_id}/gaps", dependencies=MAY_READ)
async def gaps(guild_id: PathId, given: Given) -> GapsShown:
    """Stretches of channels' pasts that are still to be fetched."""
    return GapsShown(gaps=tuple(map(GapShown.model_validate, await given.memory.gaps(guild_id))))


@router.put(f"{CHANNEL}/gap", dependencies=MAY_WRITE)
async def note_gap(guild_id: PathId, channel_id: PathId, body: GapBody, given: Given) -> Done:
    """Notes such a stretch, between two ids."""
    await given.memory.note_gap(guild_id, channel_id, body.newest_id, body.oldest_id)
    return Done()


@router.delete(f"{CHANNEL}/gap", dependencies=MAY_WRITE)
async def close_gap(guild_id: PathId, channel_id: PathId, given: Given) -> Done:
    """It was fetched."""
    await given.memory.close_gap(guild_id, channel_id)
    return Done()


# --- answers of the bot that people can still read ---


@router.get("/redactions")
async def redactions(caller: Writer, given: Given) -> RedactionsShown:
    """Answers of the last day that quote what was deleted or forgotten since: replace them on the platform."""
    found = [place for place in await given.memory.to_redact() if caller.may_reach(place[0])]
    return RedactionsShown(answers=tuple(Answered(guild_id=g, channel_id=c, id=m) for g, c, m in found))


@router.delete("/redactions/{guild_id}/{channel_id}/{message_id}")
async def redacted(guild_id: PathId, channel_id: PathId, message_id: PathId, caller: Writer, given: Given) -> Done:
    """It was replaced."""
    check(caller, Scope.WRITE, guild_id)
    await given.memory.redacted(guild_id, channel_id, message_id)
    return Done()
