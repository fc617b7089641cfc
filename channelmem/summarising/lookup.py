"""Sentences about a topic that only summaries still have. Enters: a route, and a channel's summaries. Leaves: lines,
best first, with the share of the topic's words that each has.

By words alone: a summary has no vector, and there are few of its lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from channelmem.recalling.ranking.line import stems
from channelmem.summarising.pyramid import Line, Summary
from channelmem.types import Route

LEAST: Final = 0.5
"""Of the topic's words, the share that a line must have."""


def lines_about(route: Route, summaries: Iterable[Summary], before: float) -> list[tuple[Line, float]]:
    """Those sent earlier than `before`, within the route's time and by its speakers; each once."""
    wanted = frozenset(stems(route.topic))
    speakers = {person.id for person in route.speakers} if route.binds else set[int]()
    lines = {
        (line.message_id, line.text): line
        for summary in summaries
        for line in summary.lines
        if line.message_id and line.ts < before and route.window.contains(line.ts)
    }
    found = [
        (line, len(wanted & set(stems(line.text))) / len(wanted))
        for line in lines.values()
        if wanted and (not speakers or line.author_id in speakers) and _is_by(line, route.stranger)
    ]
    fitting = [(line, share) for line, share in found if share >= LEAST]
    return sorted(fitting, key=lambda one: (-one[1], -one[0].weight, -one[0].ts))


def _is_by(line: Line, stranger: str) -> bool:
    """Whoever wrote nothing that is still stored is a stranger to the router, and may be known here."""
    return not stranger or line.author.casefold() == stranger.casefold()
