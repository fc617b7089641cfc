"""`channelmem worker`, `reindex` and `rebucket`: embed and summarise what is stored, or rebuild it.

The worker is a process in addition to the bot or instead of it. It waits for Redis to come back after an outage, and
exits with status 1 if the model breaks or the index was rebuilt for another model, so a supervisor can rely on it.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, TaskID

from channelmem.cli.show import ModelProgress
from channelmem.embedding.embed import Embedder, open_embedder
from channelmem.errors import ConfigError
from channelmem.ingest.reindex import Done
from channelmem.ingest.reindex import reindex as rebuild
from channelmem.ingest.worker import Worker
from channelmem.llm.opening import summariser_of
from channelmem.memory import Memory
from channelmem.server.lease import check_server, connect_url
from channelmem.settings import Settings, load_settings
from channelmem.store.index import shape
from channelmem.store.rebucket import NAME, Rebucket, others_there
from channelmem.store.redis import connect
from channelmem.store.store import Store
from channelmem.tasks import beside


def worker(
    until_done: Annotated[
        bool, typer.Option("--until-done", help="Exit once no message is waiting and no summary is due.")
    ] = False,
) -> None:
    """Embed waiting messages and update summaries until SIGTERM or Ctrl-C.

    Run as many workers as you like; they share the work.
    With CHANNELMEM_EMBED_IN_PROCESS=false the bot leaves it all to them.

    \b
    Examples:
      channelmem worker
      channelmem worker --until-done
    """
    settings, console = load_settings(), Console(stderr=True)
    with _server(settings) as url:
        with ModelProgress(console) as progress:
            embedder = open_embedder(settings, progress)
        with closing(embedder):
            asyncio.run(_open(url, settings, embedder, console, until_done=until_done))


async def _open(url: str, settings: Settings, embedder: Embedder, console: Console, *, until_done: bool) -> None:
    redis = connect(url, settings)
    try:
        store = await Store.open(redis, settings, dims=embedder.dims, identity=embedder.identity, clock=time.time)
        async with summariser_of(settings) as summariser:
            if summariser is not None:
                summariser.attach(store.spending)
            memory = Memory(store, embedder, summariser=summariser)
            await store.levels.load()
            async with beside(store.levels.follow()), beside(memory.summaries.worker.run()):
                await _work(store, Worker(store, embedder), console, until_done=until_done)
            if until_done:
                await memory.summaries.worker.finish()
        await store.close()
    finally:
        await redis.aclose()


async def _work(store: Store, worker: Worker, console: Console, *, until_done: bool) -> None:
    def stop() -> None:
        console.print("Stopping: finishing the current batch and handing over the rest.")
        worker.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    console.print(f"Embedding; {await store.pending()} messages waiting. Press Ctrl-C to stop.")
    working = asyncio.create_task(worker.run())
    try:
        if until_done:
            while not working.done() and not await store.flush(timeout_s=1.0):
                pass
        else:
            await asyncio.wait([working])
    finally:
        worker.stop()
        await working


@contextmanager
def _server(settings: Settings) -> Iterator[str]:
    with connect_url(settings) as url:
        check_server(url, timeout_s=settings.redis_timeout_s)
        yield url


def _showing(bar: Progress) -> Callable[[str, int, int], None]:
    """Shows how far a step is, from its beginning on."""
    steps: dict[str, TaskID] = {}

    def show(step: str, done: int, total: int) -> None:
        if step not in steps:
            steps[step] = bar.add_task(step)
        bar.update(steps[step], completed=done, total=total)

    return show


def reindex() -> None:
    """Re-embed stored messages and rebuild the index to match the current settings.

    Run it after changing CHANNELMEM_EMBEDDING_* (model or precision),
    CHANNELMEM_INDEX_ALGORITHM or CHANNELMEM_HNSW_*. The old index answers
    questions meanwhile, and an interrupted run resumes where it stopped.

    \b
    Examples:
      channelmem reindex
      CHANNELMEM_INDEX_ALGORITHM=flat channelmem reindex
    """
    settings, console = load_settings(), Console()
    with _server(settings) as url:
        done, built = asyncio.run(_reindex(url, settings, console))
    attempted = done.embedded + done.given_up
    console.print(f"Re-embedded {done.embedded} messages." if attempted else "All vectors already match this model.")
    if done.given_up:
        console.print(f"The model failed on {done.given_up} more; they stay searchable by text and time only.")
    if built and not attempted:
        by_size = settings.index_algorithm == "auto"
        kind = "; its type depends on how many messages it holds" if by_size else f": {shape(settings)}"
        console.print(f"Rebuilt the index{kind}.")


async def _reindex(url: str, settings: Settings, console: Console) -> tuple[Done, bool]:
    """Returns what happened to the vectors, and whether an index was built."""
    redis = connect(url, settings)
    with ModelProgress(console) as exporting:
        embedder = open_embedder(settings, exporting)
    with closing(embedder), Progress(console=console) as bar:
        try:
            done = await rebuild(redis, settings, embedder, progress=_showing(bar))
            return done, any(task.description == "build" for task in bar.tasks)
        finally:
            await redis.aclose()


def rebucket(
    buckets: Annotated[int, typer.Argument(min=1, max=4096, help="How many buckets to have.")],
    force: Annotated[bool, typer.Option("--force", help="Don't check whether other processes are connected.")] = False,
) -> None:
    """Spread the stored memory over another number of buckets.

    Stop all bots, workers and services first. An interrupted run resumes when
    you repeat it; until it has finished, nothing else can open the memory.
    Then set CHANNELMEM_BUCKETS to the same number.

    \b
    Examples:
      channelmem rebucket 1024
      channelmem rebucket 1
    """
    settings, console = load_settings(), Console()
    with _server(settings) as url:
        moved = asyncio.run(_rebucket(url, settings, buckets, console, force=force))
    console.print(f"Moved {moved} messages; the memory now has {buckets} bucket(s).")
    if buckets != settings.buckets:
        console.print(f"Set CHANNELMEM_BUCKETS={buckets} before you start anything.")


async def _rebucket(url: str, settings: Settings, buckets: int, console: Console, *, force: bool) -> int:
    redis = connect(url, settings, NAME)
    try:
        there = False if force else await others_there(redis)
        if there:
            raise ConfigError("Other processes use this memory; stop all bots and workers, or add --force.")
        if there is None:
            console.print("This user may not run CLIENT LIST, so make sure yourself that no bot or worker is running.")
        with Progress(console=console) as bar:
            return await Rebucket(redis, settings, buckets, _showing(bar)).run()
    finally:
        await redis.aclose()
