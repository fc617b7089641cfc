"""The copies of messages and people that this process keeps, and how a removal reaches all of them.

Linkers, rosters, follow-ups, readings of media and text caches drop what is removed before the removal is sent and once
more after it. What other processes remove goes when it is announced, and at the latest with the next question, whose
reads tell which change is the newest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from channelmem import text as line
from channelmem.linking.linker import ChannelLinkers
from channelmem.media.media import Media
from channelmem.recalling import answering
from channelmem.scenes import FollowUps, Rosters
from channelmem.store import documents
from channelmem.store.buckets import Changes
from channelmem.store.keys import guild_and_channel
from channelmem.summaries import pyramid as summaries
from channelmem.summaries import reader as past

T = TypeVar("T")


class LocalCopies:
    def __init__(
        self, linkers: ChannelLinkers, rosters: Rosters, follow_ups: FollowUps, media: Media, changes: Changes
    ) -> None:
        self._linkers, self._rosters, self._follow_ups, self._media = linkers, rosters, follow_ups, media
        changes.on_removal = self._follow

    def drop(self, guild_id: int, channel_id: int, ids: Iterable[int]) -> None:
        self._rosters.note_removal()
        self._media.drop()
        self._linkers.drop(guild_id, channel_id, ids)

    def drop_channel(self, guild_id: int, channel_id: int) -> None:
        self._media.drop()
        for copies in (self._linkers, self._rosters, self._follow_ups):
            copies.drop_channel(guild_id, channel_id)

    def drop_guild(self, guild_id: int) -> None:
        self._media.drop()
        for copies in (self._linkers, self._rosters, self._follow_ups):
            copies.drop_guild(guild_id)

    def drop_author(self, author_id: int) -> None:
        self._media.drop()
        self._linkers.drop_author(author_id)
        self._rosters.drop_everything()
        self._follow_ups.drop_author(author_id)

    def drop_everything(self) -> None:
        self._media.drop()
        for copies in (self._linkers, self._rosters, self._follow_ups):
            copies.drop_everything()

    def _follow(self, kind: str, what: str) -> None:
        """A removal that another process noted, or this one."""
        name, *ids = what.split(" ")
        match kind:
            case "person":  # '<author>' or '<guild>:<author>'
                self.drop_author(int(name.rpartition(":")[2]))
            case "room":
                self.drop_channel(*guild_and_channel(name.encode()))
            case "guild":
                self.drop_guild(int(name))
            case "messages":
                self.drop(*guild_and_channel(name.encode()), map(int, ids))
            case _:
                self.drop_everything()
        _forget_read()


async def removed(drop: Callable[[], None], removal: Awaitable[T]) -> T:
    """Runs a removal that leaves nothing in this process: `drop` runs twice, to catch what was read meanwhile."""
    drop()
    try:
        return await removal
    finally:
        drop()
        _forget_read()


def _forget_read() -> None:
    """Equal texts are read once only; removed ones must not stay in memory for that."""
    documents.forget_read()
    summaries.forget_read()
    past.forget_read()
    line.forget_read()
    answering.forget_read()
