"""What the endpoints share: the memory, its settings, and how much is going on. In: the app. Out: `Service`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from channelmem.api.metrics import ServiceMetrics
from channelmem.api.pressure import Pressure
from channelmem.memory import Memory
from channelmem.settings import Settings


@dataclass(frozen=True, slots=True)
class Service:
    memory: Memory
    settings: Settings
    pressure: Pressure
    metrics: ServiceMetrics


async def service_of(request: Request) -> Service:
    found = request.app.state.service
    assert isinstance(found, Service)  # noqa: S101  (types)
    return found


Given = Annotated[Service, Depends(service_of)]
