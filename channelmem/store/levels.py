"""What is set for guilds, channels and characters, kept current in this process, with a copy on disk for a start while
Redis is unreachable.

A channel that is off must stay off then: its past would be fetched from the platform otherwise. The file holds ids of
servers and channels and what is set there, for its owner's eyes only; who changed it stays in Redis.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from redis.exceptions import RedisError

from channelmem.errors import RedisUnavailableError
from channelmem.store.buckets import Buckets
from channelmem.store.documents import LocalCopy, place_of
from channelmem.store.keys import room
from channelmem.store.redis import command, reads
from channelmem.store.scripts import run_script

VERSION: Final = 1
WITHOUT: Final = "changes"

Document = Mapping[str, Any]

log = logging.getLogger(__name__)

COMPARE_S = 2.0
"""How long a lost announcement may go unnoticed."""
RETRY_S = 0.5
CHUNK = 1_000


class Levels:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        buckets.changes.on_setting = self._follow_change
        place = hashlib.sha256(place_of(buckets.settings).encode()).hexdigest()[:12]
        self._copy = LocalCopy(buckets.settings.data_dir / f"levels-{place}.json", "settings")
        self._copied = b""
        self.documents: dict[str, Document] = {}
        """By place: `global`, `channel:<room>`, `character:<guild>:<name>`, `boundary:<room>`."""
        self.threads: dict[str, str] = {}
        """Room of a thread -> room of its channel."""
        self.known = False
        """False until Redis or the copy on disk was read: nobody knows yet what is off."""
        self.on_change: Callable[[], None] = lambda: None
        self._counts: list[int] = []
        self._reloads = 0
        """What is reloaded while everything is being read is newer than what was read."""
        self._reloading = asyncio.Lock()
        """One after the other: what was read first must not replace what was read later."""

    # --- changes ---

    async def change(
        self, place: str, guild_id: int, room_: str, by: int, values: Sequence[tuple[str, str]] | None
    ) -> list[tuple[str, str, str]]:
        """Sets names to JSON texts ('' clears); None clears everything. Returns name, old and new of what changed."""
        flat = ["*"] if values is None else [part for pair in values for part in pair]
        arguments = [*self._buckets.moment(), place, room_, by, *flat]
        # Not by way of `Buckets.run`: that would create an index, and the command line knows no model to create it for.
        reply = await run_script(self._buckets.redis, "settings", self._buckets.guild_keys(guild_id), arguments)
        await self._reload(self._buckets.bucket(guild_id), place)
        await self._keep()
        changed = [part.decode() for part in reply]
        return list(zip(changed[::3], changed[1::3], changed[2::3], strict=True))

    async def begin(self, guild_id: int, channel_id: int, document: Document, life_s: float) -> None:
        place = f"boundary:{room(guild_id, channel_id)}"
        await self._buckets.run_for(guild_id, "boundary", (place, json.dumps(document), int(life_s * 1000)))
        await self._reload(self._buckets.bucket(guild_id), place)

    async def learn_threads(self, guild_id: int, parents: Mapping[str, str]) -> None:
        """Notes the channels of threads, once and for all: no thread moves. Known here at once; other processes learn
        of them through Redis."""
        new = {thread: parent for thread, parent in parents.items() if thread not in self.threads}
        if not new:
            return
        self._know_threads(new)
        flat = [part for pair in new.items() for part in pair]
        try:
            noted = await self._buckets.run_for(guild_id, "thread", flat)
        except RedisUnavailableError:
            for thread in new:  # to be told again with the next message
                self.threads.pop(thread, None)
            self.on_change()
        else:  # again: everything may have been read meanwhile, without them; or another process was first
            self._know_threads(dict(zip(new, (parent.decode() for parent in noted), strict=True)))

    def _know_threads(self, new: Mapping[str, str]) -> None:
        self.threads |= new
        self._reloads += 1
        self.on_change()

    def now(self) -> float:
        return self._buckets.clock()

    # --- reading ---

    @reads
    async def read(self, guild_id: int, place: str) -> Document:
        """One document as Redis holds it now; empty if nothing is set there."""
        key = self._buckets.guild_keys(guild_id).of("settings", place)
        return _document(await command(self._buckets.redis, "JSON.GET", key))

    async def load(self) -> None:
        """Reads everything; the copy on disk if Redis can't be reached and nothing is known yet."""
        try:
            await self._load()
        except RedisUnavailableError:
            if not self.known and (copied := await asyncio.to_thread(self._copy.read, _copied)) is not None:
                self._take(*copied)

    @reads
    async def _load(self) -> None:
        while not await self._load_once():
            pass
        await self._keep()

    async def _load_once(self) -> bool:
        """False if something changed meanwhile."""
        reloads = self._reloads
        documents: dict[str, Document] = {}
        threads: dict[str, str] = {}
        counts = await self._count()  # before the documents: what changes meanwhile is read again
        for bucket in [bucket for bucket, count in enumerate(counts) if count]:  # in the others nothing was ever set
            documents |= await self._documents(bucket)
            found: Any = await self._buckets.redis.hgetall(self._buckets.keys(bucket).one("threads"))
            threads |= {thread.decode(): parent.decode() for thread, parent in found.items()}
        if reloads != self._reloads:
            return False
        self._counts = counts
        self._take(documents, threads)
        return True

    def _take(self, documents: dict[str, Document], threads: dict[str, str]) -> None:
        self.documents, self.threads, self.known = documents, threads, True
        self.on_change()

    async def _documents(self, bucket: int) -> dict[str, Document]:
        keys = self._buckets.keys(bucket)
        names: Any = await self._buckets.redis.hkeys(keys.one("levels"))
        places = [place for name in names if not (place := name.decode()).startswith(("*", "thread:"))]
        documents: dict[str, Document] = {}
        for at in range(0, len(places), CHUNK):
            some = places[at : at + CHUNK]
            wanted = (keys.of("settings", place) for place in some)
            found = await command(self._buckets.redis, "JSON.MGET", *wanted, ".")
            documents |= {place: made for place, one in zip(some, found, strict=True) if (made := _document(one))}
        return documents

    @reads
    async def _reload(self, bucket: int, place: str) -> None:
        self._reloads += 1
        keys, thread = self._buckets.keys(bucket), place.removeprefix("thread:")
        async with self._reloading:
            if thread == place:
                key = keys.of("settings", place)
                self.documents[place] = _document(await command(self._buckets.redis, "JSON.GET", key))
            elif parent := await command(self._buckets.redis, "HGET", keys.one("threads"), thread):
                self.threads[thread] = parent.decode()
        self.on_change()

    async def _count(self) -> list[int]:
        counts = await self._buckets.everywhere.ask("HGET", "levels", "*")
        return [int(counts.get(bucket, 0)) for bucket in self._buckets.all]

    async def _keep(self) -> None:
        await asyncio.to_thread(self._write_copy, dict(self.documents), dict(self.threads))

    def _write_copy(self, documents: dict[str, Document], threads: dict[str, str]) -> None:
        kept = {place: {k: v for k, v in one.items() if k != WITHOUT} for place, one in documents.items()}
        data = json.dumps({"version": VERSION, "documents": kept, "threads": threads}).encode()
        if data != self._copied and self._copy.write(data):
            self._copied = data

    # --- following ---

    async def follow(self) -> None:
        """Keeps the documents current until it is cancelled."""
        while True:
            try:
                await self._listen()
            except (RedisUnavailableError, RedisError, OSError) as error:
                log.debug("Settings are not followed: %s", error)
            await asyncio.sleep(RETRY_S)

    async def _listen(self) -> None:
        prefix = self._buckets.settings.key_prefix
        buckets = {self._buckets.keys(bucket).one("changed").encode(): bucket for bucket in self._buckets.all}
        async with self._buckets.redis.pubsub() as pubsub:
            await pubsub.psubscribe(f"{prefix}:*:changed")
            await self._load()  # what changed before anybody listened
            while True:
                message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=COMPARE_S)
                if message is None:
                    await self.refresh()
                elif message["channel"] in buckets:
                    await self._buckets.changes.heard(buckets[message["channel"]], message["data"].decode())

    async def _follow_change(self, bucket: int, place: str) -> None:
        """May raise RedisUnavailableError; everything is read again if it is unknown which place changed."""
        if not place:
            await self.load()
            return
        counts = await self._count()
        await self._reload(bucket, place)
        self._counts = counts
        await self._keep()

    async def refresh(self) -> None:
        """Knows what is set now; may raise RedisUnavailableError."""
        if await self._count() != self._counts:
            await self._load()


def _copied(stored: Any) -> tuple[dict[str, Document], dict[str, str]] | None:
    return (dict(stored["documents"]), dict(stored["threads"])) if stored["version"] == VERSION else None


def _document(raw: bytes | None) -> Document:
    """A damaged document counts as none, and says so."""
    try:
        found = json.loads(raw or b"{}")
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found
    log.warning("A settings document in Redis is not a JSON object; ignoring it")
    return {}
