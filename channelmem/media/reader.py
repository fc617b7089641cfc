"""Reads attachments: each once, by one process, within limits, and kept with its message. `opening.py` says which
readers there are."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from channelmem.errors import RedisUnavailableError
from channelmem.ids import ChannelId
from channelmem.ingest.normalise import ENRICHMENT_CHARS, tidy_line
from channelmem.media.fetch import Fetcher, GoneError, too_large
from channelmem.media.kinds import (
    NO_LINK,
    Item,
    MediaKey,
    MediaKind,
    MediaResult,
    UnreadableError,
    cache_key,
    lasting,
    passing,
)
from channelmem.policy.policy import Policy
from channelmem.settings import Settings
from channelmem.store.channel_state import Spending
from channelmem.store.derived import Described, Descriptions, State, Wanted
from channelmem.tasks import cancel_all
from channelmem.types import Attachment, History, Message

OFFLINE, PROVIDER = 1, 2  # ranks: what a provider's model saw is never replaced by less
PICTURE_BYTES: Final = 10_000_000
VOICE_BYTES: Final = 25_000_000
LONGEST_SIDE: Final = 1024  # of a picture as models see it, in pixels

AT_ONCE: Final = 4
MOST_TASKS: Final = 100  # attachments on their way; further ones stay unread
LASTING_S: Final = 600.0
PASSING_S: Final = 60.0
FAR_BEYOND: Final = 4  # times as long as a description may be: what a reader says beyond is not even read
POLL_S: Final = 0.2
EXPIRES_SOON_S: Final = 60.0
EXPIRES: Final = re.compile(r"[?&]ex=([0-9a-f]{8})(?:&|$)", re.IGNORECASE)

TOO_MANY: Final = "there is too much to read at once"
NO_REDIS: Final = "I can't check who opted out right now"
REFUSED: Final = "its author or channel does not want it read"
LATE: Final = "it is still being read"

PolicyOf = Callable[[Message], Policy]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class File:
    """An attachment with its content, and for which channel it is read."""

    attachment: Attachment
    content: bytes
    channel: ChannelId


@dataclass(frozen=True, slots=True)
class Costs:
    """Where a provider's calls are paid from."""

    ledger: Spending
    clock: Callable[[], float]  # says to which day a call belongs
    on_spent: Callable[[float], None]  # told what a call cost, in US dollars


@dataclass(frozen=True, slots=True)
class Picture:
    """As models take it, or as rows of RGB."""

    content: bytes
    media_type: str
    width: int
    height: int


class Reader(Protocol):
    @property
    def name(self) -> str:
        """As it is kept with what it read."""

    @property
    def rank(self) -> int: ...

    @property
    def max_bytes(self) -> int: ...

    async def read(self, file: File) -> str:
        """A description or transcript, empty if there is nothing in it; raises UnreadableError."""

    async def close(self) -> None:
        """Called once, after the last file."""


@dataclass(frozen=True, slots=True)
class Readers:
    pictures: Reader | None = None
    voices: Reader | None = None
    close_decoder: Callable[[], Awaitable[None]] | None = None

    def of(self, kind: MediaKind) -> Reader | None:
        if kind is MediaKind.PICTURE:
            return self.pictures
        return self.voices if kind in {MediaKind.VOICE, MediaKind.AUDIO} else None

    async def close(self) -> None:
        for reader in (self.pictures, self.voices):
            if reader is not None:
                await reader.close()
        if self.close_decoder is not None:
            await self.close_decoder()


@dataclass(frozen=True, slots=True)
class _Job:
    item: Item
    wanted: Wanted
    reader: Reader


class MediaReader:
    def __init__(
        self,
        settings: Settings,
        descriptions: Descriptions,
        readers: Readers,
        policy_of: PolicyOf,
        *,
        fetcher: Fetcher,
        history: History | None,
        clock: Callable[[], float],
    ) -> None:
        self._settings, self._descriptions, self.readers = settings, descriptions, readers
        self._policy_of, self._fetcher, self._history, self._clock = policy_of, fetcher, history, clock
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._tasks: dict[str, asyncio.Task[MediaResult]] = {}  # by attachment
        self._claims: set[str] = set()  # attachments that this process is reading
        self._running: set[asyncio.Task[MediaResult]] = set()
        self._refreshing: dict[tuple[int, int], asyncio.Task[Message | None]] = {}
        self._token = secrets.token_hex(8)

    async def close(self) -> None:
        await cancel_all([*self._running, *self._refreshing.values()])
        await self._fetcher.close()
        await self.readers.close()

    async def read(self, items: Sequence[Item], wait_s: float | None) -> dict[MediaKey, MediaResult]:
        """What is known after at most `wait_s` (None: when all are done), for each that has a reader; all belong to one
        guild."""
        jobs = [job for job in map(self._job, items) if job is not None]
        room = max(0, MOST_TASKS - len(self._running))
        done = {job.item.key: MediaResult(why=TOO_MANY) for job in jobs[room:]}
        if not (jobs := jobs[:room]):
            return done
        try:
            found = await self._descriptions.look_up([job.wanted for job in jobs], self._token)
        except RedisUnavailableError:
            return done | {job.item.key: MediaResult(why=NO_REDIS) for job in jobs}
        tasks: dict[MediaKey, asyncio.Task[MediaResult]] = {}
        for job, known in zip(jobs, found, strict=True):
            if (settled := _settled(known)) is not None:
                done[job.item.key] = settled
            else:
                tasks[job.item.key] = self._task(job, known)
        if tasks:
            await asyncio.wait(set(tasks.values()), timeout=wait_s)
        return done | {key: _result(task) for key, task in tasks.items()}

    def _job(self, item: Item) -> _Job | None:
        reader = self.readers.of(item.kind)
        if reader is None or not item.attachment.url:
            return None
        key = cache_key(item.attachment, self._settings.media_hosts)
        wanted = Wanted(item.message, item.attachment.id, key, reader.name, reader.rank, item.pointed)
        return _Job(item, wanted, reader)

    # --- one attachment ---

    def _task(self, job: _Job, known: Described) -> asyncio.Task[MediaResult]:
        name, claimed = job.wanted.name, known.state is State.CLAIMED
        # Replies may overtake each other: somebody here may already wait for the claim that this one has. And a claim
        # may expire while its reading waits for its turn.
        if (claimed and name not in self._claims) or name not in self._tasks:
            work = self._claimed(job, loose=known.loose) if claimed else self._elsewhere(job)
            self._tasks[name] = task = asyncio.create_task(work, name="channelmem reading media")
            self._running.add(task)
            task.add_done_callback(lambda done: self._ended(name, done))
        return self._tasks[name]

    def _ended(self, name: str, task: asyncio.Task[MediaResult]) -> None:
        """Nobody may be waiting for it any more."""
        self._running.discard(task)
        if self._tasks.get(name) is task:
            del self._tasks[name]
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, RedisUnavailableError):
            log.error("Reading an attachment failed", exc_info=error)

    async def _elsewhere(self, job: _Job) -> MediaResult:
        """Another process is at it: waits for that, or takes over if it fails."""
        while True:
            await asyncio.sleep(POLL_S)
            (known,) = await self._descriptions.look_up([job.wanted], self._token)
            if known.state is State.CLAIMED:
                return await self._claimed(job, loose=known.loose)
            if (settled := _settled(known)) is not None:
                return settled

    async def _claimed(self, job: _Job, *, loose: bool) -> MediaResult:
        self._claims.add(job.wanted.name)
        try:
            async with self._slots:
                text, size = await self._read(job)
            if loose:  # shown for this answer only: nothing could take it along when its message goes
                await self._descriptions.fail(job.wanted, self._token)
            elif not await self._keep(job, text, size):
                return MediaResult(why=REFUSED)
        except UnreadableError as error:
            log.info("An attachment could not be read: %s", error)
            hold_s = LASTING_S if error.lasting else PASSING_S
            await self._descriptions.fail(job.wanted, self._token, str(error), hold_s)
            return MediaResult(why=str(error), fresh=True)
        except asyncio.CancelledError:
            await asyncio.shield(self._descriptions.fail(job.wanted, self._token))
            raise
        finally:
            self._claims.discard(job.wanted.name)
        return MediaResult(text, job.reader.name, fresh=True)

    async def _read(self, job: _Job) -> tuple[str, int]:
        content = await self._content(job)
        message = job.item.message
        file = File(job.item.attachment, content, ChannelId(message.guild_id, message.channel_id))
        text = await job.reader.read(file)
        return tidy_line(text[: FAR_BEYOND * ENRICHMENT_CHARS], ENRICHMENT_CHARS), len(content)

    async def _keep(self, job: _Job, text: str, size: int) -> bool:
        policy = self._policy_of(job.item.message)
        return policy.enabled and await self._descriptions.keep(job.wanted, self._token, text, size, policy)

    # --- its content ---

    async def _content(self, job: _Job) -> bytes:
        one, most = job.item.attachment, job.reader.max_bytes
        if one.size > most:
            raise too_large(most)
        if one.duration_s and one.duration_s > self._settings.voice_max_s:
            raise lasting(f"it is longer than {self._settings.voice_max_s:g} s")
        if self._history is None or not expired(one.url, self._clock()):
            try:
                return await self._fetcher.fetch(one.url, most)
            except GoneError:
                if self._history is None:
                    raise
        return await self._fetcher.fetch(await self._fresh_url(job.item), most)

    async def _fresh_url(self, item: Item) -> str:
        """The platform signs its links for a day, and signs them again when the message is fetched."""
        message = await self._fetched(item.message)
        hosts = self._settings.media_hosts
        wanted = cache_key(item.attachment, hosts)
        links = [one.url for one in (message.attachments if message else ()) if cache_key(one, hosts) == wanted]
        if not links:
            raise passing(NO_LINK)
        return links[0]

    async def _fetched(self, message: Message) -> Message | None:
        """One request per message, however many of its pictures want it."""
        place = (message.channel_id, message.id)
        if self._history is None:
            return None
        if place not in self._refreshing:
            task = asyncio.ensure_future(self._history.fetch_message(*place))
            self._refreshing[place] = task
            task.add_done_callback(lambda _: self._refreshing.pop(place, None))
        return await asyncio.shield(self._refreshing[place])


def expired(url: str, now: float) -> bool:
    """Discord writes into a link until when it holds: ex=6711fc2a, in hexadecimal seconds."""
    until = EXPIRES.search(url)
    return until is not None and int(until[1], 16) <= now + EXPIRES_SOON_S


def _settled(known: Described) -> MediaResult | None:
    """What the look-up alone says; what comes from Redis is tidied again, as others may write there."""
    if known.state is State.KNOWN:
        return MediaResult(tidy_line(known.text, ENRICHMENT_CHARS), known.reader)
    if known.state is State.FAILED:
        return MediaResult(why=known.text)
    return MediaResult(why=REFUSED) if known.state is State.REFUSED else None


def _result(task: asyncio.Task[MediaResult]) -> MediaResult:
    if not task.done() or task.cancelled():
        return MediaResult(why=LATE)
    return MediaResult(why=NO_REDIS) if task.exception() else task.result()
