"""The store on real Redis: what is deleted or cleared is invisible at once, removed soon, and stays away."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder, count_commands, message
from redis.asyncio import Redis
from stored import ARCHIVE, BUFFER, commit, documents, ids
from waiting import LIMIT_S, until, until_true

from channelmem.errors import RedisUnavailableError
from channelmem.ingest.worker import Worker
from channelmem.settings import Settings
from channelmem.store import consent, index
from channelmem.store.channel_state import Bookmarks
from channelmem.store.cluster import Cluster
from channelmem.store.keys import room
from channelmem.store.outbox import Event
from channelmem.store.redis import command
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.types import Gap, Outcome, Source


async def test_a_deleted_message_does_not_come_back(
    store: Store, search: Search, fake_embedder: FakeEmbedder, redis: Redis, settings: Settings
) -> None:
    await store.add([message(1), message(2)])
    assert await store.delete(GUILD, CHANNEL, [1, 77]) == 1
    assert await ids(search) == [2]
    assert await store.edit(message(1, "a late edit", revision=NOW)) is Outcome.IGNORED
    assert await store.add([message(1)]) == [Outcome.IGNORED]
    assert await commit(store, [(message(1), fake_embedder.vector("late"))]) == 0
    assert await ids(search) == [2]
    assert await documents(redis, settings) == 1


async def test_a_delete_that_comes_before_its_message_wins(store: Store, search: Search) -> None:
    await store.delete(GUILD, CHANNEL, [1])
    assert await store.add([message(1)]) == [Outcome.IGNORED]


async def test_a_bulk_delete_hides_everything_at_once_and_removes_it_soon(
    store: Store, search: Search, redis: Redis, settings: Settings, worker: Worker, fake_embedder: FakeEmbedder
) -> None:
    await store.add([message(number) for number in range(1, 401)])
    assert await store.flush(LIMIT_S)
    assert await store.delete(GUILD, CHANNEL, range(1, 400)) == 399
    for source in (Source.BUFFER, Source.ARCHIVE):
        query = replace(BUFFER, source=source, vector=fake_embedder.vector("turtles"), words=("turtles",))
        assert [hit.message.id for hit in (await search.nearest(query)).hits] == [400]
        assert await ids(search, replace(BUFFER, source=source)) == [400]
    await store.swept()
    assert await documents(redis, settings) == 1


async def scripts_run(redis: Redis) -> int:
    """By whomever: the sweeper's go through pipelines."""
    nodes = await redis.masters() if isinstance(redis, Cluster) else [redis]
    stats = [await node.info("commandstats") for node in nodes]
    return sum(one.get("cmdstat_evalsha", {"calls": 0})["calls"] for one in stats)


@pytest.mark.parametrize(("removal", "count"), [("delete_channel", 10_000), ("clear", 1000), ("delete_guild", 1000)])
async def test_any_number_of_messages_vanish_at_once_and_are_removed_in_small_steps(
    store: Store,
    search: Search,
    redis: Redis,
    settings: Settings,
    removal: str,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await store.add([message(number, "turtles", ts=NOW - 20_000 + number) for number in range(1, count + 1)])
    await store.add([message(1, channel_id=7), message(1, guild_id=GUILD + 1, channel_id=8)])
    monkeypatch.setattr(consent, "STEP_MS", 0)  # whose time is over after the first few
    before = await scripts_run(redis)
    if removal == "delete_guild":
        assert await store.delete_guild(GUILD) == count + 1
    else:
        assert await getattr(store, removal)(GUILD, CHANNEL) == count
    assert await ids(search) == await ids(search, ARCHIVE) == []
    assert (await search.nearest(replace(ARCHIVE, words=("turtles",)))).hits == ()
    left = await documents(redis, settings)
    # Nobody ever waits for more than the few documents of one script.
    assert left >= count - 4 * (await scripts_run(redis) - before)
    assert await ids(search, Query(GUILD, (7,))) == ([] if removal == "delete_guild" else [1])
    assert await ids(search, Query(GUILD + 1, (8,))) == [1]


async def test_a_step_of_a_removal_ends_with_its_time(store: Store) -> None:
    await store._sweeper.stop()
    await store.add([message(number, author_id=6) for number in range(1, 101)])
    await store.consent.forget(6)
    names = await store.buckets.run("forget", 0, ["find", "*:6", 100])
    assert len(names) == 100
    assert await store.buckets.run("forget", 0, ["remove", "*:6", 0, *names]) == 1
    assert await store.buckets.run("forget", 0, ["remove", "*:6", 60_000, *names]) == 100
    assert await store.buckets.run("forget", 0, ["find", "*:6", 100]) == []


async def test_an_index_is_not_asked_again_once_it_is_complete(
    store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.add([message(1)])
    await until(lambda: store.buckets.indexed(0))
    sent = count_commands(redis, monkeypatch)
    assert await store.buckets.indexed(0)
    assert "FT.INFO" not in sent
    await command(redis, "FT.DROPINDEX", store.buckets.keys(0).index(1))
    await store.buckets.heal(0)
    await until(lambda: store.buckets.indexed(0))
    assert "FT.INFO" in sent


async def test_an_index_that_is_busy_is_asked_rarely(
    store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def half(_redis: Redis, _name: str) -> float:
        sent.append("FT.INFO")
        await asyncio.sleep(0.05)
        return 0.5

    sent: list[str] = []
    monkeypatch.setattr(index, "indexed", half)
    for _ in range(5):
        assert not await store.buckets.indexed(0)
    assert sent == ["FT.INFO"]


async def test_a_cleared_channel_takes_new_messages_and_refuses_older_ones(
    store: Store, search: Search, clock: Clock, redis: Redis, settings: Settings
) -> None:
    await store.add([message(number) for number in range(1, 31)])
    await store.clear(GUILD, CHANNEL)
    clock.now = NOW + 10
    late_edit = message(3, "edited", revision=NOW + 5)
    assert await store.add([late_edit, message(99, ts=NOW - 1)]) == [Outcome.IGNORED, Outcome.IGNORED]
    assert await store.add([message(50, "new turtles", ts=NOW + 5)]) == [Outcome.STORED]
    assert await ids(search) == await ids(search, ARCHIVE) == [50]
    assert [hit.message.id for hit in (await search.nearest(replace(ARCHIVE, words=("turtle",)))).hits] == [50]
    await store.swept()
    assert await documents(redis, settings) == 1


@pytest.mark.parametrize("wrong_s", [3600, -3600])
async def test_a_clear_goes_by_the_clock_of_the_platform(store: Store, clock: Clock, wrong_s: float) -> None:
    await store.add([message(1)])
    clock.now = NOW + wrong_s
    await store.clear(GUILD, CHANNEL, at=NOW)
    assert await store.add([message(2, ts=NOW - 1), message(3, ts=NOW + 1)]) == [Outcome.IGNORED, Outcome.STORED]


@pytest.mark.parametrize("removal", ["delete_channel", "delete_guild", "clear"])
async def test_what_was_cleared_stays_out_whatever_is_removed_later(
    store: Store, clock: Clock, redis: Redis, removal: str
) -> None:
    await store.add([message(1)])
    await store.clear(GUILD, CHANNEL)
    floor = store.buckets.keys(0).of("floor", room(GUILD, CHANNEL))
    clear_ms = await redis.pttl(floor)
    clock.now = NOW - 3600  # set back meanwhile
    await (store.delete_guild(GUILD) if removal == "delete_guild" else getattr(store, removal)(GUILD, CHANNEL))
    assert await redis.pttl(floor) > clear_ms - 60_000
    assert await store.add([message(2, ts=NOW - 1)]) == [Outcome.IGNORED]


async def test_of_removed_channels_nothing_is_kept(store: Store, redis: Redis) -> None:
    keys = store.buckets.keys(0)
    for channel in range(1, 21):
        await store.add([message(1, channel_id=channel), message(2, channel_id=channel)])
        await store.delete_channel(GUILD, channel)
        await store.delete_channel(GUILD, channel)
    await store.add([message(1, channel_id=30), message(1, channel_id=31)])
    await store.clear(GUILD, 30)
    assert await redis.smembers(keys.of("guild", GUILD)) == {room(GUILD, 31).encode()}
    await store.swept()
    assert await redis.hlen(keys.one("epochs")) == 0


async def test_a_cleared_channel_is_found_by_questions_to_the_guild_again(
    store: Store, search: Search, redis: Redis
) -> None:
    await store._sweeper.stop()
    everywhere = replace(ARCHIVE, channel_ids=(), words=("turtles",))
    for number in (1, 2, 3):
        await store.add([message(number, ts=NOW + number)])
        assert [hit.message.id for hit in (await search.nearest(everywhere)).hits] == [number]
        await store.clear(GUILD, CHANNEL, at=NOW + number)
        assert (await search.nearest(everywhere)).hits == ()
    await store.add([message(4, ts=NOW + 4)])
    while await store.buckets.run("drain", 0, [4]):
        pass
    assert await redis.hlen(store.buckets.keys(0).one("epochs")) == 1  # the tag of what was stored since
    assert [hit.message.id for hit in (await search.nearest(everywhere)).hits] == [4]
    assert await store.delete_guild(GUILD) == 1


async def test_an_epoch_is_kept_until_every_older_document_is_unlinked(
    store: Store, search: Search, redis: Redis, settings: Settings
) -> None:
    await store._sweeper.stop()
    for first in (1, 11, 21):
        await store.add([message(number, ts=NOW + number) for number in range(first, first + 10)])
        await store.clear(GUILD, CHANNEL, at=NOW + first + 9)
    epochs = store.buckets.keys(0).one("epochs")
    while await documents(redis, settings):
        assert await redis.hget(epochs, room(GUILD, CHANNEL)) == b"3"
        assert await store.buckets.run("drain", 0, [4])
    assert await store.buckets.run("drain", 0, [4]) == 0
    assert not await redis.hexists(epochs, room(GUILD, CHANNEL))


async def test_a_guild_that_was_left_refuses_late_messages_of_any_channel(
    store: Store, search: Search, clock: Clock
) -> None:
    await store.add([message(1)])
    clock.now = NOW + 10
    late = [message(2, ts=NOW + 5), message(3, ts=NOW + 5, channel_id=77)]
    too_old = message(9, ts=NOW - 8 * 86_400, channel_id=77)
    _, left, refused = await asyncio.gather(store.add([too_old]), store.delete_guild(GUILD), store.add(late))
    assert (left, refused) == (1, [Outcome.IGNORED, Outcome.IGNORED])
    assert await store.add(late) == [Outcome.IGNORED, Outcome.IGNORED]
    invited_again = message(4, ts=NOW + 20, channel_id=77)
    assert await store.add([invited_again]) == [Outcome.STORED]
    assert await store.add([message(5, guild_id=GUILD + 1)]) == [Outcome.STORED]


@pytest.mark.parametrize("answers_lost", [0, 1, 2])
async def test_leaving_a_guild_again_for_a_lost_answer_changes_nothing(
    store: Store, search: Search, monkeypatch: pytest.MonkeyPatch, answers_lost: int
) -> None:
    send, lost = store._outbox._send, [RedisUnavailableError("the answer was lost")] * answers_lost

    async def losing(bucket: int, events: Sequence[Event]) -> list[int]:
        results = await send(bucket, events)
        if lost:
            raise lost.pop()
        return results

    monkeypatch.setattr(store._outbox, "_send", losing)
    await asyncio.gather(store.delete_guild(GUILD), store.add([message(1), message(2, ts=NOW + 1)]))
    await until_true(lambda: store.queued == 0)
    assert not lost
    assert await ids(search) == [2]


async def test_nothing_is_left_to_fetch_of_a_removed_channel_or_guild(store: Store) -> None:
    bookmarks = Bookmarks(store.buckets)
    for channel in (4, 5, 6):
        await bookmarks.note(GUILD, Gap(channel, None, 5))
    await bookmarks.note(GUILD + 1, Gap(4, 8, 5))
    await store.delete_channel(GUILD, 4)
    await store.clear(GUILD, 5)
    assert await bookmarks.open(GUILD) == [Gap(6, None, 5)]
    await store.delete_guild(GUILD)
    assert await bookmarks.open(GUILD) == []
    assert await bookmarks.open(GUILD + 1) == [Gap(4, 8, 5)]


async def test_a_message_stored_again_after_a_channel_delete_survives_the_drain(
    store: Store, search: Search, clock: Clock
) -> None:
    batch = [message(number, ts=NOW + number) for number in range(1, 41)]
    await store.add(batch)
    await store.delete_channel(GUILD, CHANNEL)
    assert await store.add(batch) == [Outcome.STORED] * 40  # sent later than the clear
    await store.swept()
    assert len(await ids(search)) == 40


async def test_a_clear_that_nobody_dated_takes_all_even_after_a_clock_that_was_ahead(
    store: Store, search: Search
) -> None:
    await store.clear(GUILD, CHANNEL, at=NOW + 60)
    await store.add([message(1, ts=NOW + 61)])
    assert await store.clear(GUILD, CHANNEL) == 1
    await store.delete_guild(GUILD, at=NOW + 62)
    await store.add([message(2, ts=NOW + 63)])
    assert await store.delete_guild(GUILD) == 1
    assert await search.newest(ARCHIVE) == []


async def test_a_clear_that_comes_again_leaves_what_was_said_since(store: Store, search: Search) -> None:
    """A client repeats what it sent while nobody answered."""
    await store.add([message(1)])
    assert await store.clear(GUILD, CHANNEL, at=NOW) == 1
    await store.add([message(2, ts=NOW + 1)])
    assert await store.clear(GUILD, CHANNEL, at=NOW) == 0
    assert await store.delete_guild(GUILD, at=NOW) == 1
    await store.add([message(3, ts=NOW + 2)])
    assert await store.delete_guild(GUILD, at=NOW) == 0
    assert [one.id for one in await search.newest(ARCHIVE)] == [3]
    assert await store.delete_channel(GUILD, CHANNEL, at=NOW) == 1
