"""Policies: what is in force in each conversation, and changing it.

Resolved once from defaults and levels, then a look-up; any change empties the cache. Nothing here waits for Redis but
the changes themselves.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from cachetools import LRUCache

from channelmem.errors import ChannelmemError, DamagedDataError, RedisUnavailableError, UnknownSettingError
from channelmem.policy import cascade as declared
from channelmem.policy.cascade import (
    GRACE_S,
    Auto,
    Boundary,
    Change,
    Effective,
    Json,
    Level,
    Loss,
    Overrides,
    Place,
    Setting,
    Value,
    current,
    renamed,
    resolve,
)
from channelmem.policy.policy import Policy
from channelmem.settings import Settings
from channelmem.store.keys import guild_and_channel, room
from channelmem.store.store import Store
from channelmem.types import Message, Question

CACHED = 20_000
ARCHIVE = "archive"
LOOK_S = 5.0
"""How often archives are looked for that can't be switched on again any more."""

log = logging.getLogger(__name__)


class Policies:
    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._levels, self._channels = settings, store.levels, store.channels
        self.declared = declared.SETTINGS
        self._default = Policy.of_settings(settings)
        self._cache: LRUCache[tuple[int, int, str, int], Policy] = LRUCache(CACHED)
        self._storing: LRUCache[tuple[int, int, int], Policy] = LRUCache(CACHED)
        self._values: LRUCache[Place, Mapping[str, Value]] = LRUCache(CACHED)
        self._fitting: set[asyncio.Task[bool]] = set()
        self._fitted: dict[str, float] = {}
        """Place -> the change of its archive that messages were last brought in line with."""
        self.version = 0
        """Grows with every change, in this process."""
        self._levels.on_change = self._forget_cached

    @property
    def known(self) -> bool:
        """Whether anybody knows what is off. If not, nothing of the platform's history may be shown."""
        return self._levels.known

    def _forget_cached(self) -> None:
        self.version += 1
        self._cache.clear()
        self._storing.clear()
        self._values.clear()

    # --- what is in force ---

    def of(self, guild_id: int, channel_id: int, character: str = "", thread_of: int = 0) -> Policy:
        """What applies to a conversation. `thread_of` is the channel of a thread, as far as the caller knows: it counts
        where nobody noted another, and never opens a channel that is off itself."""
        key = (guild_id, channel_id, character, thread_of)
        policy = self._cache.get(key)
        if policy is None:
            policy = self._default
            for one in self.effective(*key).values():
                policy = one.setting.apply(policy, one.value)
            if not policy.limits.archive:
                undo_until = self._undo_until(guild_id, channel_id, self._parent(guild_id, channel_id, thread_of))
                policy = replace(policy, limits=policy.limits._replace(undo_until=undo_until))
            self._cache[key] = policy
        return policy

    def _undo_until(self, guild_id: int, *channel_ids: int) -> float:
        """Until when an archive that is off can be switched on again as it was; 0 if nobody switched it."""
        places = Place.everywhere(), *(Place.channel(guild_id, one) for one in channel_ids if one)
        switched = max(self._archive_changed(name_of(place)) for place in places)
        return switched + GRACE_S if switched else 0.0

    def _archive_changed(self, name: str) -> float:
        at = self._levels.documents.get(name, {}).get("at")
        changed = at.get(ARCHIVE) if isinstance(at, dict) else None
        return float(changed) if isinstance(changed, int | float) else 0.0

    def reached(self, question: Question) -> Question:
        """The question without other channels whose memory is off."""
        if not question.readable_channel_ids:
            return question
        others = {one: self.of(question.guild_id, one, question.character) for one in question.readable_channel_ids}
        return replace(question, readable_channel_ids=tuple(one for one, policy in others.items() if policy.enabled))

    def of_question(self, question: Question) -> Policy:
        return self.of(question.guild_id, question.channel_id, question.character, question.thread_of)

    def storing(self, guild_id: int, channel_id: int, thread_of: int = 0) -> Policy:
        """What applies to storing: messages are kept, and summarised, if anybody may use that, with or without a
        character."""
        key = (guild_id, channel_id, thread_of)
        policy = self._storing.get(key)
        if policy is None:
            policy = self.of(guild_id, channel_id, "", thread_of)
            if not (policy.enabled and policy.summaries):
                start = f"character:{guild_id}:"
                names = [name.removeprefix(start) for name in self._levels.documents if name.startswith(start)]
                wanted = [one for name in names if (one := self.of(guild_id, channel_id, name, thread_of)).enabled]
                summaries = policy.summaries or any(one.summaries for one in wanted)
                policy = replace(policy, enabled=policy.enabled or bool(wanted), summaries=summaries)
            self._storing[key] = policy
        return policy

    def of_message(self, message: Message) -> Policy:
        return self.storing(message.guild_id, message.channel_id, message.thread_of)

    def effective(
        self, guild_id: int, channel_id: int, character: str = "", thread_of: int = 0
    ) -> dict[str, Effective]:
        """The value of each setting, with its source and why."""
        said = {
            Level.GLOBAL: self.overrides(Place.everywhere()),
            Level.CHANNEL: self._of_channel(guild_id, channel_id, thread_of),
        }
        if character:
            said[Level.CHARACTER] = self.overrides(Place.of_character(guild_id, character))
        return {
            one.name: resolve(
                one,
                one.default(self._settings),
                {level: values[one.name] for level, values in said.items() if one.name in values},
            )
            for one in self.declared
        }

    def overrides(self, place: Place) -> Mapping[str, Value]:
        """What is set at a place, as this process knows it."""
        values = self._values.get(place)
        if values is None:
            values = self._values[place] = self._read_values(self._levels.documents.get(name_of(place), {}))
        return values

    def channel_of(self, guild_id: int, channel_id: int) -> int:
        """The channel whose settings apply: a thread follows its channel, unless something is set at itself."""
        if self.overrides(Place.channel(guild_id, channel_id)):
            return channel_id
        return self._parent(guild_id, channel_id) or channel_id

    def _parent(self, guild_id: int, channel_id: int, thread_of: int = 0) -> int:
        """The channel of a thread: what is noted, else what the caller says; 0 if it is none."""
        noted = self._levels.threads.get(room(guild_id, channel_id))
        return guild_and_channel(noted.encode())[1] if noted else thread_of

    def _of_channel(self, guild_id: int, channel_id: int, thread_of: int) -> Mapping[str, Value]:
        """What is set for a channel or thread; a thread follows its channel in what is not set at itself. Off is final,
        be it the thread or its channel that is off."""
        values = self.overrides(Place.channel(guild_id, channel_id))
        parent = self._parent(guild_id, channel_id, thread_of)
        if not parent:
            return values
        above = self.overrides(Place.channel(guild_id, parent))
        return {**above, **values, **({"enabled": False} if above.get("enabled") is False else {})}

    def any_closed(self, guild_id: int) -> bool:
        """Whether some channel of the guild is off: a thread of an unknown channel may belong to it."""
        names = [name for name in self._levels.documents if name.startswith(f"channel:{guild_id}c")]
        return any(self.overrides(_place(name)).get("enabled") is False for name in names)

    # --- changing it ---

    async def read(self, place: Place) -> Overrides:
        """What is set at a place and who changed it, fresh from Redis; may raise RedisUnavailableError."""
        document = await self._levels.read(place.guild_id, name_of(place))
        noted = document.get("changes")
        changes = (self._read_change(one) for one in noted) if isinstance(noted, list) else ()
        return Overrides(self._read_values(document), tuple(filter(None, changes)))

    async def set(self, place: Place, name: str, value: Value | Auto, *, by: int = 0) -> Change | None:
        """Sets one setting, or clears it (AUTO); None if that changes nothing. In force when this returns."""
        changes = await self.set_many(place, {name: value}, by=by)
        return changes[0] if changes else None

    async def set_many(self, place: Place, values: Mapping[str, Value | Auto], *, by: int = 0) -> tuple[Change, ...]:
        """The same for several settings, in one step."""
        return await self._write(
            place, [(name, self._text(place, name, one)) for name, one in renamed(values).items()], by
        )

    def _text(self, place: Place, name: str, value: Value | Auto) -> str:
        """What Redis is told; empty clears."""
        setting = self._by_name.get(name)
        if setting is None or place.level not in setting.levels:
            raise UnknownSettingError(f"There is no setting {name!r} at the {place.level} level.")
        return "" if isinstance(value, Auto) else json.dumps(setting.to_json(value))

    def json_of(self, name: str, value: Value | Auto) -> Json | None:
        return None if isinstance(value, Auto) else self._by_name[name].to_json(value)

    async def reset(self, place: Place, *, by: int = 0) -> tuple[Change, ...]:
        """Clears everything that is set at a place."""
        return await self._write(place, None, by)

    async def _write(self, place: Place, values: Sequence[tuple[str, str]] | None, by: int) -> tuple[Change, ...]:
        if values is not None and not values:
            return ()
        room_ = room(place.guild_id, place.channel_id) if place.level is Level.CHANNEL else ""
        changed = await self._levels.change(name_of(place), place.guild_id, room_, by, values)
        if any(name == ARCHIVE for name, _, _ in changed):
            task = asyncio.create_task(self._fit(place), name="channelmem fitting lifetimes")
            self._fitting.add(task)
            task.add_done_callback(self._fitting.discard)
        known = [one for one in changed if one[0] in self._by_name]
        now = self._levels.now()
        return tuple(self._change(now, by, name, *(json.loads(one or "null") for one in said)) for name, *said in known)

    async def fitted(self) -> None:
        """Waits until lifetimes follow what was changed here."""
        await asyncio.gather(*self._fitting)

    async def keep_fitted(self) -> None:
        """Removes what switched-off archives held once that can't be undone, whichever process switched them."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.fit_overdue()
            except ChannelmemError as error:  # such as an index of another model, until it is rebuilt
                log.warning("Lifetimes of messages do not follow a changed setting yet: %s", error)

    async def fit_overdue(self) -> None:
        now, longest_s = self._levels.now(), self._settings.longest_s
        for name in list(self._levels.documents):
            changed = self._archive_changed(name)
            overdue = changed + GRACE_S <= now < changed + longest_s  # what is older has expired by itself
            if not overdue or self._fitted.get(name) == changed:
                continue
            await self._levels.refresh()  # somebody may have undone it while Redis was away from this process
            if self._archive_changed(name) == changed and await self._fit(_place(name)):
                self._fitted[name] = changed

    async def _fit(self, place: Place) -> bool:
        """Brings the lifetimes of messages in line with their policies; False if Redis can't be reached."""
        complete = True
        try:
            for guild_id, channel_id in await self._rooms(place):
                try:
                    await self._channels.fit(guild_id, channel_id, self.storing(guild_id, channel_id))
                except DamagedDataError:  # it is logged; the other channels go on
                    complete = False
        except RedisUnavailableError as error:
            log.warning("Lifetimes of messages do not follow a changed setting yet: %s", error)
            return False
        return complete

    async def _rooms(self, place: Place) -> list[tuple[int, int]]:
        """Channels and threads that hold messages and follow what is set at a place."""
        rooms = await self._channels.rooms(place.guild_id)
        return [one for one in rooms if place.channel_id in (0, one[1], self._parent(*one))]

    async def preview(self, place: Place, values: Mapping[str, Value | Auto] | None) -> Loss:
        """What setting these values would take away (None: clearing everything at the place)."""
        if ARCHIVE not in (self.overrides(place) if values is None else values):
            return Loss(0, 0, 0, 0.0)
        then = _Supposed(self, place, values)
        rooms = await self._rooms(place)
        losing = [one for one in rooms if self.storing(*one).limits.archive and not then.storing(*one).limits.archive]
        before = await self._channels.statuses(losing, self.storing)
        after = await self._channels.statuses(losing, then.storing)
        lost = [old.messages - new.messages for old, new in zip(before, after, strict=True)]
        limits = self._default.limits
        return Loss(sum(lost), sum(map(bool, lost)), limits.max_messages, limits.buffer_s)

    def documents(self, reaches: Callable[[int], bool]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        """Everything that is set in these guilds and for all, and their threads, without who changed it: for a copy."""
        kept = {
            name: {key: value for key, value in document.items() if key != "changes"}
            for name, document in self._levels.documents.items()
            if document and (name == "global" or reaches(_place(name).guild_id))
        }
        threads = self._levels.threads.items()
        return kept, {one: of for one, of in threads if reaches(guild_and_channel(one.encode())[0])}

    # --- fresh starts ---

    def boundary(self, guild_id: int, channel_id: int) -> Boundary | None:
        """Where /new last started a channel or thread afresh, if it did."""
        document = self._levels.documents.get(f"boundary:{room(guild_id, channel_id)}")
        if not document or not isinstance(document.get("at"), int | float):
            return None
        return Boundary(float(document["at"]), tuple(map(int, document.get("kept", ()))))

    async def begin(self, guild_id: int, channel_id: int, boundary: Boundary, *, by: int = 0) -> None:
        document = {"at": boundary.at, "kept": [str(one) for one in boundary.kept], "by": str(by)}
        await self._levels.begin(guild_id, channel_id, document, self._settings.longest_s)

    async def learn_threads(self, messages: Iterable[Message]) -> None:
        """Notes to which channels threads belong, for processes that the platform does not tell; only where something
        is stored."""
        for message in messages:
            if message.thread_of and self.of_message(message).enabled:
                thread = room(message.guild_id, message.channel_id)
                parent = room(message.guild_id, message.thread_of)
                await self._levels.learn_threads(message.guild_id, {thread: parent})

    # --- documents ---

    @cached_property
    def _by_name(self) -> dict[str, Setting]:
        return {one.name: one for one in self.declared}

    def _read_values(self, document: Mapping[str, Any]) -> dict[str, Value]:
        """Whatever this version does not understand is left out by itself: the rest of the level still counts."""
        values, stored_values = {}, document.get("values")
        for name, stored in renamed(stored_values).items() if isinstance(stored_values, dict) else ():
            try:
                values[name] = self._by_name[name].from_json(stored)
            except (KeyError, ValueError):
                log.warning("Ignoring a stored setting that this version does not know or allow: %.40s", name)
        return values

    def _read_change(self, noted: Mapping[str, Any]) -> Change | None:
        try:
            if (name := current(noted["setting"])) in self._by_name:
                return self._change(noted["at"], noted["by"], name, noted["old"], noted["new"])
        except (KeyError, TypeError, ValueError):
            log.warning("Ignoring a stored change of a setting that this version can't read")
        return None

    def _change(self, at: float, by: str | int, setting: str, old: object, new: object) -> Change:
        return Change(float(at), int(by), setting, self._stored(setting, old), self._stored(setting, new))

    def _stored(self, name: str, value: object) -> Value | None:
        with suppress(ValueError):  # None is auto, and no value
            return self._by_name[name].from_json(value)
        return None


class _Supposed(Policies):
    """Policies as they would be if a place had other values (None: none at all). Only to be asked."""

    def __init__(self, policies: Policies, place: Place, values: Mapping[str, Value | Auto] | None) -> None:
        self.__dict__ |= policies.__dict__
        self._cache, self._storing = LRUCache(CACHED), LRUCache(CACHED)
        self._now, self._at = policies, name_of(place)
        both = {} if values is None else {**policies.overrides(place), **values}
        self._then = {name: value for name, value in both.items() if not isinstance(value, Auto)}

    def overrides(self, place: Place) -> Mapping[str, Value]:
        return self._then if name_of(place) == self._at else self._now.overrides(place)


def name_of(place: Place) -> str:
    if place.level is Level.CHANNEL:
        return f"channel:{room(place.guild_id, place.channel_id)}"
    if place.level is Level.CHARACTER:
        return f"character:{place.guild_id}:{place.character}"
    return "global"


def _place(name: str) -> Place:
    """Of a document's name; a fresh start is its channel's."""
    level, _, place = name.partition(":")
    if level == Level.CHARACTER:
        guild_id, _, character = place.partition(":")
        return Place.of_character(int(guild_id), character)
    return Place.channel(*guild_and_channel(place.encode())) if place else Place.everywhere()
