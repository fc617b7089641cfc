"""The client's recaps, loads and spending. In and out: the same as `memory.recaps`, `.loads` and `.spending`, over
HTTP."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from channelmem.client.connection import Connection
from channelmem.durations import DAY_S
from channelmem.policy import Policy
from channelmem.recaps import Told
from channelmem.telling.answer import LONGEST
from channelmem.types import Load, Question, Window
from channelmem.wire.past import LoadsShown, RecapShown, SpentShown
from channelmem.wire.sending import question_json

Place = tuple[int, int]


class RemoteRecaps:
    def __init__(self, connection: Connection, link: str) -> None:
        self._connection, self._link = connection, link

    async def of_span(self, question: Question, window: Window, policy: Policy, limit: int = LONGEST) -> Told | None:
        del policy  # the service knows it
        end = question.ts if window.end is None else window.end
        span = {"start": window.start or 0.0, "end": end, "limit": limit}
        body = question_json(question) | span | ({"link": self._link} if self._link else {})
        shown = RecapShown.model_validate((await self._connection.read("POST", "/v1/recap", body)).json())
        return None if shown.text is None else Told(shown.text)


class RemoteLoads:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def begin(self, guild_id: int, load: Load) -> bool:
        return await self._noted("POST", guild_id, load)

    async def advance(self, guild_id: int, load: Load) -> bool:
        return await self._noted("PUT", guild_id, load)

    async def end(self, guild_id: int, channel_id: int) -> None:
        await self._connection.call("DELETE", _path(guild_id, channel_id))

    async def open(self, guild_id: int) -> list[Load]:
        found = await self._connection.call("GET", f"/v1/guilds/{guild_id}/loads")
        return [one.value() for one in LoadsShown.model_validate(found.json()).loads]

    async def _noted(self, method: str, guild_id: int, load: Load) -> bool:
        ids = {name: str(value) if name.endswith("_id") else value for name, value in asdict(load).items()}
        del ids["channel_id"]
        return bool((await self._connection.call(method, _path(guild_id, load.channel_id), ids)).json()["accepted"])


class RemoteSpending:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def reserve(self, day: int, place: Place, micros: int, cap_micros: int) -> bool:
        body = _spend(day, place, micros) | {"cap_micros": cap_micros}
        return bool((await self._connection.call("POST", "/v1/spending/reserve", body, tries=1)).json()["accepted"])

    async def settle(self, day: int, place: Place, change_micros: int) -> None:
        await self._connection.call("POST", "/v1/spending/settle", _spend(day, place, change_micros), tries=1)

    async def total(self, day: int) -> int:
        return (await self._of(day)).total

    async def by_channel(self, day: int) -> dict[Place, int]:
        return {(one.guild_id, one.channel_id): one.micros for one in (await self._of(day)).channels}

    async def usd_today(self) -> dict[int, float]:
        rows = await self.by_channel(int(time.time() // DAY_S))
        return {channel_id: micros / 1e6 for (_, channel_id), micros in rows.items()}

    async def _of(self, day: int) -> SpentShown:
        return SpentShown.model_validate((await self._connection.call("GET", f"/v1/spending/{day}")).json())


def _spend(day: int, place: Place, micros: int) -> dict[str, Any]:
    return {"day": day, "guild_id": str(place[0]), "channel_id": str(place[1]), "micros": micros}


def _path(guild_id: int, channel_id: int) -> str:
    return f"/v1/guilds/{guild_id}/channels/{channel_id}/load"
