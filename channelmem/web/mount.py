"""How the inspector is mounted on the service, and its page on health: queue, lag, rates, and what each channel costs.

Whoever is bound to some guilds sees those guilds only: the queue and its lag tell of all.
"""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import APIRouter, FastAPI
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from channelmem.access import Doorkeeper
from channelmem.browse import ListedChannel
from channelmem.errors import RedisUnavailableError
from channelmem.memory import Memory
from channelmem.web import changing, pages
from channelmem.web.pages import Given, Inspected, Looking, PageRoute
from channelmem.web.session import PageError
from channelmem.web.templating import HEADERS, STATIC, page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

SHOWN: Final = 50
UNKNOWN: Final = "?"


@router.get("/health")
async def health_page(visitor: Looking, given: Given) -> Response:
    memory, whole = given.memory, visitor.caller.guild_ids is None
    try:
        listed = await memory.overview.channels(visitor.caller.guild_ids)
    except RedisUnavailableError:  # of all pages this one has something to say then
        listed = []
    channels = sorted((one for one in listed if one.enabled), key=lambda one: one.status.messages, reverse=True)
    first = channels[:SHOWN]
    activity = await memory.overview.activity(first)
    sizes = await asyncio.gather(*[memory.overview.size_bytes(one.guild_id, one.channel_id) for one in first])
    return page(
        "health.html",
        visitor=visitor,
        here="health",
        whole=whole,
        numbers=await numbers(memory, channels),
        sizes=[(one, activity[one.guild_id, one.channel_id], cost) for one, cost in zip(first, sizes, strict=True)],
        more=len(channels) > SHOWN,
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
        return shown | {"redis": "away", "pending": UNKNOWN, "lag": UNKNOWN, "rate": UNKNOWN}


# --- mount ---


class _Files(StaticFiles):
    """Their addresses change with them, so browsers may keep them for long."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


def install(app: FastAPI, memory: Memory, door: Doorkeeper) -> None:
    app.state.inspected = Inspected(memory, door)
    for one in (pages, changing):
        app.include_router(one.router)
    app.include_router(router)
    app.mount("/static", _Files(directory=STATIC))
