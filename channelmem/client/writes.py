"""The client's writes, in order. In: events that wait in the outbox. Out: requests to the service.

The same outbox that leads to Redis in process leads to the service here: one batch in flight per lane, messages that
come together are sent together, and while the service is away everything waits in a bounded queue. All requests are
idempotent, so a batch whose answer was lost is sent again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from channelmem.client.connection import Connection
from channelmem.errors import ServiceUnavailableError
from channelmem.store.outbox import Event, Outbox, Result, results_of
from channelmem.types import Outcome

LANES = 4
OUTCOMES = tuple(Outcome)
REMEMBER = "add"
"""The outbox drops these first if the queue overflows."""


class Writes:
    def __init__(self, connection: Connection, capacity: int) -> None:
        self._connection = connection
        self.outbox = Outbox(self._send, capacity, target="The memory service")

    async def remember(self, bodies: Sequence[tuple[int, dict[str, Any]]]) -> list[Outcome]:
        """Takes guilds and messages."""
        # All are put before anything is awaited: they take their places in the order when this is called.
        put = [self.outbox.put(_lane(guild_id), REMEMBER, (json.dumps(body),)) for guild_id, body in bodies]
        return list(map(_outcome, await results_of(put)))

    async def edit(self, guild_id: int, path: str, body: dict[str, Any]) -> Outcome:
        return _outcome(await self.outbox.put(_lane(guild_id), "edit", ("PATCH", path, json.dumps(body))))

    async def remove(self, guild_id: int, method: str, path: str, body: dict[str, Any] | None = None) -> int:
        """How many existed; 0 while it is queued."""
        done = await self.outbox.put(_lane(guild_id), "remove", (method, path, json.dumps(body)))
        return 0 if isinstance(done, Outcome) else done

    async def _send(self, lane: int, events: Sequence[Event]) -> list[int]:
        del lane
        results: list[int] = []
        for kind, some in groupby(events, key=lambda event: event.kind):
            batch = list(some)
            if kind == REMEMBER:
                results += await self._remember(batch)
            else:
                results += [await self._change(event) for event in batch]
        return results

    async def _remember(self, events: Sequence[Event]) -> list[int]:
        body = [json.loads(str(event.values[0])) for event in events]
        response = await self._connection.call("POST", "/v1/messages", body, tries=1)
        outcomes = [Outcome(one["outcome"]) for one in response.json()["outcomes"]]
        if Outcome.DROPPED in outcomes:  # its own queue was full; this one still has room
            raise ServiceUnavailableError("The memory service dropped messages; sending them again.")
        return list(map(OUTCOMES.index, outcomes))

    async def _change(self, event: Event) -> int:
        method, path, text = map(str, event.values)
        done = (await self._connection.call(method, path, json.loads(text), tries=1)).json()
        return int(done["removed"]) if "removed" in done else OUTCOMES.index(Outcome(done["outcome"]))


def _lane(guild_id: int) -> int:
    return (guild_id >> 22) % LANES


def _outcome(result: Result) -> Outcome:
    return result if isinstance(result, Outcome) else OUTCOMES[result]
