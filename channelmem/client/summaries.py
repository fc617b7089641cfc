"""The client's summaries: `client.summaries`. In and out: the same as `memory.summaries`, over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from channelmem.client.connection import Connection
from channelmem.summarising.past import Breakdown
from channelmem.summarising.pyramid import Summary
from channelmem.types import Message, Question, Window
from channelmem.wire.sending import is_sendable, message_json, question_json
from channelmem.wire.summaries import BreakdownShown, SummariesShown

MAKING_S = 180.0
"""How long the service may take to write summaries."""
CHUNK = 1_000


class RemoteSummaries:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def of(self, guild_id: int, channel_id: int, window: Window | None = None) -> tuple[Summary, ...]:
        span = window or Window()
        ends = {name: end for name, end in (("start", span.start), ("end", span.end)) if end is not None}
        found = await self._connection.read("GET", _path(guild_id, channel_id), params=ends or None)
        return tuple(one.value() for one in SummariesShown.model_validate(found.json()).summaries)

    async def update(self, guild_id: int, channel_id: int) -> int:
        return int((await self._make(guild_id, channel_id, "update"))["made"])

    async def rebuild(self, guild_id: int, channel_id: int) -> int:
        return int((await self._make(guild_id, channel_id, "rebuild"))["made"])

    async def absorb(
        self, guild_id: int, channel_id: int, messages: Sequence[Message], *, more: bool = False
    ) -> tuple[Message, ...]:
        left: tuple[Message, ...] = ()
        messages = list(filter(is_sendable, messages))
        for at in range(0, len(messages), CHUNK):
            some = (*left, *messages[at : at + CHUNK])
            follows = more or at + CHUNK < len(messages)
            body = {"messages": [message_json(one) for one in some], "more": follows}
            kept = int((await self._make(guild_id, channel_id, "absorb", body))["left"])
            left = some[len(some) - kept :]
        return left

    async def breakdown(self, question: Question) -> Breakdown:
        found = await self._connection.read("POST", "/v1/breakdown", question_json(question))
        return BreakdownShown.model_validate(found.json()).value()

    async def _make(self, guild_id: int, channel_id: int, what: str, body: object = None) -> dict[str, Any]:
        path = f"{_path(guild_id, channel_id)}/{what}"
        done: dict[str, Any] = (await self._connection.call("POST", path, body, timeout_s=MAKING_S)).json()
        return done


def _path(guild_id: int, channel_id: int) -> str:
    return f"/v1/guilds/{guild_id}/channels/{channel_id}/summaries"
