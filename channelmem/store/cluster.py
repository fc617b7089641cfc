"""One client for all nodes of a Redis Cluster: each command goes to the node that holds its key.

All keys carry the hash tag of their bucket, so a command's node is known from the first key among its arguments. Each
node has a client of its own, as a single Redis has (`redis.py`): a silent node does not delay the others, and errors
are ours. A command is never repeated after an error, except where a node says that the key lives elsewhere (MOVED).

While a slot is being moved key by key, part of a bucket is here and part of it there. Scripts must not run on half of a
bucket: they would not see who opted out. Their only declared key never exists, so Redis answers them with ASK until the
whole slot has arrived; this client does not follow it. The bucket then counts as unreachable for a moment, and whatever
was to be written waits.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from redis import exceptions as redis_errors
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from channelmem.errors import RedisUnavailableError
from channelmem.secrets import node_url, node_urls
from channelmem.tasks import cancel_all

T = TypeVar("T")

log = logging.getLogger(__name__)

REDIRECTS = 5
"""How often a command follows its key, each time with a node that says where it is."""
LOOK_S = 0.25
"""Between two looks at who serves what, while something is wrong."""
_GONE = (redis_errors.ConnectionError, redis_errors.TimeoutError, redis_errors.ClusterDownError, OSError)
_MOVING = "The cluster is being changed: keys moved again and again"

_KEY = re.compile(r"[\w.-]+:\{(\d+)\}:", re.ASCII)  # as keys.py writes it; before any text that people wrote
_RAW_KEY = re.compile(_KEY.pattern.encode())

Command = tuple[tuple[Any, ...], Any]
"""Arguments and options, as redis-py's pipeline keeps them."""


class Node(NamedTuple):
    host: str
    port: int


class Cluster(Redis):
    """Offers what a single Redis does. A command without a key goes to any master; `masters` has them all."""

    def __init__(self, url: str, client_of: Callable[[str], Redis]) -> None:
        self._url, self._client_of = url, client_of
        self._seeds = [client_of(node) for node in node_urls(url)]
        super().__init__(connection_pool=self._seeds[0].connection_pool)
        self._nodes: dict[Node, Redis] = {}
        self._owners: list[Node | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        self._known = False
        self.changes = 0
        """How often it turned out that another node serves something."""
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = 0.0

    # --- what callers use ---

    async def masters(self) -> list[Redis]:
        """A client of each node that serves slots."""
        await self._know()
        return [self._client(node) for node in sorted({one for one in self._owners if one is not None})]

    async def owned(self, keys: Sequence[str]) -> list[tuple[Redis, list[int]]]:
        """Clients of nodes, each with the positions of the keys that it serves. A key that nobody serves is missing."""
        await self._know()
        found: dict[Node, list[int]] = {}
        for place, key in enumerate(keys):
            if (node := self.owner(key)) is not None:
                found.setdefault(node, []).append(place)
        return [(self._client(node), places) for node, places in found.items()]

    def owner(self, key: str) -> Node | None:
        """Which node serves a key, as far as is known."""
        slot = slot_of(key)
        return None if slot is None else self._owners[slot]

    async def scan_iter(self, *arguments: Any, **options: Any) -> AsyncIterator[Any]:  # type: ignore[override]  # redis-py types it as the other client's
        """Keys of all nodes."""
        for master in await self.masters():
            async for key in master.scan_iter(*arguments, **options):
                yield key

    async def execute_command(self, *arguments: Any, **options: Any) -> Any:
        if arguments[0] == "FT._LIST":
            return [name for node in await self.masters() for name in await node.execute_command("FT._LIST")]  # type: ignore[no-untyped-call]
        return await self._followed(
            _first_slot(arguments),
            lambda node: node.execute_command(*arguments, **options),  # type: ignore[no-untyped-call]
        )

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        return _ClusterPipeline(self, transaction, shard_hint)

    def pubsub(self, **options: Any) -> Any:
        """Nodes tell each other what is published, so it does not matter which one is listened to."""
        known = [one for one in self._nodes.values() if not _is_silent(one)]
        return random.choice(known or self._seeds).pubsub(**options)  # noqa: S311  (no secret)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        if self._looking is not None:
            await cancel_all([self._looking])
        for client in (*self._seeds, *self._nodes.values()):
            await client.aclose(close_connection_pool)

    async def send(self, stack: Sequence[Command], *, transaction: bool) -> list[Any]:
        """The replies to the commands of a pipeline, errors among them; one round trip to each node concerned."""
        slots = [_first_slot(arguments) for arguments, _ in stack]
        known = next((slot for slot in slots if slot is not None), None)
        if transaction:
            return await self._followed(known, lambda node: self._send_to(node, stack, transaction=True))
        parts: dict[Redis, list[int]] = {}
        for place, slot in enumerate(slots):
            parts.setdefault(await self._serving(known if slot is None else slot), []).append(place)
        sent = [self._send_to(node, [stack[at] for at in places]) for node, places in parts.items()]
        replies: list[Any] = [None] * len(stack)
        answered = _checked(await asyncio.gather(*sent, return_exceptions=True))  # after all of them have
        for places, answers in zip(parts.values(), answered, strict=True):
            for place, answer in zip(places, answers, strict=True):
                replies[place] = answer
        for place, reply in enumerate(replies):
            if isinstance(reply, Exception) and (moved := _moved(reply)) is not None:
                self._note(moved)
                arguments, options = stack[place]
                try:
                    replies[place] = await self.execute_command(*arguments, **options)
                except (RedisUnavailableError, redis_errors.NoScriptError) as failed:
                    replies[place] = failed
        return replies

    # --- sending ---

    async def _send_to(self, node: Redis, stack: Sequence[Command], *, transaction: bool = False) -> list[Any]:
        pipe = node.pipeline(transaction)
        pipe.command_stack.extend(stack)
        try:
            return list(await pipe.execute(raise_on_error=False))
        except RedisUnavailableError as error:
            if isinstance(error.__cause__, _GONE):
                self.look_soon()
            raise

    async def _followed(self, slot: int | None, send: Callable[[Redis], Awaitable[T]]) -> T:
        """What is sent goes to the node that serves the slot, wherever that moves meanwhile."""
        for _ in range(REDIRECTS):
            node = await self._serving(slot)
            try:
                return await send(node)
            except RedisUnavailableError as error:
                self._follow(error)
        raise RedisUnavailableError(_MOVING)

    def _follow(self, error: RedisUnavailableError) -> None:
        """Returns if the node says where the key is; raises any other error."""
        if (moved := _moved(error)) is not None:
            self._note(moved)
            return
        if isinstance(error.__cause__, _GONE):
            self.look_soon()
        raise error

    # --- who serves what ---

    async def _serving(self, slot: int | None) -> Redis:
        await self._know()
        if slot is None:
            return random.choice(await self.masters())  # noqa: S311  (no secret)
        node = self._owners[slot]
        if node is None:
            self.look_soon()
            raise RedisUnavailableError("No node of the cluster serves this slot")
        return self._client(node)

    def _client(self, node: Node) -> Redis:
        if node not in self._nodes:
            self._nodes[node] = self._client_of(node_url(self._url, *node))
        return self._nodes[node]

    def _note(self, error: redis_errors.MovedError) -> None:
        """One slot has moved, so others probably have."""
        self._owners[error.slot_id] = Node(error.host or _host(self._seeds[0], "localhost"), error.port)
        self.changes += 1
        self.look_soon()

    async def _know(self) -> None:
        if not self._known:
            await asyncio.shield(self.look_soon())

    def look_soon(self) -> asyncio.Task[None]:
        """For when something is wrong. Commands go on meanwhile."""
        if self._looking is None or self._looking.done():
            pause_s = self._looked_at + LOOK_S - asyncio.get_running_loop().time() if self._known else 0.0
            self._looking = asyncio.create_task(self._look(pause_s), name="channelmem cluster")
            self._looking.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._looking

    async def _look(self, pause_s: float) -> None:
        await asyncio.sleep(max(0.0, pause_s))
        try:
            await self._read_slots()
        finally:
            self._looked_at = asyncio.get_running_loop().time()

    async def _read_slots(self) -> None:
        """From the first node that answers; raises the last error if none does."""
        known = list(self._nodes.values())
        random.shuffle(known)
        last = RedisUnavailableError("No node of the cluster answers")
        for client in sorted((*known, *self._seeds), key=_is_silent):
            try:
                reply = await client.execute_command("CLUSTER", "SLOTS")  # type: ignore[no-untyped-call]
            except RedisUnavailableError as error:
                last = error
            else:
                await self._take(reply, _host(client, ""))
                return
        raise last

    async def _take(self, reply: Sequence[Any], asked: str) -> None:
        owners: list[Node | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        there: set[Node] = set()
        for begin, end, *nodes in reply:
            served = [Node(host.decode() if host else asked, int(port)) for host, port, *_ in nodes]
            owners[begin : end + 1] = [served[0]] * (end + 1 - begin)
            there.update(served)
        if self._known and owners != self._owners:
            log.info("The cluster has changed: it has %d masters now", len({one for one in owners if one}))
        self.changes += owners != self._owners
        self._owners, self._known = owners, True
        for node in [one for one in self._nodes if one not in there]:
            await self._nodes.pop(node).connection_pool.disconnect(inuse_connections=False)


class _ClusterPipeline(Pipeline):
    """Collects commands as redis-py's pipeline does, and sends each to its node."""

    def __init__(self, cluster: Cluster, transaction: bool, shard_hint: str | None) -> None:
        super().__init__(cluster.connection_pool, cluster.response_callbacks, transaction, shard_hint)
        self._cluster = cluster

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        stack, self.command_stack = self.command_stack, []
        if not stack:
            return []
        replies = await self._cluster.send(stack, transaction=self.is_transaction)
        return _checked(replies) if raise_on_error else replies


def slot_of(key: object) -> int | None:
    """The slot of a key of ours; None for anything else."""
    found = _KEY.match(key) if isinstance(key, str) else _RAW_KEY.match(key) if isinstance(key, bytes) else None
    return None if found is None else _slot(found[1])


def _first_slot(arguments: Sequence[Any]) -> int | None:
    """None for a command without a key."""
    return next((slot for one in arguments[1:] if (slot := slot_of(one)) is not None), None)


@lru_cache(maxsize=8_192)
def _slot(tag: str | bytes) -> int:
    return key_slot(tag.encode() if isinstance(tag, str) else tag)


def _host(client: Redis, default: str) -> str:
    return str(client.connection_pool.connection_kwargs.get("host", default))


def _is_silent(client: Redis) -> bool:
    return bool(getattr(client.connection_pool, "is_open", False))


def _moved(error: Exception) -> redis_errors.MovedError | None:
    """What a node said of a key that lives elsewhere."""
    cause = error.__cause__
    return cause if isinstance(cause, redis_errors.MovedError) else None


def _checked(replies: list[Any]) -> list[Any]:
    """As in redis.py, which imports this module."""
    for reply in replies:
        if isinstance(reply, BaseException):
            raise reply
    return replies
