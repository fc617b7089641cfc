"""Worker: gives stored messages their vectors. In: the ingest streams. Out: vectors on the documents.

Three steps run concurrently on different batches: read and load texts, embed, commit. An entry is acknowledged and
deleted with its vector, so whatever is on a stream still waits; other workers claim what a dead worker had taken. A
text that the model fails on is given up alone: it stays searchable by text and time only. Any number of workers share
the work, in the bot's process or as `channelmem worker`: start `worker.run()` as a task, end it with `worker.stop()`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from redis.exceptions import ResponseError

from channelmem.embedding.embed import FAILURES, Embedder
from channelmem.errors import RedisUnavailableError
from channelmem.ingest.embed_one import embed_alone
from channelmem.store.buckets import VERSION, index_lost
from channelmem.store.cancellation import cancel_all
from channelmem.store.connection import UNREACHABLE, command
from channelmem.store.heal import repair
from channelmem.store.keys import GROUP
from channelmem.store.store import GIVEN_UP, Store

log = logging.getLogger(__name__)

BATCH = 256
"""Entries per batch at most: a lone message does not wait for others, and a backlog has enough texts of equal length to
group (the model needs 5 % less time than with 64)."""
EMBEDDING = 2
"""Batches in the model at a time, so that none of its lanes idles during the last run of a batch."""
CLAIM_IDLE_S = 20.0
"""A worker holds three batches at most; even a slow machine has embedded them by then."""
BLOCK_S = 0.25
FIRST_RETRY_S = 0.05
LAST_RETRY_S = 5.0
HANDED_OVER_MS = 3_600_000
DISMISS_S = 3600.0
"""A consumer that holds nothing and has been idle for this long is dead: a live one reads several times a second."""
DISMISS_EVERY_S = 600.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """A stream entry: a message in one revision, with its text once loaded; None if nothing is left to embed."""

    bucket: int
    id: str
    name: str
    revision: str
    text: str | None = None


@dataclass(slots=True)
class WorkerCounts:
    """What a worker has done so far."""

    embedded: int = 0
    claimed: int = 0
    errors: int = 0
    given_up: int = 0
    """Texts that the model failed on."""


Embedded = list[tuple[Entry, bytes]]


class Worker:
    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        name: str | None = None,
        batch: int = BATCH,
        claim_idle_s: float = CLAIM_IDLE_S,
    ) -> None:
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self.progress = WorkerCounts()
        self._store = store
        self._buckets = store.buckets
        self._embedder = embedder
        self._batch = batch
        self._claim_idle_ms = int(claim_idle_s * 1000)
        self._stopping = asyncio.Event()
        self._loaded: asyncio.Queue[list[Entry] | None] = asyncio.Queue(1)
        self._embedded: asyncio.Queue[Embedded | None] = asyncio.Queue(2)
        self._held: set[str] = set()
        """Entries between read and commit."""
        self._lost_some = True
        """Whether Redis may count entries as ours that we do not hold: at the start, and after an error."""
        self._opened = False
        self._lost_group = False
        self._unchecked = set(self._buckets.all)
        """Buckets that may have messages without a vector that are not on the stream."""
        self._next_claim_s = self._next_dismissal_s = 0.0
        # Well below the client's own limit on a read, or an idle stream would look like a dead Redis. A read is never
        # abandoned: Redis may be answering it, and would assign those entries to a worker that is gone.
        self._block_ms = max(1, int(min(BLOCK_S, self._buckets.settings.redis_timeout_s / 2) * 1000))

    async def run(self) -> None:
        """Works until `stop` and survives outages of Redis. A cancelled or killed worker loses nothing."""
        steps = [asyncio.create_task(step()) for step in (self._read, self._embed, self._commit)]
        try:
            done, _ = await asyncio.wait(steps, return_when=asyncio.FIRST_EXCEPTION)
            for step in done:
                step.result()
        finally:
            self._stopping.set()
            await cancel_all(steps)
        await self._attempt(self._hand_over)

    def stop(self) -> None:
        """Takes nothing new; `run` returns once everything embedded is committed and the rest handed over."""
        self._stopping.set()

    # --- the three steps ---

    async def _read(self) -> None:
        retry_s = FIRST_RETRY_S
        while not self._stopping.is_set():
            entries = await self._attempt(self._next_entries)
            if entries is None:
                await self._pause(retry_s)
                retry_s = min(LAST_RETRY_S, retry_s * 2)
                continue
            retry_s = FIRST_RETRY_S
            self._held |= {entry.id for entry in entries}
            await self._loaded.put(entries)
            # Reading the next batch late lets more texts gather, and leaves them to other workers meanwhile.
            await self._loaded.join()
        await self._loaded.put(None)

    async def _pause(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), pause_s)

    async def _embed(self) -> None:
        lanes = [asyncio.create_task(self._embed_batches()) for _ in range(EMBEDDING)]
        try:
            await asyncio.gather(*lanes)
        finally:
            await cancel_all(lanes)  # if one fails, the other would wait for ever
        await self._embedded.put(None)

    async def _embed_batches(self) -> None:
        while (entries := await self._loaded.get()) is not None:
            self._loaded.task_done()
            if not self._stopping.is_set():  # otherwise it is handed over
                await self._embed_batch(entries)
        await self._loaded.put(None)  # for the others

    async def _embed_batch(self, entries: list[Entry]) -> None:
        if done := [(entry, b"") for entry in entries if entry.text is None]:
            await self._embedded.put(done)
        left = dict(enumerate(entry for entry in entries if entry.text is not None))
        try:
            await self._embed_together(left)
        except FAILURES:
            await self._embed_alone(list(left.values()))

    async def _embed_together(self, left: dict[int, Entry]) -> None:
        """Removes entries from `left` as the model finishes them."""
        async with aclosing(self._embedder.embed_as_ready([entry.text or "" for entry in left.values()])) as groups:
            async for places, vectors in groups:
                done = zip(places, _blobs(vectors), strict=True)
                await self._embedded.put([(left.pop(place), blob) for place, blob in done])
                if self._stopping.is_set():
                    return  # the rest is handed over

    async def _embed_alone(self, entries: Iterable[Entry]) -> None:
        """After an error: one text is at fault, and the others must not suffer for it."""
        for entry in entries:
            if self._stopping.is_set():
                return
            vector = await embed_alone(self._embedder, entry.name, entry.text or "")
            self.progress.given_up += vector is None
            blob = GIVEN_UP if vector is None else vector.astype(np.float16).tobytes()
            await self._embedded.put([(entry, blob)])

    async def _commit(self) -> None:
        retry_s = FIRST_RETRY_S
        while (embedded := await self._embedded.get()) is not None:
            written = await self._attempt(lambda done=embedded: self._write(done))  # type: ignore[misc]
            self.progress.embedded += written or 0
            self._held -= {entry.id for entry, _ in embedded}
            if written is not None:
                retry_s = FIRST_RETRY_S
                continue
            # Even a full Redis lets the batch be read and embedded again; without a pause the model would do only that.
            await self._pause(retry_s)
            retry_s = min(LAST_RETRY_S, retry_s * 2)

    async def _write(self, embedded: Embedded) -> int:
        written = 0
        for bucket in {entry.bucket for entry, _ in embedded}:
            rows = [(one.id, one.name, one.revision, blob) for one, blob in embedded if one.bucket == bucket]
            written += await self._store.commit_rows(bucket, rows)
        return written

    # --- the stream ---

    async def _next_entries(self) -> list[Entry]:
        """A batch with its texts; empty if nothing came for a while."""
        if self._lost_group or not self._opened:
            await self._open_streams()
        entries = await self._recovered() or await self._claimed() or await self._fresh()
        if not entries and not self._held:
            await self._check_buckets()
        loaded: list[Entry] = []
        for bucket in {entry.bucket for entry in entries}:
            loaded += await self._load(bucket, [entry for entry in entries if entry.bucket == bucket])
        return loaded

    async def _fresh(self) -> list[Entry]:
        """One batch over all streams: first an equal share of each, then more of those that filled their share."""
        streams, count = list(self._buckets.all), max(1, self._batch // len(self._buckets.all))
        pages = await self._read_group(dict.fromkeys(streams, ">"), count, "BLOCK", self._block_ms)
        entries = _all_entries(pages)
        while (left := self._batch - len(entries)) > 0 and pages:
            streams = [bucket for bucket, rows in pages.items() if len(rows) == count][:left]
            count = max(1, left // max(1, len(streams)))
            pages = await self._read_group(dict.fromkeys(streams, ">"), count) if streams else {}
            entries += _all_entries(pages)
        return entries

    async def _recovered(self) -> list[Entry]:
        """Entries delivered to this worker and dropped on an error; many that it still holds may come before them."""
        if not self._lost_some:
            return []
        self._lost_some = False  # before the first await: an error in the meantime sets it again
        starts = dict.fromkeys(self._buckets.all, "0")
        while pages := await self._read_group(starts, self._batch):
            if lost := [entry for entry in _all_entries(pages) if entry.id not in self._held]:
                self._lost_some = True
                return lost
            starts |= {bucket: rows[-1][0].decode() for bucket, rows in pages.items()}
        return []

    async def _claimed(self) -> list[Entry]:
        """Entries that other workers took and did not finish."""
        now = asyncio.get_running_loop().time()
        if now < self._next_claim_s:
            return []
        claimed: list[Entry] = []
        for bucket in self._buckets.all:
            reply = await command(
                self._buckets.redis,
                *("XAUTOCLAIM", self._buckets.keys(bucket).one("ingest"), GROUP, self.name),
                *(self._claim_idle_ms, "0", "COUNT", self._batch - len(claimed)),
            )
            claimed += [entry for entry in _entries(bucket, reply[1]) if entry.id not in self._held]
            if len(claimed) >= self._batch:
                break
        if not claimed:
            self._next_claim_s = now + self._claim_idle_ms / 2000
            await self._dismiss(now)
        self.progress.claimed += len(claimed)
        return claimed

    async def _dismiss(self, now: float) -> None:
        """Removes dead workers from the group: they could not leave it themselves."""
        if now < self._next_dismissal_s:
            return
        self._next_dismissal_s = now + DISMISS_EVERY_S
        for bucket in self._buckets.all:
            await self._buckets.run("dismiss", bucket, [int(DISMISS_S * 1000)])

    async def _read_group(self, starts: dict[int, str], count: int, *block: str | int) -> dict[int, list[Any]]:
        """Per bucket up to `count` rows after its start; leaves out buckets without any."""
        streams = {self._buckets.keys(bucket).one("ingest"): bucket for bucket in starts}
        reply = await command(
            self._buckets.redis,
            *("XREADGROUP", "GROUP", GROUP, self.name, "COUNT", count, *block),
            *("STREAMS", *streams, *starts.values()),
        )
        return {streams[stream.decode()]: rows for stream, rows in reply or () if rows}

    async def _load(self, bucket: int, entries: list[Entry]) -> list[Entry]:
        values = [value for entry in entries for value in (entry.name, entry.revision)]
        texts = await self._buckets.run("texts", bucket, [VERSION, *values])
        return [
            Entry(bucket, entry.id, entry.name, entry.revision, text.decode() if text else None)
            for entry, text in zip(entries, texts, strict=True)
        ]

    async def _hand_over(self) -> None:
        """Lets others claim unfinished entries at once; leaves the group if there are none."""
        for bucket in self._buckets.all:
            stream = self._buckets.keys(bucket).one("ingest")
            pending = await self._buckets.redis.xpending_range(stream, GROUP, "-", "+", 1000, self.name)
            ids: list[Any] = [row["message_id"] for row in pending]
            if ids:
                await self._buckets.redis.xclaim(stream, GROUP, self.name, 0, ids, idle=HANDED_OVER_MS, justid=True)
            else:
                await self._buckets.redis.xgroup_delconsumer(stream, GROUP, self.name)

    # --- when Redis fails ---

    async def _attempt(self, step: Callable[[], Awaitable[T]]) -> T | None:
        """None if Redis is unreachable or lost its group; what this worker held is read again later."""
        try:
            return await step()
        except ResponseError as error:
            self._lost_group = self._lost_group or "NOGROUP" in str(error) or index_lost(error)
            log.warning("Redis rejected a step of embedding; retrying: %s", error)
        except (RedisUnavailableError, *UNREACHABLE) as error:
            if not self._stopping.is_set():  # a cancelled read ends like this too
                log.warning("Redis is unreachable; embedding pauses: %s", error)
        self.progress.errors += 1
        self._lost_some = True
        return None

    async def _open_streams(self) -> None:
        """Creates what no process has used yet, and recreates a lost group or index (FLUSHALL, dropped by hand)."""
        for bucket in self._buckets.all:
            await (self._buckets.heal(bucket) if self._lost_group else self._buckets.ready(bucket))
        self._opened, self._lost_group, self._unchecked = True, False, set(self._buckets.all)

    async def _check_buckets(self) -> None:
        """Puts messages without a vector back on their stream. Done while idle: the scan would delay new messages."""
        for bucket in list(self._unchecked):
            if await repair(self._buckets, bucket):
                self._unchecked.discard(bucket)


def _blobs(vectors: NDArray[np.float32]) -> list[bytes]:
    return [vector.tobytes() for vector in vectors.astype(np.float16)]


def _all_entries(pages: dict[int, list[Any]]) -> list[Entry]:
    return [entry for bucket, rows in pages.items() for entry in _entries(bucket, rows)]


def _entries(bucket: int, rows: Iterable[tuple[bytes | None, dict[bytes, bytes] | None]]) -> list[Entry]:
    # A row without fields is an entry that was deleted while a worker held it.
    return [Entry(bucket, name.decode(), at[b"m"].decode(), at[b"r"].decode()) for name, at in rows if name and at]
