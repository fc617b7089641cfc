"""`channelmem inspect`: a channel's buffer as a table, and what lies near one of its messages."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from channelmem.cli.show import to_json
from channelmem.durations import format_duration, human_age
from channelmem.errors import ChannelmemError
from channelmem.ops.inspect import Row, open_inspector
from channelmem.settings import load_settings
from channelmem.types import Hit, Source

app = typer.Typer()

IDS = {"guild", "channel", "id"}
FOLDED = {"author", "text", "lives", "messages", "pending"}


@app.command()
def inspect(
    channel: Annotated[int | None, typer.Argument(help="Channel id; without it all channels are listed.")] = None,
    near: Annotated[int | None, typer.Option(help="Message id: show what lies nearest to its vector.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Rows at most.")] = 50,
    archive: Annotated[bool, typer.Option("--archive", help="All that lives, not only the buffer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show a buffer: age, author, text, pending or embedded, time to live. RedisInsight cannot decode the vectors."""
    if near is not None and channel is None:
        raise typer.BadParameter("--near needs a channel.")
    source = Source.ARCHIVE if archive else Source.BUFFER
    rows = asyncio.run(_rows(channel, near, limit, source))
    if near is not None and not rows:
        raise ChannelmemError(f"Message {near} is not stored in channel {channel}, or still waits for its vector.")
    if as_json:
        print(to_json(rows, indent=2))
        return
    if not rows:
        Console().print("Nothing is stored there.")
        return
    Console().print(_table(rows))


def _table(rows: list[dict[str, Any]]) -> Table:
    """Ids are whole at any width, since people copy them; the columns that can be folded take what room is left."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in rows[0]:
        width = max(len(str(row[name])) for row in rows) if name in IDS else None
        table.add_column(name, no_wrap=name not in FOLDED, min_width=width, overflow="fold")
    for row in rows:
        table.add_row(*[escape(str(value)) for value in row.values()])
    return table


async def _rows(channel: int | None, near: int | None, limit: int, source: Source) -> list[dict[str, Any]]:
    async with open_inspector(load_settings()) as inspector:
        if inspector is None:
            return []
        if channel is None:
            listed = await inspector.channels()
            return [
                {"guild": one.guild_id, "channel": one.channel_id, "messages": one.messages, "pending": one.pending}
                for one in listed
            ]
        guild_id = await inspector.guild_of(channel)
        if guild_id is None:
            return []
        if near is not None:
            return [_similar(hit) for hit in await inspector.near(guild_id, channel, near, limit) or ()]
        return [_buffered(row) for row in await inspector.rows(guild_id, channel, limit, source)]


def _buffered(row: Row) -> dict[str, Any]:
    message = row.message
    return {
        "id": message.id,
        "age": human_age(max(0.0, time.time() - message.ts)),
        "author": message.author,
        "text": message.content,
        "state": "embedded" if row.embedded else "pending",
        "lives": format_duration(row.ttl_s),
    }


def _similar(hit: Hit) -> dict[str, Any]:
    return {
        "cosine": round(hit.similarity or 0.0, 3),
        "id": hit.message.id,
        "age": human_age(max(0.0, hit.age_s)),
        "author": hit.message.author,
        "text": hit.message.content,
    }
