"""The pages that show something. In: a visitor and a channel. Out: HTML, and JSON for what keeps itself current."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from starlette.responses import JSONResponse, Response

from channelmem.memory import Memory
from channelmem.overview import ListedChannel
from channelmem.reading import Cursor
from channelmem.types import NOT_SENT, Answer, Kind, Person, Question, Window
from channelmem.web import pyramid, similarity, timeline
from channelmem.web.looking import Given, Id, Looking, PageRoute, guilds_of
from channelmem.web.session import PageError, Visitor
from channelmem.web.templating import HEADERS, page, short_day
from channelmem.web.waterfall import bars

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ROWS: Final = 50
PEOPLE: Final = 50
SOMEBODY: Final = Person(0, "somebody")


@router.get("/")
async def home(visitor: Looking, given: Given) -> Response:
    guilds = await guilds_of(given.memory, visitor)
    activity = await given.memory.overview.activity([one for guild in guilds for one in guild.channels])
    return page("home.html", visitor=visitor, here="home", guilds=guilds, activity=activity)


async def beside(memory: Memory, visitor: Visitor, guild_id: int, channel_id: int) -> dict[str, Any]:
    """What every page of a channel shows around its own part."""
    visitor.check_reach(guild_id)
    channel = await memory.overview.channel(guild_id, channel_id)
    return {"visitor": visitor, "guilds": await guilds_of(memory, visitor), "channel": channel}


@router.get("/g/{guild_id}/c/{channel_id}")
async def channel_page(
    guild_id: Id, channel_id: Id, visitor: Looking, given: Given, before: Annotated[str, Query(max_length=60)] = ""
) -> Response:
    shared = await beside(given.memory, visitor, guild_id, channel_id)
    policy = given.memory.policy(guild_id, channel_id)
    after = _cursor(before)
    found = await given.memory.overview.rows(guild_id, channel_id, ROWS, after)
    place = policy.limits.max_messages if after else 0  # older pages are beyond the buffer
    rows = timeline.rows(found.stored, policy, time.time(), place)
    return page(
        "timeline.html",
        **shared,
        here="timeline",
        rows=rows,
        blank=timeline.BLANK,
        lanes=timeline.lanes(rows),
        limits=policy.limits,
        older=after is not None,
        next=f"{found.next.ts!r}_{found.next.id}" if found.next else "",
        version=timeline.as_json(rows, **_counts(shared["channel"]))["version"],
    )


@router.get("/g/{guild_id}/c/{channel_id}/rows")
async def rows_now(
    guild_id: Id, channel_id: Id, visitor: Looking, given: Given, version: Annotated[str, Query(max_length=64)] = ""
) -> Response:
    """The newest rows, unless they are those that the page has."""
    visitor.check_reach(guild_id)
    channel = await given.memory.overview.channel(guild_id, channel_id)
    found = await given.memory.overview.rows(guild_id, channel_id, ROWS)
    rows = timeline.rows(found.stored, given.memory.policy(guild_id, channel_id), time.time())
    body = timeline.as_json(rows, **_counts(channel))
    return JSONResponse({"version": version} if version == body["version"] else body, headers=HEADERS)


@router.get("/g/{guild_id}/c/{channel_id}/summaries")
async def summaries_page(guild_id: Id, channel_id: Id, visitor: Looking, given: Given) -> Response:
    shared = await beside(given.memory, visitor, guild_id, channel_id)
    policy = given.memory.policy(guild_id, channel_id)
    wanted = policy.enabled and policy.summaries
    found = await given.memory.summaries.of(guild_id, channel_id) if wanted else ()
    drawing = pyramid.draw(found, policy.tz)
    return page("summaries.html", **shared, here="summaries", drawing=drawing, off=not wanted)


@router.get("/g/{guild_id}/c/{channel_id}/ask")
async def ask_page(
    guild_id: Id,
    channel_id: Id,
    visitor: Looking,
    given: Given,
    q: Annotated[str, Query(max_length=2_000)] = "",
    asker: Annotated[str, Query(alias="as", max_length=20)] = "",
) -> Response:
    shared = await beside(given.memory, visitor, guild_id, channel_id)
    people = (await given.memory.overview.people(guild_id, channel_id))[:PEOPLE]
    shown: dict[str, Any] = {"answer": None}
    if q.strip() and shared["channel"].enabled:
        who = next((one for one in people if str(one.id) == asker), SOMEBODY)
        others = [one.channel_id for guild in shared["guilds"] if guild.id == guild_id for one in guild.channels]
        async with given.asking:
            shown = await _answered(given.memory, shared["channel"], q.strip(), who, others)
    return page("ask.html", **shared, here="ask", question=q, asker=asker, people=people, **shown)


async def _answered(
    memory: Memory, channel: ListedChannel, text: str, who: Person, others: list[int]
) -> dict[str, Any]:
    policy = memory.policy(channel.guild_id, channel.channel_id)
    readable = tuple(one for one in others if policy.cross_channel and one != channel.channel_id)
    question = Question(
        channel.guild_id, channel.channel_id, time.time_ns(), who.id, who.name, text, time.time(),
        readable_channel_ids=readable,
    )  # fmt: skip
    answer = await memory.ask(question)
    return {
        "answer": answer,
        "bars": bars(answer.ms),
        "tried": [one for one in answer.tried if one.problem != NOT_SENT],
        "verdict": _verdict(answer),
        "route": [(name, value) for name, value in _route(answer, policy.tz.key, policy.tz) if value],
    }


def _verdict(answer: Answer) -> str:
    if answer.route.kind is Kind.NONE:
        return f"Not about this channel: {answer.route.p:.0%} by its wording."
    if not answer.found:
        return "Nothing found that answers it, and it says so."
    return f"{answer.sure:.0%} sure, from the evidence and the wording."


def _route(answer: Answer, zone: str, tz: Any) -> list[tuple[str, str]]:
    route = answer.route
    return [
        ("Memory", route.kind.value),
        ("Looks for", f"{route.mode.value}, {route.wants.value}"),
        ("Topic", route.topic),
        ("By", ", ".join(one.name for one in route.speakers)),
        ("When", f"{_window(route.window, tz)} {zone}" if route.window != Window() else ""),
        ("Sources", ", then ".join(one.value for one in route.sources)),
        ("About this channel", f"{route.p:.0%} by its wording"),
    ]


def _window(window: Window, tz: Any) -> str:
    start = "the beginning" if window.start is None else short_day(window.start, tz)
    return f"{start} to {'now' if window.end is None else short_day(window.end, tz)}"


@router.get("/g/{guild_id}/c/{channel_id}/map")
async def map_page(guild_id: Id, channel_id: Id, visitor: Looking, given: Given) -> Response:
    shared = await beside(given.memory, visitor, guild_id, channel_id)
    messages, vectors = await given.memory.overview.vectors(guild_id, channel_id, similarity.MESSAGES)
    drawn = None
    if messages:
        tz = given.memory.policy(guild_id, channel_id).tz
        drawn = await asyncio.to_thread(similarity.draw, messages, vectors, tz)
    return page("map.html", **shared, here="map", map=drawn)


def _counts(channel: ListedChannel) -> dict[str, str]:
    return {"messages": f"{channel.status.messages:,}", "pending": f"{channel.status.pending:,}"}


def _cursor(text: str) -> Cursor | None:
    if not text:
        return None
    ts, _, id_ = text.partition("_")
    try:
        cursor = Cursor(float(ts), int(id_))
    except ValueError:
        raise PageError(404, "There is no such page.") from None
    if not math.isfinite(cursor.ts):
        raise PageError(404, "There is no such page.")
    return cursor
