"""Fills Redis with a large world for bench_scale, without running the model for each message.

A few hundred lines and topics are embedded once with the real model. Each message joins one or two of these lines, and
its vector is the mean of theirs, which is close to what the model would say. Message n is the same in every run, so a
fill that was interrupted continues at the count that Redis holds. Times spread over seven days.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from channelmem.embedding.embed import open_embedder
from channelmem.settings import Settings
from channelmem.store.store import Store
from channelmem.types import Message
from scripts.fill import CHUNK, Vectors, commit_stream
from scripts.measure import NAMES, SAYING, SHORT, SUBJECTS

PER_CHANNEL = 500
LARGE = 811_111_111_111_111_111
MIDDLE = LARGE + (1 << 22)
SMALL = LARGE + (2 << 22)
MIDDLE_CHANNELS = range(20, 120)
"""The channels of the guild that is removed: 50,000 messages once the world has 60,000."""
LEAVING = 499
"""The author who is forgotten: every tenth of the first 100,000 messages."""
LEAVING_UP_TO = 100_000
DAYS = 7
RARE_WORDS = 20_000

LINES = tuple(saying.format(subject) for saying in SAYING for subject in SUBJECTS) + SHORT


def guild_of(channel: int) -> int:
    """Most channels belong to one large guild, a hundred to a middle one, every twentieth to small ones of ten."""
    if channel in MIDDLE_CHANNELS:
        return MIDDLE
    return SMALL + (channel // 200 << 22) if channel % 20 == 19 else LARGE


def channel_id(channel: int) -> int:
    return 1000 + channel


def channels_of(guild: int, stored: int) -> list[int]:
    """The numbers of a guild's full channels."""
    return [channel for channel in range(stored // PER_CHANNEL) if guild_of(channel) == guild]


@dataclass(frozen=True, slots=True)
class Known:
    """Real vectors: one per line of LINES, and one per subject, as a question about it is embedded."""

    lines: Vectors
    topics: Vectors


async def known(settings: Settings, folder: Path) -> Known:
    """Embeds them once; later runs read the file."""
    path = folder / "vectors.npz"
    if not path.exists():
        embedder = open_embedder(settings)
        try:
            lines, topics = await embedder.embed_messages(LINES), await embedder.embed_messages(SUBJECTS)
        finally:
            embedder.close()
        np.savez(path, lines=lines, topics=topics)
    with np.load(path) as stored:
        return Known(stored["lines"], stored["topics"])


def drawn(first: int, count: int, real: Known, start: float) -> tuple[list[Message], Vectors]:
    """Messages `first` to `first + count` - 1, counted from 0, and their vectors."""
    dice = random.Random(first)  # noqa: S311  (test data)
    messages, rows = [], np.empty((count, real.lines.shape[1]))
    for place in range(count):
        picked = dice.choices(range(len(LINES)), k=2 if dice.random() < 0.4 else 1)
        rows[place] = real.lines[picked].mean(axis=0)
        text = ", and ".join(LINES[one] for one in picked)
        if dice.random() < 0.5:
            text += f" (see {_rare_word(dice)})"
        messages.append(_message(first + place, text, start, dice))
    # A little noise: no two messages are at the same point, as no two texts are quite the same.
    rows += np.random.default_rng(first).normal(scale=0.1 / np.sqrt(rows.shape[1]), size=rows.shape)
    return messages, _unit(rows)


def _message(number: int, text: str, start: float, dice: random.Random) -> Message:
    channel, place = divmod(number, PER_CHANNEL)
    author = LEAVING if number % 10 == 0 and number < LEAVING_UP_TO else 500 + int(200 * dice.random() ** 2)
    ts = start + (place + dice.random()) * (DAYS * 86_400 - 60) / PER_CHANNEL
    name, asked = NAMES[author % len(NAMES)], number % 12 == 0
    return Message(
        guild_of(channel), channel_id(channel), number + 1, author, name, text, ts,
        reply_to=number if place and number % 5 == 0 else None, addressed=asked,
    )  # fmt: skip


def _rare_word(dice: random.Random) -> str:
    return f"case{int(RARE_WORDS ** dice.random())}"


def _unit(rows: NDArray[np.float64]) -> Vectors:
    unit: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


async def fill(store: Store, size: int, real: Known, advance: Callable[[int], object]) -> float:
    """Fills up to `size` messages; returns the seconds that Redis and this process took for each new one."""
    redis, keys = store.buckets.redis, store.buckets.keys(0)
    progress = f"{keys.base}bench"
    filled = int(await redis.hget(progress, "filled") or 0)
    await redis.hsetnx(progress, "start", repr(time.time() - DAYS * 86_400))
    start = float(await redis.hget(progress, "start") or 0)
    took, added = 0.0, 0
    for first in range(filled - filled % CHUNK, size, CHUNK):
        messages, vectors = drawn(first, min(CHUNK, size - first), real, start)
        began = time.perf_counter()
        await store.add(messages)
        await commit_stream(store, vectors, first + 1, "float16")
        took, added = took + time.perf_counter() - began, added + len(messages)
        await redis.hset(progress, "filled", first + len(messages))
        advance(len(messages))
    return took / added if added else 0.0
