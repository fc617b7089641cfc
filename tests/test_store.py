"""The store on real Redis: what is kept, replaced, pruned, refused and removed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder, count_commands, message, open_store
from plain_server import plain_server
from redis.asyncio import Redis
from redis.exceptions import TimeoutError as RedisTimeoutError

from channelmem.errors import RedisUnavailableError, RedisUnsuitableError
from channelmem.settings import Settings
from channelmem.store.bookmarks import Bookmarks
from channelmem.store.buckets import Buckets, connect
from channelmem.store.ingest import Worker
from channelmem.store.keys import room
from channelmem.store.outbox import Event
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.types import Gap, Outcome, Source

BUFFER = Query(GUILD, (CHANNEL,), limit=100)
ARCHIVE = Query(GUILD, (CHANNEL,), limit=100, source=Source.ARCHIVE)
AWKWARD = [
    "@text:{a|b} -(x) ~y \"z\" 'q' [1 2] $p *w* %fuzzy% a\\b c:d e;f =>[KNN 5 @vec1 $v]",
    "🐢🧑‍💻 emoji 👍🏽",
    "שלום עולם, مرحبا بالعالم",
    "zero\u200bwidth\u200djoiner\ufeff",
    "x" * 499 + "é",
    "tab\tand\nnewline\r\n",
    "<@123> https://example.org/?a=1&b={c}#d",
]


async def contents(search: Search, query: Query = BUFFER) -> list[str]:
    return [one.content for one in await search.newest(query)]


async def ids(search: Search, query: Query = BUFFER) -> list[int]:
    return [one.id for one in await search.newest(query)]


async def documents(redis: Redis, settings: Settings) -> int:
    # A set: SCAN may name a key twice while the table of keys is resized.
    return len({key async for key in redis.scan_iter(f"{settings.key_prefix}:*msg:*", count=1000)})


@pytest.fixture
def buffer_only(settings: Settings) -> Settings:
    return settings.model_copy(update={"archive": False, "max_messages": 5})


@pytest.fixture
async def small(redis: Redis, buffer_only: Settings, clock: Clock) -> Store:
    return await open_store(redis, buffer_only, clock)


# --- add ---


async def test_a_message_is_visible_at_once_and_searchable_when_embedded(
    store: Store, search: Search, worker: Worker, fake_embedder: FakeEmbedder
) -> None:
    sent = [message(1), message(2, "cats are fast"), message(3, " \n")]
    assert await store.add(sent) == [Outcome.STORED, Outcome.STORED, Outcome.IGNORED]
    assert await ids(search) == [2, 1]
    assert await store.flush(10)
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
    assert (found.content, found.author) == (text.strip(), text[:80])


async def test_long_content_is_cut(store: Store, search: Search) -> None:
    await store.add([message(1, "🐢" * 2000)])
    assert await contents(search) == ["🐢" * 500]


async def test_lone_surrogates_are_stored_as_replacement_characters(store: Store, search: Search) -> None:
    assert await store.add([message(1, "half \ud83d emoji", author="\udc00")]) == [Outcome.STORED]
    [found] = await search.newest(BUFFER)
    assert (found.content, found.author) == ("half \ufffd emoji", "\ufffd")


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


async def test_a_message_older_than_the_full_buffer_is_ignored_with_the_archive_off(small: Store) -> None:
    await small.add([message(number) for number in range(10, 15)])
    assert await small.add([message(3)]) == [Outcome.IGNORED]
    assert await small.add([message(15)]) == [Outcome.STORED]


async def test_nothing_older_than_its_lifetime_is_returned_though_redis_still_has_it(
    store: Store, search: Search, clock: Clock, redis: Redis, settings: Settings, worker: Worker
) -> None:
    await store.add([message(1), message(2, ts=NOW)])
    assert await store.flush(10)
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
    assert all(86_400 - 5 <= one <= 86_400 + 60 for one in left)
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


async def test_the_order_of_a_channel_lives_as_long_as_its_documents(
    store: Store, redis: Redis, settings: Settings, clock: Clock
) -> None:
    keys = store.buckets.keys(0)
    order = keys.of("chan", room(GUILD, CHANNEL))
    await store.add([message(number, ts=NOW) for number in range(990, 1000)])
    longest = max([await redis.pttl(keys.message(GUILD, CHANNEL, number)) for number in range(990, 1000)])
    assert longest <= await redis.pttl(order) + 1000 <= (7 * 86_400 + 61) * 1000
    await redis.pexpire(order, 1000)
    await store.add([message(1000, ts=NOW)])
    assert await redis.pttl(order) > longest - 60_000
    # Another process, whose channels live for half an hour only, finds documents that live for a week.
    other = await open_store(redis, settings.model_copy(update={"archive": False}), clock)
    await other.add([message(1001, ts=NOW)])
    assert await redis.pttl(order) > longest - 60_000
    await other.close()


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
    async with asyncio.timeout(20):
        while await redis.exists(keys.of("chan", room(GUILD, 4))):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert await documents(redis, settings) == 0
    await store.add([message(1, ts=NOW)])
    assert await redis.smembers(keys.of("guild", GUILD)) == {room(GUILD, CHANNEL).encode()}
    assert await redis.hlen(keys.one("epochs")) == 0
    assert not await redis.exists(keys.of("wait", room(GUILD, 4)))
    await store.close()


# --- edits ---


async def test_an_edit_replaces_text_and_vector(
    store: Store, search: Search, worker: Worker, fake_embedder: FakeEmbedder
) -> None:
    await store.add([message(1), message(2, "cats")])
    assert await store.flush(10)
    assert await store.edit(message(1, "bicycles", revision=NOW)) is Outcome.STORED
    assert await store.flush(10)
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
    await store.commit([(message(1), fake_embedder.vector("turtles"))])
    assert (await store.status(GUILD, CHANNEL)).pending == 0
    await store.edit(message(1, "bicycles", revision=1.0))
    assert (await store.status(GUILD, CHANNEL)).pending == 1
    assert await store.commit([(message(1), fake_embedder.vector("turtles"))]) == 0
    [hit] = (await search.nearest(replace(BUFFER, vector=fake_embedder.vector("turtles")))).hits
    assert hit.similarity is None


# --- removals ---


async def test_a_deleted_message_does_not_come_back(
    store: Store, search: Search, fake_embedder: FakeEmbedder, redis: Redis, settings: Settings
) -> None:
    await store.add([message(1), message(2)])
    assert await store.delete(GUILD, CHANNEL, [1, 77]) == 1
    assert await ids(search) == [2]
    assert await store.edit(message(1, "a late edit", revision=NOW)) is Outcome.IGNORED
    assert await store.add([message(1)]) == [Outcome.IGNORED]
    assert await store.commit([(message(1), fake_embedder.vector("late"))]) == 0
    assert await ids(search) == [2]
    assert await documents(redis, settings) == 1


async def test_a_delete_that_comes_before_its_message_wins(store: Store, search: Search) -> None:
    await store.delete(GUILD, CHANNEL, [1])
    assert await store.add([message(1)]) == [Outcome.IGNORED]


async def test_a_bulk_delete_hides_everything_at_once_and_removes_it_soon(
    store: Store, search: Search, redis: Redis, settings: Settings, worker: Worker, fake_embedder: FakeEmbedder
) -> None:
    await store.add([message(number) for number in range(1, 401)])
    assert await store.flush(20)
    assert await store.delete(GUILD, CHANNEL, range(1, 400)) == 399
    for source in (Source.BUFFER, Source.ARCHIVE):
        query = replace(BUFFER, source=source, vector=fake_embedder.vector("turtles"), words=("turtles",))
        assert [hit.message.id for hit in (await search.nearest(query)).hits] == [400]
        assert await ids(search, replace(BUFFER, source=source)) == [400]
    await store.swept()
    assert await documents(redis, settings) == 1


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
    sent = count_commands(redis, monkeypatch)
    if removal == "delete_guild":
        assert await store.delete_guild(GUILD) == count + 1
    else:
        assert await getattr(store, removal)(GUILD, CHANNEL) == count
    assert await ids(search) == await ids(search, ARCHIVE) == []
    assert (await search.nearest(replace(ARCHIVE, words=("turtles",)))).hits == ()
    left = await documents(redis, settings)
    # Nobody ever waits for more than the few documents of one script.
    assert left >= count - 4 * sent.count("EVALSHA")
    assert await ids(search, Query(GUILD, (7,))) == ([] if removal == "delete_guild" else [1])
    assert await ids(search, Query(GUILD + 1, (8,))) == [1]


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
        await store.clear(GUILD, CHANNEL)
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
        await store.clear(GUILD, CHANNEL)
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
    async with asyncio.timeout(20):
        while store.queued:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
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


# --- policy ---


async def test_a_paused_channel_takes_nothing_and_drops_what_is_edited(store: Store, search: Search) -> None:
    await store.add([message(1), message(2)])
    await store.pause(GUILD, CHANNEL)
    assert await store.add([message(3)]) == [Outcome.IGNORED]
    assert await store.edit(message(1, "changed", revision=1.0)) is Outcome.IGNORED
    assert await ids(search) == [2]
    assert (await store.status(GUILD, CHANNEL)).paused
    await store.resume(GUILD, CHANNEL)
    assert await store.add([message(3)]) == [Outcome.STORED]


async def test_switching_a_channels_archive_off_leaves_only_the_buffer(
    store: Store, search: Search, redis: Redis, settings: Settings
) -> None:
    old = [message(number, ts=NOW - 10_000 + number) for number in range(1, 31)]
    await store.add(old + [message(number) for number in range(40, 110)])
    assert await store.set_archive(GUILD, CHANNEL, wanted=False) == 50
    await store.swept()
    assert await documents(redis, settings) == 50
    assert await ids(search, ARCHIVE) == list(range(109, 59, -1))
    assert not (await store.status(GUILD, CHANNEL)).archive
    left = await redis.pttl(store.buckets.keys(0).message(GUILD, CHANNEL, 100))
    assert left <= (30 + 1) * 60 * 1000


async def test_switching_a_channels_archive_on_again_keeps_what_the_buffer_held(
    store: Store, search: Search, clock: Clock, redis: Redis
) -> None:
    keys = store.buckets.keys(0)
    await store.add([message(number, ts=NOW + number) for number in range(1, 11)])
    await store.set_archive(GUILD, CHANNEL, wanted=False)
    clock.now = NOW + 30 * 60 + 5  # Redis may have let the first four expire by now
    assert await store.set_archive(GUILD, CHANNEL, wanted=True) == 4
    assert (await store.status(GUILD, CHANNEL)).messages == 6
    assert await ids(search, ARCHIVE) == [10, 9, 8, 7, 6, 5]
    left = [await redis.pttl(keys.message(GUILD, CHANNEL, number)) for number in range(5, 11)]
    assert min(left) > 6 * 86_400 * 1000
    assert await redis.pttl(keys.of("chan", room(GUILD, CHANNEL))) >= max(left) - 1000
    assert await store.set_archive(GUILD, CHANNEL, wanted=None) == 0


async def test_a_channels_archive_can_be_on_where_the_default_is_off(small: Store) -> None:
    await small.set_archive(GUILD, CHANNEL, wanted=True)
    await small.add([message(number) for number in range(1, 11)])
    assert len(await ids(Search(small.buckets), ARCHIVE)) == 10
    await small.set_archive(GUILD, CHANNEL, wanted=None)
    await small.swept()
    assert len(await ids(Search(small.buckets), ARCHIVE)) == 5


async def test_status_says_what_a_channel_holds(store: Store, clock: Clock) -> None:
    assert (await store.status(GUILD, CHANNEL)).messages == 0
    await store.add([message(1), message(2), message(3, channel_id=8)])
    status = await store.status(GUILD, CHANNEL)
    assert (status.messages, status.pending, status.archive, status.paused) == (2, 2, True, False)
    assert (status.oldest_ts, status.newest_ts) == (message(1).ts, message(2).ts)
    assert await store.last_seen(GUILD, CHANNEL) == 2
    assert await store.last_seen(GUILD, 12345) is None


async def test_the_roster_knows_names_aliases_and_the_last_word(store: Store) -> None:
    await store.add(
        [
            message(3, author="Ann B", aliases=("ann", "annie")),
            message(1, author="Old name"),
            message(2, author_id=6, author="Bob"),
            message(4, author_id=99, author="bot", own=True),
        ]
    )
    ann, bob = await store.roster(GUILD, CHANNEL)
    assert (ann.person.name, ann.person.aliases, ann.last_ts) == ("Ann B", ("ann", "annie"), message(3).ts)
    assert (bob.person.id, bob.person.name) == (6, "Bob")


# --- concurrency ---


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
    assert [one.person.id for one in await store.roster(GUILD, CHANNEL)] == [message(4).author_id]


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


async def test_the_roster_keeps_the_last_word_of_a_batch_and_of_those_before(store: Store) -> None:
    await store.add([message(5, author="Ann")])
    await store.add([message(4, author="Ann before"), message(9, addressed=True), message(7, author="Ann now")])
    (ann,) = await store.roster(GUILD, CHANNEL)
    assert (ann.person.name, ann.last_ts) == ("Ann now", message(7).ts)


async def test_expired_ids_leave_the_order_however_many_come_in_one_batch(
    store: Store, clock: Clock, redis: Redis
) -> None:
    await store.add([message(number) for number in range(1, 31)])
    clock.now = NOW + store.buckets.settings.archive_days * 86_400 + 3600
    await store.add([message(100 + number, ts=clock.now) for number in range(10)])
    order = store.buckets.keys(0).of("chan", room(GUILD, CHANNEL))
    assert await redis.zcard(order) == 10


async def test_concurrent_messages_share_round_trips(
    store: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.add([message(1)])
    sent = count_commands(redis, monkeypatch)
    await asyncio.gather(*[store.add([message(number)]) for number in range(2, 102)])
    assert 0 < len(sent) <= 10


# --- the server ---


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
    looks: list[int] = []

    async def away(bucket: int) -> int:
        looks.append(bucket)
        await asyncio.sleep(0)
        raise RedisTimeoutError

    with monkeypatch.context() as patched:
        patched.setattr(buckets, "_write_meta", away)
        answers = await asyncio.gather(*(buckets.version(0) for _ in range(6)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [RedisUnavailableError] * 6
    assert len(looks) == 1
    assert await buckets.version(0) == 1
