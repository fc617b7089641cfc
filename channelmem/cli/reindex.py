"""`channelmem reindex`: rebuilds vectors and index for changed settings; the old ones serve until then."""

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
from channelmem.store.index import shape
from channelmem.store.redis import connect

app = typer.Typer()


@app.command()
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
    with connect_url(settings) as url:
        check_server(url, timeout_s=settings.redis_timeout_s)
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
        tasks = {step: bar.add_task(step, total=None, visible=False) for step in ("build", "embed", "clean")}

        def show(step: str, done: int, total: int) -> None:
            bar.update(tasks[step], completed=done, total=total, visible=True)

        try:
            done = await rebuild(redis, settings, embedder, progress=show)
            return done, bar.tasks[tasks["build"]].visible
        finally:
            await redis.aclose()
