"""Replays recorded conversations through the real Memory, with a clock set to their time.

A `Talk` is one channel of the evaluation folder, with numeric ids and a mapping back. A `Stage` holds what replays it:
Memory, a Search over the same Redis, the embedder and the clock.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from redis.asyncio import Redis

from channelmem.embedding.embed import Embedder, open_embedder
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.store.buckets import Buckets
from channelmem.store.redis import connect
from channelmem.store.search import Query, Search
from channelmem.types import Kind, Message, Person, Question, Source

Row = dict[str, Any]
GUILD = 1 << 40
BOT = Person(7, "channelbot")
PER_TALK = 1_000_000
FIRST_ASKER = 1_000_000_000


@dataclass(slots=True)
class Clock:
    """A clock that the replay sets."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True)
class Talk:
    """One recorded channel."""

    name: str
    channel_id: int
    rows: tuple[Row, ...]
    messages: tuple[Message, ...]
    id_of: dict[str, int] = field(default_factory=dict)
    """Ids in the data to ids in the store."""
    name_of: dict[int, str] = field(default_factory=dict)
    author_of: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stage:
    memory: Memory
    search: Search
    embedder: Embedder
    settings: Settings
    redis: Redis
    clock: Clock

    async def hear(self, messages: Iterable[Message]) -> None:
        """Remembers messages at their own time; they are searchable when this returns."""
        heard = list(messages)
        for start in range(0, len(heard), 50):
            some = heard[start : start + 50]
            self.clock.now = some[-1].ts
            await self.memory.remember_many(some)
        if not await self.memory.flush(120):
            raise RuntimeError("The messages were not embedded within two minutes; check the load on this machine.")

    async def stored(self, talk: Talk, count: int) -> list[Message]:
        """The newest messages, as stored in Redis."""
        return await self.search.newest(Query(GUILD, (talk.channel_id,), limit=count, source=Source.BUFFER))


def read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def talks(path: Path, channel: str, first: int) -> list[Talk]:
    """The channels of a file; `channel` is the field that distinguishes them."""
    by_name: dict[str, list[Row]] = {}
    for row in read(path):
        by_name.setdefault(row[channel], []).append(row)
    return [_talk(name, first + place, rows) for place, (name, rows) in enumerate(by_name.items())]


def _talk(name: str, channel_id: int, rows: list[Row]) -> Talk:
    base = channel_id * PER_TALK
    id_of = {row["id"]: base + place for place, row in enumerate(rows, start=1)}
    author_of: dict[str, int] = {}
    for row in rows:
        author_of.setdefault(row["author"].casefold(), base + len(author_of) + 1)
    messages = tuple(
        Message(
            guild_id=GUILD,
            channel_id=channel_id,
            id=id_of[row["id"]],
            author_id=author_of[row["author"].casefold()],
            author=row["author"],
            content=_content(row),
            ts=float(row["ts"]),
        )
        for row in rows
    )
    name_of = {number: name for name, number in id_of.items()}
    return Talk(name, channel_id, tuple(rows), messages, id_of, name_of, author_of)


def _content(row: Row) -> str:
    """The content that the Discord adapter would store: an image appears as its description."""
    image = f"[image: image.jpg ({row['image']})]" if row.get("image") else ""
    return " ".join(filter(None, (row["text"], image)))


def question(talk: Talk, text: str, number: int, ts: float, *, kind: Kind | None = None, asker: str = "") -> Question:
    """A question by a silent visitor, or by `asker`. Each visitor asks once, so no question is a follow-up."""
    asker_id = talk.author_of[asker.casefold()] if asker else FIRST_ASKER + number
    return Question(
        guild_id=GUILD,
        channel_id=talk.channel_id,
        id=talk.channel_id * PER_TALK + PER_TALK - 1 - number,
        asker_id=asker_id,
        asker=asker or f"visitor{number}",
        text=text,
        ts=ts,
        bot=BOT,
        kind=kind,
    )


@asynccontextmanager
async def stage(url: str, base: Settings, **changes: object) -> AsyncIterator[Stage]:
    """A Memory with its own keys on this Redis; the keys are removed when the block ends."""
    # A generous timeout, so that a busy machine does not cause wrong answers.
    own = {"redis_url": SecretStr(url), "key_prefix": f"eval{uuid.uuid4().hex[:8]}", "redis_timeout_s": 60.0}
    values = own | changes
    settings = base.model_copy(update=values)
    clock = Clock()
    embedder = open_embedder(settings)
    redis = connect(url, settings)
    try:
        async with Memory.open(settings, clock=clock, embedder=embedder) as memory:
            buckets = Buckets(redis, settings, dims=embedder.dims, identity=embedder.identity, clock=clock)
            await buckets.open()
            yield Stage(memory, Search(buckets), embedder, settings, redis, clock)
    finally:
        await _remove(redis, settings.key_prefix)
        await redis.aclose()


async def _remove(redis: Redis, prefix: str) -> None:
    for name in await redis.execute_command("FT._LIST"):  # type: ignore[no-untyped-call]
        if name.startswith(f"{prefix}:".encode()):
            await redis.execute_command("FT.DROPINDEX", name)  # type: ignore[no-untyped-call]
    async for key in redis.scan_iter(match=f"{prefix}:*", count=1000):
        await redis.unlink(key)
