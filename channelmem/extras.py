"""Optional extras. In: a module of ours that needs an extra's packages. Out: the module, or a sentence with the fix."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from channelmem.errors import ChannelmemError, ConfigError

# The wheel carries the folder bot/ as channelmem_bot: `bot` is a name that other people use.
BOT = "channelmem_bot" if Path(__file__).parents[1].joinpath("channelmem_bot").is_dir() else "bot"
OURS = {"channelmem", BOT}


def load(module: str, extra: str, purpose: str, problem: type[ChannelmemError] = ConfigError) -> ModuleType:
    """Import `module` now; where a package of the extra is missing, `problem` says what to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in OURS:
            raise  # a mistake of ours; no installation helps
        raise problem(f"{purpose} needs {missing}, which is not installed: {how_to_install(extra)}") from error


def how_to_install(extra: str) -> str:
    """The one place that knows where channelmem comes from. No package index has it yet."""
    return f"run pip install '.[{extra}]' in a clone of channelmem"
