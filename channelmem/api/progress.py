"""How far loads of channels' pasts have come, and what language models cost by day and channel."""

from __future__ import annotations

import math
from typing import Annotated

from fastapi import APIRouter, Path

from channelmem.access import Scope
from channelmem.api.auth import MAY_READ, MAY_WRITE, Reader, Writer, check
from channelmem.api.messages import CHANNEL
from channelmem.api.problems import responses
from channelmem.api.service import Given
from channelmem.ids import ChannelId
from channelmem.wire.channels import (
    LAST_DAY,
    Accepted,
    Done,
    LoadBody,
    LoadShown,
    LoadsShown,
    SpendBody,
    SpentByChannel,
    SpentShown,
)
from channelmem.wire.scalars import PathId

router = APIRouter(prefix="/v1", tags=["progress"], responses=responses())


@router.get("/guilds/{guild_id}/loads", dependencies=MAY_READ)
async def loads(guild_id: PathId, given: Given) -> LoadsShown:
    """Loads of a guild's channels that are not finished."""
    return LoadsShown(loads=tuple(map(LoadShown.model_validate, await given.memory.loads.open(guild_id))))


@router.post(f"{CHANNEL}/load", dependencies=MAY_WRITE)
async def begin(guild_id: PathId, channel_id: PathId, body: LoadBody, given: Given) -> Accepted:
    """Notes that a channel's past is being loaded; not accepted while another load of it is in progress."""
    return Accepted(accepted=await given.memory.loads.begin(guild_id, body.value(channel_id)))


@router.put(f"{CHANNEL}/load", dependencies=MAY_WRITE)
async def advance(guild_id: PathId, channel_id: PathId, body: LoadBody, given: Given) -> Accepted:
    """Notes how far it has come; not accepted if the channel was cleared meanwhile."""
    return Accepted(accepted=await given.memory.loads.advance(guild_id, body.value(channel_id)))


@router.delete(f"{CHANNEL}/load", dependencies=MAY_WRITE)
async def end(guild_id: PathId, channel_id: PathId, given: Given) -> Done:
    """It is done."""
    await given.memory.loads.end(guild_id, channel_id)
    return Done()


@router.post("/spending/reserve")
async def reserve(body: SpendBody, caller: Writer, given: Given) -> Accepted:
    """Sets the most that a call can cost aside; not accepted if that could exceed the day's cap, here or there."""
    check(caller, Scope.WRITE, body.guild_id)
    channel, cap = ChannelId(body.guild_id, body.channel_id), math.floor(given.settings.llm_daily_usd * 1e6)
    granted = await given.memory.spending.reserve(body.day, channel, max(0, body.micros), min(cap, body.cap_micros))
    return Accepted(accepted=granted)


@router.post("/spending/settle")
async def settle(body: SpendBody, caller: Writer, given: Given) -> Done:
    """Replaces what was set aside by what the call cost."""
    check(caller, Scope.WRITE, body.guild_id)
    await given.memory.spending.settle(body.day, ChannelId(body.guild_id, body.channel_id), body.micros)
    return Done()


@router.get("/spending/{day}")
async def spending(day: Annotated[int, Path(ge=0, le=LAST_DAY)], caller: Reader, given: Given) -> SpentShown:
    """What was spent on a day, counted from the epoch: in all, and by the channels that the token may reach."""
    total, rows = await given.memory.spending.total(day), await given.memory.spending.by_channel(day)
    shown = [
        SpentByChannel(guild_id=guild_id, channel_id=channel_id, micros=micros)
        for (guild_id, channel_id), micros in sorted(rows.items())
        if caller.may_reach(guild_id)
    ]
    return SpentShown(total=total, channels=tuple(shown))
