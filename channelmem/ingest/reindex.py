"""Reindex: gives every message a vector of another model, while the old vectors serve. Progress is kept in Redis, so an
interrupted reindex goes on where it stopped. One script switches index alias, model and version together, and processes
that still use the old model get IndexMismatchError. If only the index changed, it is rebuilt from the vectors there
are."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from redis.asyncio import Redis

from channelmem.embedding.embed import FAILURES, Embedder
from channelmem.errors import CommandRefusedError, ModelError, RedisUnavailableError
from channelmem.ingest.streams import embed_alone
from channelmem.settings import Settings
from channelmem.store.buckets import already_there
from channelmem.store.index import (
    LAYOUT,
    LOOK_SHARE,
    create_command,
    fitted,
    indexed,
    make_schema,
    meta_of,
    noted,
    rooms_of,
    shape,
    vector_field,
)
from channelmem.store.keys import Keys, keys_of
from channelmem.store.redis import command
from channelmem.store.scripts import Everywhere, run_script
from channelmem.tasks import cancel_all

log = logging.getLogger(__name__)

BATCH = 64
MOST_FAILED = 9_000  # together with a batch within the 10,000 rows that Redis Stack's image returns at most
WRITE = 8
CLEAN = 4
POLL_S = 0.05
TURN_S = 60.0
LOOK_S = 0.1

MessageRow = tuple[bytes, bytes, bytes]  # name, revision and text of a message

ReindexProgress = Callable[[str, int, int], None]
"""Called with the step ('embed', 'build' or 'clean'), how much is done, and the total."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a reindex did."""

    embedded: int = 0
    given_up: int = 0  # messages that the model failed on; they stay searchable by text and time only

    def __add__(self, other: Done) -> Done:
        return Done(self.embedded + other.embedded, self.given_up + other.given_up)


def silent(_step: str, _done: int, _total: int) -> None:
    pass


async def reindex(redis: Redis, settings: Settings, embedder: Embedder, *, progress: ReindexProgress = silent) -> Done:
    """Embeds nothing if every vector is already of this model."""
    done = Done()
    for bucket in sorted(await Everywhere(redis, settings.key_prefix, settings.buckets).ask("EXISTS", "meta")):
        keys = keys_of(settings.key_prefix, bucket)
        task = Reindex(redis, await fitted(redis, settings, keys), embedder, keys, progress)
        done += await task.run()
    return done


@dataclass(frozen=True, slots=True)
class Reindex:
    """The reindex of one bucket."""

    redis: Redis
    settings: Settings
    embedder: Embedder
    keys: Keys
    progress: ReindexProgress

    async def run(self) -> Done:
        if not await meta_of(self.redis, self.keys):
            return Done()
        async with turn(self.redis, self.keys, wait=True):
            return await self._run(await meta_of(self.redis, self.keys))

    async def _run(self, meta: dict[str, str]) -> Done:
        done = Done()
        if not self._is_of_this_model(meta):
            version = await self._begin(meta)
            done = await self._embed_all(version)
            await self._step("switch", version, self.embedder.identity, self.embedder.dims)
            await self._note_shape()
        else:
            if "next_model" in meta:
                # Nobody wants that one any more. Its version stays taken, because its vectors may still exist.
                await self.redis.hset(self.keys.one("meta"), "old", "1")
                await self.redis.hdel(self.keys.one("meta"), "next_model", "next_shape")
            if any(meta.get(name) != value for name, value in noted(self.settings).items()):
                await self._rebuild(int(meta["version"]))
        await self._clean()
        return done

    async def fit(self) -> bool:
        """Rebuilds an index that its bucket has outgrown, from the existing vectors. Leaves everything alone that only
        a reindex may change, such as the model."""
        if not self._is_outgrown(await meta_of(self.redis, self.keys)):
            return False
        async with turn(self.redis, self.keys, wait=False) as ours:
            meta = await meta_of(self.redis, self.keys)  # another process may just have done it
            if not ours or not self._is_outgrown(meta):
                return False
            await self._rebuild(int(meta["version"]))
        return True

    def _is_outgrown(self, meta: dict[str, str]) -> bool:
        if "version" not in meta or "next_model" in meta or "old" in meta or not self._is_of_this_model(meta):
            return False
        algorithm = meta.get("shape", "").partition(" ")[0]
        return (algorithm, meta.get("layout")) != (self.settings.index_algorithm, LAYOUT)

    def _is_of_this_model(self, meta: dict[str, str]) -> bool:
        return (meta.get("model"), meta.get("dims")) == (self.embedder.identity, str(self.embedder.dims))

    async def _rebuild(self, version: int) -> None:
        """Puts the same vectors into another index; a spare one serves while the regular one is replaced."""
        name, spare, meta = self.keys.index(version), _spare(self.keys, version), self.keys.one("meta")
        first, second = shape(self.settings), f"{shape(self.settings)}, spare serves"
        if await self.redis.hget(meta, "building") != second.encode():  # else an interrupted build goes on from there
            # If interrupted from here on, no shape is right until a later reindex has finished.
            await self.redis.hset(meta, "building", first)
            await self.redis.hdel(meta, "shape")
            await self._make(version, spare)
            await self._serve(spare)
            await self._drop(name)
            await self.redis.hset(meta, "building", second)
        await self._make(version, name)
        await self._serve(name)
        await self._drop(spare)
        await self._note_shape()

    async def _make(self, version: int, name: str) -> None:
        """Returns when the new index has read everything."""
        schema = make_schema(self.settings, self.keys, dims=self.embedder.dims, version=version)
        with already_there():
            await command(self.redis, *create_command(schema, name))
        started = time.monotonic()
        while (done := await indexed(self.redis, name)) < 1:
            self.progress("build", int(done * 100), 100)
            # FT.INFO blocks a large Redis for long: it gets a small share of the time.
            await asyncio.sleep(max(POLL_S, (time.monotonic() - started) * LOOK_SHARE))
            started = time.monotonic()
        self.progress("build", 100, 100)

    async def _serve(self, name: str) -> None:
        await command(self.redis, "FT.ALIASUPDATE", self.keys.one("idx"), name)

    async def _note_shape(self) -> None:
        await self.redis.hset(self.keys.one("meta"), mapping=noted(self.settings))
        await self.redis.hdel(self.keys.one("meta"), "building")

    async def _begin(self, meta: dict[str, str]) -> int:
        """The version to fill: the one already begun, unless that was for yet another model."""
        version = int(meta.get("next", meta["version"]))
        begun = meta.get("next_model") == self._wanted
        # An index begun with another shape is rebuilt from the vectors written so far.
        if "next" in meta and not (begun and meta.get("next_shape") == shape(self.settings)):
            await self._drop(self.keys.index(version))
        if not begun:
            version += 1
        begin: Any = {"next": version, "next_model": self._wanted, "next_shape": shape(self.settings)}
        await self.redis.hset(self.keys.one("meta"), mapping=begin)
        await self._make(version, self.keys.index(version))
        return version

    @property
    def _wanted(self) -> str:
        return f"{self.embedder.identity} {self.embedder.dims}"

    async def _embed_all(self, version: int) -> Done:
        done = total = 0
        given_up: set[MessageRow] = set()
        while True:
            # Messages that the model failed on come up again every time.
            left, *flat = await self._step("todo", version, BATCH + len(given_up))
            rows: list[MessageRow] = list(zip(flat[::3], flat[1::3], flat[2::3], strict=True))
            todo = [row for row in rows if row not in given_up]
            total = max(total, done + left)
            self.progress("embed", done + len(rows) - len(todo), total)
            if left == len(rows) and not todo:
                return Done(done, left)
            vectors = await self._embed(todo)
            given_up |= {row for row, vector in zip(todo, vectors, strict=True) if vector is None}
            if len(given_up) > MOST_FAILED:
                raise ModelError(f"The model fails on more than {MOST_FAILED:,} messages; choose another one.")
            done += await self._write(version, zip(todo, vectors, strict=True))

    async def _embed(self, rows: Sequence[MessageRow]) -> Sequence[NDArray[np.float32] | None]:
        """A vector for each, or None."""
        if not rows:
            return []
        try:
            return list(await self.embedder.embed_messages([text.decode() for _, _, text in rows]))
        except FAILURES:
            return [await embed_alone(self.embedder, name.decode(), text.decode()) for name, _, text in rows]

    async def _write(self, version: int, embedded: Iterable[tuple[MessageRow, NDArray[np.float32] | None]]) -> int:
        """Returns how many have a vector."""
        rows = [(*row[:2], vector.astype(np.float16).tobytes()) for row, vector in embedded if vector is not None]
        for at in range(0, len(rows), WRITE):
            await self._step("write", version, *(value for row in rows[at : at + WRITE] for value in row))
        return len(rows)

    async def _clean(self) -> None:
        """Removes what older versions left; the 'old' mark stays until that is complete."""
        meta = await meta_of(self.redis, self.keys)
        if "old" not in meta:
            return
        version = int(meta["version"])
        stale = [one for one in range(1, int(meta.get("next", version)) + 1) if one != version]
        for old in stale:
            await self._drop(self.keys.index(old))
            await self._drop(_spare(self.keys, old))  # of an interrupted build
        channels = await rooms_of(self.redis, self.keys)
        for done, channel in enumerate(channels):
            self.progress("clean", done, len(channels))
            last, fields = b"", [vector_field(old) for old in stale]
            while last := await self._step("clean", version, channel, last, CLEAN, *fields):
                pass
        await self.redis.hdel(self.keys.one("meta"), "old")
        self.progress("clean", len(channels), len(channels))

    async def _drop(self, name: str) -> None:
        with contextlib.suppress(CommandRefusedError):  # already dropped
            await command(self.redis, "FT.DROPINDEX", name)

    async def _step(self, kind: str, version: int, *arguments: Any) -> Any:
        return await run_script(self.redis, "renew", self.keys, [kind, version, *arguments])


def _spare(keys: Keys, version: int) -> str:
    return f"{keys.index(version)}:spare"


# --- whose turn it is ---


@contextlib.asynccontextmanager
async def turn(redis: Redis, keys: Keys, *, wait: bool) -> AsyncIterator[bool]:
    """False if it is another process' turn and this one does not wait."""
    token = secrets.token_hex(8)
    if not await _taken(redis, keys, token, wait=wait):
        yield False
        return
    holding = asyncio.create_task(_hold(redis, keys, token))
    try:
        yield True
    finally:
        await cancel_all([holding])
        await _change(redis, keys, token, 0)


async def _taken(redis: Redis, keys: Keys, token: str, *, wait: bool) -> bool:
    told = False
    while not await redis.set(keys.one("rebuilding"), token, nx=True, px=round(TURN_S * 1000)):
        if not wait:
            return False
        if not told:
            log.warning("Another process is rebuilding this index; waiting for it")
        told = True
        await asyncio.sleep(LOOK_S)
    return True


async def _hold(redis: Redis, keys: Keys, token: str) -> None:
    while True:
        await asyncio.sleep(TURN_S / 3)
        await _change(redis, keys, token, TURN_S)


async def _change(redis: Redis, keys: Keys, token: str, for_s: float) -> None:
    with contextlib.suppress(RedisUnavailableError):  # then it expires
        await run_script(redis, "turn", keys, [token, round(for_s * 1000)])
