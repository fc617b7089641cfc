"""What the tests on a cluster share: stores and workers in many guilds, and changes to a running cluster as an operator
makes them, moving slots from one node to another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from conftest import Clock, FakeEmbedder, message, open_store
from redis.crc import key_slot

from channelmem.ingest.worker import Worker
from channelmem.settings import Settings
from channelmem.store.cluster import Cluster as ClusterClient
from channelmem.store.redis import connect
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.tasks import cancel_all
from channelmem.types import Message, Source
from scripts.cluster import Cluster, Node

GUILDS = [number << 22 for number in range(1, 13)]
"""Of different buckets, on all nodes."""


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Store]:
    assert settings.redis_url is not None
    redis = connect(settings.redis_url.get_secret_value(), settings)
    store = await open_store(redis, settings, Clock())
    try:
        yield store
    finally:
        await store.close(wait_s=0.5)
        await redis.aclose()


@asynccontextmanager
async def working(store: Store) -> AsyncIterator[None]:
    task = asyncio.create_task(Worker(store, FakeEmbedder()).run())
    try:
        yield
    finally:
        await cancel_all([task])


def said(guild: int, number: int = 1, text: str = "turtles are slow") -> Message:
    return message(number, text, guild_id=guild)


async def found(store: Store, guild: int, text: str = "turtles are slow") -> list[str]:
    (vector,) = await FakeEmbedder().embed_messages([text])
    query = Query(guild, (said(guild).channel_id,), vector=vector, source=Source.ARCHIVE)
    return [hit.message.content for hit in (await Search(store.buckets).nearest(query)).hits]


def client_of(store: Store) -> ClusterClient:
    assert isinstance(store.buckets.redis, ClusterClient)
    return store.buckets.redis


# --- moving slots ---


def slot_of_bucket(bucket: int) -> int:
    return key_slot(b"%d" % bucket)


def master_of(cluster: Cluster, slot: int) -> Node:
    """The node that serves a slot."""
    for begin, end, master, *_ in cluster.ask(cluster.running()[0], "CLUSTER", "SLOTS"):
        if begin <= slot <= end:
            return next(node for node in cluster.nodes if node.port == int(master[1]))
    raise AssertionError(f"nobody serves slot {slot}")


def masters(cluster: Cluster) -> list[Node]:
    ports = {int(master[1]) for _, _, master, *_ in cluster.ask(cluster.running()[0], "CLUSTER", "SLOTS")}
    return [node for node in cluster.nodes if node.port in ports]


def holders(cluster: Cluster, prefix: str) -> tuple[int, int]:
    """How many masters hold messages, and how many hold indexes."""
    messages = indexes = 0
    for node in masters(cluster):
        with cluster.client(node) as client:
            messages += any(True for _ in client.scan_iter(f"{prefix}:*msg:*", count=1_000))
            names: Any = client.execute_command("FT._LIST")
            indexes += any(name.startswith(f"{prefix}:") for name in names)
    return messages, indexes


@dataclass
class Move:
    """One slot on its way, key by key, in the order that `redis-cli --cluster reshard` uses."""

    cluster: Cluster
    slot: int
    source: Node
    target: Node

    def begin(self, *, keys: int = 0) -> None:
        """Opens the move, if it is not open, and takes some keys along."""
        ask = self.cluster.ask
        ask(self.target, "CLUSTER", "SETSLOT", self.slot, "IMPORTING", self.cluster.id_of(self.source))
        ask(self.source, "CLUSTER", "SETSLOT", self.slot, "MIGRATING", self.cluster.id_of(self.target))
        if keys:
            self._take(keys)

    def count(self) -> int:
        return int(self.cluster.ask(self.source, "CLUSTER", "COUNTKEYSINSLOT", self.slot))

    def finish(self) -> None:
        while self.count():
            self._take(100)
        for node in (self.target, self.source):
            self.cluster.ask(node, "CLUSTER", "SETSLOT", self.slot, "NODE", self.cluster.id_of(self.target))

    def whole(self) -> None:
        """From the first step to the last."""
        self.begin()
        self.finish()

    def _take(self, keys: int) -> None:
        with self.cluster.client(self.source) as client:
            names: list[Any] = client.execute_command("CLUSTER", "GETKEYSINSLOT", self.slot, keys)
            route = ("127.0.0.1", self.target.port, "", 0, 5000, "AUTH", self.cluster.password)
            if names:
                client.execute_command("MIGRATE", *route, "KEYS", *names)


@contextmanager
def moved(cluster: Cluster, slot: int) -> Iterator[Move]:
    """A move to another master; finished at the end, whatever happened."""
    source = master_of(cluster, slot)
    target = next(node for node in masters(cluster) if node != source)
    move = Move(cluster, slot, source, target)
    try:
        yield move
    finally:
        move.finish()
