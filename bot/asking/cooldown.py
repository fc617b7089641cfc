"""Cooldowns. In: who asks where, and when. Out: how long to wait before answering, or a refusal.

Someone who asks again too soon is refused; different people in one channel are only spread out in time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

MAX_WAIT_S = 10.0
"""A channel whose next question would wait longer than this refuses it."""
MAX_ENTRIES = 10_000


class Cooldown:
    def __init__(self, user_s: float, channel_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._user_s, self._channel_s, self._clock = user_s, channel_s, clock
        self._users: dict[int, float] = {}
        self._channels: dict[int, float] = {}

    def take(self, user_id: int, channel_id: int) -> tuple[bool, float]:
        """(True, seconds to wait before answering) or (False, seconds until the person may ask again)."""
        now = self._clock()
        user_until = self._users.get(user_id, now)
        if user_until > now:
            return False, user_until - now
        wait_s = max(0.0, self._channels.get(channel_id, now) - now)
        if wait_s > MAX_WAIT_S:
            return False, wait_s
        self._start(self._users, user_id, now + self._user_s)
        self._start(self._channels, channel_id, now + wait_s + self._channel_s)
        return True, wait_s

    def _start(self, table: dict[int, float], key: int, until: float) -> None:
        if len(table) >= MAX_ENTRIES:
            now = self._clock()
            for expired in [k for k, moment in table.items() if moment <= now]:
                del table[expired]
        table[key] = until
