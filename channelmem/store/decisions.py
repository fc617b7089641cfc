"""What people decided (opt-outs, pauses, clears), as Redis knows it, or a copy on disk while Redis is unreachable.

The copy names nobody: ids are replaced by HMACs with a random secret of this machine, because a plain hash of an id can
be reversed by trying all ids. A copy that is damaged, too large to be complete, or made with another secret counts as
no copy.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import os
import secrets
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cachetools import LRUCache

from channelmem.errors import RedisUnavailableError
from channelmem.settings import Settings
from channelmem.store.buckets import Buckets, newest_of
from channelmem.store.documents import LocalCopy, place_of, replace_file
from channelmem.store.keys import room
from channelmem.store.redis import checked, pipelined, reads
from channelmem.types import Message, Window

KEY_FILE: Final = "decisions.key"
SECRET_BYTES: Final = 32
MOST: Final = 100_000
"""People and channels in a copy. Beyond that it would be incomplete, so there is none and nothing is shown."""
VERSION: Final = 1

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Recorded:
    """What was decided, by the names that Redis uses: `<author>`, `<guild>:<author>`, or a room."""

    hidden: set[str] = field(default_factory=set)
    """People who opted out."""
    windows: dict[str, tuple[Window, ...]] = field(default_factory=dict)
    """When nothing of a person or room may be stored or shown."""


class DecisionsCopy:
    """Never raises for a file: without one there is simply no copy."""

    def __init__(self, settings: Settings) -> None:
        self._folder, self._place = settings.data_dir, place_of(settings)
        self._secret = b""
        self._known: Recorded | None = None
        """By HMAC instead of by name."""
        self._loaded = False

    def of(self, names: Iterable[str]) -> Recorded | None:
        """What was decided about these people and rooms; None without a copy."""
        known = self._load()
        if known is None:
            return None
        keyed = {name: self._key(name) for name in names}
        windows = {name: known.windows[key] for name, key in keyed.items() if key in known.windows}
        return Recorded({name for name, key in keyed.items() if key in known.hidden}, windows)

    def replace(self, recorded: Recorded) -> bool:
        """Keeps everything that is recorded, instead of what was kept before; False if that has to be tried again."""
        if not self._load_secret():
            return False
        if len(recorded.hidden) + len(recorded.windows) > MOST:
            log.warning("Too many opt-outs for a local copy; without Redis, nothing of the platform's history is shown")
            self._known, self._loaded = None, True
            return self._file().remove()
        windows = {self._key(name): windows for name, windows in recorded.windows.items()}
        return self._keep(Recorded({self._key(name) for name in recorded.hidden}, windows))

    def restrict(self, *, hidden: str = "", room: str = "", window: Window | None = None) -> None:
        """Adds one decision before Redis hears of it; nothing if there is no copy to add it to."""
        known = self._load()
        if known is None:
            return
        people, windows = known.hidden | ({self._key(hidden)} if hidden else set()), dict(known.windows)
        if room and window is not None:
            windows[self._key(room)] = (*windows.get(self._key(room), ()), window)
        self._keep(Recorded(people, windows))

    def _keep(self, known: Recorded) -> bool:
        self._known, self._loaded = known, True
        windows = {key: [[one.start, one.end] for one in some] for key, some in known.windows.items()}
        stored = {"version": VERSION, "check": self._key("check"), "windows": windows, "hidden": sorted(known.hidden)}
        return self._file().write(json.dumps(stored).encode())

    def _key(self, name: str) -> str:
        return hmac.new(self._secret, name.encode(), "sha256").hexdigest()[:32]

    def _file(self) -> LocalCopy:
        return LocalCopy(self._folder / f"decisions-{self._key(self._place)[:12]}.json", "opt-outs")

    def _load(self) -> Recorded | None:
        if not self._loaded and self._load_secret():
            self._known, self._loaded = self._file().read(self._parsed), True
        return self._known

    def _load_secret(self) -> bool:
        """Reads the secret, or makes one; False if neither is possible."""
        if not self._secret:
            try:
                self._secret = _secret(self._folder / KEY_FILE)
            except OSError as error:
                log.warning("Can't keep a local copy of opt-outs in %s: %s", self._folder, error.strerror or error)
        return bool(self._secret)

    def _parsed(self, stored: Any) -> Recorded | None:
        if stored["version"] != VERSION or stored["check"] != self._key("check"):
            return None
        windows = {key: tuple(Window(*ends) for ends in some) for key, some in stored["windows"].items()}
        return Recorded(set(stored["hidden"]), windows)


def _secret(path: Path) -> bytes:
    """The same one for all processes: the first to come makes it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
    except FileExistsError:
        if path.stat().st_size != SECRET_BYTES:  # cut off by a crash; copies made with it are lost anyway
            replace_file(path, secrets.token_bytes(SECRET_BYTES))
    return path.read_bytes()


# --- decisions ---


SYNC_S = 20.0
"""Other processes take decisions too; the copy of this one learns of them within this time."""
CLEARED = 2_000


class Decisions:
    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._copy = DecisionsCopy(buckets.settings)
        self._syncing = asyncio.Lock()
        """One change of the copy at a time."""
        self._copied: Recorded | None = None
        """What the copy holds, if Redis held the same: mostly nothing has changed since the last look."""
        self._hiding: set[str] = set()
        """People whose opt-out is being written: Redis may not know of it yet."""
        self._cleared: LRUCache[str, Window] = LRUCache(CLEARED)
        """Rooms cleared by this process: the clear itself may still be queued."""

    async def write(self, kind: str, name: str, buckets: Iterable[int]) -> None:
        """One decision (decide.lua), in one round trip; it takes effect even in a full Redis."""
        arguments = [*self._buckets.moment(), kind, name]
        await self._buckets.visit_all("decide", list(buckets), arguments)

    async def allowed(self, guild_id: int, channel_id: int, messages: Collection[Message]) -> list[Message]:
        """The messages of a channel that may be shown, in one round trip."""
        if not messages:
            return []
        channel = room(guild_id, channel_id)
        channels = {f"off:{room(guild_id, one.thread_of or channel_id)}" for one in messages} | {f"off:{channel}"}
        recorded = await self._recorded(guild_id, channel, {one.author_id for one in messages}, sorted(channels))
        if channel in self._cleared:
            _add(recorded, channel, [self._cleared[channel]])
        return [one for one in messages if _is_allowed(one, recorded)]

    async def hidden(self, guild_id: int, author_ids: Collection[int]) -> set[int]:
        """Those of these people who opted out."""
        if not author_ids:
            return set()
        recorded = await self._recorded(guild_id, room(guild_id, 0), author_ids)  # of no room
        return {one for one in author_ids if not recorded.hidden.isdisjoint(_names(guild_id, one))}

    async def _recorded(
        self, guild_id: int, channel: str, author_ids: Iterable[int], channels: Sequence[str] = ()
    ) -> Recorded:
        """What Redis knows about a room and people, or else the copy; and what Redis could not write yet."""
        people = [name for author_id in author_ids for name in _names(guild_id, author_id)]
        try:
            recorded = await self._read(guild_id, channel, people, channels)
        except RedisUnavailableError:
            copied = await asyncio.to_thread(self._copy.of, [channel, *people, *channels])
            if copied is None:
                raise
            recorded = copied
        recorded.hidden |= self._buckets.undelivered.names()
        return recorded

    def _waiting(self) -> set[str]:
        """People who opted out, as far as Redis may not know."""
        return self._hiding | self._buckets.undelivered.names()

    @reads
    async def _read(self, guild_id: int, channel: str, people: list[str], channels: Sequence[str]) -> Recorded:
        keys = self._buckets.guild_keys(guild_id)
        asked = [
            ("SMISMEMBER", keys.one("optout"), *people),
            ("HMGET", keys.one("policy"), *(f"{channel}:{kind}" for kind in STATES)),
            ("HMGET", keys.one("refused"), channel, *people, *channels),
        ]
        out, state, refused = await pipelined(self._buckets.redis, asked)
        hidden = {name for name, is_out in zip(people, out, strict=True) if is_out}
        recorded = Recorded(hidden, {channel: _windows(*state)})
        for name, windows in zip((channel, *people, *channels), refused, strict=True):
            _add(recorded, name, _parsed(windows or b""))
        return recorded

    # --- the copy ---

    @asynccontextmanager
    async def hiding(self, name: str) -> AsyncIterator[None]:
        """Around an opt-out: the copy holds it before Redis hears of it, even if Redis fails right after."""
        self._hiding.add(name)
        async with self._syncing:
            self._copied = None
            await asyncio.to_thread(self._copy.restrict, hidden=name)
        try:
            yield
        finally:
            await self.sync()
            self._hiding.discard(name)

    async def close(self, guild_id: int, channel_id: int, window: Window) -> None:
        """The same for a channel that is paused or cleared."""
        channel = room(guild_id, channel_id)
        if window.start is None:
            self._cleared[channel] = window
        async with self._syncing:
            self._copied = None
            await asyncio.to_thread(self._copy.restrict, room=channel, window=window)

    async def sync(self) -> None:
        """Copies everything from Redis; keeps the copy as it is while Redis is unreachable."""
        async with self._syncing:
            with contextlib.suppress(RedisUnavailableError):
                waiting = self._waiting()  # before Redis is read: it may hear of them right after
                recorded = await self._read_all()
                recorded.hidden |= waiting | self._waiting()
                for channel, window in self._cleared.items():
                    _add(recorded, channel, [window])
                if recorded != self._copied and await asyncio.to_thread(self._copy.replace, recorded):
                    self._copied = recorded

    async def keep_synced(self) -> None:
        while True:
            await self.sync()
            await self._buckets.changes.catch_up_all()
            await asyncio.sleep(SYNC_S)

    @reads
    async def _read_all(self) -> Recorded:
        pipe = self._buckets.redis.pipeline(transaction=False)
        for bucket in self._buckets.all:
            keys = self._buckets.keys(bucket)
            pipe.smembers(keys.one("optout"))
            pipe.hgetall(keys.one("policy"))
            pipe.hgetall(keys.one("refused"))
            pipe.xrevrange(keys.one("changes"), count=1)
        replies: list[Any] = await pipe.execute(raise_on_error=False)
        self._buckets.changes.saw_all(list(map(newest_of, replies[3::4])))
        checked(replies[::4] + replies[1::4] + replies[2::4])
        recorded = Recorded({name.decode() for out in replies[::4] for name in out})
        for state in replies[1::4]:
            for channel in {name.decode().partition(":")[0] for name in state}:
                _add(recorded, channel, _windows(*(state.get(f"{channel}:{kind}".encode()) for kind in STATES)))
        for refused in replies[2::4]:
            for name, windows in refused.items():
                if name.decode() not in recorded.hidden:  # of whom nothing is shown anyway
                    _add(recorded, name.decode(), _parsed(windows))
        return recorded


STATES = ("paused", "cleared")


def person(author_id: int, guild_id: int | None) -> str:
    """How decisions name somebody, everywhere or in one guild."""
    return str(author_id) if guild_id is None else f"{guild_id}:{author_id}"


def _names(guild_id: int, author_id: int) -> list[str]:
    return [person(author_id, None), person(author_id, guild_id)]


def _add(recorded: Recorded, name: str, windows: Iterable[Window]) -> None:
    """Each window once: a pause is part of the channel's state and of its windows."""
    known = tuple(dict.fromkeys((*recorded.windows.get(name, ()), *windows)))
    if known:
        recorded.windows[name] = known


def _parsed(windows: bytes) -> list[Window]:
    """As `lib/refused.lua` writes them."""
    ends = (one.partition("/") for one in windows.decode().split())
    return [Window(_moment(start), _moment(end)) for start, _, end in ends]


def _moment(text: str) -> float | None:
    return None if text in {"-inf", "inf"} else float(text)


def _windows(paused: bytes | None, cleared: bytes | None) -> tuple[Window, ...]:
    """When nothing of a channel may be shown: since it was paused, and until it was cleared."""
    since = () if paused is None else (Window(start=float(paused)),)
    until = () if cleared is None else (Window(end=float(cleared)),)
    return (*since, *until)


def _is_allowed(message: Message, recorded: Recorded) -> bool:
    people = _names(message.guild_id, message.author_id)
    if not recorded.hidden.isdisjoint(people):
        return False
    own = room(message.guild_id, message.channel_id)
    channel = room(message.guild_id, message.thread_of or message.channel_id)
    moments = (message.ts, message.revision) if message.revision else (message.ts,)
    return not any(
        window.contains(moment)
        for name in (own, f"off:{own}", f"off:{channel}", *people)
        for window in recorded.windows.get(name, ())
        for moment in moments
    )
