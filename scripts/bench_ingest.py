"""How many messages per second become searchable, and what the caller notices of it.

    python -m scripts.bench_ingest [--rounds 4] [--workers 1 2] [--stored 0 10000] [--data FILE] [--json]

Per round the same texts go through the embedder alone, through `remember_many` until searchable, and through the
embedder again; the ratio is what storing, reading the stream, committing and indexing cost on top. The event loop's
delay is how late a task wakes up that sleeps for a millisecond, without work and during it. Workers are `channelmem
worker` processes, with embedding in this process switched off; more of them help only where there are cores for them.
About a minute; --stored 0 10000 100000 adds some, since the graph has to be built.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from redis.asyncio import Redis
from rich.progress import Progress

from channelmem.embedding.embed import Embedder, open_embedder
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.store.cancellation import cancel_all
from channelmem.store.store import Store
from scripts import measure
from scripts.fill import DIMS, Cloud, fill
from scripts.measure import Ratio, Report

TICK_S: Final = 0.001
SAMPLE_S: Final = 0.05
WORKERS: Final = "with worker processes"


@dataclass(slots=True)
class Noticed:
    """What a caller on the same event loop notices: its delay, and how many messages wait."""

    late_ms: list[float] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)

    @asynccontextmanager
    async def watch(self, memory: Memory) -> AsyncIterator[None]:
        tasks = (asyncio.create_task(self._tick()), asyncio.create_task(self._sample(memory)))
        try:
            yield
        finally:
            await cancel_all(tasks)

    async def _tick(self) -> None:
        while True:
            started = time.perf_counter()
            await asyncio.sleep(TICK_S)
            self.late_ms.append((time.perf_counter() - started - TICK_S) * 1000)

    async def _sample(self, memory: Memory) -> None:
        while True:
            self.waiting.append(await memory.pending())
            await asyncio.sleep(SAMPLE_S)


@dataclass(slots=True)
class Source:
    """Texts, and ids for them that were not used before."""

    options: argparse.Namespace
    next_id: int = 10**7

    def take(self, count: int) -> list[str]:
        self.next_id += count
        return measure.lines_of(self.options, count, seed=self.next_id)

    async def send(self, memory: Memory, texts: list[str]) -> float:
        """Seconds until the last of them is searchable."""
        self.next_id += len(texts)
        messages = measure.conversation(texts, first_id=self.next_id, channel=self.next_id)

        async def until_searchable() -> None:
            await memory.remember_many(messages)
            assert await memory.flush(timeout_s=600)

        return await measure.seconds(until_searchable)


@dataclass(frozen=True, slots=True)
class Turn:
    """The same texts through the embedder alone, and through everything: seconds, and of processor time."""

    messages: int
    alone_s: float
    whole_s: float
    alone_cpu_s: float
    whole_cpu_s: float


async def bench(options: argparse.Namespace, bar: Progress) -> Report:
    report, source = Report("ingest"), Source(options)
    with measure.bench_settings() as settings:
        embedder = open_embedder(settings)
        try:
            for stored in options.stored:
                await _in_process(settings, embedder, stored, source, report, bar)
        finally:
            embedder.close()
        for count in options.workers:
            await _with_workers(settings, count, source, report, bar)
    return report


# --- in this process ---


async def _in_process(
    settings: Settings, embedder: Embedder, stored: int, source: Source, report: Report, bar: Progress
) -> None:
    """The rate when so many messages are there already: inserting into a larger graph takes longer."""
    await _store(settings, embedder, stored, bar)
    idle, busy = Noticed(), Noticed()
    async with Memory.open(settings, embedder=embedder) as memory, measure.client(settings) as redis:
        await source.send(memory, source.take(64))
        turns = [
            await _turn(memory, embedder, source, redis, busy)
            for _ in bar.track(range(source.options.rounds), description=f"with {stored:,} stored")
        ]
        async with idle.watch(memory):
            await asyncio.sleep(1)
    await measure.remove(settings)
    _add(report, stored, turns)
    for how, each in {"nothing to do": idle, "embedding": busy}.items():
        late = measure.spread(each.late_ms)
        figures = {"delay p50 ms": late.p50, "p95 ms": late.p95, "p99 ms": late.p99}
        depth = {"most waiting": max(each.waiting), "median waiting": measure.spread(each.waiting).p50}
        report.add("event loop and queue", what=how, stored=stored, **figures, **depth)


async def _store(settings: Settings, embedder: Embedder, stored: int, bar: Progress) -> None:
    async with measure.client(settings) as redis:
        store = await Store.open(redis, settings, dims=DIMS, identity=embedder.identity, clock=time.time)
        task = bar.add_task(f"store {stored:,}", total=stored)
        await fill(store, Cloud().draw(stored), first_id=1, advance=partial(bar.advance, task))
        bar.remove_task(task)
        await store.close()


async def _turn(memory: Memory, embedder: Embedder, source: Source, redis: Redis, busy: Noticed) -> Turn:
    """The embedder alone before and after: the speed of a machine that is shared with others drifts within seconds."""
    texts = source.take(source.options.burst)

    # Watching takes processor time itself, so both sides are watched.
    async def alone() -> float:
        async with Noticed().watch(memory):
            return await measure.seconds(partial(embedder.embed_messages, texts))

    async def whole() -> float:
        async with busy.watch(memory):
            return await source.send(memory, texts)

    before, all_of_it, after = [await _spent(redis, work) for work in (alone, whole, alone)]
    alone_s, alone_cpu_s = ((early + late) / 2 for early, late in zip(before, after, strict=True))
    return Turn(len(texts), alone_s, all_of_it[0], alone_cpu_s, all_of_it[1])


async def _spent(redis: Redis, work: Callable[[], Awaitable[float]]) -> tuple[float, float]:
    """The seconds that the work says it took, and what it took of processor time."""
    before = await _cpu_s(redis)
    return await work(), await _cpu_s(redis) - before


async def _cpu_s(redis: Redis) -> float:
    """Of this process and of Redis."""
    info = await redis.info("cpu")
    return time.process_time() + float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def _add(report: Report, stored: int, turns: list[Turn]) -> None:
    def middle(value: Callable[[Turn], float]) -> float:
        return measure.spread([value(turn) for turn in turns]).p50

    share, cpu_share = middle(lambda turn: turn.alone_s / turn.whole_s), middle(_cpu_share)
    figures = {
        "messages/s": middle(lambda turn: turn.messages / turn.whole_s),
        "embedder alone/s": middle(lambda turn: turn.messages / turn.alone_s),
        "share": share,
        "cpu ms/message": middle(lambda turn: 1000 * turn.whole_cpu_s / turn.messages),
        "embedder alone, cpu ms": middle(lambda turn: 1000 * turn.alone_cpu_s / turn.messages),
    }
    report.add("until searchable, by messages stored before", stored=stored, **figures)
    if not report.ratios:
        report.ratios += [
            Ratio("messages/s until searchable against the embedder alone", share, 0.85, at_least=True),
            Ratio("the same in processor time, Redis included", cpu_share, 0.85, at_least=True),
        ]


def _cpu_share(turn: Turn) -> float:
    return turn.alone_cpu_s / turn.whole_cpu_s


# --- in other processes ---


async def _with_workers(settings: Settings, count: int, source: Source, report: Report, bar: Progress) -> None:
    asking = settings.model_copy(update={"embed_in_process": False})
    noticed, rates = Noticed(), []
    async with Memory.open(asking) as memory:
        with ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(_worker(asking))
            await source.send(memory, source.take(64 * count))
            for _ in bar.track(range(source.options.rounds), description=f"{count} worker(s)"):
                texts = source.take(source.options.burst)
                async with noticed.watch(memory):
                    rates.append(len(texts) / await source.send(memory, texts))
    await measure.remove(settings)
    late = measure.spread(noticed.late_ms)
    delays = {"loop delay p50 ms": late.p50, "p99 ms": late.p99}
    most = {"most waiting": max(noticed.waiting)}
    report.add(WORKERS, workers=count, rate=measure.spread(rates).p50, best=max(rates), **delays, **most)


@contextmanager
def _worker(settings: Settings) -> Iterator[None]:
    """One `channelmem worker`; ready when it says that it embeds."""
    env = {
        **os.environ,
        "REDIS_URL": measure.url_of(settings),
        "CHANNELMEM_KEY_PREFIX": settings.key_prefix,
        "CHANNELMEM_CACHE_DIR": str(settings.cache_dir),
    }
    command = [sys.executable, "-m", "channelmem.cli", "worker"]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = itertools.takewhile(lambda line: "Embedding;" not in line, process.stderr)
        said = "".join(lines)
        assert process.poll() is None, said
        try:
            yield
        finally:
            process.terminate()
            process.communicate(timeout=60)


def options() -> argparse.ArgumentParser:
    parser = measure.parser(__doc__, "bench_ingest")
    parser.add_argument("--rounds", type=int, default=4, help="bursts per line (default 4)")
    parser.add_argument("--burst", type=int, default=2048, help="messages per burst (default 2048)")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2], help="numbers of processes (default 1 2)")
    parser.add_argument("--stored", type=int, nargs="*", default=[0, 10_000], help="messages there before")
    parser.add_argument("--data", type=Path, metavar="FILE", help='lines from a JSONL file with a "text" field')
    return parser


if __name__ == "__main__":
    measure.run(bench, options().parse_args())
