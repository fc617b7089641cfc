"""`channelmem worker`: embeds and summarises in a separate process, in addition to the bot or instead of it.

It waits for Redis to come back after an outage, and exits with status 1 if the model breaks or the index was rebuilt
for another model, so a supervisor can rely on it.
"""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import closing
from typing import Annotated

import typer
from rich.console import Console

from channelmem.cli.show import ModelProgress
from channelmem.embedding.embed import Embedder, open_embedder
from channelmem.ingest.worker import Worker
from channelmem.llm.opening import summariser_of
from channelmem.memory import Memory
from channelmem.server.lease import check_server, connect_url
from channelmem.settings import Settings, load_settings
from channelmem.store.redis import connect
from channelmem.store.store import Store
from channelmem.tasks import beside

app = typer.Typer()


@app.command()
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
    with connect_url(settings) as url:
        check_server(url, timeout_s=settings.redis_timeout_s)
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
            await _until_done(store, working)
        else:
            await asyncio.wait([working])
    finally:
        worker.stop()
        await working


async def _until_done(store: Store, working: asyncio.Task[None]) -> None:
    while not working.done() and not await store.flush(timeout_s=1.0):
        pass
