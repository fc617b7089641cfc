"""Semantic channel memory for chat bots, on Redis Stack.

from channelmem import Memory, Message, Question, Settings

async with Memory.open(Settings()) as memory:
    await memory.remember(Message(...))
    answer = await memory.ask(Question(...))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from channelmem.errors import ChannelmemError
from channelmem.settings import Settings, load_settings
from channelmem.types import (
    Answer,
    Attachment,
    ChannelStatus,
    ContextRequest,
    Gap,
    History,
    Hit,
    Kind,
    Message,
    Mode,
    Origin,
    Outcome,
    Past,
    Person,
    Question,
    Route,
    Source,
    SourceReport,
    Thread,
    Timing,
    Wants,
    Window,
)

if TYPE_CHECKING:
    from channelmem.memory import Memory

__all__ = [
    "Answer",
    "Attachment",
    "ChannelStatus",
    "ChannelmemError",
    "ContextRequest",
    "Gap",
    "History",
    "Hit",
    "Kind",
    "Memory",
    "Message",
    "Mode",
    "Origin",
    "Outcome",
    "Past",
    "Person",
    "Question",
    "Route",
    "Settings",
    "Source",
    "SourceReport",
    "Thread",
    "Timing",
    "Wants",
    "Window",
    "load_settings",
]


def __getattr__(name: str) -> Any:
    # Memory brings Redis and ONNX Runtime along, a second of imports that `channelmem route` and others do not need.
    if name == "Memory":
        return import_module("channelmem.memory").Memory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
