"""The client's writes, in order.

The same outbox that leads to Redis in process leads to the service here: one batch in flight per lane, messages that
come together are sent together, and while the service is away everything waits in a bounded queue. All requests are
idempotent, so a batch whose answer was lost is sent again. A write leaves the queue when Redis has it: until then the
service, which may end, was only told. A token that the service does not know keeps everything waiting as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any
from weakref import WeakSet

from channelmem.client.connection import NOT_OURS, Connection, Json, encoded
from channelmem.errors import (
    ChannelmemError,
    ConfigError,
    RedisUnavailableError,
    RejectedError,
    ServiceUnavailableError,
    TokenRefusedError,
)
from channelmem.store.outbox import Event, Outbox, Result, removed_of, results_of
from channelmem.types import Outcome

LANES = 4
OUTCOMES = tuple(Outcome)
REMEMBER = "add"
"""The outbox drops these first if the queue overflows."""
WAITS = "The memory service waits for its Redis"


class Writes:
    def __init__(self, connection: Connection, capacity: int) -> None:
        self._connection = connection
        self.outbox = Outbox(self._send, capacity, target="The memory service")
        self._told: WeakSet[Event] = WeakSet()
        """Waiting events that the service knows."""
        self._told_to = ""
        """Its run."""
        self._telling = asyncio.Lock()

    async def remember(self, bodies: Sequence[tuple[int, dict[str, Any]]]) -> list[Outcome]:
        """Takes guilds and messages."""
        # All are put before anything is awaited: they take their places in the order when this is called.
        texts = [(_lane(guild_id), encoded(body)) for guild_id, body in bodies]
        put = [self.outbox.put(lane, REMEMBER, (text,)) for lane, text in texts]
        return list(map(_outcome, await results_of(put)))

    async def edit(self, guild_id: int, path: str, body: dict[str, Any]) -> Outcome:
        return _outcome(await self.outbox.put(_lane(guild_id), "edit", ("PATCH", path, encoded(body))))

    async def remove(self, guild_id: int, method: str, path: str, body: dict[str, Any] | None = None) -> int:
        """How many existed; 0 while it is queued."""
        text = "" if body is None else encoded(body)
        done = await self.outbox.put(_lane(guild_id), "remove", (method, path, text))
        return removed_of([done])

    def is_waiting(self, guild_id: int) -> bool:
        return self.outbox.is_waiting(_lane(guild_id))

    async def tell(self) -> str | None:
        """For `Connection.tell`: removals and edits, out of turn. They keep their places in the order, too."""
        async with self._telling:
            while waiting := [one for one in self.outbox.waiting() if one.kind != REMEMBER]:
                unknown = [one for one in waiting if not self._is_known(one)]
                if not unknown:
                    return self._told_to
                for one in unknown:
                    await self._tell(one)
        return None

    async def _tell(self, event: Event) -> None:
        try:
            await self._change(event)
        except TokenRefusedError:
            raise
        except (RejectedError, ConfigError):  # it is given up in its turn
            self._note(event)

    def _is_known(self, event: Event) -> bool:
        return self._told_to == self._connection.run and event in self._told

    async def _send(self, lane: int, events: Sequence[Event]) -> list[int]:
        del lane
        try:
            return await self._sent(events)
        except TokenRefusedError as error:  # by a service that lost its tokens, or until somebody makes a new one
            raise ServiceUnavailableError(str(error)) from error
        except RedisUnavailableError:
            with suppress(ChannelmemError):
                await self.tell()  # a service that takes no messages now still takes the removals behind them
            raise

    async def _sent(self, events: Sequence[Event]) -> list[int]:
        results: list[int | None] = []
        for kind, some in groupby(events, key=lambda event: event.kind):
            batch = list(some)
            if kind == REMEMBER:
                results += await self._remember(batch)
            else:
                results += [await self._change(event) for event in batch]
        done = [one for one in results if one is not None]
        if len(done) < len(results):
            await self.tell()  # what waits behind this batch must not be shown either
            raise RedisUnavailableError(WAITS)
        return done

    async def _remember(self, events: Sequence[Event]) -> list[int | None]:
        body = Json(f"[{','.join(str(event.values[0]) for event in events)}]")
        shown = (await self._connection.call("POST", "/v1/messages", body, tries=1)).json()
        try:
            outcomes = [Outcome(one["outcome"]) for one in shown["outcomes"]]
        except (KeyError, TypeError, ValueError):
            raise ServiceUnavailableError(NOT_OURS) from None
        if len(outcomes) != len(events):
            raise ServiceUnavailableError(NOT_OURS)
        if Outcome.DROPPED in outcomes and Outcome.QUEUED in outcomes:  # its own queue was full; this one has room
            raise ServiceUnavailableError("The memory service dropped messages; sending them again.")
        if Outcome.DROPPED in outcomes:  # halves the batch, until the one that can't be stored is alone
            raise RejectedError("The memory service can't store a message")
        return [None if one is Outcome.QUEUED else OUTCOMES.index(one) for one in outcomes]

    async def _change(self, event: Event) -> int | None:
        """None: the service knows it, Redis does not."""
        method, path, text = map(str, event.values)
        response = await self._connection.call(method, path, Json(text) if text else None, tries=1)
        self._note(event)
        done = response.json()
        try:
            if done.get("queued") or done.get("outcome") == Outcome.QUEUED:
                return None
            return int(done["removed"]) if "removed" in done else OUTCOMES.index(Outcome(done["outcome"]))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ServiceUnavailableError(NOT_OURS) from None

    def _note(self, event: Event) -> None:
        if self._told_to != self._connection.run:
            self._told.clear()
            self._told_to = self._connection.run
        self._told.add(event)


def _lane(guild_id: int) -> int:
    return (guild_id >> 22) % LANES


def _outcome(result: Result) -> Outcome:
    return result if isinstance(result, Outcome) else OUTCOMES[result]
