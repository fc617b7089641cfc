"""Measures channelmem on a Redis Cluster of its own: what buckets and idling cost, and what a failure and a move cost.

    python -m scripts.bench_cluster [--seconds N] [--rate N] [--json]

It starts three masters with a replica each on this machine (scripts/cluster.py) and needs no model. In the failover,
one master is ended with kill -9 while messages are stored for guilds of all nodes; in the move, the slots of all guilds
of one master are given to another one, key by key. Lost messages were acknowledged and are gone; healed is when all
nodes answer and at most half a second's worth of messages waits.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr
from redis.asyncio import Redis
from rich.progress import Progress

from channelmem.ingest.worker import Worker
from channelmem.settings import Settings
from channelmem.store.cluster import slot_of
from channelmem.store.redis import connect
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.tasks import cancel_all
from channelmem.types import Message, Outcome, Source
from scripts import measure
from scripts.cluster import Cluster, Node, start
from scripts.fake_embedder import FakeEmbedder

GUILDS = 60
PATIENCE_S = 60.0
IDLE_S = 10.0
EMPTY = 300
HEALED_S = 10.0


@dataclass
class Load:
    """Messages stored at a steady rate, and what became of them."""

    store: Store
    rate: int
    sent: dict[int, Message] = field(default_factory=dict)
    stored_at: dict[int, float] = field(default_factory=dict)
    """When Redis acknowledged it."""
    queued: set[int] = field(default_factory=set)

    async def run(self, seconds: float) -> None:
        """Each message is sent at its time, whether or not the others are answered."""
        begun, tasks = time.monotonic(), []
        for number in range(int(seconds * self.rate)):
            await asyncio.sleep(max(0.0, begun + number / self.rate - time.monotonic()))
            tasks.append(asyncio.create_task(self._send(number + 1)))
        await asyncio.gather(*tasks)

    async def _send(self, number: int) -> None:
        guild = (1 + number % GUILDS) << 22
        said = Message(guild, 1, number, 5, "Ann", f"message number {number} about turtles", time.time())
        self.sent[number] = said
        (outcome,) = await self.store.add([said])
        if outcome is Outcome.STORED:
            self.stored_at[number] = time.monotonic()
        elif outcome is Outcome.QUEUED:
            self.queued.add(number)

    async def there(self) -> set[int]:
        """Messages that Redis holds."""
        found: set[int] = set()
        for guild in {one.guild_id for one in self.sent.values()}:
            query = Query(guild, (1,), limit=10_000, source=Source.ARCHIVE)
            found |= {one.id for one in await Search(self.store.buckets).newest(query)}
        return found


@dataclass(frozen=True, slots=True)
class Outage:
    """What a change of the cluster did to a steady load."""

    acknowledged: int
    queued: int
    dropped: int
    lost: int
    """Acknowledged, and gone."""
    lost_before_s: float
    """How long before the change the first of them was acknowledged."""
    healed_s: float
    unembedded: int
    """Messages without a vector in the end."""


async def failover(cluster: Cluster, settings: Settings, *, seconds: float, rate: int) -> Outage:
    """One master is killed a third of the way."""

    async def kill() -> None:
        cluster.kill(cluster.nodes[0])

    return await _outage(settings, kill, seconds=seconds, rate=rate)


async def move(cluster: Cluster, settings: Settings, *, seconds: float, rate: int) -> Outage:
    """All slots of guilds on one master are given to another one."""
    source, target = cluster.nodes[1], cluster.nodes[2]

    async def give() -> None:
        slots = {slot_of(f"cm:{{{(1 + number) % settings.buckets}}}:") for number in range(GUILDS)}
        for slot in sorted(one for one in slots if one is not None):
            if cluster.ask(source, "CLUSTER", "COUNTKEYSINSLOT", slot):
                await asyncio.to_thread(_give, cluster, slot, source, target)

    return await _outage(settings, give, seconds=seconds, rate=rate)


def _give(cluster: Cluster, slot: int, source: Node, target: Node) -> None:
    """As `redis-cli --cluster reshard` does it."""
    cluster.ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", cluster.id_of(source))
    cluster.ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", cluster.id_of(target))
    login = ("AUTH", cluster.password)
    while names := cluster.ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 100):
        cluster.ask(source, "MIGRATE", "127.0.0.1", target.port, "", 0, 5000, *login, "KEYS", *names)
    for node in (target, source):
        cluster.ask(node, "CLUSTER", "SETSLOT", slot, "NODE", cluster.id_of(target))


async def _outage(settings: Settings, change: Callable[[], Awaitable[None]], *, seconds: float, rate: int) -> Outage:
    async with _opened(settings) as store:
        load = Load(store, rate)
        running = asyncio.create_task(load.run(seconds))
        await asyncio.sleep(seconds / 3)
        changed = time.monotonic()
        await change()
        healed = await _healed(store, running, changed, waiting=rate // 2)
        await running
        async with asyncio.timeout(PATIENCE_S):
            while not await store.flush(1.0):
                pass
        there = await _all_there(load)
        lost = {one for one in load.stored_at if one not in there}
        first = min((load.stored_at[one] for one in lost), default=changed)
        return Outage(
            len(load.stored_at),
            len(load.queued),
            store.dropped,
            len(lost),
            changed - first,
            healed,
            await store.pending(),
        )


async def _healed(store: Store, running: asyncio.Task[None], changed: float, *, waiting: int) -> float:
    """Seconds until what was queued is written and new messages are acknowledged again."""
    last = changed
    while not running.done():
        await asyncio.sleep(0.02)
        if not store.available or store.queued > waiting:
            last = time.monotonic()
    return last - changed


async def _all_there(load: Load) -> set[int]:
    async with asyncio.timeout(PATIENCE_S):
        return await load.there()


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Store]:
    redis = connect(measure.url_of(settings), settings)
    store = await Store.open(redis, settings, dims=FakeEmbedder.dims, identity=FakeEmbedder.identity, clock=time.time)
    worker = asyncio.create_task(Worker(store, FakeEmbedder()).run())
    try:
        yield store
    finally:
        await cancel_all([worker])
        await store.close()
        await redis.aclose()


async def _memory(cluster: Cluster) -> int:
    with_master = cluster.nodes[: cluster.masters]
    return sum(int(_info(cluster, node, "memory")["used_memory"]) for node in with_master)


def _info(cluster: Cluster, node: Node, part: str) -> dict[str, int]:
    with cluster.client(node) as client:
        return dict(client.info(part))


async def empty_buckets(cluster: Cluster, settings: Settings) -> float:
    """Bytes of a bucket that was created and holds nothing."""
    redis = connect(measure.url_of(settings), settings)
    store = await Store.open(redis, settings, dims=384, identity="none", clock=time.time)
    before = await _memory(cluster)
    for bucket in range(1, 1 + EMPTY):
        await store.buckets.ready(bucket)
    used = (await _memory(cluster) - before) / EMPTY
    await store.close()
    await redis.aclose()
    return used


async def idle(settings: Settings) -> float:
    """The share of a core that a bot with a worker needs when nobody says anything."""
    async with _opened(settings) as store:
        await store.add([Message((1 + n) << 22, 1, 1, 5, "Ann", "hello there", time.time()) for n in range(GUILDS)])
        await store.flush(PATIENCE_S)
        await asyncio.sleep(1.0)
        before = time.process_time()
        await asyncio.sleep(IDLE_S)
        return (time.process_time() - before) / IDLE_S


async def speed(settings: Settings) -> dict[str, float]:
    """Milliseconds of this process's time per call; Redis's own is the same on both."""
    async with _opened(settings) as store:
        texts = measure.chat_lines(200)
        said = [Message(7 << 22, 1, n + 1, 5, "Ann", text, time.time()) for n, text in enumerate(texts)]
        await store.add(said)
        await store.flush(PATIENCE_S)
        search, embedder = Search(store.buckets), FakeEmbedder()
        vector = await embedder.begin_question("turtles")
        ways: dict[str, measure.Call] = {
            "HGET": lambda: _ping(store.buckets.redis),
            "store one message": lambda: store.add([said[0]]),
            "newest of a channel": lambda: search.newest(Query(7 << 22, (1,), limit=20)),
            "buffer question": lambda: search.nearest(Query(7 << 22, (1,), vector=vector)),
            "archive question": lambda: search.nearest(Query(7 << 22, (1,), vector=vector, source=Source.ARCHIVE)),
        }
        taken = {}
        for name, call in ways.items():
            await call()
            taken[name] = min([await _processor_ms(call) for _ in range(5)])
        return taken


async def _processor_ms(call: measure.Call) -> float:
    before = time.process_time()
    for _ in range(100):
        await call()
    return (time.process_time() - before) * 10


async def _ping(redis: Redis) -> object:
    return await redis.hget("cm:{0}:meta", "version")


async def bench(options: argparse.Namespace, bar: Progress) -> measure.Report:
    report = measure.Report("bench_cluster")
    doing = bar.add_task("on a cluster", total=5)
    with tempfile.TemporaryDirectory(prefix="channelmem-cluster-") as folder:
        cluster = await asyncio.to_thread(start, Path(folder) / "nodes")
        try:
            url = SecretStr(cluster.url)
            settings = Settings(_env_file=None, redis_url=url, data_dir=Path(folder) / "data")
            with measure.bench_settings(redis_url=None) as single:
                for where, one in (("single Redis", single), ("cluster", settings)):
                    report.add("idle, share of a core", where=where, buckets=one.buckets, share=await idle(one))
                    bar.advance(doing)
                for where, one in (("single Redis", single), ("cluster", settings)):
                    report.add("milliseconds of the bot's processor per call", where=where, **await speed(one))
                    bar.advance(doing)
            spare = settings.model_copy(update={"key_prefix": "empty"})
            report.add("an empty bucket", created_bytes=await empty_buckets(cluster, spare), never_used_bytes=0)
            for what, happen in (("slots moved", move), ("kill -9 of a master", failover)):
                found = await happen(cluster, settings, seconds=options.seconds, rate=options.rate)
                report.add("under load", what=what, messages_per_s=options.rate, **_row(found))
                report.ratios.append(measure.Ratio(f"{what}: seconds until healed", found.healed_s, HEALED_S))
                settings = settings.model_copy(update={"key_prefix": "after"})
            bar.advance(doing)
        finally:
            await asyncio.to_thread(cluster.stop)
    return report


def _row(found: Outage) -> dict[str, measure.Cell]:
    return {name: getattr(found, name) for name in Outage.__dataclass_fields__}


def main() -> None:
    parser = measure.parser(__doc__, "bench_cluster")
    parser.add_argument("--seconds", type=float, default=20.0, help="of load in each failure (default 20)")
    parser.add_argument("--rate", type=int, default=100, help="messages per second (default 100)")
    logging.getLogger("channelmem").setLevel(logging.ERROR)  # every failure warns of the outage that it makes
    measure.run(bench, parser.parse_args())


if __name__ == "__main__":
    main()
