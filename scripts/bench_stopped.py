"""Measures how long questions wait for a Redis that is stopped (SIGSTOP), and how soon they find it again.

    python -m scripts.bench_stopped [--rounds N] [--json]

It stops an embedded server of its own, never the one of REDIS_URL. The settings are the defaults, with the real model.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import time
from collections.abc import Iterator

from rich.progress import Progress

from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.types import Answer, Question
from scripts import measure

WAITS = "seconds until an answer"
FIRST, SECOND, BACK = "first question to a stopped Redis", "second question", "after SIGCONT, from memory again"
PATIENCE_S = 30.0


async def bench(options: argparse.Namespace, bar: Progress) -> measure.Report:
    report = measure.Report("bench_stopped")
    doing = bar.add_task("stopping Redis", total=options.rounds)
    timeout_s = Settings(_env_file=None).redis_timeout_s
    rounds = []
    with measure.bench_settings(redis_url=None, redis_timeout_s=timeout_s) as settings:
        async with measure.client(settings) as redis:
            pid = int((await redis.info("server"))["process_id"])
        async with Memory.open(settings) as memory:
            for message in measure.conversation(measure.subject_channel()):
                await memory.remember(message)
            await memory.flush(PATIENCE_S)
            questions = measure.questions(0)
            for _ in range(options.rounds):
                rounds.append(await _round(memory, questions, pid))
                bar.advance(doing)
    for what in (FIRST, SECOND, BACK):
        times = [one[what] for one in rounds]
        report.add(WAITS, what=what, rounds=len(times), median=measure.spread(times).p50, worst=max(times))
    return report


async def _round(memory: Memory, questions: Iterator[Question], pid: int) -> dict[str, float]:
    """Seconds, by what was waited for."""
    await _until_found(memory, questions)
    os.kill(pid, signal.SIGSTOP)
    try:
        took = {what: await _without_memory(memory, next(questions)) for what in (FIRST, SECOND)}
    finally:
        os.kill(pid, signal.SIGCONT)
    return {**took, BACK: await _until_found(memory, questions)}


async def _without_memory(memory: Memory, question: Question) -> float:
    started = time.perf_counter()
    answer = await memory.ask(question)
    took = time.perf_counter() - started
    assert _problem(answer), "a stopped Redis cannot have answered"
    return took


async def _until_found(memory: Memory, questions: Iterator[Question]) -> float:
    started = time.perf_counter()
    async with asyncio.timeout(PATIENCE_S):
        while _problem(await memory.ask(next(questions))):  # noqa: ASYNC110  (Redis sends no event)
            await asyncio.sleep(0.001)
    return time.perf_counter() - started


def _problem(answer: Answer) -> str:
    return next((one.problem for one in answer.tried if one.problem), "")


def main() -> None:
    parser = measure.parser(__doc__, "bench_stopped")
    parser.add_argument("--rounds", type=int, default=5, help="times Redis is stopped (default 5)")
    logging.getLogger("channelmem").setLevel(logging.ERROR)  # every round warns of the outage that it makes
    measure.run(bench, parser.parse_args())


if __name__ == "__main__":
    main()
