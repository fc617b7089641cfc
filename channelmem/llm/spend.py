"""The daily spend cap. Each call reserves its maximum cost before it starts, so concurrent calls cannot exceed the cap
together; spending is kept in Redis per UTC day, for all processes. A cap that can't be checked allows nothing: while
Redis is unreachable, only models that cost nothing are asked."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from channelmem.durations import DAY_S
from channelmem.errors import RedisUnavailableError
from channelmem.ids import ChannelId
from channelmem.settings import Settings

MILLION: Final = 1_000_000
UNKNOWN: Final = "what was spent today can't be checked while Redis is unreachable"

log = logging.getLogger(__name__)


class CapReachedError(Exception):
    """The next call could exceed the daily cap."""


@dataclass(frozen=True, slots=True)
class Prices:
    """In US dollars per token."""

    input_usd: float
    output_usd: float

    @classmethod
    def of(cls, settings: Settings) -> Prices:
        return cls(settings.llm_usd_per_mtok_in / MILLION, settings.llm_usd_per_mtok_out / MILLION)

    @classmethod
    def of_summaries(cls, settings: Settings) -> Prices:
        """Those of the model that writes summaries, if it has its own."""
        own_in, own_out = settings.summary_usd_per_mtok_in, settings.summary_usd_per_mtok_out
        return cls(
            (settings.llm_usd_per_mtok_in if own_in is None else own_in) / MILLION,
            (settings.llm_usd_per_mtok_out if own_out is None else own_out) / MILLION,
        )

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        return input_tokens * self.input_usd + output_tokens * self.output_usd


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money reserved for one call, on the day of the reservation."""

    day: int
    channel: ChannelId
    micros: int


class Ledger(Protocol):
    """`Memory.spending`; this room knows nothing of the store."""

    async def reserve(self, day: int, channel: ChannelId, micros: int, cap_micros: int) -> bool: ...

    async def settle(self, day: int, channel: ChannelId, change_micros: int) -> None: ...


class Spend:
    def __init__(self, ledger: Ledger, cap_usd: float, clock: Callable[[], float]) -> None:
        self._ledger, self._cap_usd, self._clock = ledger, cap_usd, clock

    async def reserve(self, channel: ChannelId, usd: float) -> Reservation:
        """Reserves the most a call can cost; raises CapReachedError if that could exceed the cap."""
        held = Reservation(int(self._clock() // DAY_S), channel, _micros(usd))
        cap_micros = math.floor(self._cap_usd * MILLION)
        try:
            allowed = not held.micros or await self._ledger.reserve(held.day, held.channel, held.micros, cap_micros)
        except RedisUnavailableError as error:
            raise CapReachedError(UNKNOWN) from error
        if not allowed:
            raise CapReachedError(f"the cap of {self._cap_usd:g} USD per day leaves no room for another model call")
        return held

    async def settle(self, held: Reservation, usd: float) -> None:
        """Replaces the reservation with the actual cost. A call that started yesterday counts for yesterday."""
        if change := _micros(usd) - held.micros:
            try:
                await self._ledger.settle(held.day, held.channel, change)
            except RedisUnavailableError:
                log.warning("A model call counts with all it could have cost: Redis can't be reached")


def _micros(usd: float) -> int:
    """Rounded up: thousands of calls must not hide below the smallest unit. (A float's noise is not a cost.)"""
    return math.ceil(round(usd * MILLION, 6))
