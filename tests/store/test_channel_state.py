"""The state of a channel on real Redis: pausing it, its archive switch, what it holds and who is known in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, message, open_store
from redis.asyncio import Redis
from stored import ARCHIVE, BUFFER, documents, ids

from channelmem.policy.policy import Policy
from channelmem.settings import Settings
from channelmem.store.buckets import EVERYTHING
from channelmem.store.keys import room
from channelmem.store.search import Search
from channelmem.store.store import Store
from channelmem.types import Outcome


@pytest.fixture
async def small(redis: Redis, settings: Settings, clock: Clock) -> AsyncIterator[Store]:
    """Buffer only, five messages."""
    opened = await open_store(redis, settings.model_copy(update={"archive": False, "max_messages": 5}), clock)
    yield opened
    await opened.close()


async def test_a_paused_channel_takes_nothing_and_drops_what_is_edited(store: Store, search: Search) -> None:
    await store.add([message(1), message(2)])
    await store.channels.pause(GUILD, CHANNEL)
    assert await store.add([message(3)]) == [Outcome.IGNORED]
    assert await store.edit(message(1, "changed", revision=1.0)) is Outcome.IGNORED
    assert await ids(search) == [2]
    assert (await store.channels.status(GUILD, CHANNEL)).paused
    await store.channels.resume(GUILD, CHANNEL)
    assert await store.add([message(3)]) == [Outcome.STORED]


async def test_an_edit_that_is_refused_before_its_message_arrives_keeps_the_old_words_out(
    store: Store, search: Search
) -> None:
    await store.channels.pause(GUILD, CHANNEL)
    assert await store.edit(message(1, "changed", revision=1.0)) is Outcome.IGNORED
    await store.channels.resume(GUILD, CHANNEL)
    assert await store.add([message(1), message(2)]) == [Outcome.IGNORED, Outcome.STORED]
    assert await ids(search) == [2]
    assert await store.edit(message(1, "changed again", revision=2.0)) is Outcome.STORED


def without_archive(store: Store, undo_until: float = 0.0) -> Policy:
    default = store.buckets.policy
    return replace(default, limits=default.limits._replace(archive=False, undo_until=undo_until))


async def test_switching_a_channels_archive_off_leaves_only_the_buffer(
    store: Store, search: Search, redis: Redis, settings: Settings
) -> None:
    old = [message(number, ts=NOW - 10_000 + number) for number in range(1, 31)]
    await store.add(old + [message(number) for number in range(40, 110)])
    off = without_archive(store)
    assert await store.channels.fit(GUILD, CHANNEL, off) == 50
    await store.swept()
    assert await documents(redis, settings) == 50
    assert await ids(search, ARCHIVE) == list(range(109, 59, -1))
    status = await store.channels.status(GUILD, CHANNEL, off)
    assert (status.archive, status.messages) == (False, 50)
    left = await redis.pttl(store.buckets.keys(0).message(GUILD, CHANNEL, 100))
    assert left <= (30 + 1) * 60 * 1000


async def test_switching_a_channels_archive_on_again_keeps_what_the_buffer_held(
    store: Store, search: Search, clock: Clock, redis: Redis
) -> None:
    keys = store.buckets.keys(0)
    await store.add([message(number, ts=NOW + number) for number in range(1, 11)])
    await store.channels.fit(GUILD, CHANNEL, without_archive(store))
    clock.now = NOW + 60
    assert await store.channels.fit(GUILD, CHANNEL, store.buckets.policy) == 0
    assert await ids(search, ARCHIVE) == list(range(10, 0, -1))
    assert min([await redis.pttl(keys.message(GUILD, CHANNEL, number)) for number in range(1, 11)]) > 6 * 86_400_000
    longest = max([await redis.pexpiretime(keys.message(GUILD, CHANNEL, number)) for number in range(1, 11)])
    assert await redis.pexpiretime(keys.of("chan", room(GUILD, CHANNEL))) >= longest


async def test_while_it_can_be_undone_a_channel_without_an_archive_loses_nothing(
    store: Store, redis: Redis, settings: Settings, clock: Clock
) -> None:
    off = without_archive(store, undo_until=NOW + 3600)
    await store.add([message(number, ts=NOW - 10_000 + number) for number in range(1, 31)])
    assert await store.channels.fit(GUILD, CHANNEL, off) == 0
    await store.add([message(number) for number in range(40, 110)], [off] * 70)
    assert await documents(redis, settings) == 100
    assert await redis.pttl(store.buckets.keys(0).message(GUILD, CHANNEL, 100)) > 6 * 86_400_000
    assert (await store.channels.status(GUILD, CHANNEL, off)).messages == 50, "but only the buffer shows"
    clock.now = NOW + 3601
    assert await store.channels.fit(GUILD, CHANNEL, off) == 100


async def test_status_says_what_a_channel_holds(store: Store, clock: Clock) -> None:
    assert (await store.channels.status(GUILD, CHANNEL)).messages == 0
    await store.add([message(1), message(2), message(3, channel_id=8)])
    status = await store.channels.status(GUILD, CHANNEL)
    assert (status.messages, status.pending, status.archive, status.paused) == (2, 2, True, False)
    assert (status.oldest_ts, status.newest_ts) == (message(1).ts, message(2).ts)
    assert await store.channels.last_seen(GUILD, CHANNEL) == 2
    assert await store.channels.last_seen(GUILD, 12345) is None


async def test_the_roster_knows_names_aliases_and_the_last_word(store: Store) -> None:
    await store.add(
        [
            message(3, author="Ann B", aliases=("ann", "annie")),
            message(1, author="Old name"),
            message(2, author_id=6, author="Bob"),
            message(4, author_id=99, author="bot", own=True),
        ]
    )
    ann, bob = await store.channels.roster(GUILD, CHANNEL)
    assert (ann.person.name, ann.person.aliases, ann.last_ts) == ("Ann B", ("ann", "annie"), message(3).ts)
    assert (bob.person.id, bob.person.name) == (6, "Bob")


async def test_the_roster_keeps_the_last_word_of_a_batch_and_of_those_before(store: Store) -> None:
    await store.add([message(5, author="Ann")])
    await store.add([message(4, author="Ann before"), message(9, addressed=True), message(7, author="Ann now")])
    (ann,) = await store.channels.roster(GUILD, CHANNEL)
    assert (ann.person.name, ann.last_ts) == ("Ann now", message(7).ts)


async def test_status_and_roster_follow_the_policy_of_the_channel(store: Store) -> None:
    default = store.buckets.policy
    old = message(1, ts=NOW - 3 * 86_400, author_id=6, author="Bob")
    await store.add([old, message(2)])
    brief = replace(default, limits=default.limits._replace(archive_s=86_400.0))
    assert (await store.channels.status(GUILD, CHANNEL, brief)).messages == 1
    assert [one.person.id for one in await store.channels.roster(GUILD, CHANNEL, brief)] == [5]
    assert (await store.channels.status(GUILD, CHANNEL)).messages == 2
    assert [one.person.id for one in await store.channels.roster(GUILD, CHANNEL)] == [5, 6]


async def test_a_channel_has_the_archive_that_its_policy_says(store: Store) -> None:
    off = without_archive(store)
    assert not (await store.channels.status(GUILD, CHANNEL, off)).archive
    assert (await store.channels.status(GUILD, CHANNEL)).archive


READS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "a view": lambda store: Search(store.buckets).view(BUFFER),
    "the archive": lambda store: Search(store.buckets).newest(ARCHIVE),
    "the index": lambda store: Search(store.buckets).nearest(replace(ARCHIVE, words=("turtles",))),
    "people": lambda store: store.channels.roster(GUILD, CHANNEL),
    "a look": lambda store: store.buckets.changes.look(0),
}


@pytest.mark.parametrize("read", READS)
async def test_a_read_beside_a_damaged_list_of_changes_lets_go_of_copies_once(store: Store, read: str) -> None:
    told: list[str] = []
    changes, key = store.buckets.changes, store.buckets.keys(0).one("changes")
    changes.on_removal = lambda kind, _what: told.append(kind)
    await store.add([message(number) for number in range(3)])
    await READS[read](store)
    assert not await changes.catch_up(0)
    await store.buckets.redis.set(key, "junk")
    await READS[read](store)
    assert await changes.catch_up(0)
    assert told == [EVERYTHING]
    await READS[read](store)
    assert not await changes.catch_up(0), "nothing new"
    await store.delete(GUILD, CHANNEL, [1])  # which makes the list anew
    await READS[read](store)
    assert await changes.catch_up(0)
    assert told == [EVERYTHING] * 2


async def test_the_copy_of_decisions_is_kept_beside_a_damaged_list_of_changes(store: Store) -> None:
    await store.buckets.redis.set(store.buckets.keys(0).one("changes"), "junk")
    await store.consent.opt_out(7)
    assert await store.decisions.hidden(GUILD, [7]) == {7}
