"""Gives stored messages their vectors: reads texts, embeds, commits, on different batches at once. An entry is deleted
with its vector's commit, so whatever is on a stream still waits; other workers claim what a dead one had taken. A text
that the model fails on stays searchable by text and time only."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from channelmem.embedding.embed import FAILURES, Embedder
from channelmem.errors import CommandRefusedError, DamagedDataError, RedisUnavailableError
from channelmem.ingest.reindex import Reindex, silent
from channelmem.ingest.streams import Entry, EntryId, Streams, embed_alone, repair
from channelmem.store.buckets import VERSION
from channelmem.store.index import fitted, index_lost
from channelmem.store.store import GIVEN_UP, Store
from channelmem.tasks import cancel_all

log = logging.getLogger(__name__)

BATCH = 256
"""Entries per batch at most: a lone message does not wait for others, and a backlog has enough texts of equal length to
group (the model needs 5 % less time than with 64)."""
EMBEDDING = 2  # batches in the model at a time, so that none of its lanes idles during the last run of a batch
CLAIM_IDLE_S = 20.0  # a worker holds three batches at most; even a slow machine has embedded them by then
FIRST_RETRY_S = 0.05
LAST_RETRY_S = 5.0
DISMISS_EVERY_S = 600.0
FIT_EVERY_S = 600.0
CHECK_RETRY_S = 60.0  # after Redis refused to look for messages without a vector
T = TypeVar("T")


@dataclass(slots=True)
class WorkerCounts:
    """What a worker has done so far."""

    embedded: int = 0
    claimed: int = 0
    errors: int = 0
    given_up: int = 0  # texts that the model failed on


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
        self._streams = Streams(store.buckets, self.name)
        self._embedder = embedder
        self._batch = batch
        self._claim_idle_ms = int(claim_idle_s * 1000)
        self._stopping = asyncio.Event()
        self._loaded: asyncio.Queue[list[Entry] | None] = asyncio.Queue(1)
        self._embedded: asyncio.Queue[Embedded | None] = asyncio.Queue(2)
        self._held: set[EntryId] = set()  # entries between read and commit
        self._lost_some = True
        """Whether Redis may count entries as ours that we do not hold: at the start, and after an error."""
        self._opened = False
        self._lost_group = False
        self._unchecked: set[int] = set()  # buckets that may have messages without a vector that are not on the stream
        self._next_claim_s = self._next_dismissal_s = self._next_check_s = 0.0

    async def run(self) -> None:
        """Works until `stop` and survives outages of Redis. A cancelled or killed worker loses nothing."""
        steps = [asyncio.create_task(step()) for step in (self._read, self._embed, self._commit)]
        fits = self._buckets.settings.index_algorithm == "auto"
        beside = [asyncio.create_task(self._fit_indexes())] if fits else []
        try:
            done, _ = await asyncio.wait(steps, return_when=asyncio.FIRST_EXCEPTION)
            for step in done:
                step.result()
        finally:
            self._stopping.set()
            await cancel_all(steps + beside)
        await self._attempt(self._streams.leave)

    def stop(self) -> None:
        """Takes nothing new; `run` returns once everything embedded is committed and the rest handed over."""
        self._stopping.set()

    # --- the three steps ---

    async def _read(self) -> None:
        retry_s = FIRST_RETRY_S
        while not self._stopping.is_set():
            entries = await self._attempt(self._next_entries)
            if entries is None:
                retry_s = await self._pause(retry_s)
                continue
            retry_s = FIRST_RETRY_S
            self._held |= {entry.key for entry in entries}
            await self._loaded.put(entries)
            # Reading the next batch late lets more texts gather, and leaves them to other workers meanwhile.
            await self._loaded.join()
        await self._loaded.put(None)

    async def _pause(self, pause_s: float) -> float:
        """Returns how long the next pause is, if there is one."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), pause_s)
        return min(LAST_RETRY_S, pause_s * 2)

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
                done = zip(places, vectors.astype(np.float16), strict=True)
                await self._embedded.put([(left.pop(place), vector.tobytes()) for place, vector in done])
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
            self._held -= {entry.key for entry, _ in embedded}
            # Even a full Redis lets the batch be read and embedded again; without a pause the model would do only that.
            retry_s = FIRST_RETRY_S if written is not None else await self._pause(retry_s)

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
            self._unchecked = await self._streams.open(heal=self._lost_group)
            self._opened, self._lost_group = True, False
        entries = await self._recovered() or await self._claimed() or await self._streams.fresh(self._batch)
        if not entries and not self._held:
            await self._check_buckets()
        loaded: list[Entry] = []
        for bucket in {entry.bucket for entry in entries}:
            loaded += await self._load(bucket, [entry for entry in entries if entry.bucket == bucket])
        return loaded

    async def _recovered(self) -> list[Entry]:
        """Entries delivered to this worker and dropped on an error."""
        if not self._lost_some:
            return []
        self._lost_some = False  # before the first await: an error in the meantime sets it again
        lost = await self._streams.delivered(self._held, self._batch)
        self._lost_some = self._lost_some or bool(lost)
        return lost

    async def _claimed(self) -> list[Entry]:
        """Entries that other workers took and did not finish."""
        now = asyncio.get_running_loop().time()
        if now < self._next_claim_s:
            return []
        claimed = await self._streams.claim(self._held, self._batch, self._claim_idle_ms)
        if not claimed:
            self._next_claim_s = now + self._claim_idle_ms / 2000
            if now >= self._next_dismissal_s:
                self._next_dismissal_s = now + DISMISS_EVERY_S
                await self._streams.dismiss()
        self.progress.claimed += len(claimed)
        return claimed

    async def _load(self, bucket: int, entries: list[Entry]) -> list[Entry]:
        values = [value for entry in entries for value in (entry.name, entry.revision)]
        texts = await self._buckets.run("texts", bucket, [VERSION, *values])
        loaded = zip(entries, texts, strict=True)
        return [replace(entry, text=text.decode() if text else None) for entry, text in loaded]

    # --- indexes that grow ---

    async def _fit_indexes(self) -> None:
        """Rebuilds indexes that their buckets have outgrown, beside everything else."""
        while True:
            try:
                for bucket in await self._buckets.used():
                    await self._fit(bucket)
            except RedisUnavailableError as error:
                log.warning("Could not look at the size of buckets; trying again in %g s: %s", FIT_EVERY_S, error)
            await asyncio.sleep(FIT_EVERY_S)

    async def _fit(self, bucket: int) -> None:
        keys = self._buckets.keys(bucket)
        try:
            settings = await fitted(self._buckets.redis, self._buckets.settings, keys)
            if await Reindex(self._buckets.redis, settings, self._embedder, keys, silent).fit():
                log.info("Rebuilt bucket %d's index to fit its size", bucket)
        except RedisUnavailableError as error:
            log.warning("Could not rebuild bucket %d's index; trying again in %g s: %s", bucket, FIT_EVERY_S, error)

    # --- when Redis fails ---

    async def _attempt(self, step: Callable[[], Awaitable[T]]) -> T | None:
        """None if Redis is unreachable or lost its group; what this worker held is read again later."""
        try:
            return await step()
        except (CommandRefusedError, DamagedDataError) as error:
            self._lost_group = self._lost_group or "NOGROUP" in str(error) or index_lost(error)
            log.warning("Redis rejected a step of embedding; retrying: %s", error)
        except RedisUnavailableError as error:
            if not self._stopping.is_set():  # a cancelled read ends like this too
                log.warning("Redis is unreachable; embedding pauses: %s", error)
        self.progress.errors += 1
        self._lost_some = True
        return None

    async def _check_buckets(self) -> None:
        """Puts messages without a vector back on their stream. Done while idle: the scan would delay new messages."""
        now = asyncio.get_running_loop().time()
        for bucket in list(self._unchecked) if now >= self._next_check_s else ():
            try:
                if await repair(self._buckets, bucket):
                    self._unchecked.discard(bucket)
            except (CommandRefusedError, DamagedDataError) as error:  # new messages must not wait for it
                log.warning("Could not look for lost messages; trying again in %g s: %s", CHECK_RETRY_S, error)
                self._next_check_s = now + CHECK_RETRY_S
