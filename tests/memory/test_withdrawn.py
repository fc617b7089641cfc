"""What was removed or edited while Redis takes no changes is not shown by the process that was told."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder, OwnServer, make_settings, message
from refusals import disk_full
from waiting import LIMIT_S

from channelmem.errors import DecisionDelayedError
from channelmem.memory import Memory
from channelmem.store.search import Query
from channelmem.types import Message, Origin, Outcome, Question, Source

Change = Callable[[Memory], Awaitable[Any]]
CHANGES: dict[str, Change] = {
    "a delete": lambda memory: memory.delete(GUILD, CHANNEL, [1]),
    "an edit": lambda memory: memory.edit(message(1, "zebras are fast", revision=NOW)),
    "an edit that leaves no text": lambda memory: memory.edit(message(1, "", revision=NOW)),
    "a clear": lambda memory: memory.clear(GUILD, CHANNEL),
}
DECISIONS: dict[str, Change] = {
    "an opt-out": lambda memory: memory.opt_out(5),
    "an opt-out in the guild": lambda memory: memory.opt_out(5, GUILD),
    "a forget": lambda memory: memory.forget(5),
}
OLD = "turtles are slow"
ANSWER = Message(GUILD, CHANNEL, 9, 99, "bot", f"Ann: {OLD}", NOW - 1, own=True, derived_from=(Origin(CHANNEL, 1),))


@pytest.fixture
async def memory(own_server: OwnServer, tmp_path: Path, clock: Clock) -> AsyncIterator[Memory]:
    settings = make_settings(own_server.url, tmp_path, redis_timeout_s=LIMIT_S)
    async with Memory.open(settings, clock=clock, embedder=FakeEmbedder()) as opened:
        assert await opened.remember_many([message(1), ANSWER]) == [Outcome.STORED] * 2
        assert await opened.flush(LIMIT_S)
        yield opened


async def shown(memory: Memory) -> str:
    """By every way of asking."""
    question = Question(GUILD, CHANNEL, 99, 7, "Bob", "what did Ann say about turtles?", NOW)
    answer = await memory.ask(question)
    words = [answer.text, (await memory.context(question, answer)).text]
    for source in (Source.BUFFER, Source.ARCHIVE):
        for channels in ((CHANNEL,), ()):
            query = Query(GUILD, channels, words=("turtles",), limit=100, flagged=True, source=source)
            found = await memory._search.nearest(query)
            listed = [*await memory._search.newest(query), *(hit.message for hit in found.hits), *found.pending]
            words += [one.content for one in listed]
    return " ".join([*words, *[one.content async for one in memory.export(5)]])


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_what_redis_cannot_remove_yet_is_hidden_with_answers_that_quote_it(
    memory: Memory, own_server: OwnServer, change: Change
) -> None:
    assert OLD in await shown(memory)
    async with disk_full(own_server):
        await change(memory)
        assert memory.queued
        assert OLD not in await shown(memory)
    assert await memory.flush(LIMIT_S)
    assert OLD not in await shown(memory)


async def test_a_new_message_that_waits_hides_nothing(memory: Memory, own_server: OwnServer) -> None:
    async with disk_full(own_server):
        assert await memory.remember(message(2)) is Outcome.QUEUED
        assert OLD in await shown(memory)


async def test_what_is_delivered_while_redis_is_read_stays_hidden(
    memory: Memory, own_server: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = memory._search._walk

    async def delivering(query: Query) -> list[Any]:
        rows: list[Any] = await walk(query)
        monkeypatch.setattr(memory._store.buckets.undelivered, "waiting", tuple)
        return rows

    async with disk_full(own_server):
        await memory.delete(GUILD, CHANNEL, [1])
        monkeypatch.setattr(memory._search, "_walk", delivering)
        assert await memory._search.newest(Query(GUILD, (CHANNEL,), limit=500, source=Source.ARCHIVE)) == []


@pytest.mark.parametrize("change", [*CHANGES.values(), *DECISIONS.values()], ids=[*CHANGES, *DECISIONS])
async def test_summaries_of_what_redis_cannot_remove_yet_are_hidden_on_all_levels(
    memory: Memory, own_server: OwnServer, change: Change
) -> None:
    zebras = message(3, "zebras have stripes", author_id=6, author="Bob", ts=NOW - 3 * 3600)
    await memory.remember_many([message(2, OLD, ts=NOW - 4 * 3600), zebras])
    assert await memory.summaries.update(GUILD, CHANNEL) == 4
    others = {2, 3} if change in CHANGES.values() else {3}
    async with disk_full(own_server):
        with contextlib.suppress(DecisionDelayedError):
            await change(memory)
        found = await memory.summaries.of(GUILD, CHANNEL)
        assert not any(origin.id == 1 for one in found for origin in one.origins)
        assert all(one.level == 1 or 1 not in {line.message_id for line in one.lines} for one in found)
        kept = {origin.id for one in found for origin in one.origins}
        assert kept == (set() if change is CHANGES["a clear"] else others)
    assert await memory.flush(LIMIT_S)
    assert {origin.id for one in await memory.summaries.of(GUILD, CHANNEL) for origin in one.origins} == kept
