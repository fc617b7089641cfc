"""The platform's history as the caller of a request sends it. In: what came with a question. Out: a `History`.

The service knows no chat platform. What a question needs of one is noted (`Offered.needs_*`), so that the caller can
fetch it and ask again; what it sends serves that one answer and is never stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from channelmem.types import NOT_SENT, History, Message, Past, Person, Question


@dataclass(slots=True)
class Offered:
    """What one request brought along, and what it lacked."""

    past: Past | None = None
    members: tuple[Person, ...] | None = None
    messages: Mapping[int, Message] | None = None
    link: str = ""
    needs_history: bool = False
    needs_members: list[str] = field(default_factory=list)
    needs_messages: list[tuple[int, int]] = field(default_factory=list)


_current: ContextVar[Offered | None] = ContextVar("offered", default=None)


@contextmanager
def offering(offered: Offered) -> Iterator[Offered]:
    """While this is open, questions of this task see what is offered."""
    token = _current.set(offered)
    try:
        yield offered
    finally:
        _current.reset(token)


class CallersHistory(History):
    """Give it to the service's Memory: `Memory.open(settings, history=CallersHistory())`."""

    async def fetch(self, question: Question, limit: int, max_age_s: float) -> Past:
        offered = _current.get()
        if offered is None or offered.past is None:
            if offered is not None:
                offered.needs_history = True
            return Past(problem=NOT_SENT)
        here = (question.guild_id, question.channel_id)
        kept = [
            one
            for one in sorted(offered.past.messages, key=lambda one: (one.ts, one.id))
            if (one.guild_id, one.channel_id) == here and question.ts - max_age_s <= one.ts and one.id != question.id
        ]
        return Past(tuple(kept[-limit:]), offered.past.problem)

    async def fetch_message(self, channel_id: int, message_id: int) -> Message | None:
        offered = _current.get()
        if offered is None:
            return None
        if offered.messages is None:
            offered.needs_messages.append((channel_id, message_id))
            return None
        found = offered.messages.get(message_id)
        return found if found is not None and found.channel_id == channel_id else None

    def jump_url(self, guild_id: int, channel_id: int, message_id: int) -> str:
        offered = _current.get()
        if offered is None or not offered.link:
            return ""
        ids = {"{guild_id}": guild_id, "{channel_id}": channel_id, "{id}": message_id}
        link = offered.link
        for place, value in ids.items():
            link = link.replace(place, str(value))
        return link

    async def find_members(self, guild_id: int, prefix: str) -> tuple[Person, ...]:
        del guild_id
        offered = _current.get()
        if offered is None:
            return ()
        if offered.members is None:
            offered.needs_members.append(prefix)
        return offered.members or ()
