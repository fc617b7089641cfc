"""Summaries against a model: whatever people do, no summary shows words that may not be shown, and in the end all that
may be summarised is."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.summaries.pyramid import pairs, roots
from channelmem.types import Message, Outcome

AUTHORS = {5: "Ann", 6: "Bob", 7: "Carol"}
DAY = 86_400.0


@dataclass
class World:
    """Every text has a number of its own, so a summary tells which texts it shows."""

    memory: Memory
    clock: Clock
    messages: dict[int, Message] = field(default_factory=dict)
    """As they are on the platform."""
    texts: int = 0
    gone: set[int] = field(default_factory=set)
    """Numbers of texts that must never be shown again: deleted, replaced, forgotten, cleared."""
    out: set[int] = field(default_factory=set)
    paused: bool = False
    clears: int = 0

    def text(self) -> str:
        self.texts += 1
        return f"item{self.texts:04} goes to dock{self.texts:04}"

    async def step(self, name: str, at: int) -> None:
        self.clock.now += 2
        await getattr(self, name)(at)
        await self.check()

    async def check(self) -> None:
        found = await self.memory.summaries.of(GUILD, CHANNEL)
        hidden = self.gone | {number_of(one) for one in self.messages.values() if one.author_id in self.out}
        for summary in found:
            assert not numbers_in(summary.text) & hidden, summary
            assert not {person.id for person in summary.authors} & self.out

    async def settle(self) -> None:
        """Once everything is up to date, every closed window that is stored has its summary."""
        await self.memory.summaries.update(GUILD, CHANNEL)
        await self.check()
        found = await self.memory.summaries.of(GUILD, CHANNEL)
        assert pairs(found) == ()
        covered = {origin.id for one in found for origin in one.origins}
        stored = await self.memory.recent(GUILD, CHANNEL, 1_000)
        closed = {one.id for one in stored if one.ts // 1800 < self.clock() // 1800}
        assert closed <= covered
        tops = roots(found)
        assert sum(one.message_count for one in tops) == sum(one.message_count for one in found if one.level == 1)

    def pick(self, at: int) -> Message | None:
        known = list(self.messages.values())
        return known[at % len(known)] if known else None

    def lose(self, messages: list[Message]) -> None:
        for one in messages:
            self.gone.add(number_of(one))
            self.messages.pop(one.id, None)

    # --- what people do ---

    async def say(self, at: int) -> None:
        self.clock.now += 60 * at
        author = 5 + at % 3
        one = Message(GUILD, CHANNEL, self.texts + 1, author, AUTHORS[author], self.text(), self.clock())
        outcome = await self.memory.remember(one)
        assert outcome is (Outcome.IGNORED if author in self.out or self.paused else Outcome.STORED)
        if outcome is Outcome.STORED:
            self.messages[one.id] = one
        else:
            self.gone.add(number_of(one))

    async def wait(self, at: int) -> None:
        self.clock.now += [1_800, 7_200, DAY, 4 * DAY][at % 4]

    async def update(self, at: int) -> None:
        await self.memory.summaries.update(GUILD, CHANNEL)

    async def rebuild(self, at: int) -> None:
        await self.memory.summaries.rebuild(GUILD, CHANNEL)

    async def delete(self, at: int) -> None:
        if one := self.pick(at):
            await self.memory.delete(GUILD, CHANNEL, [one.id])
            self.lose([one])

    async def edit(self, at: int) -> None:
        if one := self.pick(at):
            new = replace(one, content=self.text(), revision=self.clock())
            outcome = await self.memory.edit(new)
            self.gone.add(number_of(one))
            if outcome is Outcome.STORED:
                self.messages[one.id] = new
            else:
                self.lose([new])

    async def opt_out(self, at: int) -> None:
        await self.memory.opt_out(5 + at % 3, GUILD if at % 2 else None)
        self.out.add(5 + at % 3)

    async def forget(self, at: int) -> None:
        author = 5 + at % 3
        await self.memory.forget(author)
        self.out.add(author)
        self.lose([one for one in self.messages.values() if one.author_id == author])

    async def opt_in(self, at: int) -> None:
        for guild in (None, GUILD):
            if await self.memory.opt_in(5 + at % 3, guild) is not None:
                await self.memory._store.swept()
        self.out.discard(5 + at % 3)

    async def clear(self, at: int) -> None:
        await (self.memory.clear if at % 2 else self.memory.delete_channel)(GUILD, CHANNEL)
        self.lose(list(self.messages.values()))

    async def leave(self, at: int) -> None:
        await self.memory.delete_guild(GUILD)
        self.lose(list(self.messages.values()))

    async def pause(self, at: int) -> None:
        await (self.memory.resume if self.paused else self.memory.pause)(GUILD, CHANNEL)
        self.paused = not self.paused


def numbers_in(text: str) -> set[int]:
    return {int(found) for found in re.findall(r"(?:item|dock)(\d+)", text)}


def number_of(message: Message) -> int:
    [number] = numbers_in(message.content)
    return number


STEPS = [
    *["say"] * 8,
    *["update"] * 4,
    *["wait"] * 3,
    *["delete", "edit", "opt_in"] * 2,
    *("rebuild", "opt_out", "forget", "clear", "leave", "pause"),
]
HISTORIES = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 11)), min_size=15, max_size=45)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


async def live(settings: Settings, history: list[tuple[str, int]]) -> None:
    prefix = f"{settings.key_prefix}{uuid.uuid4().hex[:6]}"
    mine = settings.model_copy(update={"key_prefix": prefix, "embed_in_process": False})
    clock = Clock(NOW)
    async with Memory.open(mine, clock=clock, embedder=FakeEmbedder()) as memory:
        world = World(memory, clock)
        for step in [("say", 1), ("say", 5), ("wait", 0), ("update", 0), *history]:
            await world.step(*step)
        await world.settle()


def test_no_summary_ever_shows_what_may_not_be_shown_and_everything_else_is_summarised(
    settings: Settings, loop: asyncio.AbstractEventLoop
) -> None:
    @examples(
        max_examples=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate),
    )
    @given(HISTORIES)
    def lives(history: list[tuple[str, int]]) -> None:
        loop.run_until_complete(live(settings, history))

    lives()
