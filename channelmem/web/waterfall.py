"""Where the milliseconds of an answer went. In: its timing. Out: bars, one below the other, on one axis of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from channelmem.types import Timing

WIDTH: Final = 480


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    what: str
    ms: float
    x: float
    width: float


def bars(ms: Timing) -> list[Bar]:
    """In order of time; what is not measured by itself (reading names, writing the answer) comes last."""
    total = max(ms.total, ms.route + ms.embed + ms.search, 0.001)
    steps = (
        ("route", "reads the question", ms.route),
        ("embed", "turns the topic into a vector", ms.embed),
        ("search", "reads and ranks messages, beyond the time of embedding", ms.search),
        ("rest", "knows the people, decides, writes the answer", max(0.0, total - ms.route - ms.embed - ms.search)),
    )
    found: list[Bar] = []
    at = 0.0
    for name, what, took in steps:
        found.append(Bar(name, what, took, round(WIDTH * at / total, 1), round(max(1.5, WIDTH * took / total), 1)))
        at += took
    return found
