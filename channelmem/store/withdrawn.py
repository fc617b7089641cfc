"""Withdrawn: what was removed, edited or decided here, and Redis could not hear of yet. In: events that wait in the
outbox, and undelivered opt-outs. Out: whether a stored message may still be shown.

A Redis whose disk is full answers questions and takes no changes. This process shows nothing that contradicts what it
was told; others learn of it with the delivery. It is made before Redis is read: what is delivered in between is
missing in what was read, and no longer waits afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable

from channelmem.store.documents import SEPARATOR, AnyMessage
from channelmem.store.keys import padded, room
from channelmem.store.outbox import Event

ABOUT = 7
"""The value of an `add` that begins with the revision."""


class Withdrawn:
    def __init__(self, waiting: Iterable[Event], people: frozenset[tuple[int | None, int]]) -> None:
        self._people = people
        self._ids: set[tuple[str, str]] = set()
        self._floors: dict[str, float] = {}
        """Cleared rooms, and since when."""
        self._guilds: set[int] = set()
        """Where something was withdrawn: an answer of the bot may quote it, and only Redis knows which."""
        for event in waiting:
            self._note(event)

    def __bool__(self) -> bool:
        return bool(self._guilds or self._people)

    def _note(self, event: Event) -> None:
        if event.kind in {"delete", "empty", "add"}:
            ids = event.values[2:] if event.kind == "delete" else event.values[2:3]
            if event.kind == "add" and _is_new(event):
                return
            self._ids |= {(str(event.values[1]), str(one)) for one in ids}
        elif event.kind == "clear":
            place, at = str(event.values[1]), float(event.values[2])
            self._floors[place] = max(at, self._floors.get(place, at))
        else:  # nobody asks in a guild that was left, and undelivered.py knows who opted out
            return
        self._guilds.add(int(event.values[0]))

    def hidden_in(self, guild_id: int, channel_id: int) -> tuple[frozenset[int], float]:
        """What was withdrawn of a channel: ids of messages, and everything up to a time."""
        place = room(guild_id, channel_id)
        return frozenset(int(id_) for one, id_ in self._ids if one == place), self._floors.get(place, -1.0)

    def hides_any(self, guild_id: int, author_ids: Iterable[int]) -> bool:
        """Whether one of these people has opted out."""
        return any((None, one) in self._people or (guild_id, one) in self._people for one in author_ids)

    def hides(self, message: AnyMessage) -> bool:
        place = room(message.guild_id, message.channel_id)
        return (
            (message.own and message.guild_id in self._guilds)
            or (place, padded(message.id)) in self._ids
            or message.ts <= self._floors.get(place, -1.0)
            or not self._people.isdisjoint([(None, message.author_id), (message.guild_id, message.author_id)])
        )


def _is_new(event: Event) -> bool:
    """Whether it adds a message that was never edited: that replaces nothing."""
    about = event.values[ABOUT]
    return isinstance(about, bytes) and about.startswith(SEPARATOR.encode())
