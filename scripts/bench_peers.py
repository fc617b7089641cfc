"""Compares channelmem with redisvl's SemanticMessageHistory, the original design (JSON, torch), mem0 and chromadb.

    python -m scripts.bench_peers [--rounds 12] [--stored 5000] [--json]

All use the same MiniLM weights, each in its own process, and take turns; the first three share one Redis, mem0 and
chromadb keep their data in a folder. Those two are optional (`pip install -e '.[peers]'`). It measures ask latency,
messages per second until searchable, total bytes per message, and the time from process start to the first answer
(relative to importing sentence-transformers); also how long `remember` blocks while messages are embedded, and what
`ask` costs beyond embedding the question. Each holds --stored messages in channels of 50; the peers get precomputed
vectors, since embedding them would take minutes. Every question is new and has its answer in one channel. It takes
about 3 minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from redis.asyncio import Redis
from rich.progress import Progress

from channelmem.embedding.embed import Embedder, LaneEmbedder, OnnxEncoder, open_embedder
from channelmem.embedding.model import Model, as_directory, find_source, prepare
from channelmem.memory import Memory
from channelmem.routing.people import Roster
from channelmem.routing.route import Scene, route
from channelmem.settings import Settings
from channelmem.types import Message, Mode, Person, Question, Source
from scripts import measure
from scripts.bench_layouts import Layout, session
from scripts.fill import Cloud
from scripts.measure import PER_CHANNEL, Ratio, Report
from scripts.peers import Guest, Literal, Redisvl
from scripts.peers_on_disk import CHROMA, KINDS, left_out, missing
from scripts.sizes import growth_in_redis, growth_on_disk, parts_in_redis
from scripts.starts import OURS, time_starts

INT8: Final = "channelmem, int8"
TWO: Final = "channelmem, two threads spin"
REDISVL: Final = "redisvl"
LITERAL: Final = "JSON, torch"
EMBED: Final = "embed that question + PING"
MODEL: Final = "the model alone, on its topic"
MODEL_TWO: Final = "the same, two threads spin"
THREADS: Final = "one question on torch, by threads; each peer uses the faster number"
AGAINST: Final = "p50 / channelmem's"
FASTER: Final = "channelmem's / it"
ASKED: Final = 10
"""Questions per turn."""
PAUSE_S: Final = 0.05
"""Pause between turns, so that one contestant's threads stop spinning before the next turn."""
PEER_ADDS: Final = 16
"""Messages per round for a peer; channelmem embeds in batches, so it gets --burst."""
CHROMA_AT_ONCE: Final = 64
"""Messages that chromadb, the only peer that embeds in batches, gets in one call."""
CHROMA_BATCHES: Final = f"chromadb, {CHROMA_AT_ONCE} per call"
EXTRA: Final = 10**6
"""First channel and id used while measuring rates."""


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
    guests: dict[str, Guest]
    folders: dict[str, Path]
    """Where those of the guests that do not use Redis keep their data."""
    report: Report
    options: argparse.Namespace
    fresh: itertools.count[int]
    """Ids for additional messages."""


async def bench(options: argparse.Namespace, bar: Progress) -> Report:
    report = Report("peers")
    if names := missing():
        bar.console.print(left_out(names), markup=False, highlight=False, soft_wrap=True)
    task = bar.add_task("load models", total=6)
    with measure.bench_settings() as settings:
        async with _opened(settings, report, options) as it:
            steps = {"store": _bytes, "ask": _ask, "add": _add, "remember while embedding": _remember}
            for name, step in steps.items():
                bar.update(task, description=name, advance=1)
                await step(it)
    bar.update(task, description="start processes", advance=1)
    await asyncio.to_thread(time_starts, report, options.starts)
    return report


@asynccontextmanager
async def _opened(settings: Settings, report: Report, options: argparse.Namespace) -> AsyncIterator[Bench]:
    embedder = open_embedder(settings)
    changes = {"embedding_precision": "int8", "key_prefix": f"{settings.key_prefix}-int8"}
    quantised = settings.model_copy(update=changes)
    spinning = settings.model_copy(update={"key_prefix": f"{settings.key_prefix}-two"})
    spinner = LaneEmbedder(Spinning(prepare(settings)))
    folders = {name: settings.data_dir / name for name in KINDS if name not in missing()}
    guests = _guests(settings, folders)
    try:
        for name, guest in guests.items():
            for threads, ms in (await guest.threads()).items():
                report.add(THREADS, what=name, threads=threads, ms=ms)
        async with (
            Memory.open(settings, embedder=embedder) as memory,
            Memory.open(quantised) as int8,
            Memory.open(spinning, embedder=spinner) as two,
            measure.client(settings) as redis,
        ):
            ours = (memory, int8, two, embedder, redis, settings)
            yield Bench(*ours, guests, folders, report, options, itertools.count(EXTRA))
        for each in (settings, quantised, spinning):
            await measure.remove(each)
    finally:
        for guest in guests.values():
            await guest.leave()
        embedder.close()
        spinner.close()


def _guests(settings: Settings, folders: dict[str, Path]) -> dict[str, Guest]:
    url, prefix = measure.url_of(settings), settings.key_prefix
    weights = str(as_directory(find_source(settings), settings.cache_dir).path)
    made = {
        REDISVL: Guest(Redisvl, url, f"{prefix}-redisvl", weights),
        LITERAL: Guest(Literal, url, f"{prefix}-json", weights),
    }
    return made | {name: Guest(KINDS[name], str(folder), prefix, weights) for name, folder in folders.items()}


class Spinning(OnnxEncoder):
    """Runs on two threads that spin while they wait for each other, ONNX Runtime's default."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._session = session(str(model.onnx), Layout(threads=2, spin=True, runs=1))


# --- bytes per message ---


async def _bytes(it: Bench) -> None:
    """Fills all of them with the same messages; the questions are about channel 0."""
    count = max(PER_CHANNEL, it.options.stored)
    texts = [*measure.subject_channel(), *measure.lines_of(it.options, count - PER_CHANNEL)]
    messages = measure.conversation(texts)
    # For the other channels only memory matters, and that does not depend on the values.
    given = dict(zip(texts, Cloud().draw(count), strict=True))
    real = await it.embedder.embed_messages(texts[:PER_CHANNEL])
    given |= dict(zip(texts, real, strict=False))
    used = {OURS: await growth_in_redis(it.redis, partial(_store_ours, it, messages))}
    for name, guest in it.guests.items():
        fill = partial(guest.fill, messages, given)
        folder = it.folders.get(name)
        used[name] = await (growth_on_disk(folder, fill) if folder else growth_in_redis(it.redis, fill))
    for how, size in used.items():
        where = "on disk" if how in it.folders else "memory of Redis"
        it.report.add("bytes per message, all in", what=how, where=where, messages=count, bytes=size / count)
    for part, total in (await parts_in_redis(it.redis, it.settings)).items():
        it.report.add("channelmem's bytes by part, as Redis reports them", part=part, bytes=total / count)
    it.report.ratios += [
        Ratio("bytes per message against redisvl", used[OURS] / used[REDISVL], 0.5),
        Ratio("bytes per message against JSON", used[OURS] / used[LITERAL], 0.25),
    ]


async def _store_ours(it: Bench, messages: list[Message]) -> None:
    await it.memory.remember_many(messages)
    assert await it.memory.flush(timeout_s=600)


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
        **{name: guest.ask for name, guest in it.guests.items()},
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
        row = {**each.figures, "cpu ms": cpu[how], AGAINST: at[how] / at[OURS], "found": share}
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
    await it.embedder.begin_question(question.text)
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
        **{name: (PEER_ADDS, guest.add) for name, guest in it.guests.items()},
    }
    if chroma := it.guests.get(CHROMA):
        ways[CHROMA_BATCHES] = (CHROMA_AT_ONCE, partial(chroma.add, at_once=CHROMA_AT_ONCE))
    rates: dict[str, list[float]] = {how: [] for how in ways}
    for _ in range(it.options.rounds):
        for how, (count, add) in ways.items():
            messages = fresh(count)
            rates[how].append(count / await add(messages))
    middle = {how: measure.spread(each).p50 for how, each in rates.items()}
    for how, rate in middle.items():
        row = {"rate": rate, "best": max(rates[how]), FASTER: middle[OURS] / rate}
        it.report.add("messages per second until searchable", what=how, **row)
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
