"""Opens the configured language model. In: settings and Memory. Out: a responder, or None if no model is configured.

The model packages are an optional extra and take a second to import, so they load only when a model is configured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from channelmem.errors import ConfigError
from channelmem.llm.characters import load_characters
from channelmem.settings import Settings

if TYPE_CHECKING:
    from channelmem.llm.agent import LlmResponder
    from channelmem.memory import Memory

NOT_INSTALLED = (
    "CHANNELMEM_LLM_MODEL is set, but the language model packages are missing: pip install 'channelmem[llm]'"
)


def open_responder(
    settings: Settings, memory: Memory, *, clock: Callable[[], float] = time.time
) -> LlmResponder | None:
    """Raises ConfigError, with the fix, if the configured model can't be used."""
    if settings.llm_model is None:
        return None
    characters = load_characters(settings.character)
    try:
        agent = import_module("channelmem.llm.agent")
    except ImportError as error:
        raise ConfigError(NOT_INSTALLED) from error
    responder: LlmResponder = agent.LlmResponder(settings, memory, characters, clock=clock)
    return responder
