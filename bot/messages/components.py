"""Clicks and forms. In: what Discord sends for one. Out: what was chosen or typed, and short names for custom ids."""

from __future__ import annotations

import hashlib


def given(data: dict[str, object]) -> str:
    """The first value, wherever Discord puts it: selects and forms nest it differently."""
    values = data.get("values")
    if isinstance(values, list) and values:
        return str(values[0])
    if "value" in data:
        return str(data["value"])
    within = data.get("components") or [data.get("component")]
    inner = [one for one in within if isinstance(one, dict)] if isinstance(within, list) else []
    return next((text for one in inner if (text := given(one))), "")


def digest(name: str) -> str:
    """Stands for a name in a custom id, which holds 100 characters."""
    return hashlib.sha256(name.casefold().encode()).hexdigest()[:12]
