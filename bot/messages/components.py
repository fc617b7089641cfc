"""Texts within Discord's limits, and what clicks and forms say."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

MORE = "… and {count} more"


def clip(lines: Iterable[str], limit: int) -> str:
    """As many lines as fit; the last one says how many did not."""
    kept, rest = "", list(lines)
    while rest:
        longer = f"{kept}\n{rest[0]}" if kept else rest[0]
        more = MORE.format(count=len(rest))
        if len(longer) + (len(more) + 1 if len(rest) > 1 else 0) > limit:
            return f"{kept}\n{more}" if kept else more
        kept = longer
        rest.pop(0)
    return kept


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


# --- components ---


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
