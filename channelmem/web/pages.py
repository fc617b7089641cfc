"""The inspector's pages of a server and a channel, and logging in. What keeps a page from being shown is one, too."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Final
from urllib.parse import quote
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Form, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import JSONResponse, RedirectResponse, Response

from channelmem.access import Doorkeeper, Scope
from channelmem.browse import Cursor, ListedChannel
from channelmem.errors import RedisUnavailableError
from channelmem.ids import LARGEST_ID
from channelmem.memory import Memory
from channelmem.telling.explanation import explanation
from channelmem.types import Answer, Kind, Person, Question, Route, Unsearched, Window
from channelmem.web import drawings
from channelmem.web.session import (
    HEADERS,
    LONGEST_TOKEN,
    LoginNeededError,
    PageError,
    Visitor,
    check_same_site,
    forget,
    guild_name,
    keep,
    page,
    short_day,
    visitor_of,
)

ASKED: Final = 4
"""Questions from these pages at the same time: people look, bots ask."""
TITLES: Final = {403: "Not allowed", 404: "Not found", 422: "Not understood", 503: "Redis does not answer"}
AWAY: Final = "The memory can't be shown while Redis is unreachable. Reload this page once it answers."

Id = Annotated[int, Path(ge=0, le=LARGEST_ID)]


@dataclass(frozen=True, slots=True)
class Inspected:
    """What is looked at, and who lets people look."""

    memory: Memory
    door: Doorkeeper
    asking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(ASKED))


@dataclass(frozen=True, slots=True)
class GuildListed:
    id: int
    name: str
    channels: tuple[ListedChannel, ...]


async def inspected(request: Request) -> Inspected:
    found: Inspected = request.app.state.inspected
    return found


Given = Annotated[Inspected, Depends(inspected)]


async def _visitor(request: Request, given: Given) -> Visitor:
    return await visitor_of(request, given.door)


Looking = Annotated[Visitor, Depends(_visitor)]


async def guilds_of(memory: Memory, visitor: Visitor) -> list[GuildListed]:
    """What the visitor can see, for the list beside every page."""
    grouped: dict[int, list[ListedChannel]] = {}
    for one in await memory.overview.channels(visitor.caller.guild_ids):
        grouped.setdefault(one.guild_id, []).append(one)
    return [GuildListed(one, guild_name(channels[0]), tuple(channels)) for one, channels in grouped.items()]


class PageRoute(APIRoute):
    """Turns whatever keeps a page from being shown into a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        show = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                return await show(request)
            except LoginNeededError:
                wanted = request.url.path if request.method == "GET" else "/"
                return RedirectResponse(f"/login?next={quote(wanted)}", 303, headers=HEADERS)
            except PageError as error:
                return problem(error.status, error.sentence)
            except RequestValidationError:
                return problem(404, "There is no such page.")
            except RedisUnavailableError:
                return problem(503, AWAY)

        return shown


def problem(status: int, sentence: str) -> Response:
    title = TITLES.get(status, "Something is wrong")
    return page("problem.html", status, title=title, sentence=sentence, visitor=None, here="")


# --- entering ---


router = APIRouter(route_class=PageRoute, include_in_schema=False)

UNKNOWN: Final = "This token is unknown, revoked or expired."
CANNOT_READ: Final = "This token may not read; it needs the read scope."


@router.get("/login")
async def login_form(wanted: Annotated[str, Query(alias="next")] = "/") -> Response:
    return page("login.html", next=_local(wanted), problem="", visitor=None, here="login")


@router.post("/login")
async def login(
    request: Request,
    given: Given,
    token: Annotated[str, Form()] = "",
    wanted: Annotated[str, Form(alias="next")] = "/",
) -> Response:
    check_same_site(request)
    caller = await given.door.caller(token.strip()[:LONGEST_TOKEN])
    if caller is None or Scope.READ not in caller.scopes:
        wrong = UNKNOWN if caller is None else CANNOT_READ
        return page("login.html", 403, next=_local(wanted), problem=wrong, visitor=None, here="login")
    response = RedirectResponse(_local(wanted), 303, headers=HEADERS)
    keep(response, request, token.strip())
    return response


@router.post("/logout")
async def logout(request: Request, visitor: Looking) -> Response:
    check_same_site(request)
    form = await request.form()  # not as an argument: that would be read before anybody knows whose it is
    visitor.check_form(str(form.get("form", "")))
    response = RedirectResponse("/login", 303, headers=HEADERS)
    forget(response)
    return response


def _local(wanted: str) -> str:
    """Only a path of our own: the log-in must not send people to another site."""
    is_path = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if is_path and "\\" not in wanted else "/"


# --- pages ---


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
    policy, after = given.memory.policy(guild_id, channel_id), _cursor(before)
    found = await given.memory.overview.rows(guild_id, channel_id, ROWS, after)
    place = policy.limits.max_messages if after else 0  # older pages are beyond the buffer
    rows = drawings.rows(found.stored, policy, time.time(), place)
    return page(
        "timeline.html",
        **shared,
        here="timeline",
        rows=rows,
        blank=drawings.BLANK,
        lanes=drawings.lanes(rows),
        limits=policy.limits,
        older=after is not None,
        next=str(found.next or ""),
        version=drawings.as_json(rows, **_counts(shared["channel"]))["version"],
    )


@router.get("/g/{guild_id}/c/{channel_id}/rows")
async def rows_now(
    guild_id: Id, channel_id: Id, visitor: Looking, given: Given, version: Annotated[str, Query(max_length=64)] = ""
) -> Response:
    """The newest rows, unless they are those that the page has."""
    visitor.check_reach(guild_id)
    channel = await given.memory.overview.channel(guild_id, channel_id)
    found = await given.memory.overview.rows(guild_id, channel_id, ROWS)
    rows = drawings.rows(found.stored, given.memory.policy(guild_id, channel_id), time.time())
    body = drawings.as_json(rows, **_counts(channel))
    return JSONResponse({"version": version} if version == body["version"] else body, headers=HEADERS)


@router.get("/g/{guild_id}/c/{channel_id}/summaries")
async def summaries_page(guild_id: Id, channel_id: Id, visitor: Looking, given: Given) -> Response:
    shared = await beside(given.memory, visitor, guild_id, channel_id)
    policy = given.memory.policy(guild_id, channel_id)
    wanted = policy.enabled and policy.summaries
    found = await given.memory.summaries.of(guild_id, channel_id) if wanted else ()
    drawing = drawings.draw_pyramid(found, policy.tz)
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
    here = (channel.guild_id, channel.channel_id)
    policy = memory.policy(*here)
    readable = tuple(one for one in others if policy.cross_channel and one != channel.channel_id)
    question = Question(*here, time.time_ns(), who.id, who.name, text, time.time(), readable_channel_ids=readable)
    answer = await memory.ask(question)
    return {
        "answer": answer,
        "bars": drawings.bars(answer.ms),
        "tried": [one for one in answer.tried if one.unsearched is not Unsearched.NOT_SENT],
        "verdict": _verdict(answer),
        "understood": explanation(question, answer.route, policy.tz),
        "route": [(name, value) for name, value in _route(answer.route, policy.tz) if value],
    }


def _verdict(answer: Answer) -> str:
    if answer.route.kind is Kind.NONE:
        return f"Not about this channel: {answer.route.p:.0%} by its wording."
    if not answer.found:
        return "Nothing found that answers it, and it says so."
    return f"{answer.sure:.0%} sure, from the evidence and the wording."


def _route(route: Route, tz: ZoneInfo) -> list[tuple[str, str]]:
    return [
        ("Memory", route.kind.value),
        ("Looks for", f"{route.mode.value}, {route.wants.value}"),
        ("Topic", route.topic),
        ("By", ", ".join(one.name for one in route.speakers)),
        ("When", f"{_window(route.window, tz)} {tz.key}" if route.window != Window() else ""),
        ("Sources", ", then ".join(one.value for one in route.sources)),
        ("About this channel", f"{route.p:.0%} by its wording"),
    ]


def _window(window: Window, tz: ZoneInfo) -> str:
    start = "the beginning" if window.start is None else short_day(window.start, tz)
    return f"{start} to {'now' if window.end is None else short_day(window.end, tz)}"


@router.get("/g/{guild_id}/c/{channel_id}/map")
async def map_page(guild_id: Id, channel_id: Id, visitor: Looking, given: Given) -> Response:
    shared = await beside(given.memory, visitor, guild_id, channel_id)
    messages, vectors = await given.memory.overview.vectors(guild_id, channel_id, drawings.MESSAGES)
    drawn = None
    if messages:
        tz = given.memory.policy(guild_id, channel_id).tz
        drawn = await asyncio.to_thread(drawings.draw_map, messages, vectors, tz)
    return page("map.html", **shared, here="map", map=drawn)


def _counts(channel: ListedChannel) -> dict[str, str]:
    return {"messages": f"{channel.status.messages:,}", "pending": f"{channel.status.pending:,}"}


def _cursor(text: str) -> Cursor | None:
    with suppress(ValueError):
        cursor = Cursor.parse(text) if text else None
        if cursor is None or math.isfinite(cursor.ts):
            return cursor
    raise PageError(404, "There is no such page.")


# --- health: queue, lag, rates, and what each channel costs ---
# Whoever is bound to some guilds sees those guilds only: the queue and its lag tell of all.

MOST_COSTS: Final = 50
UNTOLD: Final = "?"


@router.get("/health")
async def health_page(visitor: Looking, given: Given) -> Response:
    memory, whole = given.memory, visitor.caller.guild_ids is None
    try:
        listed = await memory.overview.channels(visitor.caller.guild_ids)
    except RedisUnavailableError:  # of all pages this one has something to say then
        listed = []
    channels = sorted((one for one in listed if one.enabled), key=lambda one: one.status.messages, reverse=True)
    first = channels[:MOST_COSTS]
    activity = await memory.overview.activity(first)
    sizes = await asyncio.gather(*[memory.overview.size_bytes(one.guild_id, one.channel_id) for one in first])
    return page(
        "health.html",
        visitor=visitor,
        here="health",
        whole=whole,
        numbers=await numbers(memory, channels),
        sizes=[(one, activity[one.guild_id, one.channel_id], cost) for one, cost in zip(first, sizes, strict=True)],
        more=len(channels) > MOST_COSTS,
    )


@router.get("/health/now")
async def health_now(visitor: Looking, given: Given) -> Response:
    if visitor.caller.guild_ids is not None:
        raise PageError(404, "There is no such page.")
    try:
        channels = await given.memory.overview.channels()
    except RedisUnavailableError:
        channels = []
    return JSONResponse(await numbers(given.memory, channels), headers=HEADERS)


async def numbers(memory: Memory, channels: list[ListedChannel]) -> dict[str, str]:
    """As they are shown; a question mark for what only Redis could tell."""
    shown = {"redis": "reachable", "queued": f"{memory.queued:,}", "dropped": f"{memory.dropped:,}"}
    try:
        activity = await memory.overview.activity(channels)
        rate = sum(one.last_minute for one in activity.values())
        lag_s = await memory.lag_s()
        return shown | {"pending": f"{await memory.pending():,}", "lag": f"{lag_s:.1f} s", "rate": f"{rate:,}"}
    except RedisUnavailableError:
        return shown | {"redis": "away", "pending": UNTOLD, "lag": UNTOLD, "rate": UNTOLD}
