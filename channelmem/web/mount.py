"""Puts the pages into the service's app. In: the app, Memory, and who knows tokens. Out: routes at /."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from channelmem.access import Doorkeeper
from channelmem.memory import Memory
from channelmem.web import changing, entering, health, pages
from channelmem.web.looking import Inspected
from channelmem.web.templating import STATIC


class _Files(StaticFiles):
    """Their addresses change with them, so browsers may keep them for long."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


def install(app: FastAPI, memory: Memory, door: Doorkeeper) -> None:
    app.state.inspected = Inspected(memory, door)
    for one in (entering, pages, changing, health):
        app.include_router(one.router)
    app.mount("/static", _Files(directory=STATIC))
