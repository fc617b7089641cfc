"""`channelmem rebucket`: spreads what is stored over another number of buckets; nobody else may use it meanwhile."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from channelmem.errors import ConfigError
from channelmem.server.lease import check_server, connect_url
from channelmem.settings import Settings, load_settings
from channelmem.store.rebucket import NAME, Rebucket, others_there
from channelmem.store.redis import connect

app = typer.Typer()
MOST = 4096


@app.command()
def rebucket(
    buckets: Annotated[int, typer.Argument(min=1, max=MOST, help="How many buckets to have.")],
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
    with connect_url(settings) as url:
        check_server(url, timeout_s=settings.redis_timeout_s)
        moved = asyncio.run(_rebucket(url, settings, buckets, console, force=force))
    console.print(f"Moved {moved} messages; the memory now has {buckets} bucket(s).")
    if buckets != settings.buckets:
        console.print(f"Set CHANNELMEM_BUCKETS={buckets} before you start anything.")


async def _rebucket(url: str, settings: Settings, buckets: int, console: Console, *, force: bool) -> int:
    redis = connect(url, settings, NAME)
    try:
        if not force:
            _refuse_company(await others_there(redis), console)
        with Progress(console=console) as bar:
            tasks = {step: bar.add_task(step, total=None, visible=False) for step in ("move", "build")}

            def show(step: str, done: int, total: int) -> None:
                bar.update(tasks[step], completed=done, total=total, visible=True)

            return await Rebucket(redis, settings, buckets, show).run()
    finally:
        await redis.aclose()


def _refuse_company(there: bool | None, console: Console) -> None:
    if there:
        raise ConfigError("Other processes use this memory; stop all bots and workers, or add --force.")
    if there is None:
        console.print("This user may not run CLIENT LIST, so make sure yourself that no bot or worker is running.")
