"""Measures how many messages per second become searchable, and how much that delays the caller.

    python -m scripts.bench_ingest [--rounds 4] [--workers 1 2] [--stored 0 10000] [--data FILE] [--json]

Each round sends the same texts through the embedder alone, through `remember_many` until searchable, and through the
embedder again; the ratio shows the overhead of storing, reading the stream, committing and indexing. The event loop
delay is how late a task wakes up from a 1 ms sleep, both idle and under load. The worker rows use `channelmem worker`
processes and no in-process embedding; more workers help only if there are cores for them. It takes about a minute;
--stored 0 10000 100000 takes longer, since it builds a larger graph.
"""

from __future__ import annotations

import argparse
import asyncio
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
from channelmem.store.store import Store
from channelmem.tasks import cancel_all
from scripts import measure
from scripts.fill import DIMS, Cloud, fill
from scripts.measure import Ratio, Report

TICK_S: Final = 0.001
SAMPLE_S: Final = 0.05
WORKERS: Final = "with worker processes"


@dataclass(slots=True)
class Noticed:
    """What a caller on the same event loop notices: the loop's delay, and how many messages wait."""

    late_ms: list[float] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)

    @asynccontextmanager
    async def watch(self, memory: Memory) -> AsyncIterator[None]:
        await self._late()  # so that there is one sample of each, however short the work is
        await self._count(memory)
        tasks = (asyncio.create_task(self._tick()), asyncio.create_task(self._sample(memory)))
        try:
            yield
        finally:
            await cancel_all(tasks)

    async def _tick(self) -> None:
        while True:
            await self._late()

    async def _sample(self, memory: Memory) -> None:
        while True:
            await asyncio.sleep(SAMPLE_S)
            await self._count(memory)

    async def _late(self) -> None:
        started = time.perf_counter()
        await asyncio.sleep(TICK_S)
        self.late_ms.append((time.perf_counter() - started - TICK_S) * 1000)

    async def _count(self, memory: Memory) -> None:
        self.waiting.append(await memory.pending())


@dataclass(slots=True)
class Source:
    """Supplies texts, each with a fresh id."""

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
    """The same texts through the embedder alone and through the whole pipeline: wall and processor seconds."""

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
    """The rate with `stored` messages already in the index: inserting into a larger graph takes longer."""
    await _store(settings, embedder, stored, bar)
    idle, busy = Noticed(), Noticed()
    async with Memory.open(settings, embedder=embedder) as memory, measure.client(settings) as redis:
        await source.send(memory, source.take(_warm_up(source)))
        turns = [
            await _turn(memory, embedder, source, redis, busy)
            for _ in bar.track(range(source.options.rounds), description=f"with {stored:,} stored")
        ]
        async with idle.watch(memory):
            await asyncio.sleep(1)
    await measure.remove(settings)
    _add(report, stored, turns)
    for how, each in {"idle": idle, "embedding": busy}.items():
        late = measure.spread(each.late_ms)
        figures = {"delay p50 ms": late.p50, "p95 ms": late.p95, "p99 ms": late.p99}
        depth = {"most waiting": max(each.waiting), "median waiting": measure.spread(each.waiting).p50}
        report.add("event loop and queue", what=how, stored=stored, **figures, **depth)


def _warm_up(source: Source) -> int:
    """Messages before the first burst: enough to wake every lane, not more than a burst."""
    return min(64, int(source.options.burst))


async def _store(settings: Settings, embedder: Embedder, stored: int, bar: Progress) -> None:
    async with measure.client(settings) as redis:
        store = await Store.open(redis, settings, dims=DIMS, identity=embedder.identity, clock=time.time)
        task = bar.add_task(f"store {stored:,}", total=stored)
        await fill(store, Cloud().draw(stored), first_id=1, advance=partial(bar.advance, task))
        bar.remove_task(task)
        await store.close()


async def _turn(memory: Memory, embedder: Embedder, source: Source, redis: Redis, busy: Noticed) -> Turn:
    """Runs the embedder alone before and after, since the speed of a shared machine drifts within seconds."""
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
    """The seconds the work reports, and the processor time it used."""
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
    report.add("until searchable, by messages already stored", stored=stored, **figures)
    if not report.ratios:
        report.ratios += [
            Ratio("messages/s until searchable against the embedder alone", share, 0.85, at_least=True),
            Ratio("the same in processor time, including Redis", cpu_share, 0.85, at_least=True),
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
            await source.send(memory, source.take(_warm_up(source) * count))
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
    """Runs one `channelmem worker`; yields once it reports that it is embedding."""
    env = {
        **os.environ,
        "REDIS_URL": measure.url_of(settings),
        "CHANNELMEM_KEY_PREFIX": settings.key_prefix,
        "CHANNELMEM_CACHE_DIR": str(settings.cache_dir),
        # As patient as this process: a benchmark on a busy machine is slow, not broken.
        "CHANNELMEM_REDIS_TIMEOUT_S": str(settings.redis_timeout_s),
    }
    command = [sys.executable, "-m", "channelmem.cli", "worker"]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line)
            if "Embedding;" in line:
                break
        else:
            raise RuntimeError(f"channelmem worker exited with status {process.wait()}: {''.join(said)}")
        try:
            yield
        finally:
            process.terminate()
            process.communicate()


def options() -> argparse.ArgumentParser:
    parser = measure.parser(__doc__, "bench_ingest")
    parser.add_argument("--rounds", type=int, default=4, help="bursts per row (default 4)")
    parser.add_argument("--burst", type=int, default=2048, help="messages per burst (default 2048)")
    parser.add_argument(
        "--workers", type=int, nargs="*", default=[1, 2], help="numbers of worker processes to try (default 1 2)"
    )
    parser.add_argument(
        "--stored", type=int, nargs="*", default=[0, 10_000], help="messages already in the index (default 0 10000)"
    )
    parser.add_argument("--data", type=Path, metavar="FILE", help='take texts from a JSONL file with a "text" field')
    return parser


if __name__ == "__main__":
    measure.run(bench, options().parse_args())
