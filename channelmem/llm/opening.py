"""Opens the configured language models. Their packages are an optional extra and take a second to import, so they load
only when a model is configured."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from channelmem.extras import load
from channelmem.llm.prompts import load_characters
from channelmem.settings import Settings

if TYPE_CHECKING:
    from channelmem.interface import ChannelMemory
    from channelmem.llm.agent import LlmResponder
    from channelmem.llm.summariser import LlmSummariser


def open_responder(
    settings: Settings, memory: ChannelMemory, *, clock: Callable[[], float] = time.time
) -> LlmResponder | None:
    """Raises ConfigError, with the fix, if the configured model can't be used."""
    if settings.llm_model is None:
        return None
    characters = load_characters(settings.character)
    agent = load("channelmem.llm.agent", "llm", "CHANNELMEM_LLM_MODEL")
    responder: LlmResponder = agent.LlmResponder(settings, memory, characters, clock=clock)
    return responder


def open_summariser(settings: Settings, *, clock: Callable[[], float] = time.time) -> LlmSummariser | None:
    """None if no model is to write summaries; raises ConfigError, with the fix, if the configured one can't be used."""
    if settings.summary_model is None:
        return None
    summariser = load("channelmem.llm.summariser", "llm", "CHANNELMEM_SUMMARY_MODEL")
    opened: LlmSummariser = summariser.LlmSummariser(settings.summary_model, settings, clock=clock)
    return opened


@asynccontextmanager
async def summariser_of(settings: Settings) -> AsyncIterator[LlmSummariser | None]:
    """The same, closed at the end of the block; it begins to write once it has a ledger (`attach`)."""
    summariser = open_summariser(settings)
    try:
        yield summariser
    finally:
        if summariser is not None:
            await summariser.close()
