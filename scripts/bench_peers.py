"""Compares channelmem with redisvl's SemanticMessageHistory and with the original design (JSON documents, torch).

    python -m scripts.bench_peers [--rounds 12] [--stored 5000] [--json]

All three use one Redis and the same MiniLM weights, each in its own process, and take turns. It measures ask latency,
messages per second until searchable, total bytes per message, and the time from process start to the first answer
(relative to importing sentence-transformers); also how long `remember` blocks while messages are embedded, and what
`ask` costs beyond embedding the question. Each holds --stored messages in channels of 50; the peers get precomputed
vectors, since embedding them would take minutes. Every question is new and has its answer in one channel. It takes
about 2 minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from redis.asyncio import Redis
from rich.progress import Progress

from channelmem.embedding.embed import Embedder, LaneEmbedder, open_embedder
from channelmem.embedding.model import Model, as_directory, find_source, prepare
from channelmem.embedding.onnx_encoder import OnnxEncoder
from channelmem.memory import Memory
from channelmem.routing.route import Scene, route
from channelmem.routing.scene import Roster
from channelmem.server.lease import running
from channelmem.settings import Settings
from channelmem.store.connection import command
from channelmem.store.keys import keys_of
from channelmem.types import Message, Mode, Person, Question, Source
from scripts import measure
from scripts.bench_layouts import Layout, session
from scripts.fill import Cloud
from scripts.measure import PER_CHANNEL, Ratio, Report
from scripts.peers import Guest, Literal, Redisvl

OURS: Final = "channelmem"
INT8: Final = "channelmem, int8"
TWO: Final = "channelmem, two threads spin"
REDISVL: Final = "redisvl"
LITERAL: Final = "JSON, torch"
EMBED: Final = "embed that question + PING"
MODEL: Final = "the model alone, on its topic"
MODEL_TWO: Final = "the same, two threads spin"
IMPORT: Final = "import sentence_transformers"
ASKED: Final = 10
"""Questions per turn."""
PAUSE_S: Final = 0.05
"""Pause between turns, so that one contestant's threads stop spinning before the next turn."""
PEER_ADDS: Final = 16
"""Messages per round for a peer; channelmem embeds in batches, so it gets --burst."""
EXTRA: Final = 10**6
"""First channel and id used while measuring rates."""

FIRST_ANSWER: Final = """
import asyncio, sys
from channelmem.memory import Memory
from scripts.measure import conversation, questions, subject_channel
async def main():
    async with Memory.open() as memory:
        if sys.argv[1] == "write":
            await memory.remember_many(conversation(subject_channel()))
            await memory.flush()
        else:
            answer = await memory.ask(next(questions(0)))
            assert answer.hits, answer.text
            print("answered", flush=True)
asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Bench:
    """Everything under comparison, on one Redis."""

    memory: Memory
    int8: Memory
    """With the quantised model (a setting); holds only the channel that questions are about."""
    two: Memory
    """With two threads per model run (not a setting); holds the same channel."""
    embedder: Embedder
    redis: Redis
    settings: Settings
    redisvl: Guest
    literal: Guest
    report: Report
    options: argparse.Namespace
    fresh: itertools.count[int]
    """Ids for additional messages."""


async def bench(options: argparse.Namespace, bar: Progress) -> Report:
    report = Report("peers")
    task = bar.add_task("load models", total=6)
    with measure.bench_settings() as settings:
        async with _opened(settings, report, options) as it:
            steps = {"store": _bytes, "ask": _ask, "add": _add, "remember while embedding": _remember}
            for name, step in steps.items():
                bar.update(task, description=name, advance=1)
                await step(it)
    bar.update(task, description="start processes", advance=1)
    await asyncio.to_thread(_starts, report, options.starts)
    return report


@asynccontextmanager
async def _opened(settings: Settings, report: Report, options: argparse.Namespace) -> AsyncIterator[Bench]:
    embedder = open_embedder(settings)
    changes = {"embedding_precision": "int8", "key_prefix": f"{settings.key_prefix}-int8"}
    quantised = settings.model_copy(update=changes)
    spinning = settings.model_copy(update={"key_prefix": f"{settings.key_prefix}-two"})
    spinner = LaneEmbedder(Spinning(prepare(settings)))
    url, name = measure.url_of(settings), settings.key_prefix
    weights = str(as_directory(find_source(settings), settings.cache_dir).path)
    redisvl = Guest(Redisvl, url, f"{name}-redisvl", weights)
    literal = Guest(Literal, url, f"{name}-json", weights)
    for threads, ms in (await redisvl.threads()).items():
        report.add("one question on torch, by threads; the peers use the faster number", threads=threads, ms=ms)
    await literal.threads()
    try:
        async with (
            Memory.open(settings, embedder=embedder) as memory,
            Memory.open(quantised) as int8,
            Memory.open(spinning, embedder=spinner) as two,
            measure.client(settings) as redis,
        ):
            ours = (memory, int8, two, embedder, redis, settings)
            yield Bench(*ours, redisvl, literal, report, options, itertools.count(EXTRA))
        for each in (settings, quantised, spinning):
            await measure.remove(each)
    finally:
        await redisvl.leave()
        await literal.leave()
        embedder.close()
        spinner.close()


class Spinning(OnnxEncoder):
    """Runs on two threads that spin while they wait for each other, ONNX Runtime's default."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._session = session(str(model.onnx), Layout(threads=2, spin=True, runs=1))


# --- bytes per message ---


async def _bytes(it: Bench) -> None:
    """Fills all three with the same messages; the questions are about channel 0."""
    count = max(PER_CHANNEL, it.options.stored)
    texts = [*measure.subject_channel(), *measure.lines_of(it.options, count - PER_CHANNEL)]
    messages = measure.conversation(texts)
    # For the other channels only memory matters, and that does not depend on the values.
    given = dict(zip(texts, Cloud().draw(count), strict=True))
    real = await it.embedder.embed_messages(texts[:PER_CHANNEL])
    given |= dict(zip(texts, real, strict=False))
    used = {
        OURS: await _growth(it.redis, partial(_store_ours, it, messages)),
        REDISVL: await _growth(it.redis, partial(it.redisvl.fill, messages, given)),
        LITERAL: await _growth(it.redis, partial(it.literal.fill, messages, given)),
    }
    for how, size in used.items():
        it.report.add("bytes per message, all in", what=how, messages=count, bytes=size / count)
    for part, total in (await _parts(it)).items():
        it.report.add("channelmem's bytes by part, as Redis reports them", part=part, bytes=total / count)
    it.report.ratios += [
        Ratio("bytes per message against redisvl", used[OURS] / used[REDISVL], 0.5),
        Ratio("bytes per message against JSON", used[OURS] / used[LITERAL], 0.25),
    ]


async def _parts(it: Bench) -> dict[str, float]:
    """The rest is allocator overhead and what neither MEMORY USAGE nor FT.INFO counts."""
    keys = keys_of(it.settings.key_prefix, 0)
    documents = [await it.redis.memory_usage(name) or 0 async for name in it.redis.scan_iter(f"{keys.one('msg')}*")]
    index = await command(it.redis, "FT.INFO", keys.one("idx"))
    facts = dict(zip(index[::2], index[1::2], strict=False))
    return {
        "document and key": sum(documents),
        "vector and graph in the index": float(facts[b"vector_index_sz_mb"]) * 2**20,
        "full text, tags, times, document table": float(facts[b"total_index_memory_sz_mb"]) * 2**20,
    }


async def _store_ours(it: Bench, messages: list[Message]) -> None:
    await it.memory.remember_many(messages)
    assert await it.memory.flush(timeout_s=600)


async def _growth(redis: Redis, store: Callable[[], Awaitable[None]]) -> int:
    before = await _used(redis)
    await store()
    return await _used(redis) - before


async def _used(redis: Redis) -> int:
    await asyncio.sleep(0.5)  # the index frees and merges a little later
    return int((await redis.info("memory"))["used_memory"])


# --- asking ---


async def _ask(it: Bench) -> None:
    asked = measure.questions(0)
    for other in (it.int8, it.two):
        await other.remember_many(measure.conversation(measure.subject_channel()))
        assert await other.flush(timeout_s=60)
    ways: dict[str, Callable[[list[Question]], Awaitable[tuple[measure.Taken, int]]]] = {
        OURS: partial(_one_by_one, partial(_answered, it.memory)),
        INT8: partial(_one_by_one, partial(_answered, it.int8)),
        TWO: partial(_one_by_one, partial(_answered, it.two)),
        EMBED: partial(_one_by_one, partial(_embedded, it)),
        MODEL: partial(_model_alone, OnnxEncoder(prepare(it.settings))),
        MODEL_TWO: partial(_model_alone, Spinning(prepare(it.settings))),
        REDISVL: it.redisvl.ask,
        LITERAL: it.literal.ask,
    }
    took, found = {how: measure.Taken() for how in ways}, dict.fromkeys(ways, 0)
    for number in range(it.options.rounds + 1):
        for how, ask in ways.items():
            await asyncio.sleep(PAUSE_S)
            taken, hits = await ask(list(itertools.islice(asked, ASKED)))
            if number:  # the first round only warms up
                took[how].ms.extend(taken.ms)
                took[how].cpu_ms.extend(taken.cpu_ms)
                found[how] += hits
    at = {how: measure.spread(each.ms).p50 for how, each in took.items()}
    cpu = {how: measure.spread(each.cpu_ms).p50 for how, each in took.items()}
    for how, each in took.items():
        share: measure.Cell = found[how] / len(each.ms) if how not in {EMBED, MODEL, MODEL_TWO} else ""
        row = {**each.figures, "cpu ms": cpu[how], "found": share}
        it.report.add("ask: a new question, its answer in a channel of 50", what=how, **row)
    it.report.ratios += [
        Ratio("ask against redisvl's get_relevant, times faster", at[REDISVL] / at[OURS], 4, at_least=True),
        Ratio("the same in processor time", cpu[REDISVL] / cpu[OURS], 4, at_least=True),
        Ratio("the same with int8", at[REDISVL] / at[INT8], 4, at_least=True),
        Ratio("the same with two threads that spin", at[REDISVL] / at[TWO], 4, at_least=True),
        Ratio("the same if all but the model took no time", at[REDISVL] / at[MODEL], 4, at_least=True),
        Ratio("ask against embedding the question + PING", at[OURS] / at[EMBED], 1.6),
        Ratio("the same in processor time", cpu[OURS] / cpu[EMBED], 1.6),
    ]


async def _one_by_one(
    ask: Callable[[Question], Awaitable[bool]], questions: list[Question]
) -> tuple[measure.Taken, int]:
    taken, found = measure.Taken(), 0
    for question in questions:
        started, started_cpu = time.perf_counter(), time.process_time()
        found += await ask(question)
        taken.ms.append((time.perf_counter() - started) * 1000)
        taken.cpu_ms.append((time.process_time() - started_cpu) * 1000)
    return taken, found


async def _answered(memory: Memory, question: Question) -> bool:
    answer = await memory.ask(question)
    at_once = bool(answer.hits) and answer.hits[0].source is Source.BUFFER
    return at_once and answer.route.mode is Mode.TOPIC


async def _embedded(it: Bench, question: Question) -> bool:
    await it.embedder.embed_question(question.text)
    await it.redis.ping()
    return False


async def _model_alone(encoder: OnnxEncoder, questions: list[Question]) -> tuple[measure.Taken, int]:
    """The lower bound for an answer with this encoder: embeds just the topics, on the caller's thread."""
    nobody = Scene(asker=Person(measure.ASKER, "Zoe"), bot=Person(1, "bot"), roster=Roster(()), now=time.time())
    topics = {question.id: route(question.text, nobody).topic for question in questions}

    async def infer(question: Question) -> bool:
        return encoder.infer(encoder.tokenise_question(topics[question.id])) is None

    return await _one_by_one(infer, questions)


# --- adding ---


async def _add(it: Bench) -> None:
    """Messages per second until a search can find them."""

    def fresh(count: int) -> list[Message]:
        first = next(it.fresh)
        for _ in range(count - 1):
            next(it.fresh)
        texts = measure.lines_of(it.options, count, seed=first)
        return measure.conversation(texts, first_id=first, channel=first)

    async def ours(messages: list[Message]) -> float:
        return await measure.seconds(partial(_store_ours, it, messages))

    ways: dict[str, tuple[int, Callable[[list[Message]], Awaitable[float]]]] = {
        OURS: (it.options.burst, ours),
        REDISVL: (PEER_ADDS, it.redisvl.add),
        LITERAL: (PEER_ADDS, it.literal.add),
    }
    rates: dict[str, list[float]] = {how: [] for how in ways}
    for _ in range(it.options.rounds):
        for how, (count, add) in ways.items():
            messages = fresh(count)
            rates[how].append(count / await add(messages))
    middle = {how: measure.spread(each).p50 for how, each in rates.items()}
    for how, rate in middle.items():
        it.report.add("messages per second until searchable", what=how, rate=rate, best=max(rates[how]))
    against = middle[OURS] / middle[REDISVL]
    it.report.ratios.append(Ratio("messages/s until searchable against add_message", against, 6, at_least=True))


async def _remember(it: Bench) -> None:
    """How long a caller waits for `remember`, and for a PING, while a backlog is being embedded."""
    first = next(it.fresh) + 10**6
    texts = measure.lines_of(it.options, it.options.backlog, seed=5)
    await it.memory.remember_many(measure.conversation(texts, first_id=first, channel=first))
    took = {"remember": measure.Taken(), "PING": measure.Taken()}
    for number in itertools.count(first + len(texts)):
        (message,) = measure.conversation([f"{texts[number % len(texts)]} again"], first_id=number, channel=first - 1)
        await asyncio.sleep(0.002)
        took["remember"].ms.append(await measure.seconds(partial(it.memory.remember, message)) * 1000)
        await asyncio.sleep(0.002)
        took["PING"].ms.append(await measure.seconds(it.redis.ping) * 1000)
        if number % 50 == 0 and await it.memory.pending() < 100:
            break
    for how, each in took.items():
        it.report.add("while batches are embedded", what=how, calls=len(each.ms), **each.figures)
    worst = {how: measure.spread(each.ms).p99 for how, each in took.items()}
    it.report.ratios.append(Ratio("remember p99 in p99 of PING, under load", worst["remember"] / worst["PING"], 5))
    await it.memory.flush(timeout_s=600)


# --- starting ---


def _starts(report: Report, times: int) -> None:
    """Process starts, up to the first answer and including the start of the embedded server."""
    took: dict[str, list[float]] = {OURS: [], IMPORT: []}
    with tempfile.TemporaryDirectory(prefix="channelmem-bench-", ignore_cleanup_errors=True) as folder:
        settings = Settings(_env_file=None, redis_url=None, data_dir=Path(folder), embedded_grace_s=0)
        clean = {key: value for key, value in os.environ.items() if "REDIS_URL" not in key}
        env = {**clean, "CHANNELMEM_DATA_DIR": folder, "CHANNELMEM_EMBEDDED_GRACE_S": "0"}
        _first_line([sys.executable, "-c", FIRST_ANSWER, "write"], env)
        for _ in range(times):
            _await_stopped(settings)
            took[OURS].append(_first_line([sys.executable, "-c", FIRST_ANSWER, "ask"], env))
            took[IMPORT].append(_first_line([sys.executable, "-c", "import sentence_transformers; print(1)"], env))
        _await_stopped(settings)
    middle = {how: measure.spread(each).p50 for how, each in took.items()}
    for how, each in took.items():
        report.add("process start to first answer, second run", what=how, seconds=middle[how], best=min(each))
    share = middle[OURS] / middle[IMPORT]
    report.ratios.append(Ratio("start to first answer against importing sentence-transformers", share, 0.2))


def _first_line(command: list[str], env: dict[str, str]) -> float:
    started = time.perf_counter()
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        spent = time.perf_counter() - started
        assert process.wait() == 0, command
    return spent


def _await_stopped(settings: Settings) -> None:
    while running(settings) is not None:
        time.sleep(0.05)


def options() -> argparse.ArgumentParser:
    parser = measure.parser(__doc__, "bench_peers")
    parser.add_argument(
        "--rounds", type=int, default=8, help="rounds of 10 questions and of adding messages (default 8)"
    )
    parser.add_argument("--stored", type=int, default=5000, help="messages in each store (default 5000)")
    parser.add_argument("--burst", type=int, default=512, help="messages that channelmem adds per round (default 512)")
    parser.add_argument(
        "--backlog", type=int, default=2000, help="messages waiting while `remember` is timed (default 2000)"
    )
    parser.add_argument("--starts", type=int, default=3, help="process starts of each kind (default 3)")
    parser.add_argument("--data", type=Path, metavar="FILE", help='take texts from a JSONL file with a "text" field')
    return parser


if __name__ == "__main__":
    measure.run(bench, options().parse_args())
