"""`channelmem reindex`: new vectors for every message, after a change of the model; the old ones serve until then."""

from __future__ import annotations

import asyncio
from contextlib import closing

import typer
from rich.console import Console
from rich.progress import Progress

from channelmem.cli.show import ModelProgress
from channelmem.embedding.embed import open_embedder
from channelmem.server.lease import check_server, connect_url
from channelmem.settings import Settings, load_settings
from channelmem.store.buckets import connect
from channelmem.store.reindex import reindex as rebuild

app = typer.Typer()


@app.command()
def reindex() -> None:
    """Rebuild the vectors with the model that the settings name. Interrupted, it goes on where it stopped."""
    settings, console = load_settings(), Console()
    with connect_url(settings) as url:
        check_server(url, timeout_s=settings.redis_timeout_s)
        done = asyncio.run(_reindex(url, settings, console))
    console.print(f"{done} messages were embedded anew." if done else "Every vector is of this model already.")


async def _reindex(url: str, settings: Settings, console: Console) -> int:
    redis = connect(url, settings)
    with ModelProgress(console) as exporting:
        embedder = open_embedder(settings, exporting)
    with closing(embedder), Progress(console=console) as bar:
        tasks = {step: bar.add_task(step, total=None, visible=False) for step in ("embed", "clean")}

        def show(step: str, done: int, total: int) -> None:
            bar.update(tasks[step], completed=done, total=total, visible=True)

        try:
            return await rebuild(redis, settings, embedder, progress=show)
        finally:
            await redis.aclose()
