"""Search on real Redis: views, filters, full text, neighbours, and nothing that could be read as query syntax."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import (
    CHANNEL,
    GUILD,
    NOW,
    Clock,
    FakeEmbedder,
    OwnServer,
    count_commands,
    count_pipelines,
    make_settings,
    message,
    open_store,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis
from stored import commit
from waiting import LIMIT_S

from channelmem.ingest.worker import Worker
from channelmem.policy.policy import Policy
from channelmem.settings import Settings
from channelmem.store.buckets import Buckets
from channelmem.store.documents import clean
from channelmem.store.index_search import Searched, SearchScope, tokens
from channelmem.store.redis import command, connect
from channelmem.store.scripts import source
from channelmem.store.search import Matches, Query, Search
from channelmem.store.store import Store
from channelmem.types import Message, Source, Window

OTHER = 933_333_333_333_333_333
ARCHIVE = Query(GUILD, (CHANNEL,), source=Source.ARCHIVE, limit=50)
BUFFER = Query(GUILD, (CHANNEL,), limit=50)
BOTH = pytest.mark.parametrize("query", [BUFFER, ARCHIVE], ids=["buffer", "archive"])
TALK = [
    message(1, "I saw turtles running at the lake"),
    message(2, "cats run faster", author_id=6, author="Bob"),
    message(3, "what about bicycles", author_id=7, author="Cy"),
    message(4, "a turtle cannot ride one", author_id=6, author="Bob"),
    message(5, "@bot what do you think of turtles", addressed=True),
    message(6, "I like turtles", author_id=99, author="bot", own=True),
    message(1, "turtles elsewhere", channel_id=OTHER),
]


@pytest.fixture
async def talk(store: Store, worker: Worker) -> Store:
    await store.add(TALK)
    assert await store.flush(LIMIT_S)
    return store


def ids(messages: list[Message]) -> list[int]:
    return [one.id for one in messages]


async def hit_ids(search: Search, query: Query) -> list[int]:
    return [hit.message.id for hit in (await search.nearest(query)).hits]


# --- newest ---


@BOTH
async def test_newest_first_leaves_out_the_bot_unless_asked_for(talk: Store, search: Search, query: Query) -> None:
    assert ids(await search.newest(query)) == [4, 3, 2, 1]
    assert ids(await search.newest(replace(query, flagged=True))) == [6, 5, 4, 3, 2, 1]
    assert ids(await search.newest(replace(query, limit=2))) == [4, 3]


@BOTH
async def test_newest_by_author_and_window(talk: Store, search: Search, query: Query) -> None:
    assert ids(await search.newest(replace(query, author_ids=(6,)))) == [4, 2]
    assert ids(await search.newest(replace(query, author_ids=(6, 7)))) == [4, 3, 2]
    ts = {one.id: one.ts for one in TALK}
    assert ids(await search.newest(replace(query, window=Window(ts[2], ts[3])))) == [3, 2]
    assert ids(await search.newest(replace(query, window=Window(end=ts[2])))) == [2, 1]
    assert ids(await search.newest(replace(query, window=Window(ts[3], None), author_ids=(7,)))) == [3]


@BOTH
async def test_newest_over_several_channels_and_the_guild(talk: Store, search: Search, query: Query) -> None:
    both = await search.newest(replace(query, channel_ids=(CHANNEL, OTHER)))
    assert ids(both) == [4, 3, 2, 1, 1]
    assert {one.channel_id for one in both[3:]} == {CHANNEL, OTHER}
    assert len(await search.newest(replace(query, channel_ids=()))) == 5


async def test_a_large_guild_finds_its_newest_without_sorting_all(
    store: Store, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    ages_s = (100.0, 1_000.0, 5_000.0, 50_000.0, 200_000.0, 300_000.0)
    await store.add([message(100 - at, ts=NOW - age_s) for at, age_s in enumerate(ages_s)])
    wide = replace(ARCHIVE, channel_ids=())
    for most in (1_000, 1):  # small enough to be sorted whole; larger than that
        monkeypatch.setattr("channelmem.store.index_search.MANY", most)
        assert ids(await search.newest(wide)) == [100, 99, 98, 97, 96, 95]
        for limit in range(1, 7):
            assert ids(await search.newest(replace(wide, limit=limit))) == [100, 99, 98, 97, 96, 95][:limit]
        by_day = replace(wide, window=Window(end=NOW - 150_000))
        assert ids(await search.newest(by_day)) == [96, 95]
    sorted_at_once: list[int] = []
    before = search._index._search

    async def counted(query: Query, scope: SearchScope, wanted: int, *, newest: bool) -> Searched:
        found = await before(query, scope, wanted, newest=newest)
        sorted_at_once.append(len(found.candidates))
        return found

    monkeypatch.setattr(search._index, "_search", counted)
    assert ids(await search.newest(replace(wide, limit=2))) == [100, 99]
    assert sorted_at_once == [2]  # of the last hour


async def test_a_window_of_the_buffer_view_does_not_reach_behind_the_newest_n(store: Store, search: Search) -> None:
    await store.add([message(number) for number in range(1, 101)])
    old = Window(end=message(60).ts)
    assert ids(await search.newest(replace(BUFFER, window=old))) == list(range(60, 50, -1))
    assert len(await search.newest(replace(ARCHIVE, window=old))) == 50


async def test_a_message_is_seen_by_every_newest_query_right_after_it_was_stored(store: Store, search: Search) -> None:
    for number in range(1, 21):
        await store.add([message(number)])
        for query in (BUFFER, ARCHIVE, replace(ARCHIVE, author_ids=(5,)), replace(BUFFER, channel_ids=())):
            assert (await search.newest(query))[0].id == number


# --- nearest ---


@BOTH
async def test_nearest_ranks_by_similarity(
    talk: Store, search: Search, fake_embedder: FakeEmbedder, query: Query
) -> None:
    found = await search.nearest(replace(query, vector=fake_embedder.vector("what about bicycles")))
    assert found.hits[0].message == TALK[2]
    assert found.hits[0].similarity == pytest.approx(1, abs=0.005)
    assert found.hits[0].age_s == NOW - TALK[2].ts
    similarities = [hit.similarity for hit in found.hits]
    assert similarities == sorted(similarities, key=lambda one: -(one or 0))
    assert found.pending == ()
    assert found.oldest_ts == TALK[0].ts


async def test_buffer_and_archive_agree_on_similarity(talk: Store, search: Search, fake_embedder: FakeEmbedder) -> None:
    vector = fake_embedder.vector("turtles at the lake")
    seen = [
        {hit.message.id: hit.similarity for hit in (await search.nearest(replace(query, vector=vector))).hits}
        for query in (BUFFER, ARCHIVE)
    ]
    assert seen[0] == pytest.approx(seen[1], abs=0.005)


@BOTH
async def test_nearest_keeps_to_authors_window_and_flags(
    talk: Store, search: Search, fake_embedder: FakeEmbedder, query: Query
) -> None:
    near = replace(query, vector=fake_embedder.vector("turtles"))
    assert set(await hit_ids(search, near)) == {1, 2, 3, 4}
    assert set(await hit_ids(search, replace(near, flagged=True))) == {1, 2, 3, 4, 5, 6}
    assert set(await hit_ids(search, replace(near, author_ids=(6,)))) == {2, 4}
    assert set(await hit_ids(search, replace(near, window=Window(TALK[2].ts, NOW)))) == {3, 4}


async def test_a_wide_buffer_view_goes_through_the_index_and_keeps_the_cap_per_channel(
    store: Store, search: Search, worker: Worker, fake_embedder: FakeEmbedder
) -> None:
    for channel in range(1, 13):
        await store.add([message(number, channel_id=channel) for number in range(1, 56)])
    assert await store.flush(60)
    wide = Query(GUILD, tuple(range(1, 13)), vector=fake_embedder.vector("turtles"), limit=1000)
    hits = (await search.nearest(wide)).hits
    assert len(hits) == 12 * 50
    assert min(hit.message.id for hit in hits) == 6
    assert len((await search.nearest(replace(wide, channel_ids=()))).hits) == 12 * 50


@BOTH
async def test_pending_messages_are_named_with_their_text(
    talk: Store, search: Search, fake_embedder: FakeEmbedder, query: Query
) -> None:
    fake_embedder.gate.clear()
    late = message(10, "late turtles")
    await talk.add([late, message(11, "for the bot", addressed=True), message(12, channel_id=OTHER)])
    near = replace(query, vector=fake_embedder.vector("turtles"))
    assert (await search.nearest(near)).pending == (late,)
    assert (await search.nearest(replace(near, author_ids=(6,)))).pending == ()
    await commit(talk, [(late, fake_embedder.vector(late.content))])
    assert (await search.nearest(near)).pending == ()
    fake_embedder.gate.set()


async def test_three_round_trips_for_vector_text_counts_and_neighbours(
    talk: Store, search: Search, redis: Redis, fake_embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = replace(ARCHIVE, vector=fake_embedder.vector("turtles"), words=("turtle", "cat"), counts=True)
    full = replace(full, beside=2, radius=1)
    await search.nearest(full)
    sent = count_commands(redis, monkeypatch)
    pipelines = count_pipelines(redis, monkeypatch)
    found = await search.nearest(full)
    assert found.counts == (2, 1)
    assert len(found.hits) == 4
    assert [name for name in sent if name != "XREADGROUP"] == ["EVALSHA"] * 2  # the idle worker shares the client
    assert len(pipelines) == 1


async def test_the_best_hits_come_with_their_neighbours(
    talk: Store, search: Search, fake_embedder: FakeEmbedder
) -> None:
    about = replace(ARCHIVE, vector=fake_embedder.vector("what about bicycles"), limit=1, radius=1)
    assert (await search.nearest(about)).neighbours == ()
    found = await search.nearest(replace(about, beside=1))
    assert [hit.message.id for hit in found.hits] == [3]
    assert ids(list(found.neighbours)) == [2, 4]
    await talk.delete(GUILD, CHANNEL, [2])
    assert ids(list((await search.nearest(replace(about, beside=1))).neighbours)) == [1, 4]


# --- searches that take too long ---


async def many(store: Store, fake_embedder: FakeEmbedder, count: int = 3_000) -> None:
    for first in range(1, count, 500):
        talk = [
            message(number, f"turtles and cats {number}", ts=NOW - 5_000 + number)
            for number in range(first, first + 500)
        ]
        await store.add(talk)
        await commit(store, [(one, fake_embedder.vector("turtles")) for one in talk])


async def test_a_search_that_is_cut_off_says_so(store: Store, search: Search, fake_embedder: FakeEmbedder) -> None:
    await many(store, fake_embedder)
    wide = replace(ARCHIVE, words=("turtles", "cats"), limit=1000, vector=fake_embedder.vector("turtles"))
    assert not (await search.nearest(wide)).cut_short
    search._index.limit_ms = 1
    found = await search.nearest(wide)
    assert found.cut_short
    assert found.total == 3_000


async def test_a_redis_that_fails_slow_searches_is_told_from_one_that_found_nothing(
    own_server: OwnServer, tmp_path: Path, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    settings = make_settings(own_server.url, tmp_path)
    redis = connect(own_server.url, settings)
    try:
        store = await open_store(redis, settings, clock)
        await many(store, fake_embedder)
        await command(redis, "FT.CONFIG", "SET", "ON_TIMEOUT", "FAIL")
        search = Search(store.buckets)
        search._index.limit_ms = 1
        found = await search.nearest(replace(ARCHIVE, words=("turtles", "cats"), limit=1000))
        assert found.cut_short
        await store.close()
    finally:
        await redis.aclose()


async def test_what_is_cut_off_is_searched_again_in_the_first_channel_alone(
    talk: Store, search: Search, fake_embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Query] = []
    once = search._index._matches

    async def noting(query: Query) -> Matches:
        asked.append(query)
        return replace(await once(query), cut_short=len(asked) == 1)

    monkeypatch.setattr(search._index, "_matches", noting)
    both = replace(ARCHIVE, channel_ids=(CHANNEL, OTHER), vector=fake_embedder.vector("turtles"))
    found = await search.nearest(both)
    assert [query.channel_ids for query in asked] == [(CHANNEL, OTHER), (CHANNEL,)]
    assert found.cut_short
    assert found.total == 7
    assert {hit.message.channel_id for hit in found.hits} == {CHANNEL}


# --- what the index is asked ---


async def filter_of(search: Search, query: Query) -> str:
    return (await search._index._scope(query, late=False)).filter


async def test_only_a_window_that_is_asked_for_becomes_a_clause(talk: Store, search: Search, clock: Clock) -> None:
    assert "@ts" not in await filter_of(search, ARCHIVE)
    assert "@ts" not in await filter_of(search, replace(ARCHIVE, channel_ids=(CHANNEL, OTHER)))
    assert "@ts" not in await filter_of(search, replace(ARCHIVE, window=Window(TALK[0].ts, None)))
    assert "@ts" in await filter_of(search, replace(ARCHIVE, window=Window(TALK[1].ts, None)))
    assert "@ts" in await filter_of(search, replace(ARCHIVE, window=Window(None, TALK[1].ts)))


async def test_messages_that_outlived_a_shortened_lifetime_take_no_places(
    store: Store, search: Search, fake_embedder: FakeEmbedder
) -> None:
    old = [message(number, "turtles", ts=NOW - 5_000 + number) for number in range(1, 21)]
    young = [message(number, "turtles and cats", ts=NOW - 50 + number) for number in range(21, 24)]
    await store.add([*old, *young])
    await commit(store, [(one, fake_embedder.vector(one.content)) for one in (*old, *young)])
    limits = Policy.of_settings(store.buckets.settings).limits
    short = limits._replace(buffer_s=300.0, archive_s=600.0)
    near = replace(ARCHIVE, vector=fake_embedder.vector("turtles"), limit=3, limits=short)
    assert "@ts" in await filter_of(search, near)
    found = await search.nearest(near)
    assert {hit.message.id for hit in found.hits} == {21, 22, 23}
    assert (found.total, found.oldest_ts) == (3, young[0].ts)


async def test_times_keep_their_microseconds_on_the_way_through_the_index(store: Store, search: Search) -> None:
    exact = message(1, ts=NOW - 600.123457)
    await store.add([exact])
    [hit] = (await search.nearest(replace(ARCHIVE, words=("turtles",)))).hits
    assert hit.message == exact


# --- full text ---


@pytest.mark.parametrize("edits", [0, 10])
async def test_full_text_is_stemmed_and_scored(store: Store, search: Search, edits: int) -> None:
    # RediSearch also counts words of former versions until it collects them. A word that it counts more often than
    # there are documents weighs very much. All are of one length and have the words in one form, so whoever has both
    # is first in any case.
    texts = ["green turtles run", "cats run faster", "what about bicycles", "small turtles sleep"]
    said = [message(number, text) for number, text in enumerate(texts, 1)]
    await store.add(said)
    for number in range(edits):
        await store.edit(replace(said[3], revision=NOW + number))
    found = await search.nearest(replace(ARCHIVE, words=("turtle", "running"), counts=True))
    assert {hit.message.id for hit in found.hits} == {1, 2, 4}
    assert found.hits[0].message.id == 1
    assert found.hits[0].similarity is None
    assert (found.hits[0].text_score or 0) > (found.hits[-1].text_score or 0) > 0
    assert found.counts == (2, 2)
    assert found.total == 4


async def test_words_that_nobody_said_or_that_are_no_words_find_nothing(talk: Store, search: Search) -> None:
    for words in (("zebra",), ("the",), ("!!!",), ("",)):
        found = await search.nearest(replace(ARCHIVE, words=words, counts=True))
        assert found.hits == ()
        assert found.counts == (0,)


async def test_both_sides_say_why_a_hit_is_there(talk: Store, search: Search, fake_embedder: FakeEmbedder) -> None:
    near = replace(ARCHIVE, vector=fake_embedder.vector("what about bicycles"), words=("turtle",), limit=1)
    hits = {hit.message.id: hit for hit in (await search.nearest(near)).hits}
    assert hits[3].similarity is not None
    assert hits[3].text_score is None
    [by_text] = [hit for hit in hits.values() if hit.text_score is not None]
    assert by_text.similarity is None


@pytest.mark.parametrize(
    "word",
    ["c++", "@text:{x}", "a|b", "-not", "(open", '"quote', "'single", "[1 2]", "$v", "*", "%x%", "back\\slash", "~x",
     "🐢", "שלום", "a\u200bb", "=>[KNN 1 @vec1 $v]", "`tick`", "semi;colon", "under_score", "né", "{", "x:y", "\x07",
     "tur\udfff", "\ud83d"],
)  # fmt: skip
async def test_every_character_of_the_query_syntax_is_just_text(store: Store, search: Search, word: str) -> None:
    await store.add([message(1, clean(f"before {word} after")), message(2, "something else")])
    found = await search.nearest(replace(ARCHIVE, words=(word, "before"), counts=True))
    assert [hit.message.id for hit in found.hits] == [1]


@given(st.text(st.characters(), min_size=1, max_size=30))  # lone surrogates too
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
async def test_no_text_breaks_the_query(search: Search, word: str) -> None:
    await search.nearest(replace(ARCHIVE, words=(word,), counts=True))


def test_words_are_split_as_redis_splits_them() -> None:
    assert tokens("don't stop-me C++ now_or_never") == ["don", "t", "stop", "me", "C", "now_or_never"]
    assert tokens("?!") == []


# --- around and get ---


async def test_neighbours_come_once_in_order_and_only_from_the_channel(talk: Store, search: Search) -> None:
    assert ids(await search.around(GUILD, CHANNEL, [3], 1)) == [2, 3, 4]
    assert ids(await search.around(GUILD, CHANNEL, [1, 2, 6], 1)) == [1, 2, 3, 5, 6]
    assert await search.around(GUILD, CHANNEL, [77], 3) == []
    assert await search.around(GUILD, CHANNEL, [], 3) == []


async def test_neighbours_that_are_known_are_not_read_again(talk: Store, search: Search) -> None:
    assert ids(await search.around(GUILD, CHANNEL, [3, 5], 1, known=[3, 4, 99])) == [2, 5, 6]


@pytest.mark.parametrize("spread_s", [1.0, 0.0], ids=["apart", "of one moment"])
async def test_a_capped_view_that_the_index_answers_counts_only_what_it_can_find(
    redis: Redis, settings: Settings, clock: Clock, spread_s: float
) -> None:
    few = settings.model_copy(update={"max_messages": 5})
    store = await open_store(redis, few, clock)
    await store.add([message(number, ts=NOW - 100 + number * spread_s) for number in range(1, 13)])
    search, query = Search(store.buckets), replace(BUFFER, channel_ids=(), words=("turtles",))
    found = await search.nearest(query)
    assert {hit.message.id for hit in found.hits} == {8, 9, 10, 11, 12}
    assert (found.total, found.oldest_ts) == (5, NOW - 100 + 8 * spread_s)
    before = await search.nearest(replace(query, window=Window(None, NOW - 101 + 8 * spread_s)))
    assert (before.hits, before.total) == ((), 0)
    some = await search.nearest(replace(query, window=Window(NOW - 100, NOW - 100 + 9 * spread_s)))
    assert some.total == len(some.hits) == (2 if spread_s else 5)
    await store.close()


async def test_neighbours_outlive_neither_their_lifetime_nor_the_cap(
    talk: Store, search: Search, redis: Redis, settings: Settings, clock: Clock
) -> None:
    few = settings.model_copy(update={"archive": False, "max_messages": 2})
    capped = Search(Buckets(redis, few, dims=32, identity="fake-hash-32", clock=clock))
    assert ids(await capped.around(GUILD, CHANNEL, [3, 4, 5], 1)) == [5, 6]
    clock.now = TALK[2].ts + settings.archive_days * 86_400 + 1
    assert ids(await search.around(GUILD, CHANNEL, [4], 2)) == [4, 5, 6]


async def test_get_returns_what_is_visible(talk: Store, search: Search) -> None:
    await talk.delete(GUILD, CHANNEL, [2])
    assert await search.get(GUILD, CHANNEL, [3, 2, 1, 50]) == [TALK[0], TALK[2]]


# --- leftovers and other corners ---


async def test_removed_messages_do_not_take_the_places_of_live_ones(
    store: Store, search: Search, worker: Worker, fake_embedder: FakeEmbedder
) -> None:
    await store.add([message(number, "turtles") for number in range(1, 301)])
    await store.add([message(number, "turtles and cats") for number in range(301, 311)])
    assert await store.flush(LIMIT_S)
    store._sweeper.wake = lambda: None  # type: ignore[method-assign]  # the leftovers stay
    await store.delete(GUILD, CHANNEL, range(1, 301))
    near = replace(ARCHIVE, vector=fake_embedder.vector("turtles"), words=("turtles",), limit=10)
    found = await search.nearest(near)
    assert {hit.message.id for hit in found.hits} == set(range(301, 311))
    assert all(hit.similarity is not None and hit.text_score is not None for hit in found.hits)


async def test_an_empty_channel_and_an_unknown_guild_find_nothing(search: Search, fake_embedder: FakeEmbedder) -> None:
    vector = fake_embedder.vector("turtles")
    for query in (BUFFER, ARCHIVE, replace(ARCHIVE, channel_ids=()), replace(BUFFER, channel_ids=())):
        assert await search.newest(query) == []
        found = await search.nearest(replace(query, vector=vector, words=("turtle",)))
        assert (found.hits, found.pending, found.total, found.oldest_ts) == ((), (), 0, None)


@pytest.mark.parametrize("changes", [{"index_algorithm": "flat"}, {"buckets": 5}, {"hnsw_m": 8}])
async def test_other_index_settings_search_alike(
    redis: Redis, settings: Settings, clock: Clock, fake_embedder: FakeEmbedder, changes: dict[str, object]
) -> None:
    store = await open_store(redis, settings.model_copy(update=changes), clock)
    await store.add(TALK)
    await commit(store, [(one, fake_embedder.vector(one.content)) for one in TALK])
    vector = fake_embedder.vector("what about bicycles")
    for query in (BUFFER, ARCHIVE):
        found = await Search(store.buckets).nearest(replace(query, vector=vector))
        assert found.hits[0].message == TALK[2]
    await store.close()


async def test_vectors_are_stored_in_half_precision(talk: Store, redis: Redis, fake_embedder: FakeEmbedder) -> None:
    blob = await redis.hget(talk.buckets.keys(0).message(GUILD, CHANNEL, 1), "vec1")
    assert isinstance(blob, bytes)
    stored = np.frombuffer(blob, dtype=np.float16)
    assert stored == pytest.approx(fake_embedder.vector(TALK[0].content), abs=1e-3)


def test_scripts_are_loaded_from_the_package() -> None:
    assert "FT.SEARCH" in source("scope")


async def test_a_user_whose_key_pattern_forbids_sort_sees_the_same_views(
    own_server: OwnServer, tmp_path: Path, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    settings = make_settings(own_server.url, tmp_path)
    admin = connect(own_server.url, settings)
    await command(admin, "ACL", "SETUSER", "narrow", "on", ">pass", "~cm:*", "&*", "+@all")
    narrow = connect(own_server.url.replace(":own@", "narrow:pass@"), settings)
    store = await open_store(narrow, settings, clock)
    await store.add(TALK)
    await commit(store, [(one, fake_embedder.vector(one.content)) for one in TALK])
    search = Search(store.buckets)
    near = replace(BUFFER, vector=fake_embedder.vector("what about bicycles"))
    for _ in range(2):
        assert (await search.nearest(near)).hits[0].message == TALK[2]
        assert ids(await search.newest(BUFFER)) == [4, 3, 2, 1]
    assert not search._sorts
    await store.close()
    await narrow.aclose()
    await admin.aclose()
