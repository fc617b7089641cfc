"""`channelmem summaries show|rebuild|export`: a channel's past from the command line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from channelmem.cli.show import ModelProgress, to_json
from channelmem.context_window import ReachError, status_of
from channelmem.display import counted, visible
from channelmem.errors import ConfigError
from channelmem.export import Export, back_from, between
from channelmem.export import export as exported
from channelmem.ids import LARGEST_ID
from channelmem.llm.opening import summariser_of
from channelmem.memory import Memory
from channelmem.settings import load_settings
from channelmem.summaries.pyramid import Summary
from channelmem.types import Question

HELP = """A channel's past in few words: show it, rebuild its summaries, or export it.

\b
Examples:
  channelmem summaries show --guild 811111111111111111 --channel 922222222222222222 --span 24h
  channelmem summaries rebuild --guild 811111111111111111 --channel 922222222222222222
  channelmem summaries export --guild 811111111111111111 --channel 922222222222222222 --from "3 days" --out past.md
"""
app = typer.Typer(no_args_is_help=True, help=HELP)

Guild = Annotated[int, typer.Option(min=1, max=LARGEST_ID, help="Server id.")]
Channel = Annotated[int, typer.Option(min=1, max=LARGEST_ID, help="Channel id.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: ids are strings, times are epoch seconds.")]
NOTHING = "There is nothing from that time."


@app.command()
def show(
    guild: Guild,
    channel: Channel,
    span: Annotated[str, typer.Option(help="How far back: 24h, 2 days, yesterday ...")] = "7 days",
    as_json: AsJson = False,
) -> None:
    """Show what was said in a span, and what a language model would be given of the channel."""
    asyncio.run(_show(_now(guild, channel), span, as_json=as_json))


@app.command()
def rebuild(
    guild: Guild,
    channel: Channel,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Rebuild a channel's summaries. Those whose messages are no longer stored stay as they are."""
    if not yes:
        typer.confirm("Rebuild this channel's summaries?", abort=True)
    asyncio.run(_rebuild(guild, channel))


@app.command()
def export(
    guild: Guild,
    channel: Channel,
    first: Annotated[str, typer.Option("--from", help="Where to begin; a week before the end by default.")] = "",
    last: Annotated[str, typer.Option("--to", help="Where to end; now by default.")] = "",
    out: Annotated[Path | None, typer.Option(help="File to write; standard output by default.")] = None,
) -> None:
    """Write a channel's past as Markdown: summaries and messages, in order of time."""
    made = asyncio.run(_export(_now(guild, channel), first, last))
    if out is None:
        print("\n".join(map(visible, made.lines)))
    else:
        out.write_text("\n".join((*made.lines, "")), "utf-8")
        print(f"Wrote {out}.")


def _now(guild_id: int, channel_id: int) -> Question:
    """Somebody who asks right now; the operator is nobody in the channel."""
    return Question(guild_id, channel_id, 0, 0, "operator", "", time.time())


@asynccontextmanager
async def _opened() -> AsyncIterator[Memory]:
    # Nothing in the background: this process ends in a moment.
    settings = load_settings().model_copy(update={"embed_in_process": False})
    with ModelProgress(Console(stderr=True)) as progress:
        async with (
            summariser_of(settings) as summariser,
            Memory.open(settings, summariser=summariser, progress=progress) as memory,
        ):
            if summariser is not None:
                summariser.attach(memory.spending)
            yield memory


async def _show(question: Question, span: str, *, as_json: bool) -> None:
    async with _opened() as memory:
        policy = memory.policies.of_question(question)
        try:
            window = back_from(question.ts, span, policy.tz.key)
        except ReachError as refused:
            raise ConfigError(str(refused)) from refused
        if as_json:
            found = await memory.summaries.of(question.guild_id, question.channel_id, window)
            print(to_json([_row(one) for one in found], indent=2))
            return
        told = await memory.recaps.of_span(question, window, policy, limit=10_000)
        print(visible(told.text) if told else NOTHING)
        print(visible(await status_of(memory, question)))


async def _rebuild(guild_id: int, channel_id: int) -> None:
    async with _opened() as memory:
        made = await memory.summaries.rebuild(guild_id, channel_id)
    print(f"Rebuilt {counted(made, 'summary', 'summaries')}.")


async def _export(question: Question, first: str, last: str) -> Export:
    async with _opened() as memory:
        try:
            window = between(question.ts, first, last, memory.policies.of_question(question).tz.key)
        except ReachError as refused:
            raise ConfigError(str(refused)) from refused
        title = f"Channel {question.channel_id} of server {question.guild_id}"
        return await exported(memory, question.guild_id, question.channel_id, window, title)


def _row(summary: Summary) -> dict[str, Any]:
    return {
        "id": summary.id,
        "level": summary.level,
        "start": summary.start,
        "end": summary.end,
        "messages": summary.message_count,
        "topics": summary.topics,
        "authors": [{"id": str(one.id), "name": one.name} for one in summary.authors],
        "model": summary.model,
        "created": summary.created,
        "text": summary.text,
        "parts": summary.parts,
        "shared": asdict(summary.shared),
    }
