"""Measures summaries: one window, the update of a week, and what they add to the context of a question.

python -m scripts.bench_summaries [--days N] [--a-day N] [--rounds N] [--json]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from redis.asyncio import Redis
from rich.progress import Progress

from channelmem import text as line
from channelmem.durations import DAY_S, HOUR_S
from channelmem.memory import Memory
from channelmem.policy.cascade import OFF, Place
from channelmem.store.redis import command
from channelmem.summaries import pyramid as documents
from channelmem.summaries import reader as past
from channelmem.summaries.extractive import summarise
from channelmem.summaries.pyramid import ClosedWindow
from channelmem.types import Message, Question
from scripts import measure
from scripts.fake_embedder import FakeEmbedder
from scripts.stored_summaries import AFTER_S, Replayed

CHANNEL = 1000
WINDOW_MESSAGES = 30
BEGAN = 1_800_057_600.0
"""A midnight, UTC."""
MAKING, GIVING = "processor seconds", "per question"
WINDOW, WEEK = "summary of a window of 30 messages", "update of everything"
ASK, WITH, FIRST, WITHOUT = "ask", "context", "context, nothing parsed yet", "context without summaries"


def channel(days: int, a_day: int) -> list[Message]:
    """Messages over ten hours of every day."""
    texts = measure.chat_lines(days * a_day)
    step_s = 10 * HOUR_S / a_day
    times = [BEGAN + day * DAY_S + 9 * HOUR_S + at * step_s for day in range(days) for at in range(a_day)]
    return [
        Message(measure.GUILD, CHANNEL, number, 500 + number % 7, measure.NAMES[number % 7], text, ts)
        for number, (text, ts) in enumerate(zip(texts, times, strict=True), 1)
    ]


async def bench(options: argparse.Namespace, bar: Progress) -> measure.Report:
    report = measure.Report("bench_summaries")
    doing = bar.add_task("asking", total=options.rounds)
    messages, clock = channel(options.days, options.a_day), Replayed()
    _windows(report, messages)
    # Everything has to be visible at once: the oldest message is as old as the archive.
    with measure.bench_settings(archive_days=options.days + 1, embed_in_process=False) as settings:
        async with Memory.open(settings, clock=clock, embedder=FakeEmbedder()) as memory:
            clock.now = messages[-1].ts + AFTER_S
            await memory.remember_many(messages)
            await memory.policies.set(Place.everywhere(), "context_max_age", OFF)
            await _update(report, memory)
            await _ask(report, memory, clock.now, options.rounds, lambda: bar.advance(doing))
            async with measure.client(settings) as redis:
                await _bytes(report, redis, f"{settings.key_prefix}:*summary:*", len(messages))
        await measure.remove(settings)
    return report


def _windows(report: measure.Report, messages: list[Message]) -> None:
    spent = []
    for at in range(0, len(messages) - WINDOW_MESSAGES + 1, WINDOW_MESSAGES):
        some = tuple(messages[at : at + WINDOW_MESSAGES])
        line.forget_read()  # nothing may be remembered from the measurements before
        started = time.process_time()
        summarise(ClosedWindow(some[0].ts, some[0].ts + 1800, some), created=0.0)
        spent.append(time.process_time() - started)
    report.add(MAKING, what=WINDOW, median=measure.spread(spent).p50, worst=max(spent), summaries=1)


async def _update(report: measure.Report, memory: Memory) -> None:
    line.forget_read()
    started = time.process_time()
    made = await memory.summaries.update(measure.GUILD, CHANNEL)
    took = time.process_time() - started
    report.add(MAKING, what=WEEK, median=took, worst=took, summaries=made)


async def _ask(report: measure.Report, memory: Memory, now: float, rounds: int, advance: Callable[[], None]) -> None:
    question = Question(measure.GUILD, CHANNEL, 10**15, 9_999, "Zoe", "what did we say about the garden?", now)
    answer = await memory.ask(question)
    everywhere = Place.everywhere()

    async def given() -> object:
        return (await memory.context(question, answer)).text

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        ASK: lambda: memory.ask(question),
        WITH: given,
        FIRST: given,
        WITHOUT: given,
    }
    redis = memory._store.buckets.redis  # noqa: SLF001  (counts its commands)
    for what, call in calls.items():
        await memory.policies.set(everywhere, "summaries", value=what != WITHOUT)
        await call()
        took, spent, sent = [], [], 0
        for _ in range(rounds):
            if what == FIRST:
                documents.forget_read()
                past.forget_read()
            with counting(redis) as names:
                begun, cpu = time.perf_counter(), time.process_time()
                await call()
                took.append((time.perf_counter() - begun) * 1000)
                spent.append((time.process_time() - cpu) * 1000)
            sent = len(names)
            advance() if what == ASK else None
        times = {"ms": measure.spread(took).p50, "processor ms": measure.spread(spent).p50}
        report.add(GIVING, what=what, **times, **{"round trips": sent})


@contextmanager
def counting(redis: Redis) -> Iterator[list[str]]:
    """The commands and pipelines that a client sends."""
    sent: list[str] = []
    send, pipeline = redis.execute_command, redis.pipeline

    async def noting(*arguments: Any, **options: Any) -> Any:
        sent.append(str(arguments[0]))
        return await send(*arguments, **options)  # type: ignore[no-untyped-call]

    def piped(*arguments: Any, **options: Any) -> Any:
        sent.append("pipeline")
        return pipeline(*arguments, **options)

    redis.execute_command, redis.pipeline = noting, piped  # type: ignore[method-assign]
    try:
        yield sent
    finally:
        redis.execute_command, redis.pipeline = send, pipeline  # type: ignore[method-assign]


async def _bytes(report: measure.Report, redis: Redis, pattern: str, messages: int) -> None:
    sizes = [int(await command(redis, "MEMORY", "USAGE", key)) async for key in redis.scan_iter(pattern, count=1000)]
    title = "bytes in Redis"
    report.add(title, what="one summary", bytes=round(sum(sizes) / max(1, len(sizes))), summaries=len(sizes))
    report.add(title, what="all of them, per message", bytes=round(sum(sizes) / messages), summaries=len(sizes))


def main() -> None:
    parser = measure.parser(__doc__, "bench_summaries")
    parser.add_argument("--days", type=int, default=7, help="days of conversation (default 7)")
    parser.add_argument("--a-day", type=int, default=200, help="messages a day (default 200)")
    parser.add_argument("--rounds", type=int, default=50, help="questions (default 50)")
    measure.run(bench, parser.parse_args())


if __name__ == "__main__":
    main()
