"""The daily spend cap. In: the most a model call can cost, then what it did cost. Out: a reservation, or a refusal.

Each call reserves its maximum cost before it starts, so concurrent calls cannot exceed the cap together. Spending is
tracked in memory per UTC day: a restart begins at zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from channelmem.settings import Settings

DAY_S: Final = 86_400
MILLION: Final = 1_000_000


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

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        return input_tokens * self.input_usd + output_tokens * self.output_usd


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money reserved for one call, on the day of the reservation."""

    day: int
    usd: float


class Spend:
    def __init__(self, cap_usd: float, clock: Callable[[], float]) -> None:
        self._cap_usd, self._clock = cap_usd, clock
        self._day = self._today()
        self._used_usd = 0.0

    @property
    def used_usd(self) -> float:
        """Spent or reserved today."""
        self._start_new_day()
        return self._used_usd

    def reserve(self, usd: float) -> Reservation:
        """Reserves the most a call can cost; raises CapReachedError if that could exceed the cap."""
        self._start_new_day()
        if self._used_usd + usd > self._cap_usd:
            raise CapReachedError(f"the cap of {self._cap_usd:g} USD per day leaves no room for another model call")
        self._used_usd += usd
        return Reservation(self._day, usd)

    def settle(self, reservation: Reservation, usd: float) -> None:
        """Replaces the reservation with the actual cost. A call that started yesterday counts for yesterday."""
        self._start_new_day()
        if reservation.day == self._day:
            self._used_usd += usd - reservation.usd

    def _start_new_day(self) -> None:
        today = self._today()
        if today != self._day:
            self._day, self._used_usd = today, 0.0

    def _today(self) -> int:
        return int(self._clock() // DAY_S)
