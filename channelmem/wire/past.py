"""Recaps, loads and spending in JSON. In: a span, how far a load has come, the cost of a call. Out: the same for the
other side."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from channelmem.types import Load, Window
from channelmem.wire.questions import AskBody
from channelmem.wire.scalars import Body, Count, Id, Moment, Shown

LAST_DAY: Final = 100_000
"""In the year 2243."""
Micros = Annotated[int, Field(strict=True, ge=-(10**15), le=10**15)]


class RecapBody(AskBody):
    """Who asks for a recap, where and when, and the span it is about."""

    start: Moment
    end: Moment
    limit: Annotated[int, Field(strict=True, ge=200, le=20_000)] = Field(1_900, description="In characters.")

    def window(self) -> Window:
        return Window(self.start, self.end)


class RecapShown(Shown):
    text: str | None = Field(description="Null if nothing was said in that span.")


class LoadBody(Body):
    """Ids that bound a load of a channel's past, and how much of it is done."""

    start_id: Id
    done_id: Id
    end_id: Id
    stored: Count = 0
    summarised: Count = 0

    def value(self, channel_id: int) -> Load:
        return Load(channel_id, self.start_id, self.done_id, self.end_id, self.stored, self.summarised)


class LoadShown(Shown):
    channel_id: Id
    start_id: Id
    done_id: Id
    end_id: Id
    stored: int = 0
    summarised: int = 0

    def value(self) -> Load:
        return Load(self.channel_id, self.start_id, self.done_id, self.end_id, self.stored, self.summarised)


class LoadsShown(Shown):
    loads: tuple[LoadShown, ...]


class Accepted(Shown):
    accepted: bool


class SpendBody(Body):
    """A call of a language model for a channel, on a day counted from the epoch."""

    day: Annotated[int, Field(strict=True, ge=0, le=LAST_DAY)]
    guild_id: Id
    channel_id: Id
    micros: Micros = Field(description="Micro-dollars: the most it can cost, or by how much it cost more or less.")
    cap_micros: Count = 0


class SpentByChannel(Shown):
    guild_id: Id
    channel_id: Id
    micros: int


class SpentShown(Shown):
    total: int
    channels: tuple[SpentByChannel, ...] = ()
