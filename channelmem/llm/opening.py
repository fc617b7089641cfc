"""The door to language models. In: settings and Memory. Out: a speaker, or none where no model is configured.

The packages behind it are an optional extra and take a second to import, so they are loaded only when a model is named.
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
    from channelmem.llm.agent import Llm
    from channelmem.memory import Memory

NOT_INSTALLED = (
    "CHANNELMEM_LLM_MODEL is set, but the packages for language models are missing: pip install 'channelmem[llm]'"
)


def open_llm(settings: Settings, memory: Memory, *, clock: Callable[[], float] = time.time) -> Llm | None:
    """Raises ConfigError, with what to do, if a model is wanted and cannot be had."""
    if settings.llm_model is None:
        return None
    characters = load_characters(settings.character)
    try:
        agent = import_module("channelmem.llm.agent")
    except ImportError as error:
        raise ConfigError(NOT_INSTALLED) from error
    llm: Llm = agent.Llm(settings, memory, characters, clock=clock)
    return llm
