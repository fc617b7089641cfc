"""Each asker's last route per channel, for ten minutes, so that "and Bob?" can build on it. In and out: routes."""

from __future__ import annotations

from collections.abc import Callable

from cachetools import LRUCache

from channelmem.types import Question, Route

FOLLOW_UPS = 5_000
FOLLOW_UP_S = 600.0
"""How long a question can build on the one before."""

Place = tuple[int, int]
"""Guild and channel."""


class FollowUps:
    def __init__(self) -> None:
        self._routes: LRUCache[tuple[Place, int], tuple[float, Route]] = LRUCache(FOLLOW_UPS)

    def previous(self, question: Question) -> Route | None:
        """The asker's last route in this channel, while it is fresh."""
        ts, route = self._routes.get(_key(question), (0.0, None))
        return route if question.ts - ts <= FOLLOW_UP_S else None

    def note(self, question: Question, route: Route) -> None:
        if route.sources:
            self._routes[_key(question)] = (question.ts, route)

    def drop_channel(self, guild_id: int, channel_id: int) -> None:
        self._forget(lambda place, _asker, _route: place == (guild_id, channel_id))

    def drop_guild(self, guild_id: int) -> None:
        self._forget(lambda place, _asker, _route: place[0] == guild_id)

    def drop_author(self, author_id: int) -> None:
        """What they asked, and what others asked about them."""
        self._forget(lambda _place, asker, route: author_id in (asker, *(person.id for person in route.speakers)))

    def _forget(self, gone: Callable[[Place, int, Route], bool]) -> None:
        for key in [key for key, (_, route) in self._routes.items() if gone(*key, route)]:
            del self._routes[key]


def _key(question: Question) -> tuple[Place, int]:
    return (question.guild_id, question.channel_id), question.asker_id
