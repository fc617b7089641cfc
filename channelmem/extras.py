"""Optional extras. In: a module of ours that needs an extra's packages. Out: the module, or a sentence with the fix."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from channelmem.errors import ChannelmemError, ConfigError

OURS = {"channelmem", "bot"}


def load(module: str, extra: str, purpose: str, problem: type[ChannelmemError] = ConfigError) -> ModuleType:
    """Import `module` now; where a package of the extra is missing, `problem` says what to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in OURS:
            raise  # a mistake of ours; no installation helps
        raise problem(
            f"{purpose} needs {missing}, which is not installed: pip install 'channelmem[{extra}]'"
        ) from error
