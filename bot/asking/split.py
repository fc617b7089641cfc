"""Splits an answer into messages that Discord accepts. In: any text. Out: pieces, each within the limit.

Preferred boundaries, in order: paragraph, line, sentence, word, anywhere; never inside a link. A code block that must
be cut is closed and reopened.
"""

from __future__ import annotations

import re

LIMIT = 2000
MOST_MESSAGES = 4
CUT = "… (The rest is cut: it is too long.)"
LINK = re.compile(r"\[[^\]\n]*\]\([^)\s]*\)|<?https?://\S+")
FENCE = re.compile(r"^```(\w*)", re.MULTILINE)
OPENING = re.compile(r"```\w*\n")
BOUNDARIES = ("\n\n", "\n", ". ", "? ", "! ", " ")
MIN_FILL = 0.5
"""A preferred boundary counts only if the piece stays at least this full."""
MAX_LANGUAGE_SHARE = 0.02
"""A longer word after a fence is not a language, and is not repeated."""


def split(text: str, limit: int = LIMIT) -> list[str]:
    pieces: list[str] = []
    rest = text.strip()
    while len(rest) > limit:
        room = limit - len("\n```")
        cut = _boundary(rest, room)
        piece, rest = rest[:cut].rstrip(), rest[cut:].lstrip()
        fence = _open_fence(piece, limit)
        if fence is not None:
            piece, rest = f"{piece}\n```", f"```{fence}\n{rest}"
        pieces.append(piece)
    return [*pieces, rest] if rest else pieces


def messages_of(text: str) -> list[str]:
    """The messages of an answer; of one that is too long the first, with a note."""
    pieces = split(text[: MOST_MESSAGES * LIMIT + 1])
    if len(pieces) <= MOST_MESSAGES:
        return pieces
    kept = pieces[:MOST_MESSAGES]
    kept[-1] = f"{split(kept[-1], LIMIT - len(CUT) - 1)[0]}\n{CUT}"
    return kept


def _boundary(text: str, room: int) -> int:
    links = [found.span() for found in LINK.finditer(text[: room * 2])]
    # After the line that reopens a block: a piece of nothing but that line would make no progress.
    opening = OPENING.match(text, 0, room)
    start_at = opening.end() + 1 if opening else 1
    for least in (max(int(room * MIN_FILL), start_at), start_at):
        for boundary in BOUNDARIES:
            cut = _last(text, boundary, least, room, links)
            if cut:
                return cut
    return next((start for start, end in links if start_at <= start < room < end), room)


def _last(text: str, boundary: str, least: int, room: int, links: list[tuple[int, int]]) -> int:
    """The end of the last such boundary within the room; 0 if there is none outside a link."""
    end = room
    while (at := text.rfind(boundary, 0, end)) >= 0:
        cut = at + len(boundary)
        if cut < least:
            return 0
        if not any(start < cut < stop for start, stop in links):
            return cut
        end = at + len(boundary) - 1
    return 0


def _open_fence(piece: str, limit: int) -> str | None:
    """The language of the code block that the piece leaves open; None if it leaves none open."""
    fences = FENCE.findall(piece)
    if len(fences) % 2 == 0:
        return None
    return fences[-1] if len(fences[-1]) <= limit * MAX_LANGUAGE_SHARE else ""
