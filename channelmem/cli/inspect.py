"""`channelmem inspect`: shows what Redis holds, for people who debug a memory."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from channelmem.cli.show import to_json
from channelmem.display import visible
from channelmem.durations import format_duration, human_age
from channelmem.errors import ChannelmemError
from channelmem.ops import open_buckets
from channelmem.settings import load_settings
from channelmem.store.buckets import Buckets
from channelmem.store.keys import guild_and_channel
from channelmem.store.search import Contents, Query, Search
from channelmem.telling.references import told
from channelmem.types import Hit, Source, Stored

IDS = {"guild", "channel", "id"}
FOLDED = {"author", "text", "lives", "messages", "pending"}


def inspect(
    channel: Annotated[int | None, typer.Argument(help="Channel id. Omit it to list all channels.")] = None,
    near: Annotated[int | None, typer.Option(help="Message id: list the messages nearest to it by vector.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of rows.")] = 50,
    archive: Annotated[bool, typer.Option("--archive", help="Include archived messages, not only the buffer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what Redis stores: channels, a channel's messages with age, state and time to live, or near neighbours.

    \b
    Examples:
      channelmem inspect
      channelmem inspect 922222222222222222 --archive
      channelmem inspect 922222222222222222 --near 1428000000000000001
    """
    if near is not None and channel is None:
        raise typer.BadParameter("--near needs a channel; put its id before --near.")
    source = Source.ARCHIVE if archive else Source.BUFFER
    rows = asyncio.run(_rows(channel, near, limit, source))
    if near is not None and not rows:
        raise ChannelmemError(
            f"Message {near} is not stored in channel {channel} or has no vector yet; "
            f"`channelmem inspect {channel} --archive` lists the ids."
        )
    if as_json:
        print(to_json(rows, indent=2))
        return
    if not rows:
        some = f"Nothing is stored in channel {channel}; run `channelmem inspect` to list all channels."
        Console().print("Nothing is stored yet." if channel is None else some, highlight=False, soft_wrap=True)
        return
    Console().print(_table(rows))


def _table(rows: list[dict[str, Any]]) -> Table:
    """Ids are never wrapped, since people copy them; foldable columns share the remaining width."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in rows[0]:
        width = max(len(str(row[name])) for row in rows) if name in IDS else None
        table.add_column(name, no_wrap=name not in FOLDED, min_width=width, overflow="fold")
    for row in rows:
        table.add_row(*[escape(visible(str(value))) for value in row.values()])
    return table


async def _rows(channel: int | None, near: int | None, limit: int, source: Source) -> list[dict[str, Any]]:
    async with open_buckets(load_settings()) as buckets:
        if buckets is None:
            return []
        listed = await _channels(buckets)
        if channel is None:
            return listed
        guild = next((one["guild"] for one in listed if one["channel"] == channel), None)
        if guild is None:
            return []
        if near is not None:
            return [_similar(hit) for hit in await _near(buckets, guild, channel, near, limit)]
        query = Query(guild, (channel,), limit=limit, flagged=True, source=source)
        newest = await Search(buckets).newest(query)
        return [_buffered(row) for row in await Contents(buckets).states(newest)]


async def _channels(buckets: Buckets) -> list[dict[str, Any]]:
    found = []
    for bucket in await buckets.used():
        keys = buckets.keys(bucket)
        guilds: Any = await buckets.redis.smembers(keys.one("guilds"))
        for guild in sorted(map(int, guilds)):
            rooms: Any = await buckets.redis.smembers(keys.of("guild", guild))
            for name in sorted(rooms):
                messages = await buckets.redis.zcard(keys.of("chan", name.decode()))
                pending = await buckets.redis.scard(keys.of("wait", name.decode()))
                guild_id, channel = guild_and_channel(name)
                found.append({"guild": guild_id, "channel": channel, "messages": messages, "pending": pending})
    return found


async def _near(buckets: Buckets, guild: int, channel: int, message: int, limit: int) -> tuple[Hit, ...]:
    """The channel's nearest messages, the message itself first; none if it has no vector yet."""
    bucket = await buckets.ready(buckets.bucket(guild))
    blob: Any = await buckets.redis.hget(bucket.keys.message(guild, channel, message), bucket.vector_field)
    if blob is None:
        return ()
    vector = np.frombuffer(blob, dtype=np.float16).astype(np.float32)
    query = Query(guild, (channel,), vector=vector, limit=limit, flagged=True, source=Source.ARCHIVE)
    return tuple((await Search(buckets).nearest(query)).hits[:limit])


def _buffered(row: Stored) -> dict[str, Any]:
    message = row.message
    return {
        "id": message.id,
        "age": human_age(max(0.0, time.time() - message.ts)),
        "author": message.author,
        "text": told(message) if message.attachments else message.content,
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
