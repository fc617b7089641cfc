"""What the pages share: the memory, who looks, and what becomes of a page that can't be shown. In: a request. Out: both
as arguments of a page, or a page that says what is wrong and what to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import Depends, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import RedirectResponse, Response

from channelmem.access import Doorkeeper
from channelmem.errors import RedisUnavailableError
from channelmem.memory import Memory
from channelmem.overview import ListedChannel
from channelmem.telling.quote import flatten
from channelmem.web.session import LoginNeededError, PageError, Visitor, visitor_of
from channelmem.web.templating import HEADERS, guild_name, page

LARGEST_ID: Final = 2**63 - 1
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

    @property
    def total(self) -> int:
        return sum(one.status.messages for one in self.channels)


async def inspected(request: Request) -> Inspected:
    found = request.app.state.inspected
    assert isinstance(found, Inspected)  # noqa: S101  (types)
    return found


async def _visitor(request: Request, given: Annotated[Inspected, Depends(inspected)]) -> Visitor:
    return await visitor_of(request, given.door)


Given = Annotated[Inspected, Depends(inspected)]
Looking = Annotated[Visitor, Depends(_visitor)]


async def guilds_of(memory: Memory, visitor: Visitor) -> list[GuildListed]:
    """What the visitor can see, for the list beside every page."""
    grouped: dict[int, list[ListedChannel]] = {}
    for one in await memory.overview.channels(visitor.caller.guild_ids):
        grouped.setdefault(one.guild_id, []).append(one)
    return [
        GuildListed(guild_id, flatten(guild_name(channels[0])), tuple(channels))
        for guild_id, channels in grouped.items()
    ]


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
