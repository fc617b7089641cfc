"""What the bot's own messages were made of. In: answers as they are sent. Out: the sources of one of its messages.

Discord announces an answer on the gateway, maybe before it confirms the request that sent it. So whoever stores the
message waits until the deliveries in that channel have learned the ids of what they sent.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from channelmem.types import Origin

MAX_ANSWERS = 2000
WAIT_S = 30.0
"""Discord may hold back its confirmation for as long as discord.py retries. A message still unknown then is not
stored."""

Origins = Callable[[], tuple[Origin, ...]]
"""Asked late: a language model may look up more while it writes."""


class OwnAnswers:
    def __init__(self) -> None:
        self._origins: OrderedDict[int, Origins] = OrderedDict()
        self._delivering: dict[int, int] = {}
        """Deliveries in progress, by channel."""
        self._changed = asyncio.Event()

    @contextmanager
    def delivering(self, channel_id: int) -> Iterator[None]:
        self._delivering[channel_id] = self._delivering.get(channel_id, 0) + 1
        try:
            yield
        finally:
            self._delivering[channel_id] -= 1
            if not self._delivering[channel_id]:
                del self._delivering[channel_id]
            self._tell()

    def sent(self, message_id: int, origins: Origins) -> None:
        self._origins[message_id] = origins
        while len(self._origins) > MAX_ANSWERS:
            self._origins.popitem(last=False)
        self._tell()

    async def origins(self, channel_id: int, message_id: int) -> tuple[Origin, ...] | None:
        """Empty if the message is no answer; None if that can't be found out."""
        try:
            async with asyncio.timeout(WAIT_S):
                while message_id not in self._origins and channel_id in self._delivering:
                    await self._changed.wait()
        except TimeoutError:
            return None
        return self._origins[message_id]() if message_id in self._origins else ()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
