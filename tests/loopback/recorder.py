"""A Memory that only writes down what it is told, for tests of what the cogs make of Discord's events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Self, cast

from clock import wall_now
from redis.asyncio import Redis

from channelmem.errors import RedisUnavailableError
from channelmem.policy.policies import Policies
from channelmem.policy.policy import Policy
from channelmem.settings import Settings
from channelmem.store.buckets import Buckets
from channelmem.store.store import Store
from channelmem.types import Answer, ChannelStatus, Gap, Kind, Load, Message, Mode, Outcome, Question, Route


def _open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


@dataclass
class RecordedMedia:
    attached: list[Message] = field(default_factory=list)
    on_read: object = None
    on_spent: object = None

    async def attach(self, message: Message) -> None:
        self.attached.append(message)

    def uses(self, guild_id: int, channel_id: int, question_id: int) -> tuple[()]:
        return ()


@dataclass
class Recorder:
    """`calls` are the names and arguments, in order; `messages` is what is held."""

    calls: list[tuple[str, tuple[object, ...]]] = field(default_factory=list)
    messages: dict[int, Message] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    open_gaps: dict[int, Gap] = field(default_factory=dict)
    available: bool = True
    queued: int = 0
    dropped: int = 0
    answer: str = "You said so."
    topic: str = ""
    may_answer: asyncio.Event = field(default_factory=_open_gate)
    may_look: asyncio.Event = field(default_factory=_open_gate)
    """Cleared, these hold `ask` and `last_seen` until the test sets them."""
    looks: int = 0
    settings: Settings = field(default_factory=Settings)
    left: int | None = None
    """What a removal still has to do before an opt-in takes effect."""
    paused: bool = False
    out: set[int] = field(default_factory=set)
    """Who opted out, maybe through another process."""
    reachable: bool = True
    open_loads: dict[int, Load] = field(default_factory=dict)
    absorbed: list[Message] = field(default_factory=list)

    @property
    def loads(self) -> Recorder:
        return self

    @property
    def summaries(self) -> Recorder:
        return self

    async def begin(self, guild_id: int, load: Load) -> bool:
        self._note("begin_load", load)
        return self.open_loads.setdefault(load.channel_id, load) is load

    async def advance(self, guild_id: int, load: Load) -> bool:
        self._note("advance", load)
        if load.channel_id not in self.open_loads:
            return False
        self.open_loads[load.channel_id] = load
        return True

    async def end(self, guild_id: int, channel_id: int) -> None:
        self._note("end_load", channel_id)
        self.open_loads.pop(channel_id, None)

    async def open(self, guild_id: int) -> list[Load]:
        return list(self.open_loads.values())

    async def absorb(
        self, guild_id: int, channel_id: int, messages: Sequence[Message], *, more: bool = False
    ) -> tuple[Message, ...]:
        """As Memory does: what may belong to a window that is not complete is given back."""
        last = messages[-1].ts // 3600 * 3600 if more else float("inf")
        self.absorbed += [one for one in messages if one.ts < last]
        return tuple(one for one in messages if one.ts >= last)

    media: RecordedMedia = field(default_factory=RecordedMedia)

    @property
    def policies(self) -> Policies:
        """Of a memory where nobody set anything."""
        nowhere = Buckets(cast("Redis", None), self.settings, dims=1, identity="", clock=wall_now)
        return Policies(self.settings, Store(nowhere))

    def policy(self, guild_id: int, channel_id: int) -> Policy:
        return self.policies.of(guild_id, channel_id)

    @property
    def overview(self) -> Self:
        return self

    async def tell_names(self, guild_id: int, guild: str, channels: dict[int, str]) -> None:
        """Not among the calls: tests of the order of events are not about names."""

    def _note(self, name: str, *arguments: object) -> None:
        self.calls.append((name, arguments))

    def named(self, name: str) -> list[tuple[object, ...]]:
        return [arguments for called, arguments in self.calls if called == name]

    @property
    def texts(self) -> list[str]:
        return [message.content for message in self.messages.values()]

    async def remember(self, message: Message) -> Outcome:
        self._note("remember", message)
        self.messages[message.id] = message
        return Outcome.STORED

    async def remember_many(self, messages: Sequence[Message]) -> list[Outcome]:
        return [await self.remember(message) for message in messages]

    async def edit(self, message: Message) -> Outcome:
        self._note("edit", message)
        self.messages[message.id] = message
        return Outcome.STORED

    async def delete(self, guild_id: int, channel_id: int, ids: Sequence[int]) -> int:
        self._note("delete", guild_id, channel_id, tuple(ids))
        return sum(self.messages.pop(id_, None) is not None for id_ in ids)

    async def delete_channel(self, guild_id: int, channel_id: int) -> int:
        self._note("delete_channel", guild_id, channel_id)
        return 0

    async def delete_guild(self, guild_id: int) -> int:
        self._note("delete_guild", guild_id)
        return 0

    async def last_seen(self, guild_id: int, channel_id: int) -> int | None:
        self.looks += 1
        await self.may_look.wait()
        ids = [m.id for m in self.messages.values() if m.channel_id == channel_id]
        return max(ids, default=None)

    async def known(self, guild_id: int, channel_id: int, newest: int) -> dict[int, float]:
        held = sorted((m for m in self.messages.values() if m.channel_id == channel_id), key=lambda m: -m.id)
        return {m.id: m.revision for m in held[:newest]}

    async def gaps(self, guild_id: int) -> list[Gap]:
        return list(self.open_gaps.values())

    async def note_gap(self, guild_id: int, channel_id: int, newest_id: int | None, oldest_id: int) -> None:
        self._note("note_gap", guild_id, channel_id, newest_id, oldest_id)
        self.open_gaps[channel_id] = Gap(channel_id, newest_id, oldest_id)

    async def close_gap(self, guild_id: int, channel_id: int) -> None:
        self._note("close_gap", guild_id, channel_id)
        self.open_gaps.pop(channel_id, None)

    async def forget(self, author_id: int, guild_id: int | None = None) -> None:
        self._note("forget", author_id)

    async def opt_out(self, author_id: int) -> None:
        self._note("opt_out", author_id)

    async def opted_out(self, author_id: int, guild_id: int) -> bool:
        if not self.reachable:
            raise RedisUnavailableError("nobody knows")
        return author_id in self.out

    async def opt_in(self, author_id: int) -> int | None:
        self._note("opt_in", author_id)
        return self.left

    async def returning(self, author_id: int) -> int | None:
        return self.left

    async def export(self, author_id: int) -> AsyncIterator[Message]:
        for message in list(self.messages.values()):
            if message.author_id == author_id:
                yield message

    async def pause(self, guild_id: int, channel_id: int) -> None:
        self._note("pause", guild_id, channel_id)

    async def resume(self, guild_id: int, channel_id: int) -> None:
        self._note("resume", guild_id, channel_id)

    async def clear(self, guild_id: int, channel_id: int, at: float | None = None) -> int:
        self._note("clear", guild_id, channel_id)
        return 0

    async def status(self, guild_id: int, channel_id: int) -> ChannelStatus:
        return ChannelStatus(messages=len(self.messages), paused=self.paused)

    async def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        await self.may_answer.wait()
        return Answer(self.answer, Route(Kind.CHANNEL, Mode.TOPIC, topic=self.topic, why=("a topic",)), found=True)

    async def to_redact(self) -> list[tuple[int, int, int]]:
        return []

    async def pending(self) -> int:
        return 0

    async def flush(self) -> None:
        self._note("flush")
