"""Opens everything that Memory stands on, and closes it in order: Redis, or the embedded one, while the model is read
from disk, and what works in the background until the block ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from channelmem.embedding.embed import Embedder, open_embedder
from channelmem.embedding.model import Progress
from channelmem.errors import RedisUnavailableError
from channelmem.ingest.worker import Worker
from channelmem.server.lease import check_server, connect_url
from channelmem.settings import Settings
from channelmem.store.buckets import Buckets
from channelmem.store.redis import connect
from channelmem.store.store import Store
from channelmem.summaries.update import SummaryWorker
from channelmem.tasks import cancel_all
from channelmem.telling import budget as tokens

Clock = Callable[[], float]

log = logging.getLogger(__name__)


@asynccontextmanager
async def opened(
    settings: Settings, clock: Clock, embedder: Embedder | None, progress: Progress | None, *, patient: bool
) -> AsyncIterator[tuple[Store, Embedder]]:
    """`patient` opens without Redis too, and uses it when it comes."""
    async with AsyncExitStack() as stack:
        url, model = await asyncio.gather(
            _connect(stack, settings), asyncio.to_thread(_model, settings, embedder, progress)
        )
        if embedder is None:  # one that was passed in belongs to the caller
            stack.callback(model.close)
        redis = connect(url, settings)
        stack.push_async_callback(redis.aclose)
        if not patient:
            await asyncio.to_thread(check_server, url, timeout_s=settings.redis_timeout_s)
        store = await _open_store(Buckets(redis, settings, dims=model.dims, identity=model.identity, clock=clock))
        stack.push_async_callback(store.close)
        await asyncio.gather(store.decisions.sync(), store.levels.load())  # from the first moment on, Redis may go away
        store.buckets.changes.begin()
        await stack.enter_async_context(beside(store.decisions.keep_synced()))
        await stack.enter_async_context(beside(store.levels.follow()))
        if settings.embed_in_process:
            await stack.enter_async_context(_embedding(Worker(store, model)))
        yield store, model


async def _connect(stack: AsyncExitStack, settings: Settings) -> str:
    """The URL of the configured Redis, or of the embedded one, which is started here and held until the end."""
    lease = connect_url(settings)
    url = await asyncio.to_thread(lease.__enter__)
    stack.callback(lease.__exit__, None, None, None)
    return url


def _model(settings: Settings, embedder: Embedder | None, progress: Progress | None) -> Embedder:
    """Reads from disk what the first question needs."""
    tokens.warm()
    return embedder or open_embedder(settings, progress)


async def _open_store(buckets: Buckets) -> Store:
    """The first call meets an unreachable Redis again; everything else that is wrong is reported now."""
    store = Store(buckets)
    with suppress(RedisUnavailableError):
        await buckets.open()
        store.sweep()
    return store


@asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Runs something in the background until the block ends."""
    task = asyncio.create_task(work, name="channelmem keeping current")
    try:
        yield
    finally:
        await cancel_all([task])


@asynccontextmanager
async def summarising(worker: SummaryWorker, settings: Settings) -> AsyncIterator[None]:
    """Keeps summaries up to date until the block ends, unless other processes do that."""
    if not settings.embed_in_process:
        yield
        return
    async with beside(worker.run()):
        yield


@asynccontextmanager
async def _embedding(worker: Worker) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run(), name="channelmem embedding")
    task.add_done_callback(_complain)
    try:
        yield
    finally:
        worker.stop()
        await task


def _complain(task: asyncio.Task[None]) -> None:
    """Nobody awaits the worker before the end, and without it new messages cannot be found by meaning."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("Embedding stopped; new messages get no vectors: %s", error)
