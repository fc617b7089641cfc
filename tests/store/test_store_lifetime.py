"""The store on real Redis: how many messages a channel keeps and for how long, by settings and by its own policy."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder, message, open_store
from redis.asyncio import Redis
from stored import ARCHIVE, BUFFER, documents, ids
from waiting import LIMIT_S, until

from channelmem.ingest.worker import Worker
from channelmem.settings import Settings
from channelmem.store.keys import room
from channelmem.store.search import Search
from channelmem.store.store import Store
from channelmem.types import Outcome


@pytest.fixture
def buffer_only(settings: Settings) -> Settings:
    return settings.model_copy(update={"archive": False, "max_messages": 5})


@pytest.fixture
async def small(redis: Redis, buffer_only: Settings, clock: Clock) -> Store:
    return await open_store(redis, buffer_only, clock)


# --- the cap and the lifetime ---


async def test_the_buffer_view_has_the_newest_n_whatever_the_arrival_order(store: Store, search: Search) -> None:
    numbers = list(range(1, 121))
    random.Random(4).shuffle(numbers)  # noqa: S311  (a shuffle)
    for at in range(0, 120, 17):
        await store.add([message(number) for number in numbers[at : at + 17]])
    assert await ids(search) == list(range(120, 70, -1))
    found = await search.nearest(BUFFER)
    assert {hit.message.id for hit in found.hits} == set(range(71, 121))
    assert len(await ids(search, replace(ARCHIVE, limit=500))) == 120


async def test_with_the_archive_off_the_rest_is_really_gone(small: Store, redis: Redis, buffer_only: Settings) -> None:
    numbers = list(range(1, 21))
    random.Random(5).shuffle(numbers)  # noqa: S311  (a shuffle)
    for number in numbers:
        await small.add([message(number)])
    await small.swept()
    search = Search(small.buckets)
    for query in (BUFFER, ARCHIVE):
        assert await ids(search, query) == [20, 19, 18, 17, 16]
    assert await documents(redis, buffer_only) == 5


async def test_a_lower_cap_takes_what_is_over_it_with_the_next_message(
    redis: Redis, buffer_only: Settings, clock: Clock
) -> None:
    large = await open_store(redis, buffer_only.model_copy(update={"max_messages": 60}), clock)
    await large.add([message(number) for number in range(1, 51)])
    await large.close()
    small = await open_store(redis, buffer_only, clock)
    await small.swept()
    await small.add([message(51)])
    await asyncio.wait_for(small.swept(), LIMIT_S)
    assert await documents(redis, buffer_only) == 5
    assert await ids(Search(small.buckets), ARCHIVE) == [51, 50, 49, 48, 47]
    await small.close()


async def test_a_message_older_than_the_full_buffer_is_ignored_with_the_archive_off(small: Store) -> None:
    await small.add([message(number) for number in range(10, 15)])
    assert await small.add([message(3)]) == [Outcome.IGNORED]
    assert await small.add([message(15)]) == [Outcome.STORED]


async def test_nothing_older_than_its_lifetime_is_returned_though_redis_still_has_it(
    store: Store, search: Search, clock: Clock, redis: Redis, settings: Settings, worker: Worker
) -> None:
    await store.add([message(1), message(2, ts=NOW)])
    assert await store.flush(LIMIT_S)
    clock.now = NOW + 30 * 60 - 300  # message 1 is 30 minutes and 5 seconds old
    assert await ids(search) == [2]
    assert {hit.message.id for hit in (await search.nearest(BUFFER)).hits} == {2}
    clock.now = NOW + 7 * 86_400 - 300
    vector = FakeEmbedder().vector("turtles")
    for query in (ARCHIVE, replace(ARCHIVE, author_ids=(5,)), replace(ARCHIVE, channel_ids=())):
        assert await ids(search, query) == [2]
        found = await search.nearest(replace(query, vector=vector, words=("turtles",)))
        assert [hit.message.id for hit in found.hits] == [2]
    assert await search.get(GUILD, CHANNEL, [1, 2]) == [message(2, ts=NOW)]
    assert await documents(redis, settings) == 2


async def test_a_message_older_than_its_lifetime_is_ignored(store: Store) -> None:
    week = 7 * 86_400
    old, young = message(1, ts=NOW - week - 1), message(2, ts=NOW - week + 60)
    assert await store.add([old, young]) == [Outcome.IGNORED, Outcome.STORED]


async def test_expiry_is_what_is_left_of_the_lifetime_with_a_little_jitter(store: Store, redis: Redis) -> None:
    age = 6 * 86_400
    await store.add([message(number, ts=NOW - age) for number in range(100, 140)])
    keys = store.buckets.keys(0)
    left = [await redis.pttl(keys.message(GUILD, CHANNEL, number)) / 1000 for number in range(100, 140)]
    assert all(86_400 - LIMIT_S <= one <= 86_400 + 60 for one in left)
    assert max(left) - min(left) > 1


async def test_a_clock_that_goes_backwards_neither_hides_nor_prolongs(
    store: Store, search: Search, clock: Clock, redis: Redis
) -> None:
    clock.now = NOW - 3600
    await store.add([message(1, ts=NOW)])
    assert await ids(search) == [1]
    assert await redis.pttl(store.buckets.keys(0).message(GUILD, CHANNEL, 1)) <= (7 * 86_400 + 60) * 1000
    clock.now = NOW
    await store.add([message(2, ts=NOW - 1)])
    assert await ids(search) == [1, 2]


async def test_expired_ids_leave_the_order_with_later_messages(store: Store, clock: Clock, redis: Redis) -> None:
    await store.add([message(1), message(2)])
    clock.now = NOW + 8 * 86_400
    await store.add([message(3, ts=clock.now)])
    assert await redis.zcard(store.buckets.keys(0).of("chan", room(GUILD, CHANNEL))) == 1


async def test_expired_ids_leave_the_order_however_many_come_in_one_batch(
    store: Store, clock: Clock, redis: Redis
) -> None:
    await store.add([message(number) for number in range(1, 31)])
    clock.now = NOW + store.buckets.settings.archive_days * 86_400 + 3600
    await store.add([message(100 + number, ts=clock.now) for number in range(10)])
    order = store.buckets.keys(0).of("chan", room(GUILD, CHANNEL))
    assert await redis.zcard(order) == 10


async def test_the_order_of_a_channel_lives_as_long_as_its_documents(
    store: Store, redis: Redis, settings: Settings, clock: Clock
) -> None:
    keys = store.buckets.keys(0)
    order = keys.of("chan", room(GUILD, CHANNEL))
    await store.add([message(number, ts=NOW) for number in range(990, 1000)])
    longest = max([await redis.pexpiretime(keys.message(GUILD, CHANNEL, number)) for number in range(990, 1000)])
    assert longest <= await redis.pexpiretime(order)
    assert await redis.pttl(order) <= (7 * 86_400 + 60) * 1000
    await redis.expire(order, 86_400)
    await store.add([message(1000, ts=NOW)])
    assert await redis.pexpiretime(order) >= longest
    # Another process, whose channels live for half an hour only, finds documents that live for a week.
    other = await open_store(redis, settings.model_copy(update={"archive": False}), clock)
    await other.add([message(1001, ts=NOW)])
    assert await redis.pexpiretime(order) >= longest
    await other.close()


async def is_gone(redis: Redis, key: str) -> bool:
    return not await redis.exists(key)


async def test_a_channel_that_fell_silent_is_forgotten_when_its_messages_have_expired(
    redis: Redis, settings: Settings, clock: Clock
) -> None:
    brief = settings.model_copy(update={"archive": False, "max_age_minutes": 0.01})
    store = await open_store(redis, brief, clock)
    keys = store.buckets.keys(0)
    await store.add([message(1, ts=NOW, channel_id=4)])
    await store.clear(GUILD, 4)
    await store.add([message(2, ts=NOW + 1, channel_id=4)])
    await store.swept()
    order = keys.of("chan", room(GUILD, 4))
    await until(lambda: is_gone(redis, order))
    assert await documents(redis, settings) == 0
    await store.add([message(1, ts=NOW)])
    assert await redis.smembers(keys.of("guild", GUILD)) == {room(GUILD, CHANNEL).encode()}
    assert await redis.hlen(keys.one("epochs")) == 0
    assert not await redis.exists(keys.of("wait", room(GUILD, 4)))
    await store.close()
