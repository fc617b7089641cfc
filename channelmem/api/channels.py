"""Guilds and channels: names, what they hold, removals, fresh starts, what is still to be fetched of them, how far
that has come, summaries, and what language models cost by day and channel."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query

from channelmem.access import Scope
from channelmem.api.messages import CHANNEL, removal
from channelmem.api.problems import ProblemError, responses
from channelmem.api.service import (
    MAY_ADMINISTER,
    MAY_READ,
    MAY_WRITE,
    Given,
    GuildReader,
    GuildWriter,
    Reader,
    Writer,
    believed,
    check,
)
from channelmem.ids import ChannelId
from channelmem.policy.cascade import Boundary
from channelmem.types import LAST_TS, Window
from channelmem.wire.answers import (
    AbsorbBody,
    Absorbed,
    BreakdownShown,
    QuestionBody,
    SummariesMade,
    SummariesShown,
    SummaryShown,
)
from channelmem.wire.channels import (
    LAST_DAY,
    Accepted,
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
    LoadBody,
    LoadShown,
    LoadsShown,
    NamesBody,
    RedactionsShown,
    Removed,
    SpendBody,
    SpentByChannel,
    SpentShown,
    StatsShown,
)
from channelmem.wire.messages import PathId

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


# --- summaries ---


summaries_router = APIRouter(prefix="/v1", tags=["summaries"], responses=responses())

End = Annotated[float | None, Query(ge=0, le=LAST_TS, allow_inf_nan=False, description="In epoch seconds.")]


@summaries_router.get(f"{CHANNEL}/summaries", dependencies=MAY_READ)
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


@summaries_router.post(f"{CHANNEL}/summaries/update", responses=responses(409), dependencies=MAY_WRITE)
async def update(guild_id: PathId, channel_id: PathId, given: Given) -> SummariesMade:
    """Brings a channel's summaries up to date now, instead of a while after each window closes."""
    return SummariesMade(made=await given.memory.summaries.update(guild_id, channel_id))


@summaries_router.post(f"{CHANNEL}/summaries/rebuild", responses=responses(409), dependencies=MAY_WRITE)
async def rebuild(guild_id: PathId, channel_id: PathId, given: Given) -> SummariesMade:
    """Rebuilds all summaries whose messages are still stored."""
    return SummariesMade(made=await given.memory.summaries.rebuild(guild_id, channel_id))


@summaries_router.post(f"{CHANNEL}/summaries/absorb", responses=responses(409))
async def absorb(guild_id: PathId, channel_id: PathId, body: AbsorbBody, caller: GuildWriter, given: Given) -> Absorbed:
    """Summarises messages that are too old to be stored, without storing them."""
    if any((one.guild_id, one.channel_id) != (guild_id, channel_id) for one in body.messages):
        raise ProblemError(422, "All messages must be of the channel in the path.")
    messages = [believed(caller, given.memory.policies, one.value()) for one in body.messages]
    left = await given.memory.summaries.absorb(guild_id, channel_id, messages, more=body.more)
    return Absorbed(left=len(left))


@summaries_router.post("/breakdown")
async def breakdown(body: QuestionBody, caller: Reader, given: Given) -> BreakdownShown:
    """What POST /context would give a language model of the channel's past, in numbers."""
    check(caller, Scope.READ, body.guild_id)
    question = believed(caller, given.memory.policies, body.value())
    return BreakdownShown.model_validate(await given.memory.summaries.breakdown(question))


# --- progress ---


progress_router = APIRouter(prefix="/v1", tags=["progress"], responses=responses())


@progress_router.get("/guilds/{guild_id}/loads", dependencies=MAY_READ)
async def loads(guild_id: PathId, given: Given) -> LoadsShown:
    """Loads of a guild's channels that are not finished."""
    return LoadsShown(loads=tuple(map(LoadShown.model_validate, await given.memory.loads.open(guild_id))))


@progress_router.post(f"{CHANNEL}/load", dependencies=MAY_WRITE, name="begin")
async def begin_load(guild_id: PathId, channel_id: PathId, body: LoadBody, given: Given) -> Accepted:
    """Notes that a channel's past is being loaded; not accepted while another load of it is in progress."""
    return Accepted(accepted=await given.memory.loads.begin(guild_id, body.value(channel_id)))


@progress_router.put(f"{CHANNEL}/load", dependencies=MAY_WRITE)
async def advance(guild_id: PathId, channel_id: PathId, body: LoadBody, given: Given) -> Accepted:
    """Notes how far it has come; not accepted if the channel was cleared meanwhile."""
    return Accepted(accepted=await given.memory.loads.advance(guild_id, body.value(channel_id)))


@progress_router.delete(f"{CHANNEL}/load", dependencies=MAY_WRITE)
async def end(guild_id: PathId, channel_id: PathId, given: Given) -> Done:
    """It is done."""
    await given.memory.loads.end(guild_id, channel_id)
    return Done()


@progress_router.post("/spending/reserve")
async def reserve(body: SpendBody, caller: Writer, given: Given) -> Accepted:
    """Sets the most that a call can cost aside; not accepted if that could exceed the day's cap, here or there."""
    check(caller, Scope.WRITE, body.guild_id)
    channel, cap = ChannelId(body.guild_id, body.channel_id), math.floor(given.settings.llm_daily_usd * 1e6)
    granted = await given.memory.spending.reserve(body.day, channel, max(0, body.micros), min(cap, body.cap_micros))
    return Accepted(accepted=granted)


@progress_router.post("/spending/settle")
async def settle(body: SpendBody, caller: Writer, given: Given) -> Done:
    """Replaces what was set aside by what the call cost."""
    check(caller, Scope.WRITE, body.guild_id)
    await given.memory.spending.settle(body.day, ChannelId(body.guild_id, body.channel_id), body.micros)
    return Done()


@progress_router.get("/spending/{day}")
async def spending(day: Annotated[int, Path(ge=0, le=LAST_DAY)], caller: Reader, given: Given) -> SpentShown:
    """What was spent on a day, counted from the epoch: in all, and by the channels that the token may reach."""
    total, rows = await given.memory.spending.total(day), await given.memory.spending.by_channel(day)
    shown = [
        SpentByChannel(guild_id=guild_id, channel_id=channel_id, micros=micros)
        for (guild_id, channel_id), micros in sorted(rows.items())
        if caller.may_reach(guild_id)
    ]
    return SpentShown(total=total, channels=tuple(shown))
