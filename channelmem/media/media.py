"""`Memory.media`: what is attached to messages, read when it matters. What somebody points at is read at once; of what
surrounds a question, as many of the newest pictures as the policy allows. Everything else keeps what is known of it
already. The readers are loaded when the first one is needed."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Self

from cachetools import LRUCache, TTLCache

from channelmem.errors import ConfigError, RedisUnavailableError
from channelmem.extras import load
from channelmem.ids import QuestionId
from channelmem.ingest.normalise import tidy_attachments
from channelmem.media.kinds import NO_LINK, Item, MediaKey, MediaKind, MediaResult, readable
from channelmem.policy.policies import Policies
from channelmem.policy.policy import Policy
from channelmem.settings import Settings
from channelmem.store.search import Search
from channelmem.store.store import Store
from channelmem.tasks import cancel_all
from channelmem.telling import references
from channelmem.telling.references import with_seen
from channelmem.types import Attachment, History, Kind, Message, Question

if TYPE_CHECKING:
    from channelmem.media.reader import MediaReader


POINTED: Final = 10  # attachments that one question has read, at most
REMEMBERED: Final = 500  # questions of which it is noted what was looked at, for whoever asks why
GLANCE_S: Final = 300.0  # texts stay in this process no longer than an answer may take
ARRIVING: Final = 200
"""Messages whose attachments wait to be read as they arrive; further ones stay unread until somebody refers to them."""
LINK: Final = re.compile(r"https?://", re.IGNORECASE)
OFFLINE_PACKAGES: Final = ("rapidocr", "faster_whisper")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Use:
    """An attachment that was looked at for an answer, without what it shows: a removed one must not survive here."""

    guild_id: int
    channel_id: int
    message_id: int
    author_id: int
    author: str
    kind: MediaKind
    how: str  # "described, by openai:gpt-5-mini", "not read: it is gone"


@dataclass(slots=True)
class _Glance:
    """What one question had read. Its answer is made in several steps, but waits only once."""

    ends: float
    readings: dict[MediaKey, MediaResult] = field(default_factory=dict)


class Media:
    def __init__(self, store: Store, policies: Policies, search: Search, history: History | None) -> None:
        self._store, self._policies = store, policies
        self._search, self._history, self._settings = search, history, store.buckets.settings
        self._glances: TTLCache[QuestionId, _Glance] = TTLCache(REMEMBERED, GLANCE_S)
        self._uses: LRUCache[QuestionId, dict[MediaKey, Use]] = LRUCache(REMEMBERED)
        self._reader: MediaReader | None = None
        self._can_read = _can_read(self._settings)
        self._opening = asyncio.Lock()
        self._arriving: set[asyncio.Task[None]] = set()
        self.on_read: Callable[[str, str], None] = lambda kind, outcome: None
        """Told a kind and an outcome: "described", "cached" or "failed"."""
        self.on_spent: Callable[[float], None] = lambda usd: None

    async def __aenter__(self) -> Self:
        """A provider that is named but can't be used is reported at the start."""
        if self._settings.media and (_is_set(self._settings.vision_model) or self._settings.voice_base_url):
            self._reader = await asyncio.to_thread(self._open)
        return self

    async def __aexit__(self, *_: object) -> None:
        await cancel_all(list(self._arriving))
        if self._reader is not None:
            await self._reader.close()

    # --- for questions ---

    def may_point(self, question: Question) -> bool:
        """Whether a question can point at something that could be read; needs no look-up."""
        if question.kind is Kind.NONE:  # it is to be answered without looking anything up
            return False
        points = question.attachments or question.reply_to is not None or "/channels/" in question.text
        return bool(points) and self._can_read

    async def pointed(self, question: Question, policy: Policy) -> tuple[Message, ...]:
        """The messages with media that a question points at, read."""
        if not self._may_read(question, policy):
            return ()
        messages = [*_own(question), *await self._referenced(question, policy)]
        glance = await self._read(question, list(readable(messages, pointed=True))[:POINTED])
        texts = {key: result.text for key, result in glance.readings.items() if result.text}
        return tuple(with_seen(message, texts) for message in messages if _was_read(message, glance))

    async def seen(
        self,
        question: Question,
        pointed: Iterable[Message],
        ambient: Iterable[Message],
        policy: Policy,
        also: Iterable[Message] = (),
    ) -> Mapping[MediaKey, str]:
        """What was read for an answer, beyond what the messages carry. `also` is shown as it is."""
        if not self._may_read(question, policy):
            return {}
        asked = list(readable([*_own(question), *pointed], pointed=True))[:POINTED]
        taken = {item.key for item in asked}
        near = [item for item in readable(ambient) if item.key not in taken]
        near.sort(key=lambda item: (item.message.ts, item.message.id), reverse=True)
        pictures = [item for item in near if item.kind is MediaKind.PICTURE][: policy.context_images]
        known = [item for item in (*near, *readable(also)) if _is_known(item) and item.key not in taken]
        if not (asked or pictures or known):
            return {}
        glance = await self._read(question, [*asked, *(one for one in pictures if not _is_known(one))])
        for item in known:
            self._note(question, item, "known before" if item.attachment.text else "alt text")
        for item in pictures:
            if item.attachment.text:
                self.on_read(item.kind.value, "cached")
        return {key: result.text for key, result in glance.readings.items() if result.text}

    def uses(self, guild_id: int, channel_id: int, question_id: int) -> tuple[Use, ...]:
        """What was looked at for the answer to a question."""
        return tuple(self._uses.get(QuestionId(guild_id, channel_id, question_id), {}).values())

    def _may_read(self, question: Question, policy: Policy) -> bool:
        allowed = policy.media_age_restricted or not question.age_restricted
        return policy.enabled and allowed and self._can_read

    async def _referenced(self, question: Question, policy: Policy) -> Sequence[Message]:
        async def stored(channel_id: int, ids: Sequence[int]) -> Sequence[Message]:
            return await self._search.get(question.guild_id, channel_id, ids, limits=policy.limits)

        fetch = references.layered((), stored, self._history.fetch_message if self._history else None)
        try:
            found = await references.collect(question, fetch, min(POINTED, policy.context_references))
            return [await self._with_previews(message) for message in found]
        except RedisUnavailableError:
            return ()

    async def _with_previews(self, message: Message) -> Message:
        """Link previews come after their message; of one that was stored without, the platform is asked."""
        if message.attachments or self._history is None or not LINK.search(message.content):
            return message
        now = await self._history.fetch_message(message.channel_id, message.id)
        if now is None or not (previews := _previews(now)):
            return message
        await self.attach(now)
        return replace(message, attachments=previews)

    async def _read(self, question: Question, items: Sequence[Item]) -> _Glance:
        glance = self._glance(question)
        todo = [item for item in items if item.key not in glance.readings]
        reading = await self._opened() if todo else None
        if reading is None:
            return glance
        left_s = max(0.0, glance.ends - asyncio.get_running_loop().time())
        results = await reading.read(todo, left_s)
        for item in todo:
            if (result := results.get(item.key)) is not None:
                if result.why != NO_LINK:  # the platform may be asked between two steps of one answer
                    glance.readings[item.key] = result
                self._note(question, item, self._counted(item, result))
        return glance

    def _glance(self, question: Question) -> _Glance:
        glance = self._glances.get(QuestionId.of(question))
        if glance is None:
            glance = _Glance(asyncio.get_running_loop().time() + self._settings.vision_wait_s)
            self._glances[QuestionId.of(question)] = glance
        return glance

    def _note(self, question: Question, item: Item, how: str) -> None:
        message = item.message
        place = (message.guild_id, message.channel_id, message.id)
        uses = self._uses.setdefault(QuestionId.of(question), {})
        uses[item.key] = Use(*place, message.author_id, message.author, item.kind, how)

    def _counted(self, item: Item, result: MediaResult) -> str:
        outcome = "failed" if result.why else "described" if result.fresh else "cached"
        self.on_read(item.kind.value, outcome)
        if result.why:
            return f"not read: {result.why}"
        return f"{outcome}, by {result.by}" if result.by else outcome

    # --- as they arrive ---

    def arrived(self, messages: Iterable[Message]) -> None:
        """Reads in the background what a policy wants read before anybody asks."""
        for message in messages:
            if message.attachments and self._wants(message) and len(self._arriving) < ARRIVING:
                task = asyncio.create_task(self._read_arrived(message), name="channelmem reading new media")
                self._arriving.add(task)
                task.add_done_callback(self._arriving.discard)

    async def attach(self, message: Message) -> None:
        """Link previews that the platform found after the message was stored."""
        files = _previews(message)
        with suppress(RedisUnavailableError):
            if files and await self._store.descriptions.attach(message, files):
                self.arrived([replace(message, attachments=files)])

    def _wants(self, message: Message) -> bool:
        policy = self._policies.of_message(message)
        allowed = policy.media_age_restricted or not message.age_restricted
        return policy.enabled and policy.media_on_arrival and allowed and not message.own and self._can_read

    async def _read_arrived(self, message: Message) -> None:
        new = [item for item in readable([message]) if item.kind is not MediaKind.AUDIO and not _is_known(item)]
        reading = await self._opened() if new else None
        if reading is not None:
            results = await reading.read(new, None)
            for item in new:
                if item.key in results:
                    self._counted(item, results[item.key])

    # --- what this process keeps ---

    def drop(self) -> None:
        """Somebody's words are to go."""
        self._glances.clear()
        self._uses.clear()

    # --- the readers ---

    async def _opened(self) -> MediaReader | None:
        """None if the readers can't be loaded, which is logged once."""
        async with self._opening:
            if self._reader is None and self._can_read:
                try:
                    self._reader = await asyncio.to_thread(self._open)
                except ConfigError as error:
                    log.warning("Pictures and voices are not read: %s", error)
                    self._can_read = False
            return self._reader

    def _open(self) -> MediaReader:
        purpose = "Reading pictures and voices"
        reading, opening, fetch = (
            load(f"channelmem.media.{name}", "media", purpose) for name in ("reader", "opening", "fetch")
        )
        costs = reading.Costs(self._store.spending, self._store.buckets.clock, self._spent)
        made: MediaReader = reading.MediaReader(
            self._settings,
            self._store.descriptions,
            opening.open_readers(self._settings, costs),
            self._policies.of_message,
            fetcher=fetch.Fetcher(self._settings.media_hosts),
            history=self._history,
            clock=self._store.buckets.clock,
        )
        return made

    def _spent(self, usd: float) -> None:
        """Whoever is to be told may be set after the readers were opened."""
        self.on_spent(usd)


def _can_read(settings: Settings) -> bool:
    """Whether there may be any reader; finding out costs no import."""
    named = _is_set(settings.vision_model) or (settings.llm_model and settings.vision_model is None)
    offline = any(find_spec(name) is not None for name in OFFLINE_PACKAGES)
    return settings.media and bool(named or settings.voice_base_url or offline)


def _is_set(model: str | None) -> bool:
    return model is not None and model != "off"


def _own(question: Question) -> list[Message]:
    """A question with files as the message that it is."""
    if not question.attachments:
        return []
    who = (question.asker_id, question.asker)
    return [Message(*QuestionId.of(question), *who, question.text, question.ts, attachments=question.attachments)]


def _previews(message: Message) -> tuple[Attachment, ...]:
    return tuple(one for one in tidy_attachments(message.attachments) if one.embed)


def _is_known(item: Item) -> bool:
    """What people wrote about it is as good as a description."""
    return bool(item.attachment.text or item.attachment.alt)


def _was_read(message: Message, glance: _Glance) -> bool:
    return any(item.key in glance.readings for item in readable([message]))
