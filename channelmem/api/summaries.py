"""Summaries: a channel's past in few words, bringing it up to date, and what a language model is given of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from channelmem.access import Scope
from channelmem.api.auth import MAY_READ, MAY_WRITE, GuildWriter, Reader, believed, check
from channelmem.api.messages import CHANNEL
from channelmem.api.problems import ProblemError, responses
from channelmem.api.service import Given
from channelmem.types import LAST_TS, Window
from channelmem.wire.answers import QuestionBody
from channelmem.wire.contexts import AbsorbBody, Absorbed, BreakdownShown, SummariesMade, SummariesShown, SummaryShown
from channelmem.wire.scalars import PathId

router = APIRouter(prefix="/v1", tags=["summaries"], responses=responses())

End = Annotated[float | None, Query(ge=0, le=LAST_TS, allow_inf_nan=False, description="In epoch seconds.")]


@router.get(f"{CHANNEL}/summaries", dependencies=MAY_READ)
async def summaries(
    guild_id: PathId,
    channel_id: PathId,
    given: Given,
    start: End = None,
    end: End = None,
) -> SummariesShown:
    """A channel's summaries on all levels, oldest first; those that lie within a window, if one is given."""
    found = await given.memory.summaries.of(guild_id, channel_id, Window(start, end))
    return SummariesShown(summaries=tuple(map(SummaryShown.model_validate, found)))


@router.post(f"{CHANNEL}/summaries/update", responses=responses(409), dependencies=MAY_WRITE)
async def update(guild_id: PathId, channel_id: PathId, given: Given) -> SummariesMade:
    """Brings a channel's summaries up to date now, instead of a while after each window closes."""
    return SummariesMade(made=await given.memory.summaries.update(guild_id, channel_id))


@router.post(f"{CHANNEL}/summaries/rebuild", responses=responses(409), dependencies=MAY_WRITE)
async def rebuild(guild_id: PathId, channel_id: PathId, given: Given) -> SummariesMade:
    """Rebuilds all summaries whose messages are still stored."""
    return SummariesMade(made=await given.memory.summaries.rebuild(guild_id, channel_id))


@router.post(f"{CHANNEL}/summaries/absorb", responses=responses(409))
async def absorb(guild_id: PathId, channel_id: PathId, body: AbsorbBody, caller: GuildWriter, given: Given) -> Absorbed:
    """Summarises messages that are too old to be stored, without storing them."""
    if any((one.guild_id, one.channel_id) != (guild_id, channel_id) for one in body.messages):
        raise ProblemError(422, "All messages must be of the channel in the path.")
    messages = [believed(caller, given.memory.policies, one.value()) for one in body.messages]
    left = await given.memory.summaries.absorb(guild_id, channel_id, messages, more=body.more)
    return Absorbed(left=len(left))


@router.post("/breakdown")
async def breakdown(body: QuestionBody, caller: Reader, given: Given) -> BreakdownShown:
    """What POST /context would give a language model of the channel's past, in numbers."""
    check(caller, Scope.READ, body.guild_id)
    question = believed(caller, given.memory.policies, body.value())
    return BreakdownShown.model_validate(await given.memory.summaries.breakdown(question))
