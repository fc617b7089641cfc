"""Reindex: gives every message a vector of another model while the old vectors serve; then switches.

In: the new model's embedder. Out: how many messages were embedded. What is done is recorded in Redis (the next
version in the meta key, the new vectors on the documents), so a reindex that was interrupted goes on where it
stopped. The switch is one script: index alias, model and version change together; processes that still use the old
model then get IndexMismatchError. Afterwards the old index and the old field are removed.

Where only the settings of the index changed, it is built anew from the vectors that are there, beside the old one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from channelmem.embedding.embed import Embedder
from channelmem.settings import Settings
from channelmem.store.buckets import already_there, indexed
from channelmem.store.keys import Keys, keys_of
from channelmem.store.schema import create_command, make_schema, shape
from channelmem.store.scripts import Scripts, command

BATCH = 64
WRITE = 8
CLEAN = 4
POLL_S = 0.05

Progress = Callable[[str, int, int], None]
"""Called with the step ('embed', 'build' or 'clean'), how much is done and how much there is."""


def silent(_step: str, _done: int, _total: int) -> None:
    pass


async def reindex(
    redis: Redis,
    settings: Settings,
    embedder: Embedder,
    *,
    clock: Callable[[], float] = time.time,
    progress: Progress = silent,
) -> int:
    """Returns how many messages were embedded; 0 when everything already is of this model."""
    scripts = Scripts(redis, settings, clock)
    done = 0
    for bucket in range(settings.buckets):
        task = Reindex(scripts, settings, embedder, keys_of(settings.key_prefix, bucket), progress)
        done += await task.run()
    return done


@dataclass(frozen=True, slots=True)
class Reindex:
    """The reindex of one bucket."""

    scripts: Scripts
    settings: Settings
    embedder: Embedder
    keys: Keys
    progress: Progress

    async def run(self) -> int:
        meta = await self._meta()
        if not meta:
            return 0
        done = 0
        if (meta["model"], meta["dims"]) != (self.embedder.identity, str(self.embedder.dims)):
            version = await self._begin(meta)
            done = await self._embed_all(version)
            await self._step("switch", version, self.embedder.identity, self.embedder.dims)
            await self._note_shape()
        elif meta.get("shape") != shape(self.settings):
            await self._build(int(meta["version"]))
            await self._note_shape()
        await self._clean()
        return done

    async def _build(self, version: int) -> None:
        """The same vectors in an index of another shape. A spare one serves while the one of that name is replaced."""
        name, spare = self.keys.index(version), f"{self.keys.index(version)}:spare"
        schema = make_schema(self.settings, self.keys, dims=self.embedder.dims, version=version)
        # Interrupted from here on, no shape is right until a later reindex has come to its end.
        await self.scripts.redis.hdel(self.keys.one("meta"), "shape")
        await self._make(create_command(schema, spare), spare)
        await self._serve(spare)
        await self._drop(name)
        await self._make(create_command(schema), name)
        await self._serve(name)
        await self._drop(spare)

    async def _make(self, create: list[Any], name: str) -> None:
        with already_there():
            await command(self.scripts.redis, *create)
        await self._await_indexed(name)

    async def _serve(self, name: str) -> None:
        await command(self.scripts.redis, "FT.ALIASUPDATE", self.keys.one("idx"), name)

    async def _note_shape(self) -> None:
        await self.scripts.redis.hset(self.keys.one("meta"), "shape", shape(self.settings))

    async def _begin(self, meta: dict[str, str]) -> int:
        """The version to fill: the one that was begun, unless that was for yet another model."""
        version = int(meta.get("next", meta["version"]))
        if meta.get("next_model") != self._wanted:
            if "next" in meta:
                await self._drop(self.keys.index(version))
            version += 1
        await self.scripts.redis.hset(self.keys.one("meta"), mapping={"next": version, "next_model": self._wanted})
        schema = make_schema(self.settings, self.keys, dims=self.embedder.dims, version=version)
        await self._make(create_command(schema), self.keys.index(version))
        return version

    @property
    def _wanted(self) -> str:
        return f"{self.embedder.identity} {self.embedder.dims}"

    async def _embed_all(self, version: int) -> int:
        done = 0
        total = 0
        while True:
            left, *rows = await self._step("todo", version, BATCH)
            total = max(total, done + left)
            self.progress("embed", done, total)
            if not left:
                return done
            names, revisions, texts = rows[::3], rows[1::3], rows[2::3]
            if names:
                vectors = await self.embedder.embed_messages([text.decode() for text in texts])
                await self._write(version, list(zip(names, revisions, vectors, strict=True)))
            done += len(names)

    async def _write(self, version: int, rows: list[tuple[bytes, bytes, Any]]) -> None:
        for at in range(0, len(rows), WRITE):
            part = [(name, rev, vector.astype(np.float16).tobytes()) for name, rev, vector in rows[at : at + WRITE]]
            await self._step("write", version, *(value for row in part for value in row))

    async def _clean(self) -> None:
        """Removes what older versions left; the 'old' mark stays until that is complete."""
        meta = await self._meta()
        if "old" not in meta:
            return
        version = int(meta["version"])
        for old in range(1, version):
            await self._drop(self.keys.index(old))
        channels = await self._channels()
        for done, channel in enumerate(channels):
            self.progress("clean", done, len(channels))
            cursor = 0
            while cursor >= 0:
                cursor = await self._step("clean", version, channel, cursor, CLEAN)
        await self.scripts.redis.hdel(self.keys.one("meta"), "old")
        self.progress("clean", len(channels), len(channels))

    async def _channels(self) -> list[bytes]:
        found: list[Any] = []
        for guild in await self.scripts.redis.smembers(self.keys.one("guilds")):
            found += await self.scripts.redis.smembers(self.keys.of("guild", int(guild)))
        return found

    async def _meta(self) -> dict[str, str]:
        meta: Any = await self.scripts.redis.hgetall(self.keys.one("meta"))
        return {name.decode(): value.decode() for name, value in meta.items()}

    async def _drop(self, name: str) -> None:
        with contextlib.suppress(ResponseError):  # dropped before
            await command(self.scripts.redis, "FT.DROPINDEX", name)

    async def _await_indexed(self, name: str) -> None:
        while (done := await indexed(self.scripts.redis, name)) < 1:
            self.progress("build", int(done * 100), 100)
            await asyncio.sleep(POLL_S)
        self.progress("build", 100, 100)

    async def _step(self, kind: str, version: int, *arguments: Any) -> Any:
        return await self.scripts.run("renew", self.keys, [kind, version, *arguments])
