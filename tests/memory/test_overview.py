"""What people who look at a memory are shown: channels with names, messages with their state, vectors, sizes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder
from redis.asyncio import Redis

from channelmem import Memory, Message, Settings
from channelmem.policy.cascade import Place
from channelmem.store.channel_state import NAME_CHARS

OTHER, THREAD, ELSEWHERE = CHANNEL + 1, CHANNEL + 2, GUILD + (1 << 22)


def said(number: int, **changes: Any) -> Message:
    given: dict[str, Any] = {
        "guild_id": GUILD,
        "channel_id": CHANNEL,
        "author_id": 5,
        "author": "Ann",
        "ts": NOW - 600 + number,
        "content": f"message {number} about turtles",
    }
    return Message(id=number, **given | changes)


@pytest.fixture
async def memory(settings: Settings, fake_embedder: FakeEmbedder, clock: Clock) -> AsyncIterator[Memory]:
    async with Memory.open(settings, clock=clock, embedder=fake_embedder) as opened:
        yield opened


async def test_channels_are_listed_with_counts_the_most_active_guild_and_channel_first(memory: Memory) -> None:
    await memory.remember_many([said(1), said(2), said(3, channel_id=OTHER), said(4, guild_id=ELSEWHERE)])
    await memory.flush()
    listed = await memory.overview.channels()
    assert [(one.guild_id, one.channel_id, one.status.messages) for one in listed] == [
        (ELSEWHERE, CHANNEL, 1),
        (GUILD, OTHER, 1),
        (GUILD, CHANNEL, 2),
    ]
    assert all(one.status.pending == 0 and one.enabled for one in listed)


async def test_only_the_wanted_guilds_are_listed(memory: Memory) -> None:
    await memory.remember_many([said(1), said(4, guild_id=ELSEWHERE)])
    assert [one.guild_id for one in await memory.overview.channels({GUILD})] == [GUILD]
    assert await memory.overview.channels(frozenset()) == []


async def test_a_thread_names_its_channel(memory: Memory) -> None:
    await memory.remember_many([said(1), said(2, channel_id=THREAD, thread_of=CHANNEL)])
    parents = {one.channel_id: one.parent_id for one in await memory.overview.channels()}
    assert parents == {CHANNEL: 0, THREAD: CHANNEL}


async def test_names_are_what_the_adapter_told_last(memory: Memory) -> None:
    await memory.remember_many([said(1), said(2, channel_id=OTHER)])
    await memory.overview.tell_names(GUILD, "Club", {CHANNEL: "general", OTHER: "x" * 500})
    await memory.overview.tell_names(GUILD, "", {CHANNEL: "lobby"})
    names = {one.channel_id: (one.guild, one.name) for one in await memory.overview.channels()}
    assert names == {CHANNEL: ("Club", "lobby"), OTHER: ("Club", "x" * NAME_CHARS)}


async def test_names_go_with_their_channel_and_with_their_guild(memory: Memory, redis: Redis) -> None:
    await memory.remember_many([said(1), said(2, channel_id=OTHER)])
    await memory.overview.tell_names(GUILD, "Club", {CHANNEL: "general", OTHER: "other"})
    await memory.clear(GUILD, CHANNEL)
    assert (await memory.overview.channel(GUILD, CHANNEL)).name == "general", "a cleared channel lives on"
    await memory.delete_channel(GUILD, CHANNEL)
    assert (await memory.overview.channel(GUILD, CHANNEL)).name == ""
    assert (await memory.overview.channel(GUILD, OTHER)).name == "other"
    await memory.delete_guild(GUILD)
    assert (await memory.overview.channel(GUILD, OTHER)).guild == ""


async def test_names_expire_unless_they_are_told_again(memory: Memory, redis: Redis, settings: Settings) -> None:
    await memory.overview.tell_names(GUILD, "Club")
    (key,) = [one async for one in redis.scan_iter(f"{settings.key_prefix}:*names:{GUILD}")]  # of all nodes
    assert 0 < await redis.ttl(key) <= 30 * 86_400


async def test_rows_say_whether_a_message_is_embedded_and_how_long_it_lives(
    settings: Settings, fake_embedder: FakeEmbedder, clock: Clock
) -> None:
    waiting = settings.model_copy(update={"embed_in_process": False})
    async with Memory.open(waiting, clock=clock, embedder=fake_embedder) as memory:
        await memory.remember(said(1))
        (row,) = (await memory.overview.rows(GUILD, CHANNEL, 10)).stored
        assert not row.embedded
        assert 6.9 * 86_400 < row.ttl_s <= 7 * 86_400
    async with Memory.open(settings, clock=clock, embedder=fake_embedder) as memory:
        await memory.flush()
        (row,) = (await memory.overview.rows(GUILD, CHANNEL, 10)).stored
        assert row.embedded


async def test_rows_come_page_by_page(memory: Memory) -> None:
    await memory.remember_many([said(number) for number in range(1, 8)])
    first = await memory.overview.rows(GUILD, CHANNEL, 3)
    second = await memory.overview.rows(GUILD, CHANNEL, 3, first.next)
    last = await memory.overview.rows(GUILD, CHANNEL, 3, second.next)
    pages = [[row.message.id for row in page.stored] for page in (first, second, last)]
    assert pages == [[7, 6, 5], [4, 3, 2], [1]]
    assert last.next is None


async def test_the_newest_since_a_time_are_read_across_pages(memory: Memory) -> None:
    await memory.remember_many([said(number) for number in range(1, 260)])
    newest = await memory.browse.newest(GUILD, CHANNEL, 1_000, said(50).ts - 0.5)
    assert newest[0].id == 259
    assert newest[-1].id in {50, 51}  # the clock moved on a little
    assert len(await memory.browse.newest(GUILD, CHANNEL, 210)) == 210


async def test_vectors_are_those_of_the_messages(memory: Memory, fake_embedder: FakeEmbedder) -> None:
    await memory.remember_many([said(1, content="turtles"), said(2, content="cats")])
    await memory.flush()
    messages, vectors = await memory.overview.vectors(GUILD, CHANNEL, 10)
    assert [one.content for one in messages] == ["cats", "turtles"]
    expected = await fake_embedder.embed_messages(["cats", "turtles"])
    assert np.allclose(vectors, expected, atol=2e-3)


async def test_a_channel_without_vectors_has_none(memory: Memory) -> None:
    messages, vectors = await memory.overview.vectors(GUILD, CHANNEL, 10)
    assert messages == []
    assert len(vectors) == 0


async def test_activity_counts_the_last_minute_and_every_hour_of_the_last_day(memory: Memory) -> None:
    ages = (5, 30, 200, 3_700, 7_300, 86_500)
    await memory.remember_many([said(at, ts=NOW - age) for at, age in enumerate(ages, 1)])
    counted = await memory.overview.activity(await memory.overview.channels())
    activity = counted[GUILD, CHANNEL]
    assert activity.last_minute == 2
    assert activity.hours[-3:] == (1, 1, 3)
    assert len(activity.hours) == 24
    assert sum(activity.hours) == 5


async def test_the_size_grows_with_the_messages(memory: Memory) -> None:
    assert await memory.overview.size_bytes(GUILD, CHANNEL) == 0
    await memory.remember_many([said(number) for number in range(1, 11)])
    ten = await memory.overview.size_bytes(GUILD, CHANNEL)
    await memory.remember_many([said(number) for number in range(11, 51)])
    fifty = await memory.overview.size_bytes(GUILD, CHANNEL)
    assert 10 * 150 < ten < fifty / 3


async def test_a_summary_is_made_of_what_was_said_since(memory: Memory) -> None:
    await memory.remember_many(
        [
            said(1, ts=NOW - 7_200, content="the budget was approved by Carol"),
            said(2, ts=NOW - 60, content="the release is on Friday at nine"),
        ]
    )
    whole = await memory.overview.summary(GUILD, CHANNEL)
    late = await memory.overview.summary(GUILD, CHANNEL, NOW - 600)
    assert whole is not None
    assert whole.message_count == 2
    assert late is not None
    assert "budget" not in late.text
    assert await memory.overview.summary(GUILD, CHANNEL, NOW) is None


async def test_a_summary_takes_what_is_no_longer_stored_from_stored_summaries(memory: Memory) -> None:
    earlier = [said(1, ts=NOW - 9 * 86_400, content="the budget was approved by Carol in March")]
    await memory.summaries.absorb(GUILD, CHANNEL, earlier)
    await memory.remember(said(2, ts=NOW - 60, content="the release is on Friday at nine"))
    stored = await memory.summaries.of(GUILD, CHANNEL)
    whole = await memory.overview.summary(GUILD, CHANNEL, stored=stored)
    late = await memory.overview.summary(GUILD, CHANNEL, NOW - 600, stored=stored)
    assert whole is not None
    assert "budget" in whole.text
    assert "Friday" in whole.text
    assert whole.message_count == 2
    assert late is not None
    assert late.message_count == 1


async def test_where_memory_is_off_nothing_is_shown_not_even_how_much_there_is(memory: Memory) -> None:
    await memory.remember_many([said(1), said(2, author_id=6, author="Bob")])
    await memory.flush()
    await memory.policies.set(Place.channel(GUILD, CHANNEL), "enabled", False)
    (listed,) = await memory.overview.channels()
    assert not listed.enabled
    assert (listed.status.messages, listed.status.newest_ts) == (0, None)
    assert (await memory.overview.rows(GUILD, CHANNEL, 10)).stored == ()
    assert (await memory.overview.vectors(GUILD, CHANNEL, 10))[0] == []
    assert await memory.overview.people(GUILD, CHANNEL) == []
    assert await memory.overview.activity([listed]) == {}
    assert await memory.overview.summary(GUILD, CHANNEL) is None


async def test_who_opted_out_is_shown_nowhere(memory: Memory) -> None:
    await memory.remember_many([said(1), said(2, author_id=6, author="Bob")])
    await memory.flush()
    await memory.opt_out(6, GUILD)
    assert [row.message.author for row in (await memory.overview.rows(GUILD, CHANNEL, 10)).stored] == ["Ann"]
    assert [one.author for one in (await memory.overview.vectors(GUILD, CHANNEL, 10))[0]] == ["Ann"]
    assert [one.name for one in await memory.overview.people(GUILD, CHANNEL)] == ["Ann"]
