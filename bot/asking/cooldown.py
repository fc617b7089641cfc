"""How often people may ask. In: who asks where, and when. Out: how long to wait, or a refusal.

A person who asks again too soon is refused; different people in one channel are only spread out in time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

QUEUE_S = 10.0
"""A channel whose questions would have to wait longer than this is refused too."""
KEEP = 10_000


class Pace:
    def __init__(self, user_s: float, channel_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._user_s, self._channel_s, self._clock = user_s, channel_s, clock
        self._users: dict[int, float] = {}
        self._channels: dict[int, float] = {}

    def take(self, user_id: int, channel_id: int) -> tuple[bool, float]:
        """(True, seconds to wait before answering) or (False, seconds until asking makes sense)."""
        now = self._clock()
        free = self._users.get(user_id, now)
        if free > now:
            return False, free - now
        wait = max(0.0, self._channels.get(channel_id, now) - now)
        if wait > QUEUE_S:
            return False, wait
        self._note(self._users, user_id, now + self._user_s)
        self._note(self._channels, channel_id, now + wait + self._channel_s)
        return True, wait

    def _note(self, table: dict[int, float], key: int, until: float) -> None:
        if len(table) >= KEEP:
            now = self._clock()
            for old in [k for k, moment in table.items() if moment <= now]:
                del table[old]
        table[key] = until
