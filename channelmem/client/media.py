"""The client's media: `client.media`, as far as a bot needs it. The service reads pictures and recordings itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from channelmem.attached import Use
from channelmem.client.connection import Connection
from channelmem.errors import RedisUnavailableError
from channelmem.types import Message
from channelmem.wire.sending import is_sendable, message_json


class RemoteMedia:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.on_read: Callable[[str, str], None] = lambda kind, outcome: None
        """Never called here: the service counts for itself."""
        self.on_spent: Callable[[float], None] = lambda usd: None

    async def attach(self, message: Message) -> None:
        if not is_sendable(message):
            return
        with suppress(RedisUnavailableError):  # somebody who points at the preview has it fetched again
            await self._connection.call("POST", "/v1/messages/previews", message_json(message))

    def uses(self, guild_id: int, channel_id: int, question_id: int) -> tuple[Use, ...]:
        """Not told by the service."""
        del guild_id, channel_id, question_id
        return ()
