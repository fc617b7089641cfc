"""The daily spend cap. In: what a model call may cost at most, then what it did cost. Out: leave to call, or none.

The most a call can cost is set aside before it is made, so calls that run at the same time cannot exceed the cap
together. The books are kept in memory, per UTC day: a restart begins with an empty page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from channelmem.settings import Settings

DAY_S: Final = 86_400
MILLION: Final = 1_000_000


class CapReachedError(Exception):
    """The next call could exceed the cap of the day."""


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
class Hold:
    """Money set aside for one call, on the day it was made."""

    day: int
    usd: float


class Spend:
    def __init__(self, cap_usd: float, clock: Callable[[], float]) -> None:
        self._cap_usd, self._clock = cap_usd, clock
        self._day = self._today()
        self._used_usd = 0.0

    @property
    def used_usd(self) -> float:
        """Spent or set aside today."""
        self._turn_page()
        return self._used_usd

    def reserve(self, usd: float) -> Hold:
        """Sets the most that a call can cost aside; raises CapReachedError if the cap has no room for it."""
        self._turn_page()
        if self._used_usd + usd > self._cap_usd:
            raise CapReachedError(f"the cap of {self._cap_usd:g} USD per day leaves no room for another model call")
        self._used_usd += usd
        return Hold(self._day, usd)

    def settle(self, hold: Hold, usd: float) -> None:
        """Puts what the call did cost in place of what was set aside. A call begun yesterday is yesterday's."""
        self._turn_page()
        if hold.day == self._day:
            self._used_usd += usd - hold.usd

    def _turn_page(self) -> None:
        today = self._today()
        if today != self._day:
            self._day, self._used_usd = today, 0.0

    def _today(self) -> int:
        return int(self._clock() // DAY_S)
