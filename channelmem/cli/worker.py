"""`channelmem worker`: embeds messages in a process of its own, beside the bot's or instead of it."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Annotated

import typer
from rich.console import Console

from channelmem.cli.show import ModelProgress
from channelmem.memory import Memory
from channelmem.settings import Settings, load_settings

app = typer.Typer()


@app.command()
def worker(
    until_done: Annotated[bool, typer.Option("--until-done", help="End when nothing waits any more.")] = False,
) -> None:
    """Embed messages that wait for their vector, until SIGTERM or Ctrl-C.

    Any number of workers share the work. Set CHANNELMEM_EMBED_IN_PROCESS=false for the bot to leave it all to them.
    """
    settings = load_settings().model_copy(update={"embed_in_process": True})
    asyncio.run(_work(settings, until_done=until_done))


async def _work(settings: Settings, *, until_done: bool) -> None:
    console = Console(stderr=True)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with ModelProgress(console) as progress:
        opening = Memory.open(settings, progress=progress)
        memory = await opening.__aenter__()
    try:
        console.print(f"Embedding; {await memory.pending()} messages wait. Ctrl-C ends it.")
        await (_until_done(memory, stop) if until_done else stop.wait())
        console.print("Finishing what was begun; the rest is handed over.")
    finally:
        await opening.__aexit__(*sys.exc_info())


async def _until_done(memory: Memory, stop: asyncio.Event) -> None:
    while not stop.is_set() and not await memory.flush(timeout_s=1.0):
        pass
