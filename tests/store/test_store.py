"""The store on real Redis: what is kept and replaced, in which order, and on which server."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder, count_commands, message, open_store
from plain_server import plain_server
from redis.asyncio import Redis
from stored import ARCHIVE, BUFFER, commit, contents, ids
from waiting import LIMIT_S

from channelmem.errors import RedisUnavailableError, RedisUnsuitableError
from channelmem.ingest.streams import repair
from channelmem.ingest.worker import Worker
from channelmem.settings import Settings
from channelmem.store.buckets import Buckets
from channelmem.store.derived import Wanted
from channelmem.store.index import shape
from channelmem.store.redis import connect
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.types import Attachment, Outcome, Source

AWKWARD = [
    "@text:{a|b} -(x) ~y \"z\" 'q' [1 2] $p *w* %fuzzy% a\\b c:d e;f =>[KNN 5 @vec1 $v]",
    "🐢🧑‍💻 emoji 👍🏽",
    "שלום עולם, مرحبا بالعالم",
    "zero\u200bwidth\u200djoiner\ufeff",
    "x" * 499 + "é",
    "tab\tand\nnewline\r\n",
    "<@123> https://example.org/?a=1&b={c}#d",
]


# --- add ---


async def test_a_message_is_visible_at_once_and_searchable_when_embedded(
    store: Store, search: Search, worker: Worker, fake_embedder: FakeEmbedder
) -> None:
    sent = [message(1), message(2, "cats are fast")]
    assert await store.add(sent) == [Outcome.STORED, Outcome.STORED]
    assert await ids(search) == [2, 1]
    assert await store.flush(LIMIT_S)
    for source in (Source.BUFFER, Source.ARCHIVE):
        vector = fake_embedder.vector("turtles")
        found = await search.nearest(Query(GUILD, (CHANNEL,), vector=vector, source=source))
        assert found.hits[0].message == sent[0]


async def test_every_field_survives(store: Store, search: Search) -> None:
    parents = ((2**63 + 1, 0.123456789), (7, 0.2))
    sent = message(
        2**63 + 5,
        author_id=2**60 + 1,
        author="Ännä 🐢",
        reply_to=2**62 + 3,
        mentions=(2**61 + 1, 9),
        addressed=True,
        revision=1_700_000_000.123456,
        parents=parents,
        ts=NOW - 0.000123,
    )
    await store.add([sent])
    for source in Source.BUFFER, Source.ARCHIVE:
        assert await search.newest(Query(GUILD, (CHANNEL,), flagged=True, source=source)) == [sent]


@pytest.mark.parametrize("text", AWKWARD)
async def test_awkward_text_comes_back_as_it_was(store: Store, search: Search, text: str) -> None:
    await store.add([message(1, text, author=text[:80])])
    [found] = await search.newest(BUFFER)
    assert (found.content, found.author) == (text, text[:80])


async def test_ids_beyond_53_bits_are_told_apart(store: Store, search: Search) -> None:
    first, second = 2**53, 2**53 + 1
    await store.add([message(first, "one", ts=NOW - 2), message(second, "two", ts=NOW - 1)])
    assert await ids(search) == [second, first]
    await store.delete(GUILD, CHANNEL, [first])
    assert await ids(search) == [second]


async def test_the_same_message_twice_is_one(store: Store, search: Search, redis: Redis) -> None:
    assert await store.add([message(1), message(1)]) == [Outcome.STORED, Outcome.STORED]
    assert await store.add([message(1, "another text, same revision")]) == [Outcome.STORED]
    assert await contents(search) == ["turtles are slow"]
    assert await store.pending() == 1


async def test_messages_of_the_same_second_keep_the_order_of_their_ids(store: Store, search: Search) -> None:
    await store.add([message(number, ts=NOW - 5) for number in (9, 100, 10, 99)])
    assert await ids(search) == [100, 99, 10, 9]


# --- edits ---


async def test_an_edit_replaces_text_and_vector(
    store: Store, search: Search, worker: Worker, fake_embedder: FakeEmbedder
) -> None:
    await store.add([message(1), message(2, "cats")])
    assert await store.flush(LIMIT_S)
    assert await store.edit(message(1, "bicycles", revision=NOW)) is Outcome.STORED
    assert await store.flush(LIMIT_S)
    assert await contents(search) == ["cats", "bicycles"]
    for source in (Source.BUFFER, Source.ARCHIVE):
        query = Query(GUILD, (CHANNEL,), vector=fake_embedder.vector("bicycles"), source=source)
        best = (await search.nearest(query)).hits[0]
        assert best.message.content == "bicycles"
        assert best.similarity == pytest.approx(1, abs=0.01)
    words = replace(ARCHIVE, words=("turtles",))
    assert (await search.nearest(words)).hits == ()


async def test_an_older_revision_changes_nothing(store: Store, search: Search) -> None:
    await store.edit(message(1, "second", revision=20.0))
    await store.edit(message(1, "first", revision=10.0))
    await store.add([message(1, "original")])
    assert await contents(search) == ["second"]


async def test_an_edit_that_leaves_no_text_removes_the_message_until_a_newer_one(store: Store, search: Search) -> None:
    await store.add([message(1)])
    await store.edit(message(1, "", revision=10.0))
    assert await ids(search) == []
    await store.edit(message(1, "late and old", revision=9.0))
    assert await ids(search) == []
    await store.edit(message(1, "text again", revision=11.0))
    assert await contents(search) == ["text again"]


async def test_an_edited_message_is_pending_again(store: Store, search: Search, fake_embedder: FakeEmbedder) -> None:
    await store.add([message(1)])
    await commit(store, [(message(1), fake_embedder.vector("turtles"))])
    assert (await store.channels.status(GUILD, CHANNEL)).pending == 0
    await store.edit(message(1, "bicycles", revision=1.0))
    assert (await store.channels.status(GUILD, CHANNEL)).pending == 1
    assert await commit(store, [(message(1), fake_embedder.vector("turtles"))]) == 0
    [hit] = (await search.nearest(replace(BUFFER, vector=fake_embedder.vector("turtles")))).hits
    assert hit.similarity is None


# --- many at once ---


async def test_events_of_a_channel_are_applied_in_the_order_of_the_calls(store: Store, search: Search) -> None:
    calls: list[Coroutine[Any, Any, object]] = []
    for number in range(1, 41):
        calls.append(store.add([message(number)]))
        calls.append(store.edit(message(number, f"edited {number}", revision=1.0)))
        calls.append(store.delete(GUILD, CHANNEL, [number] if number % 2 else []))
    await asyncio.gather(*[asyncio.ensure_future(call) for call in calls])
    assert await contents(search) == [f"edited {number}" for number in range(40, 0, -2)]


async def test_a_clear_between_messages_of_one_batch_parts_them(store: Store, search: Search, clock: Clock) -> None:
    clock.now = NOW + 10
    await asyncio.gather(
        store.add([message(1, "old turtles", ts=NOW + 5), message(2, author_id=6, author="Bob", ts=NOW + 5)]),
        store.clear(GUILD, CHANNEL),
        store.add([message(3, "late", ts=NOW + 6), message(4, "new turtles", ts=NOW + 20)]),
    )
    assert await ids(search) == [4]
    by_words = await search.nearest(replace(ARCHIVE, words=("turtle",)))
    assert [hit.message.id for hit in by_words.hits] == [4]
    assert [one.person.id for one in await store.channels.roster(GUILD, CHANNEL)] == [message(4).author_id]


async def test_a_guild_left_between_messages_of_one_batch_is_known_again_by_the_next(
    store: Store, search: Search, clock: Clock
) -> None:
    clock.now = NOW + 10
    await asyncio.gather(
        store.add([message(1, ts=NOW + 5)]), store.delete_guild(GUILD), store.add([message(2, ts=NOW + 20)])
    )
    clock.now = NOW + 30
    assert await ids(search) == [2]
    assert await store.delete_guild(GUILD) == 1  # which finds the channel by the guild's list
    assert await ids(search) == []


async def test_concurrent_messages_share_round_trips(
    store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.add([message(1)])
    sent = count_commands(redis, monkeypatch)
    await asyncio.gather(*[store.add([message(number)]) for number in range(2, 102)])
    assert 0 < len(sent) <= 10


# --- the server ---


@pytest.mark.process
async def test_a_redis_without_search_is_named_with_the_fix(settings: Settings, clock: Clock, tmp_path: Path) -> None:
    with plain_server(tmp_path) as url:
        client = connect(url, settings)
        with pytest.raises(RedisUnsuitableError, match="search module"):
            await open_store(client, settings, clock)
        await client.aclose()


async def test_those_who_wait_for_a_bucket_learn_together_that_redis_is_away(
    redis: Redis, settings: Settings, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look takes as long as the client waits for an answer: they must not add up."""
    buckets = Buckets(redis, settings, dims=32, identity="fake-hash-32", clock=clock)
    looks: list[object] = []

    async def away(*arguments: object, **_options: object) -> None:
        looks.append(arguments[0])
        await asyncio.sleep(0)
        raise RedisUnavailableError("Redis does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(redis, "execute_command", away)
        answers = await asyncio.gather(*(buckets.ready(0) for _ in range(6)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [RedisUnavailableError] * 6
    assert len(looks) == 1
    assert (await buckets.ready(0)).version == 1


async def test_two_processes_that_make_an_index_together_note_its_shape(
    redis: Redis, settings: Settings, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (Buckets(redis, settings, dims=32, identity="fake-hash-32", clock=clock) for _ in range(2))
    execute = redis.execute_command
    created: list[object] = []

    async def between(*arguments: object, **options: object) -> object:
        reply = await execute(*arguments, **options)  # type: ignore[no-untyped-call]
        if arguments[0] == "FT.CREATE" and not created:
            created.append(arguments[1])
            await second.ready(0)
        return reply

    monkeypatch.setattr(redis, "execute_command", between)
    await first.ready(0)
    assert created
    assert await redis.hget(first.keys(0).one("meta"), "shape") == shape(settings).encode()


async def test_what_is_put_back_on_the_stream_wakes_the_worker(store: Store) -> None:
    await store.add([message(1)])
    await store.buckets.redis.xtrim(store.buckets.keys(0).one("ingest"), maxlen=0)
    store.buckets.fed.clear()
    store.buckets.feeding.clear()
    while not await repair(store.buckets, 0):  # noqa: ASYNC110  (Redis sends no event)
        await asyncio.sleep(0.01)
    assert store.buckets.fed == {0}
    assert store.buckets.feeding.is_set()


async def test_a_message_whose_picture_is_described_wakes_the_worker(store: Store) -> None:
    shown = message(1, attachments=(Attachment(7, "https://cdn.test/a.png", "image/png", "a.png", 9),))
    await store.add([shown])
    store.buckets.fed.clear()
    store.buckets.feeding.clear()
    wanted = Wanted(shown, 7, "key", "reader", 1, pointed=False)
    assert await store.descriptions.keep(wanted, "token", "a grey cat", 9, store.buckets.policy)
    assert store.buckets.fed == {0}
    assert store.buckets.feeding.is_set()
