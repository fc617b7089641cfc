"""Fills a store with synthetic vectors that are clustered like text, in clusters of unequal size.

The product's own scripts write the messages; the vectors are returned for an exact comparison. Uniform random vectors
would mislead: they have no meaningful neighbours, HNSW finds them badly, and a chat memory never stores them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from channelmem.store.keys import GROUP
from channelmem.store.redis import command
from channelmem.store.store import Store
from channelmem.types import Message
from scripts.measure import PER_CHANNEL, chat_lines, conversation

DIMS = 384
CLUSTERS = 300
DAYS = 6.9
"""A little less than the archive keeps, so that nothing expires while a benchmark runs."""
CHUNK = 500

Vectors = NDArray[np.float32]


class Cloud:
    """Clusters on the unit sphere; members of one have a cosine of about 0.5, like MiniLM vectors of one topic."""

    def __init__(self, seed: int = 1) -> None:
        self._dice = np.random.default_rng(seed)
        self._centres = _unit(self._dice.normal(size=(CLUSTERS, DIMS)))
        weights = 1.0 / np.arange(1, CLUSTERS + 1)
        self._weights = weights / weights.sum()

    def draw(self, count: int) -> Vectors:
        chosen = self._dice.choice(CLUSTERS, size=count, p=self._weights)
        noise = self._dice.normal(size=(count, DIMS)) / np.sqrt(DIMS)
        return _unit(self._centres[chosen] + noise)


def _unit(rows: NDArray[np.float64]) -> Vectors:
    unit: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


async def fill(
    store: Store, vectors: Vectors, *, first_id: int, dtype: str = "float16", advance: Callable[[int], None]
) -> None:
    """Stores one message per vector with ids from `first_id`; channels continue where `first_id` - 1 ended."""
    for at in range(0, len(vectors), CHUNK):
        part = vectors[at : at + CHUNK]
        number = first_id + at
        messages = conversation(chat_lines(len(part), seed=number), first_id=number, channel=(number - 1) // 50)
        await store.add(_spread(messages))
        await commit_stream(store, part, number, dtype)
        advance(len(part))


def _spread(messages: list[Message]) -> list[Message]:
    """Addresses one message in twelve to the bot, since every filter includes that flag, and spreads each channel over
    seven days: a filter by time costs the more the further it reaches."""
    now, step = time.time(), DAYS * 86_400 / PER_CHANNEL
    return [
        replace(
            message,
            addressed=message.id % 12 == 0,
            ts=now - 60 - (PER_CHANNEL - 1 - (message.id - 1) % PER_CHANNEL) * step,
        )
        for message in messages
    ]


async def commit_stream(store: Store, vectors: Vectors, first_id: int, dtype: str) -> None:
    """Commits vectors as a worker would, to the messages on the stream. Ids count from `first_id`."""
    buckets = store.buckets
    stream = buckets.keys(0).one("ingest")
    await command(buckets.redis, "XREADGROUP", "GROUP", GROUP, "bench", "COUNT", CHUNK, "STREAMS", stream, ">")
    rows = []
    for entry, values in await command(buckets.redis, "XRANGE", stream, "-", "+", "COUNT", CHUNK):
        about = dict(zip(values[::2], values[1::2], strict=True)) if isinstance(values, list) else values
        name = about[b"m"].decode()
        vector = vectors[int(name.rpartition(":")[2]) - first_id]
        rows.append((entry.decode(), name, about[b"r"].decode(), vector.astype(dtype).tobytes()))
    await store.commit_rows(0, rows)
