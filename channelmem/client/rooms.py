"""The parts of the client: media, names, recaps, loads, spending and summaries, as far as a bot needs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from channelmem.client.connection import Connection, channel_path
from channelmem.durations import DAY_S
from channelmem.errors import RedisUnavailableError
from channelmem.ids import ChannelId
from channelmem.media.media import Use
from channelmem.policy.policy import Policy
from channelmem.recaps import Told
from channelmem.summaries.pyramid import Summary
from channelmem.summaries.reader import Breakdown
from channelmem.telling.answer import LONGEST
from channelmem.types import Load, Message, Question, Window
from channelmem.wire.answers import BreakdownShown, SummariesShown
from channelmem.wire.channels import LoadsShown, RecapShown, SpentShown
from channelmem.wire.messages import is_sendable, value_json


class _Remote:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection


class RemoteMedia(_Remote):
    """The service reads pictures and recordings itself."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.on_read: Callable[[str, str], None] = lambda kind, outcome: None
        """Never called here: the service counts for itself."""
        self.on_spent: Callable[[float], None] = lambda usd: None

    async def attach(self, message: Message) -> None:
        if not is_sendable(message):
            return
        with suppress(RedisUnavailableError):  # somebody who points at the preview has it fetched again
            await self._connection.call("POST", "/v1/messages/previews", value_json(message))

    def uses(self, guild_id: int, channel_id: int, question_id: int) -> tuple[Use, ...]:
        """Not told by the service."""
        del guild_id, channel_id, question_id
        return ()


class RemoteOverview(_Remote):
    async def tell_names(self, guild_id: int, guild: str = "", channels: Mapping[int, str] | None = None) -> None:
        named = [{"id": str(channel_id), "name": name} for channel_id, name in (channels or {}).items()]
        await self._connection.call("PUT", f"/v1/guilds/{guild_id}/names", {"guild": guild, "channels": named})


class RemoteRecaps(_Remote):
    def __init__(self, connection: Connection, link: str) -> None:
        super().__init__(connection)
        self._link = link

    async def of_span(self, question: Question, window: Window, policy: Policy, limit: int = LONGEST) -> Told | None:
        del policy  # the service knows it
        end = question.ts if window.end is None else window.end
        span = {"start": window.start or 0.0, "end": end, "limit": limit}
        body = value_json(question) | span | ({"link": self._link} if self._link else {})
        shown = await self._connection.read_as(RecapShown, "POST", "/v1/recap", body)
        return None if shown.text is None else Told(shown.text)


class RemoteLoads(_Remote):
    async def begin(self, guild_id: int, load: Load) -> bool:
        return await self._noted("POST", guild_id, load)

    async def advance(self, guild_id: int, load: Load) -> bool:
        return await self._noted("PUT", guild_id, load)

    async def end(self, guild_id: int, channel_id: int) -> None:
        await self._connection.call("DELETE", f"{channel_path(guild_id, channel_id)}/load")

    async def open(self, guild_id: int) -> list[Load]:
        found = await self._connection.get_as(LoadsShown, f"/v1/guilds/{guild_id}/loads")
        return [one.value() for one in found.loads]

    async def _noted(self, method: str, guild_id: int, load: Load) -> bool:
        ids = {name: str(value) if name.endswith("_id") else value for name, value in asdict(load).items()}
        del ids["channel_id"]
        path = f"{channel_path(guild_id, load.channel_id)}/load"
        return bool((await self._connection.call(method, path, ids)).json()["accepted"])


class RemoteSpending(_Remote):
    async def reserve(self, day: int, channel: ChannelId, micros: int, cap_micros: int) -> bool:
        body = _spend(day, channel, micros) | {"cap_micros": cap_micros}
        return bool((await self._connection.call("POST", "/v1/spending/reserve", body, tries=1)).json()["accepted"])

    async def settle(self, day: int, channel: ChannelId, change_micros: int) -> None:
        await self._connection.call("POST", "/v1/spending/settle", _spend(day, channel, change_micros), tries=1)

    async def total(self, day: int) -> int:
        return (await self._of(day)).total

    async def by_channel(self, day: int) -> dict[ChannelId, int]:
        return {ChannelId(one.guild_id, one.channel_id): one.micros for one in (await self._of(day)).channels}

    async def usd_today(self) -> dict[int, float]:
        rows = await self.by_channel(int(time.time() // DAY_S))
        return {channel_id: micros / 1e6 for (_, channel_id), micros in rows.items()}

    async def _of(self, day: int) -> SpentShown:
        return await self._connection.get_as(SpentShown, f"/v1/spending/{day}")


def _spend(day: int, channel: ChannelId, micros: int) -> dict[str, Any]:
    return {"day": day, "guild_id": str(channel.guild_id), "channel_id": str(channel.channel_id), "micros": micros}


# --- summaries ---


MAKING_S = 180.0
"""How long the service may take to write summaries."""
CHUNK = 1_000


class RemoteSummaries(_Remote):
    async def of(self, guild_id: int, channel_id: int, window: Window | None = None) -> tuple[Summary, ...]:
        span = window or Window()
        ends = {name: end for name, end in (("start", span.start), ("end", span.end)) if end is not None}
        path = f"{channel_path(guild_id, channel_id)}/summaries"
        found = await self._connection.read_as(SummariesShown, "GET", path, params=ends or None)
        return tuple(one.value() for one in found.summaries)

    async def update(self, guild_id: int, channel_id: int) -> int:
        return await self._make("made", guild_id, channel_id, "update")

    async def rebuild(self, guild_id: int, channel_id: int) -> int:
        return await self._make("made", guild_id, channel_id, "rebuild")

    async def absorb(
        self, guild_id: int, channel_id: int, messages: Sequence[Message], *, more: bool = False
    ) -> tuple[Message, ...]:
        left: tuple[Message, ...] = ()
        messages = list(filter(is_sendable, messages))
        for at in range(0, len(messages), CHUNK):
            some = (*left, *messages[at : at + CHUNK])
            follows = more or at + CHUNK < len(messages)
            body = {"messages": [value_json(one) for one in some], "more": follows}
            kept = await self._make("left", guild_id, channel_id, "absorb", body)
            left = some[len(some) - kept :]
        return left

    async def breakdown(self, question: Question) -> Breakdown:
        found = await self._connection.read_as(BreakdownShown, "POST", "/v1/breakdown", value_json(question))
        return found.value()

    async def _make(self, counted: str, guild_id: int, channel_id: int, what: str, body: object = None) -> int:
        path = f"{channel_path(guild_id, channel_id)}/summaries/{what}"
        return int((await self._connection.call("POST", path, body, timeout_s=MAKING_S)).json()[counted])
