"""Limits travel with messages and queries: channels with different policies share a batch and keep their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from conftest import CHANNEL, GUILD, NOW, FakeEmbedder, message
from redis.asyncio import Redis
from stored import ARCHIVE, BUFFER, commit, documents, ids

from channelmem.policy.policy import Limits, Policy
from channelmem.settings import Settings
from channelmem.store.buckets import Buckets
from channelmem.store.keys import room
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.types import Message, Outcome

OTHER = CHANNEL + 1
MINUTE_S = 60.0


@pytest.fixture
def limits(settings: Settings) -> Limits:
    """The default ones."""
    return Policy.of_settings(settings).limits


def under(store: Store, limits: Limits) -> Policy:
    return replace(store.buckets.policy, limits=limits)


def in_both(numbers: Sequence[int], **changes: Any) -> list[Message]:
    """The same messages in two channels, taking turns."""
    return [message(number, channel_id=place, **changes) for number in numbers for place in (CHANNEL, OTHER)]


def elsewhere(query: Query) -> Query:
    return replace(query, channel_ids=(OTHER,))


# --- writing ---


async def test_each_channel_of_a_batch_keeps_its_own_number_of_messages(
    store: Store, redis: Redis, settings: Settings, limits: Limits
) -> None:
    few, many = (under(store, limits._replace(max_messages=count, archive=False)) for count in (3, 50))
    await store.add(in_both(range(1, 11)), [few, many] * 10)
    await store.swept()
    search = Search(store.buckets)
    assert await ids(search, replace(BUFFER, limits=few.limits)) == [10, 9, 8]
    assert await ids(search, elsewhere(BUFFER)) == list(range(10, 0, -1))
    assert await documents(redis, settings) == 3 + 10


async def test_each_channel_of_a_batch_keeps_messages_for_its_own_time(
    store: Store, redis: Redis, limits: Limits
) -> None:
    brief, long = (under(store, limits._replace(buffer_s=minutes * MINUTE_S, archive=False)) for minutes in (1, 30))
    two_minutes_old = await store.add(in_both([1], ts=NOW - 120), [brief, long])
    assert two_minutes_old == [Outcome.IGNORED, Outcome.STORED]
    assert await store.add(in_both([2], ts=NOW), [brief, long]) == [Outcome.STORED] * 2
    keys = store.buckets.keys(0)
    here, there = [await redis.pttl(keys.message(GUILD, place, 2)) / 1000 for place in (CHANNEL, OTHER)]
    assert here <= MINUTE_S * 1.02 < there <= 30 * MINUTE_S * 1.02


async def test_each_channel_of_a_batch_has_its_own_archive_or_none(
    store: Store, search: Search, limits: Limits
) -> None:
    without, having = (under(store, limits._replace(archive=archive)) for archive in (False, True))
    assert await store.add(in_both([1], ts=NOW - 3600), [without, having]) == [Outcome.IGNORED, Outcome.STORED]
    await store.add(in_both(range(2, 62)), [without, having] * 60)
    assert len(await ids(search, replace(ARCHIVE, limits=without.limits))) == limits.max_messages
    assert len(await ids(search, elsewhere(ARCHIVE))) == 61


async def test_limits_that_change_within_a_batch_apply_from_there_on(store: Store, limits: Limits) -> None:
    many, few = (under(store, limits._replace(max_messages=count, archive=False)) for count in (50, 3))
    await store.add([message(number) for number in range(1, 7)], [many] * 5 + [few])
    assert await ids(Search(store.buckets), BUFFER) == [6, 5, 4]


async def test_an_edit_and_a_clear_follow_the_policy_that_they_are_given(
    store: Store, redis: Redis, limits: Limits
) -> None:
    brief = under(store, limits._replace(buffer_s=MINUTE_S, archive_s=2 * MINUTE_S, archive=False))
    assert await store.edit(message(1, "late", ts=NOW - 90, revision=1.0), brief) is Outcome.IGNORED
    assert await store.edit(message(1, "late", ts=NOW - 90, revision=1.0)) is Outcome.STORED
    await store.clear(GUILD, CHANNEL, brief)
    assert 0 < await redis.pttl(store.buckets.keys(0).of("floor", room(GUILD, CHANNEL))) <= 2 * MINUTE_S * 1000


# --- reading ---


@pytest.fixture
async def hour(store: Store, fake_embedder: FakeEmbedder) -> list[Message]:
    """Seven messages, ten minutes apart, the last one of this moment."""
    talk = [message(number, "turtles", ts=NOW - 3600 + number * 600) for number in range(7)]
    await store.add(talk)
    await commit(store, [(one, fake_embedder.vector(one.content)) for one in talk])
    return talk


READERS = {
    "the buffer": BUFFER,
    "the buffer of a guild": replace(BUFFER, channel_ids=()),
    "the archive": ARCHIVE,
    "the archive of a guild": replace(ARCHIVE, channel_ids=()),
    "the archive by author": replace(ARCHIVE, author_ids=(5,)),
}


@pytest.mark.parametrize("query", READERS.values(), ids=READERS)
async def test_a_query_hides_what_is_older_than_its_limits_allow(
    hour: list[Message], search: Search, fake_embedder: FakeEmbedder, limits: Limits, query: Query
) -> None:
    brief = limits._replace(buffer_s=25 * MINUTE_S, archive_s=25 * MINUTE_S)
    near = replace(query, vector=fake_embedder.vector("turtles"), words=("turtles",), limits=brief)
    assert await ids(search, near) == [6, 5, 4]
    found = await search.nearest(near)
    assert {hit.message.id for hit in found.hits} == {4, 5, 6}
    assert (found.total, found.oldest_ts) == (3, hour[4].ts)


async def test_a_query_shows_no_more_messages_of_a_buffer_than_its_limits_allow(
    hour: list[Message], search: Search, limits: Limits
) -> None:
    for query in (BUFFER, replace(BUFFER, channel_ids=())):
        assert await ids(search, replace(query, limits=limits._replace(max_messages=2))) == [6, 5]


async def test_without_an_archive_in_its_limits_a_query_sees_the_buffer_alone(
    hour: list[Message], search: Search, limits: Limits
) -> None:
    off = limits._replace(archive=False, buffer_s=15 * MINUTE_S)
    assert await ids(search, replace(ARCHIVE, limits=off)) == [6, 5]
    assert [one.id for one in await search.around(GUILD, CHANNEL, [4, 5], 1, limits=off)] == [5, 6]
    assert [one.id for one in await search.get(GUILD, CHANNEL, [3, 5], off)] == [5]
    assert await ids(search, ARCHIVE) == [6, 5, 4, 3, 2, 1, 0]


async def test_larger_limits_of_a_query_reach_behind_the_default_ones(
    redis: Redis, settings: Settings, hour: list[Message], limits: Limits, store: Store
) -> None:
    narrow = settings.model_copy(update={"max_messages": 2, "max_age_minutes": 5})
    search = Search(Buckets(redis, narrow, dims=32, identity="fake-hash-32", clock=store.buckets.clock))
    assert await ids(search, BUFFER) == [6]
    assert await ids(search, replace(BUFFER, limits=limits._replace(buffer_s=7200.0))) == [6, 5, 4, 3, 2, 1, 0]
