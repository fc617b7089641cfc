"""What each asker asked last in a channel, for ten minutes, so that "and Bob?" can build on it.

In: a question's route and the first message of its answer. Out: an `Asked`. Of the message only its id and time are
kept.
"""

from __future__ import annotations

from collections.abc import Callable

from cachetools import LRUCache

from channelmem.routing.scene import Asked
from channelmem.types import Kind, Message, Question, Route

FOLLOW_UPS = 5_000
FOLLOW_UP_S = 600.0
"""How long a question can build on the one before."""

Place = tuple[int, int]
"""Guild and channel."""


class FollowUps:
    def __init__(self) -> None:
        self._asked: LRUCache[tuple[Place, int], tuple[float, Asked]] = LRUCache(FOLLOW_UPS)

    def previous(self, question: Question) -> Asked | None:
        """The asker's last question in this channel, while it is fresh."""
        ts, asked = self._asked.get(_key(question), (0.0, None))
        return asked if question.ts - ts <= FOLLOW_UP_S else None

    def note(self, question: Question, route: Route, first: Message | None) -> None:
        """Keeps what was asked, also if nothing was found; what was not about the channel changes nothing."""
        if route.kind is not Kind.NONE:
            hit = (first.id, first.ts) if first else (None, None)
            self._asked[_key(question)] = (question.ts, Asked(route, *hit))

    def drop_channel(self, guild_id: int, channel_id: int) -> None:
        self._forget(lambda place, _asker, _route: place == (guild_id, channel_id))

    def drop_guild(self, guild_id: int) -> None:
        self._forget(lambda place, _asker, _route: place[0] == guild_id)

    def drop_everything(self) -> None:
        self._asked.clear()

    def drop_author(self, author_id: int) -> None:
        """What they asked, and what others asked about them."""
        self._forget(lambda _place, asker, route: author_id in (asker, *(person.id for person in route.speakers)))

    def _forget(self, gone: Callable[[Place, int, Route], bool]) -> None:
        for key in [key for key, (_, asked) in self._asked.items() if gone(*key, asked.route)]:
            del self._asked[key]


def _key(question: Question) -> tuple[Place, int]:
    return (question.guild_id, question.channel_id), question.asker_id
