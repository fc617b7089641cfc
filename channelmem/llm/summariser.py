"""Summaries in a language model's words. In: a closed window, or two neighbouring summaries. Out: a `Summary`.

Only where CHANNELMEM_SUMMARY_MODEL is set, because it sends text that nobody asked about. Every summary is first made
of people's own sentences; the model's words replace them if it answers in time, within the spend cap, and with
something that rests on what it was given. After a failure the model rests for a while: a provider that hangs would
otherwise hold up the channel's whole past, window by window.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pydantic_ai import Agent

from channelmem.display import cut, flatten, unmasked
from channelmem.llm.agent import FAILURES, reason_of
from channelmem.llm.checks import rests_on, without_marks
from channelmem.llm.models import Endpoint, MeteredModel, build_model, call_settings, quiet_sdk_loggers
from channelmem.llm.prompts import Prompt
from channelmem.llm.spend import CapReachedError, Ledger, Place, Prices, Spend
from channelmem.llm.transcription import MINUTES_CHARS, of_pair, of_window
from channelmem.settings import Settings
from channelmem.summaries.extractive import sentences
from channelmem.summaries.pyramid import ClosedWindow, Summary
from channelmem.summaries.update import Extractive, Summariser

SETTING: Final = "CHANNELMEM_SUMMARY_MODEL"
MAX_TOKENS: Final = 200  # of one summary; what is longer breaks off, and is kept up to its last sentence
FIRST_REST_S: Final = 30.0
LONGEST_REST_S: Final = 1_800.0
FAR_BEYOND: Final = 10  # times as long as a summary may be: what a model writes beyond is not even read

OnTokens = Callable[[str, int], None]

log = logging.getLogger(__name__)


class LlmSummariser:
    """A Summariser. Until it is given a ledger (`attach`) nothing can be spent, so nothing is sent."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        *,
        otherwise: Summariser | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        quiet_sdk_loggers()
        self._name, self._settings = name, settings
        self._model = build_model(name, Endpoint.of_summaries(settings), SETTING)
        self._agent = Agent(name="minutes", model_settings=call_settings(settings, MAX_TOKENS), retries=0)
        self._otherwise = otherwise or Extractive()
        self._clock, self._monotonic = clock, monotonic
        self._spend: Spend | None = None
        self._rest_s, self._resting_until = 0.0, 0.0
        self.on_tokens: OnTokens | None = None

    def attach(self, ledger: Ledger) -> None:
        """Memory needs its summariser before it has a ledger."""
        self._spend = Spend(ledger, self._settings.llm_daily_usd, self._clock)

    async def of_window(self, window: ClosedWindow, *, created: float) -> Summary:
        quoting = await self._otherwise.of_window(window, created=created)
        first = window.messages[0]
        prompt = of_window(window, self._settings.summary_overlap_messages)
        return await self._rewritten(quoting, prompt, (first.guild_id, first.channel_id))

    async def of_pair(self, older: Summary, newer: Summary, *, created: float, place: Place) -> Summary:
        quoting = await self._otherwise.of_pair(older, newer, created=created, place=place)
        return await self._rewritten(quoting, of_pair(older, newer), place)

    async def close(self) -> None:
        # Leaving a model's context closes its connections.
        async with self._model:
            pass

    async def _rewritten(self, quoting: Summary, prompt: Prompt, place: Place) -> Summary:
        # What fits as it was said needs no other words.
        if len(prompt.given) <= MINUTES_CHARS or self._spend is None or self._monotonic() < self._resting_until:
            return quoting
        try:
            written = await self._ask(prompt, MeteredModel(self._model, self._spend, place, self._prices, self._count))
        except CapReachedError as error:
            log.info("A summary quotes instead: %s", error)
            return quoting
        except FAILURES as error:
            self._rest(reason_of(error, self._settings))
            return quoting
        text = tidy(written)
        if not rests_on(text, prompt.given):
            self._rest("the language model's summary is unusable")
            return quoting
        self._rest_s = 0.0
        text = "\n".join(filter(None, (text, str(quoting.shared))))
        return replace(quoting, text=text, lines=(), model=self._name)

    async def _ask(self, prompt: Prompt, model: MeteredModel) -> str:
        result = await self._agent.run(prompt.message, model=model, instructions=prompt.instructions)
        return result.output

    @property
    def _prices(self) -> Prices:
        return Prices.of_summaries(self._settings)

    def _count(self, input_tokens: int, output_tokens: int) -> None:
        if self.on_tokens is not None:
            self.on_tokens("input", input_tokens)
            self.on_tokens("output", output_tokens)

    def _rest(self, reason: str) -> None:
        """Longer each time, until it writes something usable again."""
        self._rest_s = min(max(FIRST_REST_S, 2 * self._rest_s), LONGEST_REST_S)
        self._resting_until = self._monotonic() + self._rest_s
        log.warning("Summaries quote for the next %g s: %s", self._rest_s, reason)


def tidy(text: str, limit: int = MINUTES_CHARS) -> str:
    """What a model wrote, as whole sentences within a limit; no line of it looks like one of our headers."""
    text = text[: FAR_BEYOND * limit]
    kept: list[str] = []
    room = limit
    for line in without_marks(text).splitlines():
        told = _fitting(unmasked(flatten(line)).lstrip("[#>*-•· "), room)
        if told:
            kept.append(told)
            room -= len(told) + 1
    return "\n".join(kept) or cut(unmasked(flatten(text)).lstrip("["), limit)


def _fitting(line: str, room: int) -> str:
    if len(line) <= room:
        return line
    kept = ""
    for sentence in sentences(line):
        longer = f"{kept} {sentence}".strip()
        if len(longer) > room:
            break
        kept = longer
    return kept
