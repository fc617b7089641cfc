"""The ordered way of changes to Redis, and what must not be shown while they wait. Each event has a future, which gets
the script's number, or the outcome QUEUED or DROPPED.

Each bucket has a lane with one batch in flight, so events of a channel are applied in order, and events that come
together are sent together. While Redis is unreachable, events stay in their lane. A bound holds over all lanes: the
oldest additions are dropped first and counted; removals only when nothing else is left, so that nothing deleted
survives an outage. A full Redis still answers questions, and removing needs no memory, so removals then overtake the
waiting additions. An event that Redis rejects permanently, or that fails in a way nobody foresaw, is dropped and
counted alone; the others go on. Whatever is given up after its caller was told QUEUED is counted and logged, never with
words.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from channelmem.errors import (
    ChannelmemError,
    CommandRefusedError,
    ConfigError,
    DamagedDataError,
    RedisUnavailableError,
    RejectedError,
)
from channelmem.store.documents import SEPARATOR, AnyMessage
from channelmem.store.keys import padded, room
from channelmem.store.redis import is_full
from channelmem.tasks import cancel_all
from channelmem.types import Outcome

log = logging.getLogger(__name__)

BATCH_VALUES = 320  # 32 messages: a script of 3 ms at most
FIRST_RETRY_S = 0.05
LAST_RETRY_S = 2.0

PERMANENT = (CommandRefusedError, DamagedDataError, RejectedError)
"""Waiting would not help these, and hold up everything behind."""
GIVEN_UP = "A removal was given up, so what it was for may still be stored; the log says why"

Result = int | Outcome
Value = str | int | bytes


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Event:
    """One change, as the `apply` script reads it."""

    kind: str
    values: tuple[Value, ...]
    done: asyncio.Future[Result]
    number: int = field(default_factory=count().__next__)


@dataclass(slots=True, eq=False)
class Lane:
    bucket: int
    events: deque[Event] = field(default_factory=deque)
    flight: list[Event] = field(default_factory=list)
    """The batch that was sent and is not answered yet."""
    most: int = BATCH_VALUES
    """Events per batch at most; fewer while searching for the one that Redis rejects."""
    offline: bool = False
    """Whether its last batch met no Redis. On a cluster, others may be reachable."""
    overtaken: int = -1
    """The number of the last removal that overtook additions in a full Redis."""
    changes: set[Hashable] = field(default_factory=set)
    """What waits while it is offline, by what `same` says of it."""
    task: asyncio.Task[None] | None = None

    def waiting(self) -> Iterator[Event]:
        return (event for event in (*self.flight, *self.events) if event.done.done())


Send = Callable[[int, Sequence[Event]], Awaitable[list[int]]]
Same = Callable[[str, tuple[Value, ...]], Hashable]


class Outbox:
    """`same` tells changes apart: one that waits already is not queued again, because a client of the service repeats
    what it was told QUEUED until Redis has it."""

    def __init__(self, send: Send, capacity: int, *, target: str = "Redis", same: Same | None = None) -> None:
        self._send, self._target, self._same = send, target, same
        self._capacity = capacity
        self._lanes: dict[int, Lane] = {}
        self._closing = False
        self.dropped = 0

    @property
    def offline(self) -> bool:
        """Whether something waits for a Redis that does not answer."""
        return any(lane.offline for lane in self._lanes.values())

    def __len__(self) -> int:
        """Events accepted and not yet acknowledged by Redis."""
        return sum(len(lane.events) + len(lane.flight) for lane in self._lanes.values())

    def waiting(self) -> Iterator[Event]:
        """Events whose callers no longer wait: they were told that it is queued."""
        return (event for lane in self._lanes.values() for event in lane.waiting())

    def is_waiting(self, bucket: int) -> bool:
        """Whether `waiting` has one of this bucket."""
        return bucket in self._lanes and any(self._lanes[bucket].waiting())

    def put(self, bucket: int, kind: str, values: tuple[Value, ...]) -> asyncio.Future[Result]:
        event = Event(kind, values, asyncio.get_running_loop().create_future())
        lane = self._lanes.setdefault(bucket, Lane(bucket))
        if self._closing and lane.task is None:  # nothing would send it
            self._drop(event)
            return event.done
        if lane.offline:
            _resolve(event.done, Outcome.QUEUED)
            if self._same is not None:
                if (change := self._same(kind, values)) in lane.changes:
                    return event.done
                lane.changes.add(change)
        lane.events.append(event)
        if lane.offline:
            self._bound()
        if lane.task is None:
            lane.task = asyncio.create_task(self._drain(lane))
        return event.done

    async def close(self, wait_s: float) -> None:
        """Sends what is left within `wait_s`; drops and counts what remains then, or still comes."""
        self._closing = True
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=wait_s)
        await cancel_all(tasks)
        left = [event for lane in self._lanes.values() for event in lane.events]
        for lane in self._lanes.values():
            lane.task = None
            lane.events.clear()
        self._give_up(left, "unreachable until the end")

    async def _drain(self, lane: Lane) -> None:
        retry_s = FIRST_RETRY_S
        try:
            while lane.events:
                lane.flight = _take(lane.events, lane.most)
                if await self._deliver(lane):
                    retry_s = FIRST_RETRY_S
                else:
                    await asyncio.sleep(retry_s)
                    retry_s = min(LAST_RETRY_S, retry_s * 2)
        finally:
            _put_back(lane)
            lane.task = None

    async def _deliver(self, lane: Lane) -> bool:
        try:
            results = await self._send(lane.bucket, lane.flight)
        except Exception as error:  # noqa: BLE001  (whatever it is, it must not hold up this lane for good)
            if isinstance(error, RedisUnavailableError) and not isinstance(error, PERMANENT):
                # The script is idempotent by message id: a batch whose answer was lost can safely be sent again.
                _put_back(lane)
                self._go_offline(lane, error)
                if is_full(error):
                    await self._overtake(lane)
                return False
            if isinstance(error, ChannelmemError) and not isinstance(error, PERMANENT):
                self._refused(lane, error)
            else:
                self._rejected(lane, error)
            return True
        self._go_online(lane)
        for event, result in zip(lane.flight, results, strict=True):
            _resolve(event.done, result)
        lane.flight = []
        lane.most = min(lane.most * 2, BATCH_VALUES)
        return True

    async def _overtake(self, lane: Lane) -> None:
        """Sends removals out of turn. They keep their places too: what they remove may still wait ahead of them."""
        ahead = deque(event for event in lane.events if event.kind != "add" and event.number > lane.overtaken)
        while ahead:
            batch = _take(ahead, BATCH_VALUES)
            try:
                await self._send(lane.bucket, batch)
            except Exception:  # noqa: BLE001  (their turn will come, and with it what to do about it)
                return
            lane.overtaken = batch[-1].number

    def _refused(self, lane: Lane, error: ChannelmemError) -> None:
        """Waiting does not help, such as with an index of another model. The callers get the error."""
        if isinstance(error, ConfigError) and self._is_split(lane):
            return
        self._go_online(lane)
        told = [event for event in lane.flight if not event.done.done()]
        for event in told:
            event.done.set_exception(error)
        flight, lane.flight = lane.flight, []
        self._give_up([event for event in flight if event not in told], str(error))

    def _rejected(self, lane: Lane, error: Exception) -> None:
        """It would be rejected again: halves the batch until the event at fault is alone, then drops that one."""
        self._go_online(lane)
        if self._is_split(lane):
            return
        # What others raise may quote the words of the event.
        why = error if isinstance(error, (RejectedError, CommandRefusedError)) else type(error).__name__
        log.error("%s permanently rejected a %s event; dropping it: %s", self._target, lane.flight[0].kind, why)
        self._drop(lane.flight.pop())

    def _is_split(self, lane: Lane) -> bool:
        """Puts a batch back, to be sent in halves; False if it cannot be smaller."""
        if len(lane.flight) <= 1:
            return False
        lane.most = len(lane.flight) // 2
        _put_back(lane)
        return True

    def _give_up(self, events: Iterable[Event], why: str) -> None:
        """Of these, callers were told that they wait."""
        kinds: Counter[str] = Counter()
        for event in events:
            kinds[event.kind] += 1
            self._drop(event)
        if kinds:
            lost = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
            log.error("%s never got these queued events; dropping them: %s (%s)", self._target, lost, why)

    def _go_online(self, lane: Lane) -> None:
        if not lane.offline:
            return
        lane.offline = False
        lane.changes.clear()
        if not self.offline:
            log.info(
                "%s is reachable again; %d events are queued, %d were dropped", self._target, len(self), self.dropped
            )

    def _go_offline(self, lane: Lane, error: Exception) -> None:
        if not self.offline:
            log.warning("%s is unreachable; queueing messages in memory: %s", self._target, error)
        if self._same is not None and not lane.offline:
            lane.changes = {self._same(event.kind, event.values) for event in lane.events}
        lane.offline = True
        self._bound()
        for event in lane.events:
            _resolve(event.done, Outcome.QUEUED)

    def _bound(self) -> None:
        # Batches in flight may still arrive; they count once they come back.
        while sum(len(lane.events) for lane in self._lanes.values()) > self._capacity:
            oldest, lane = min(
                ((_oldest_droppable(lane.events), lane) for lane in self._lanes.values() if lane.events),
                key=lambda found: (found[0].kind != "add", found[0].number),
            )
            lane.events.remove(oldest)
            if self._same is not None:
                lane.changes.discard(self._same(oldest.kind, oldest.values))
            if oldest.kind == "add":
                self._drop(oldest)
            else:
                self._give_up([oldest], "the queue is full of removals")

    def _drop(self, event: Event) -> None:
        self.dropped += 1
        _resolve(event.done, Outcome.DROPPED)


def removed_of(results: Iterable[Result]) -> int:
    """How many existed; RejectedError if a removal was given up: whoever asked for it has to know."""
    known = list(results)
    if Outcome.DROPPED in known:
        raise RejectedError(GIVEN_UP)
    return sum(one for one in known if not isinstance(one, Outcome))


async def results_of(events: Sequence[asyncio.Future[Result]]) -> list[Result]:
    """Awaits one after the other. They are resolved together, and asyncio.gather would call back for each (8 % of the
    cost of storing messages)."""
    try:
        return [await event for event in events]
    except BaseException:
        for event in events:  # nobody asks for the others any more, and asyncio would complain about their errors
            if not event.cancel() and not event.cancelled():
                event.exception()
        raise


def _take(events: deque[Event], most: int) -> list[Event]:
    batch = [events.popleft()]
    size = len(batch[0].values)
    while events and len(batch) < most and size + len(events[0].values) <= BATCH_VALUES:
        batch.append(events.popleft())
        size += len(batch[-1].values)
    return batch


def _put_back(lane: Lane) -> None:
    lane.events.extendleft(reversed(lane.flight))
    lane.flight = []


def _oldest_droppable(events: deque[Event]) -> Event:
    return next((event for event in events if event.kind == "add"), events[0])


def _resolve(done: asyncio.Future[Result], result: Result) -> None:
    if not done.done():
        done.set_result(result)


# --- what Redis does not know yet ---


class Undelivered:
    """Opt-outs that Redis could not write yet, and what else this process still has to tell it."""

    def __init__(self) -> None:
        self._left: dict[tuple[int | None, int], set[int]] = {}
        """By guild (None: everywhere) and author, the buckets that do not know yet."""
        self.waiting: Callable[[], Iterable[Event]] = tuple
        """The store's outbox, if there is one."""

    def __len__(self) -> int:
        return len(self._left)

    def withdrawn(self) -> Withdrawn:
        """What must not be shown although Redis may still hold it; to be asked for before Redis is read."""
        return Withdrawn(self.waiting(), frozenset(self._left))

    def names(self) -> set[str]:
        """As the set of opt-outs names them."""
        return {str(author) if guild is None else f"{guild}:{author}" for guild, author in self._left}

    def add(self, author_id: int, guild_id: int | None, buckets: Iterable[int]) -> None:
        self._left.setdefault((guild_id, author_id), set()).update(buckets)

    def delivered(self, bucket: int, member: str) -> None:
        """Takes the author as the set of opt-outs names them."""
        guild, _, author = member.rpartition(":")
        key = (int(guild) if guild else None, int(author))
        self._left.get(key, set()).discard(bucket)
        if not self._left.get(key):
            self._left.pop(key, None)

    def hides(self, guild_id: int, author_id: int) -> bool:
        return bool(self._left) and ((guild_id, author_id) in self._left or (None, author_id) in self._left)

    def concerns(self, author_id: int) -> bool:
        return any(author == author_id for _, author in self._left)


ABOUT = 7
"""The value of an `add` that begins with the revision."""


class Withdrawn:
    def __init__(self, waiting: Iterable[Event], people: frozenset[tuple[int | None, int]]) -> None:
        self._people = people
        self._ids: set[tuple[str, str]] = set()
        self._floors: dict[str, float] = {}
        """Cleared rooms, and since when."""
        self._guilds: set[int] = set()
        """Where something was withdrawn: an answer of the bot may quote it, and only Redis knows which."""
        for event in waiting:
            self._note(event)
        self.anything = bool(self._guilds or self._people)
        """Whether it hides anything at all: mostly not."""

    def _note(self, event: Event) -> None:
        if event.kind in {"delete", "empty", "add"}:
            about = event.values[ABOUT] if event.kind == "add" else b""
            if isinstance(about, bytes) and about.startswith(SEPARATOR.encode()):
                return  # a message that was never edited: that replaces nothing
            ids = event.values[2:] if event.kind == "delete" else event.values[2:3]
            self._ids |= {(str(event.values[1]), str(one)) for one in ids}
        elif event.kind == "clear":
            channel, at = str(event.values[1]), float(event.values[2])
            self._floors[channel] = max(at, self._floors.get(channel, at))
        else:  # nobody asks in a guild that was left, and Undelivered knows who opted out
            return
        self._guilds.add(int(event.values[0]))

    def hidden_in(self, guild_id: int, channel_id: int) -> tuple[frozenset[int], float]:
        """What was withdrawn of a channel: ids of messages, and everything up to a time."""
        channel = room(guild_id, channel_id)
        return frozenset(int(id_) for at, id_ in self._ids if at == channel), self._floors.get(channel, -1.0)

    def hides_any(self, guild_id: int, author_ids: Iterable[int]) -> bool:
        """Whether one of these people has opted out."""
        return any((None, one) in self._people or (guild_id, one) in self._people for one in author_ids)

    def hides(self, message: AnyMessage) -> bool:
        if not self.anything:
            return False
        channel = room(message.guild_id, message.channel_id)
        return (
            (message.own and message.guild_id in self._guilds)
            or (channel, padded(message.id)) in self._ids
            or message.ts <= self._floors.get(channel, -1.0)
            or not self._people.isdisjoint([(None, message.author_id), (message.guild_id, message.author_id)])
        )
