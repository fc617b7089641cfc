"""The app. In: an open Memory, who lets callers in, settings. Out: FastAPI with every endpoint.

Memory must have been opened with `history=CallersHistory()`, so that callers can send what their platform holds.
"""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI

from channelmem.access import Doorkeeper
from channelmem.api import asking, channels, docs_page, health, messages, names, past, people, problems, summaries
from channelmem.api.gate import Gate
from channelmem.api.metrics import ServiceMetrics
from channelmem.api.pressure import Pressure
from channelmem.api.service import Service
from channelmem.api.settings import settings_router
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.web import mount

DESCRIPTION = """Semantic channel memory for chat bots.

Ids are strings (whole numbers are accepted, too), times are epoch seconds, errors are RFC 9457 problem details.
Everything but /healthz and /readyz needs a token."""


def create_app(memory: Memory, door: Doorkeeper, settings: Settings) -> FastAPI:
    metrics = ServiceMetrics()

    app = FastAPI(
        title="channelmem",
        version=version("channelmem"),
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = Service(memory, settings, Pressure(memory, settings), metrics)
    problems.install(app)
    for one in (messages, asking, channels, names, summaries, past, people, health, docs_page):
        app.include_router(one.router)
    app.include_router(settings_router(memory.policies.declared))
    mount.install(app, memory, door)
    app.add_middleware(Gate, door=door, max_body=int(settings.service_max_body_mb * 1_000_000), observe=metrics.observe)
    return app
