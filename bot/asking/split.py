"""Cuts an answer into messages that Discord takes. In: any text. Out: pieces, each within the limit.

Borders in order of liking: paragraph, line, sentence, word, anywhere; never inside a link, and a code block that
must be cut is closed and opened again.
"""

from __future__ import annotations

import re

LIMIT = 2000
LINK = re.compile(r"\[[^\]\n]*\]\([^)\s]*\)|<?https?://\S+")
FENCE = re.compile(r"^```(\w*)", re.MULTILINE)
OPENING = re.compile(r"```\w*\n")
BORDERS = ("\n\n", "\n", ". ", "? ", "! ", " ")
SHORTEST_SHARE = 0.5
"""A liked border is only taken when the piece stays at least this full."""
LONGEST_LANGUAGE_SHARE = 0.02
"""A longer word behind a fence is no language, and is not repeated."""


def split(text: str, limit: int = LIMIT) -> list[str]:
    pieces: list[str] = []
    rest = text.strip()
    while len(rest) > limit:
        room = limit - len("\n```")
        cut = _border(rest, room)
        piece, rest = rest[:cut].rstrip(), rest[cut:].lstrip()
        fence = _open_fence(piece, limit)
        if fence is not None:
            piece, rest = f"{piece}\n```", f"```{fence}\n{rest}"
        pieces.append(piece)
    return [*pieces, rest] if rest else pieces


def _border(text: str, room: int) -> int:
    links = [found.span() for found in LINK.finditer(text[: room * 2])]
    # Behind the line that opens a block again: a piece of nothing but that line would leave as much as there was.
    opening = OPENING.match(text, 0, room)
    start_at = opening.end() + 1 if opening else 1
    for least in (max(int(room * SHORTEST_SHARE), start_at), start_at):
        for border in BORDERS:
            cut = _last(text, border, least, room, links)
            if cut:
                return cut
    return next((start for start, end in links if start_at <= start < room < end), room)


def _last(text: str, border: str, least: int, room: int, links: list[tuple[int, int]]) -> int:
    """Where the last such border within the room ends; 0 if there is none outside a link."""
    end = room
    while (at := text.rfind(border, 0, end)) >= 0:
        cut = at + len(border)
        if cut < least:
            return 0
        if not any(start < cut < stop for start, stop in links):
            return cut
        end = at + len(border) - 1
    return 0


def _open_fence(piece: str, limit: int) -> str | None:
    """The language of a code block that the piece leaves open; None if it leaves none."""
    fences = FENCE.findall(piece)
    if len(fences) % 2 == 0:
        return None
    return fences[-1] if len(fences[-1]) <= limit * LONGEST_LANGUAGE_SHARE else ""
