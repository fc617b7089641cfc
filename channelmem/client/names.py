"""What a bot on a service can say for people who look at its pages: `memory.overview.tell_names`, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping

from channelmem.client.connection import Connection
from channelmem.wire.names import names_json


class RemoteOverview:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def tell_names(self, guild_id: int, guild: str = "", channels: Mapping[int, str] | None = None) -> None:
        await self._connection.call("PUT", f"/v1/guilds/{guild_id}/names", names_json(guild, channels or {}))
