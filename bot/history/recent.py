"""One channel's fetched history. In: a fetched page, then live events. Out: the messages that are still current.

The copy lives for a few seconds. Meanwhile it follows new messages, edits and deletes, so it is never staler than the
channel itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from channelmem.types import Message


@dataclass(slots=True)
class RecentMessages:
    messages: dict[int, Message] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    problem: str = ""
    """Why Discord returned nothing, as a sentence for people."""
    expires_at: float = float("inf")
    """Infinite while the fetch is running."""
    fetch: asyncio.Task[None] | None = None

    def current(self) -> list[Message]:
        return [message for id_, message in self.messages.items() if id_ not in self.deleted]

    def add_fetched(self, message: Message) -> None:
        """An edit that arrived during the fetch is newer than the page."""
        self.messages.setdefault(message.id, message)

    def update(self, message: Message) -> None:
        """Applies a live message or edit; ignores a revision older than the one held."""
        held = self.messages.get(message.id)
        if held is None or held.revision <= message.revision:
            self.messages[message.id] = message

    def delete(self, ids: Iterable[int]) -> None:
        self.deleted.update(ids)

    def delete_author(self, author_id: int) -> None:
        self.deleted.update(m.id for m in self.messages.values() if m.author_id == author_id)
