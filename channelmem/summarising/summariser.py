"""Who writes summaries. Enters: a closed window, or two neighbouring summaries. Leaves: a `Summary`.

The default quotes and needs nothing but processor time, which it takes from a thread: an answer never waits for it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from channelmem.summarising.extractive import SUMMARY_CHARS, combine, summarise
from channelmem.summarising.pyramid import Summary
from channelmem.summarising.windows import ClosedWindow

Place = tuple[int, int]
"""Guild and channel."""


class Summariser(Protocol):
    """Never raises for what people wrote. What it writes is made from what it is given and nothing else: a summary is
    removed with any of its messages (`pyramid.base` notes them)."""

    async def of_window(self, window: ClosedWindow, *, created: float) -> Summary: ...

    async def of_pair(self, older: Summary, newer: Summary, *, created: float, place: Place) -> Summary:
        """`place` is the channel, to which its cost is charged."""


class Extractive:
    """The default: what people wrote, chosen sentence by sentence (extractive.py)."""

    def __init__(self, chars: int = SUMMARY_CHARS) -> None:
        self._chars = chars

    async def of_window(self, window: ClosedWindow, *, created: float) -> Summary:
        return await asyncio.to_thread(summarise, window, created=created, limit=self._chars)

    async def of_pair(self, older: Summary, newer: Summary, *, created: float, place: Place) -> Summary:
        return await asyncio.to_thread(combine, older, newer, created=created, limit=self._chars)
