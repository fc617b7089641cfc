"""`channelmem reindex`: what was stored with another model or another shape of the index is brought to the settings.

The old vectors and the old index serve until the new ones are ready.
"""

from __future__ import annotations

import asyncio
from contextlib import closing

import typer
from rich.console import Console
from rich.progress import Progress

from channelmem.cli.show import ModelProgress
from channelmem.embedding.embed import open_embedder
from channelmem.ingest.reindex import Done
from channelmem.ingest.reindex import reindex as rebuild
from channelmem.server.lease import check_server, connect_url
from channelmem.settings import Settings, load_settings
from channelmem.store.connection import connect
from channelmem.store.schema import shape

app = typer.Typer()


@app.command()
def reindex() -> None:
    """Bring what is stored to the settings: vectors of the model that they name, an index of the kind that they name
    (CHANNELMEM_INDEX_ALGORITHM, CHANNELMEM_HNSW_*). The old ones serve meanwhile; interrupted, it goes on where it
    stopped."""
    settings, console = load_settings(), Console()
    with connect_url(settings) as url:
        check_server(url, timeout_s=settings.redis_timeout_s)
        done, built = asyncio.run(_reindex(url, settings, console))
    anew = done.embedded + done.given_up
    console.print(f"{done.embedded} messages were embedded anew." if anew else "Every vector is of this model already.")
    if done.given_up:
        console.print(f"The model failed on {done.given_up} more: they are found by their words and time only.")
    if built and not anew:
        console.print(f"The index was built anew: {shape(settings)}.")


async def _reindex(url: str, settings: Settings, console: Console) -> tuple[Done, bool]:
    """What was done with the vectors, and whether an index was built."""
    redis = connect(url, settings)
    with ModelProgress(console) as exporting:
        embedder = open_embedder(settings, exporting)
    with closing(embedder), Progress(console=console) as bar:
        tasks = {step: bar.add_task(step, total=None, visible=False) for step in ("build", "embed", "clean")}

        def show(step: str, done: int, total: int) -> None:
            bar.update(tasks[step], completed=done, total=total, visible=True)

        try:
            done = await rebuild(redis, settings, embedder, progress=show)
            return done, bar.tasks[tasks["build"]].visible
        finally:
            await redis.aclose()
