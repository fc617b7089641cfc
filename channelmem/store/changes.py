"""Changes: what this process must follow in the copies that it keeps. In: the newest change of a bucket, which comes
with every read of messages or people. Out: calls for what changed since the last one that was followed.

The scripts note removals, decisions and settings in a stream per bucket, and announce that. Announcements can get lost,
so nothing depends on them: whoever answers from a copy reads messages too, and thereby learns whether the copy is old.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from redis.asyncio import Redis

from channelmem.errors import RedisUnavailableError
from channelmem.store.keys import Keys
from channelmem.store.redis import answered, reads

KEPT = 1_000
"""As in lib/common.lua. A process that missed more than these lets go of all its copies."""
EVERYTHING = "everything"
MESSAGES = "messages"
SETTINGS = "settings"


async def _nothing(_bucket: int, _place: str) -> None:
    pass


class Changes:
    def __init__(self, redis: Redis, keys_of: Callable[[int], Keys]) -> None:
        self._redis, self._keys_of = redis, keys_of
        self.on_removal: Callable[[str, str], None] = lambda _kind, _what: None
        """Told of a person, room, guild or messages; or of everything, if it is unknown what was removed."""
        self.on_setting: Callable[[int, str], Awaitable[None]] = _nothing
        self._followed: dict[int, bytes] = {}
        """By bucket, the last change that the copies have followed."""
        self._newest: dict[int, bytes] = {}
        """By bucket, the newest one that was seen."""
        self._looks: dict[int, int] = {}
        """By bucket, how often messages or people were read. Of others this process keeps nothing."""

    def saw(self, bucket: int, newest: bytes) -> None:
        """What a read came with; empty if there was never a change."""
        self._newest[bucket] = newest
        self._looks[bucket] = self.looks(bucket) + 1

    def saw_all(self, newest: Iterable[bytes]) -> None:
        """The newest change of every bucket, without a read."""
        self._newest = dict(enumerate(newest))

    def begin(self) -> None:
        """Before this process keeps anything: there is nothing to follow of what was seen so far."""
        self._followed |= self._newest

    async def heard(self, bucket: int, kind: str) -> None:
        """An announcement. Somebody who opts out everywhere is announced in every bucket of a cluster."""
        if kind == SETTINGS or self.looks(bucket):
            await self.follow(bucket)

    def looks(self, bucket: int) -> int:
        """How often the bucket was looked at."""
        return self._looks.get(bucket, 0)

    @reads
    async def look(self, bucket: int) -> None:
        key = self._keys_of(bucket).one("changes")
        self.saw(bucket, newest_of(await answered(self._redis.xrevrange(key, count=1))))

    async def catch_up_all(self) -> None:
        """In every bucket of which this process keeps something."""
        for bucket in list(self._looks):
            await self.catch_up(bucket)

    async def catch_up(self, bucket: int) -> bool:
        """Follows what was seen of a bucket; whether that changed more than single messages."""
        newest = self._newest.get(bucket, b"")
        return self._followed.get(bucket, b"") != newest and await self.follow(bucket)

    async def follow(self, bucket: int) -> bool:
        """The same for whatever is new. If it can't be read, all copies go."""
        try:
            newest, changes = await self._since(self._followed.get(bucket, b""), bucket)
            for kind, what in changes:
                await self._tell(bucket, kind, what)
        except (ValueError, LookupError):  # an entry that none of ours wrote
            self.on_removal(EVERYTHING, "")
        except RedisUnavailableError:
            self._followed.pop(bucket, None)
            self.on_removal(EVERYTHING, "")
            return True
        self._followed[bucket] = newest
        return any(kind != MESSAGES for kind, _ in changes)

    async def _tell(self, bucket: int, kind: str, what: str) -> None:
        if kind in {SETTINGS, EVERYTHING}:
            await self.on_setting(bucket, what)
        if kind != SETTINGS:
            self.on_removal(kind, what)

    @reads
    async def _since(self, last: bytes, bucket: int) -> tuple[bytes, list[tuple[str, str]]]:
        """The newest change, and kind and object of those to follow, oldest first."""
        found: Any = await answered(self._redis.xrange(self._keys_of(bucket).one("changes"), last or b"-", b"+"))
        newest = found[-1][0] if found else b""
        if len(found) >= KEPT or (last and (not found or found[0][0] != last)):  # some are no longer there
            return newest, [(EVERYTHING, "")]
        new = found[1:] if last else found
        return newest, [(kind.decode(), what.decode()) for _, one in new for kind, what in one.items()]


def newest_of(found: Any) -> bytes:
    """What XREVRANGE with COUNT 1 replied."""
    newest: bytes = found[0][0] if found else b""
    return newest
