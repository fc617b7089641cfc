"""Nothing from one guild or channel reaches another, with one bucket or many."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import Clock, FakeEmbedder, message, open_store
from redis.asyncio import Redis
from stored import commit

from channelmem.settings import Settings
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.types import Message, Source

GUILDS = [(number + 1) * 7 << 22 for number in range(4)]


def talk(guild: int, channel: int) -> list[Message]:
    """The same ids, authors and words everywhere: only guild and channel tell them apart."""
    return [message(number, f"turtles of {guild}", guild_id=guild, channel_id=channel) for number in range(1, 6)]


def channels(guild: int) -> tuple[int, int]:
    # The first number is the same in every guild: even that must not join them.
    return 77, guild + 2


async def everything(search: Search, query: Query, embedder: FakeEmbedder) -> list[Message]:
    found = await search.nearest(replace(query, vector=embedder.vector("turtles"), words=("turtles",)))
    return [*await search.newest(query), *[hit.message for hit in found.hits], *found.pending]


@pytest.fixture(params=[1, 3], ids=["one bucket", "three buckets"])
async def several(
    request: pytest.FixtureRequest, redis: Redis, settings: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> Store:
    store = await open_store(redis, settings.model_copy(update={"buckets": request.param}), clock)
    for guild in GUILDS:
        for channel in channels(guild):
            messages = talk(guild, channel)
            await store.add(messages)
            await commit(store, [(one, fake_embedder.vector(one.content)) for one in messages[:-1]])
    return store


@pytest.mark.parametrize("source", [Source.BUFFER, Source.ARCHIVE])
async def test_a_question_sees_only_its_guild_and_channels(
    several: Store, fake_embedder: FakeEmbedder, source: Source
) -> None:
    search = Search(several.buckets)
    for guild in GUILDS:
        whole = await everything(search, Query(guild, (), limit=100, source=source), fake_embedder)
        assert {(one.guild_id, one.channel_id) for one in whole} == {(guild, one) for one in channels(guild)}
        assert {one.content for one in whole} == {f"turtles of {guild}"}
        one_channel = Query(guild, channels(guild)[:1], limit=100, source=source)
        assert {one.channel_id for one in await everything(search, one_channel, fake_embedder)} == {77}


async def test_leaving_a_guild_leaves_the_others_untouched(several: Store, fake_embedder: FakeEmbedder) -> None:
    search = Search(several.buckets)
    assert await several.delete_guild(GUILDS[0]) == 10
    await several.swept()
    for source in (Source.BUFFER, Source.ARCHIVE):
        assert await everything(search, Query(GUILDS[0], (), source=source), fake_embedder) == []
        for guild in GUILDS[1:]:
            left = await search.newest(Query(guild, (), limit=100, source=source))
            assert len(left) == 10


async def test_deleting_by_the_same_id_elsewhere_removes_nothing_here(several: Store) -> None:
    search = Search(several.buckets)
    here, there = GUILDS[0], GUILDS[1]
    await several.delete(there, channels(there)[0], [1, 2, 3])
    assert len(await search.newest(Query(here, channels(here)[:1]))) == 5
    assert len(await search.newest(Query(there, channels(there)[:1]))) == 2


async def test_two_prefixes_on_one_redis_do_not_meet(
    redis: Redis, settings: Settings, clock: Clock, store: Store
) -> None:
    other = await open_store(redis, settings.model_copy(update={"key_prefix": settings.key_prefix + "x"}), clock)
    guild, channel = GUILDS[0], channels(GUILDS[0])[0]
    await other.add(talk(guild, channel))
    query = Query(guild, (), words=("turtles",), source=Source.ARCHIVE)
    assert (await Search(store.buckets).nearest(query)).hits == ()
    assert len((await Search(other.buckets).nearest(query)).hits) == 5
    await other.close()
