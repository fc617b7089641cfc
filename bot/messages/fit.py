"""Texts within Discord's limits. In: lines or a text, and a limit. Out: what fits, marked where text is missing."""

from __future__ import annotations

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
