"""The streams where messages wait for their vectors, as one worker reads them. A single Redis is asked for all streams
at once and answers when something comes. A cluster's lie in different slots, so every node is asked a few times a
second which of its streams hold anything, and only these are read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channelmem.embedding.embed import FAILURES, Embedder
from channelmem.errors import CommandRefusedError
from channelmem.store.buckets import VERSION, Buckets
from channelmem.store.cluster import Cluster
from channelmem.store.keys import GROUP
from channelmem.store.redis import command, pipelined

BLOCK_S = 0.25
LOOK_S = 0.1  # between two looks at the streams of a cluster. What this process itself stores is read at once.
HANDED_OVER_MS = 3_600_000
DISMISS_S = 3600.0
"""A consumer that holds nothing and has been idle for this long is dead: a live one reads several times a second. On a
cluster it may just have nothing to read, but then nothing is lost: its next read takes it into the group again."""

PAGE = 200
NO_MORE = b"0"

EntryId = tuple[int, str]  # bucket and id: streams may give the same id
Pages = dict[int, list[Any]]  # rows of stream entries by bucket

log = logging.getLogger(__name__)

PLAIN_TEXT = "good morning"  # a model that fails on this as well is broken, and no text is to blame


@dataclass(frozen=True, slots=True)
class Entry:
    """A stream entry: a message in one revision, with its text once loaded; None if nothing is left to embed."""

    bucket: int
    id: str
    name: str
    revision: str
    text: str | None = None

    @property
    def key(self) -> EntryId:
        return self.bucket, self.id


class Streams:
    def __init__(self, buckets: Buckets, name: str) -> None:
        self._buckets, self._name = buckets, name
        self._is_spread = isinstance(buckets.redis, Cluster)
        self._read_from: set[int] = set()
        self._next_look_s = 0.0
        # Well below the client's own limit on a read, or an idle stream would look like a dead Redis. A read is never
        # abandoned: Redis may be answering it, and would assign those entries to a worker that is gone.
        self._block_ms = max(1, int(min(BLOCK_S, buckets.settings.redis_timeout_s / 2) * 1000))

    async def open(self, *, heal: bool) -> set[int]:
        """Creates what no process has used yet, or recreates a lost group or index (FLUSHALL, dropped by hand). Returns
        the buckets to look after. On a cluster, a bucket without a message is left alone."""
        buckets = await self._buckets.used() if self._is_spread else list(self._buckets.all)
        for bucket in buckets if heal or not self._is_spread else ():
            await (self._buckets.heal(bucket) if heal else self._buckets.ready(bucket))
        return set(buckets)

    async def fresh(self, most: int) -> list[Entry]:
        """One batch over all streams: first an equal share of each, then more of those that filled their share."""
        streams = await self._worth_reading()
        if not streams:
            await self._pause()
            return []
        count = max(1, most // len(streams))
        pages = await self._read(dict.fromkeys(streams[:most], ">"), count, wait=True)
        entries = _all_entries(pages)
        while (left := most - len(entries)) > 0 and pages:
            streams = [bucket for bucket, rows in pages.items() if len(rows) == count][:left]
            count = max(1, left // max(1, len(streams)))
            pages = await self._read(dict.fromkeys(streams, ">"), count) if streams else {}
            entries += _all_entries(pages)
        if len(entries) >= most:
            self._buckets.fed.update(entry.bucket for entry in entries)  # there may be more
        return entries

    async def delivered(self, held: set[EntryId], most: int) -> list[Entry]:
        """Entries that Redis counts as this worker's although it does not hold them; those that it does come first."""
        starts = dict.fromkeys(await self._busy(), "0")
        while starts and (pages := await self._read(starts, most)):
            if lost := [entry for entry in _all_entries(pages) if entry.key not in held]:
                return lost
            starts = {bucket: rows[-1][0].decode() for bucket, rows in pages.items()}
        return []

    async def claim(self, held: set[EntryId], most: int, idle_ms: int) -> list[Entry]:
        """Entries that other workers took and did not finish."""
        claimed: list[Entry] = []
        for bucket in await self._busy():
            left = ("COUNT", most - len(claimed))
            claiming = ("XAUTOCLAIM", self._key(bucket), GROUP, self._name, idle_ms, "0", *left)
            reply = await command(self._buckets.redis, *claiming)
            self._read_from.add(bucket)
            claimed += [entry for entry in _entries(bucket, reply[1]) if entry.key not in held]
            if len(claimed) >= most:
                break
        return claimed

    async def dismiss(self) -> None:
        """Removes dead workers from the group: they could not leave it themselves."""
        for bucket in await self._buckets.where("EXISTS", "ingest", partly=True):
            await self._buckets.run("dismiss", bucket, [int(DISMISS_S * 1000)])

    async def leave(self) -> None:
        """Lets others claim unfinished entries at once; leaves the group where there are none."""
        for bucket in sorted(self._read_from):
            stream = self._key(bucket)
            pending = await self._buckets.redis.xpending_range(stream, GROUP, "-", "+", 1000, self._name)
            ids: list[Any] = [row["message_id"] for row in pending]
            if ids:
                await self._buckets.redis.xclaim(stream, GROUP, self._name, 0, ids, idle=HANDED_OVER_MS, justid=True)
            else:
                await self._buckets.redis.xgroup_delconsumer(stream, GROUP, self._name)

    async def _worth_reading(self) -> list[int]:
        """What this process has fed, and now and then every stream that holds something."""
        fed, now = sorted(self._buckets.fed), asyncio.get_running_loop().time()
        self._buckets.fed.clear()
        self._buckets.feeding.clear()
        if fed and self._is_spread and now < self._next_look_s:
            return fed
        self._next_look_s = now + LOOK_S
        return await self._busy()

    async def _busy(self) -> list[int]:
        """Streams that hold something, as far as their nodes answer; of a single Redis, all."""
        if not self._is_spread:
            return list(self._buckets.all)
        return await self._buckets.where("XLEN", "ingest", partly=True)

    async def _read(self, starts: dict[int, str], count: int, *, wait: bool = False) -> Pages:
        """Per bucket up to `count` rows after its start; leaves out buckets without any."""
        self._read_from.update(starts)
        reading = ("XREADGROUP", "GROUP", GROUP, self._name, "COUNT", count)
        if not self._is_spread:
            block = ("BLOCK", self._block_ms) if wait else ()
            streams = {self._key(bucket): bucket for bucket in starts}
            reply = await command(self._buckets.redis, *reading, *block, "STREAMS", *streams, *starts.values())
            return {streams[stream.decode()]: rows for stream, rows in reply or () if rows}
        asked = [(*reading, "STREAMS", self._key(bucket), start) for bucket, start in starts.items()]
        replies = await pipelined(self._buckets.redis, asked)
        pages: Pages = {bucket: reply[0][1] for bucket, reply in zip(starts, replies, strict=True) if reply}
        pages = {bucket: rows for bucket, rows in pages.items() if rows}
        if wait and not pages:  # other workers hold everything that is there
            await self._pause()
        return pages

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._buckets.feeding.wait(), LOOK_S)

    def _key(self, bucket: int) -> str:
        return self._buckets.keys(bucket).one("ingest")


def _all_entries(pages: Pages) -> list[Entry]:
    return [entry for bucket, rows in pages.items() for entry in _entries(bucket, rows)]


def _entries(bucket: int, rows: Iterable[tuple[bytes | None, dict[bytes, bytes] | None]]) -> list[Entry]:
    # A row without fields is an entry that was deleted while a worker held it.
    return [Entry(bucket, name.decode(), at[b"m"].decode(), at[b"r"].decode()) for name, at in rows if name and at]


async def embed_alone(embedder: Embedder, name: str, text: str) -> NDArray[np.float32] | None:
    """Raises the model's own error if it fails on every text."""
    try:
        (vector,) = await embedder.embed_messages([text])
    except FAILURES as error:
        await embedder.embed_messages([PLAIN_TEXT])
        cause = type(error.__cause__ or error).__name__  # its own text may quote the message
        log.error("The model fails on message %s (%s); it stays searchable by text and time only", name, cause)  # noqa: TRY400
        return None
    return vector  # type: ignore[no-any-return]


async def repair(buckets: Buckets, bucket: int) -> bool:
    """Puts messages without a vector back on the stream. No worker would hear of them after the stream was lost; a
    recreated index needs no help, because it reads the existing documents by itself, vectors included.

    Returns False if it must be tried again: the index still reads documents or was lost meanwhile, or the stream has
    entries to embed first."""
    await buckets.ready(bucket)
    if not await buckets.indexed(bucket):
        return False
    cursor: bytes | None = b""
    while cursor not in (None, NO_MORE):
        try:
            cursor = await buckets.run("requeue", bucket, [VERSION, PAGE, cursor])
        except CommandRefusedError as error:
            if "cursor" not in str(error).lower():
                raise
            return False
    return cursor == NO_MORE
