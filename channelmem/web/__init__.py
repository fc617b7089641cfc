"""The inspector: pages that show what the memory holds and why it answers as it does, at / of the service."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from channelmem.access import Doorkeeper
from channelmem.memory import Memory
from channelmem.web import changing, pages
from channelmem.web.pages import Inspected
from channelmem.web.session import STATIC


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
    app.mount("/static", _Files(directory=STATIC))
