"""What people decide: opting out, being forgotten, taking their messages along."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder, message, open_store
from redis.asyncio import Redis
from waiting import LIMIT_S, until

from channelmem.ingest.worker import Worker
from channelmem.memory import Memory
from channelmem.settings import Settings
from channelmem.store import consent
from channelmem.store.keys import padded, room
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.types import Message, Outcome, Source

OTHER_GUILD = GUILD + (1 << 22)
BUFFER = Query(GUILD, (CHANNEL,), limit=100)
ARCHIVE = replace(BUFFER, source=Source.ARCHIVE)


def bobs(number: int, **changes: Any) -> Message:
    return message(number, author_id=6, author="Bob", **changes)


async def lose_index(store: Store) -> None:
    index = await store.buckets.redis.execute_command("FT.INFO", store.buckets.keys(0).one("idx"))  # type: ignore[no-untyped-call]
    await store.buckets.redis.execute_command("FT.DROPINDEX", index[1])  # type: ignore[no-untyped-call]


async def visible(search: Search, embedder: FakeEmbedder, guild_id: int = GUILD) -> set[int]:
    """Authors that any way of asking shows."""
    vector = embedder.vector("turtles")
    seen: set[int] = set()
    for base in (BUFFER, ARCHIVE, replace(ARCHIVE, channel_ids=()), replace(ARCHIVE, author_ids=(5, 6))):
        query = replace(base, guild_id=guild_id)
        found = await search.nearest(replace(query, vector=vector, words=("turtles",)))
        messages = [*await search.newest(query), *[hit.message for hit in found.hits], *found.pending]
        seen |= {one.author_id for one in messages}
    around = await search.around(guild_id, CHANNEL, range(1, 20), 3)
    return seen | {one.author_id for one in around}


async def test_who_opts_out_is_neither_shown_nor_stored_until_they_opt_in(
    store: Store, search: Search, worker: Worker, fake_embedder: FakeEmbedder
) -> None:
    await store.add([message(1), bobs(2)])
    assert await store.flush(LIMIT_S)
    await store.consent.opt_out(6)
    assert await store.consent.opted_out(6)
    assert not await store.consent.opted_out(5)
    assert await visible(search, fake_embedder) == {5}
    assert [seen.person.id for seen in await store.channels.roster(GUILD, CHANNEL)] == [5]
    assert await store.add([bobs(3)]) == [Outcome.IGNORED]
    await store.consent.opt_in(6)
    assert not await store.consent.opted_out(6)
    assert await visible(search, fake_embedder) == {5, 6}
    assert await store.add([bobs(4)]) == [Outcome.STORED]


@pytest.mark.parametrize("source", [Source.BUFFER, Source.ARCHIVE])
@pytest.mark.parametrize("guild", [None, GUILD])
async def test_what_is_hidden_is_not_even_counted(
    store: Store, search: Search, fake_embedder: FakeEmbedder, source: Source, guild: int | None
) -> None:
    await store.add([message(1, author_id=5), *[message(number, author_id=6) for number in range(2, 7)]])
    await store.consent.opt_out(6, guild)
    query = Query(GUILD, (CHANNEL,), vector=fake_embedder.vector("zebra"), source=source)
    assert (await search.nearest(query)).total == 1


async def test_an_opt_out_can_be_for_one_guild(store: Store, search: Search, fake_embedder: FakeEmbedder) -> None:
    await store.add([bobs(1), bobs(2, guild_id=OTHER_GUILD, channel_id=4)])
    await store.consent.opt_out(6, GUILD)
    assert await store.consent.opted_out(6, GUILD)
    assert not await store.consent.opted_out(6, OTHER_GUILD)
    assert await visible(search, fake_embedder) == set()
    assert await store.add([bobs(3), bobs(3, guild_id=OTHER_GUILD, channel_id=4)]) == [
        Outcome.IGNORED,
        Outcome.STORED,
    ]
    assert len(await search.newest(Query(OTHER_GUILD, (4,)))) == 2


async def test_who_is_forgotten_vanishes_at_once_and_for_good(
    store: Store, search: Search, worker: Worker, fake_embedder: FakeEmbedder, redis: Redis, settings: Settings
) -> None:
    await store.add([message(number) if number % 2 else bobs(number) for number in range(1, 101)])
    assert await store.flush(LIMIT_S)
    await store.consent.forget(6)
    assert await visible(search, fake_embedder) == {5}
    await store.swept()
    # A set: SCAN may name a key twice while the table of keys is resized.
    keys = {key async for key in redis.scan_iter(f"{settings.key_prefix}:*msg:*")}
    assert len(keys) == 50
    assert b"6" not in await redis.hkeys(store.buckets.keys(0).of("people", room(GUILD, CHANNEL)))
    assert [one async for one in store.consent.export(6)] == []
    assert await store.add([bobs(300)]) == [Outcome.IGNORED]
    assert await visible(search, fake_embedder) == {5}


async def test_an_opt_in_during_a_removal_returns_at_once_and_holds_when_the_removal_is_done(
    store: Store, search: Search
) -> None:
    await store._sweeper.stop()
    await store.add([bobs(number) for number in range(1, 61)])
    await store.consent.forget(6)
    assert await store.consent.opt_in(6) == 60
    assert await store.consent.opted_out(6)  # or the removal would take new messages too
    assert await store.add([bobs(100)]) == [Outcome.IGNORED]
    await store._sweeper._sweep(0)
    assert await store.consent.returning(6) is None
    assert not await store.consent.opted_out(6)
    assert await store.add([bobs(101, ts=NOW + 1)]) == [Outcome.STORED]
    assert [one.id for one in await search.newest(ARCHIVE)] == [101]


async def test_the_refused_window_of_who_waited_to_be_back_ends_when_the_removal_is_done(
    store: Store, clock: Clock
) -> None:
    await store._sweeper.stop()
    await store.add([bobs(number) for number in range(1, 31)])
    await store.consent.forget(6)
    clock.now = NOW + 10
    assert await store.consent.opt_in(6) == 30
    clock.now = NOW + 20
    await store._sweeper._sweep(0)
    said = [bobs(100, ts=NOW + 5), bobs(101, ts=NOW + 15), bobs(102, ts=NOW + 25)]
    assert await store.add(said) == [Outcome.IGNORED, Outcome.IGNORED, Outcome.STORED]


@pytest.mark.parametrize(("guild", "left"), [(None, []), (GUILD, [2])])
async def test_an_export_leaves_out_what_is_being_forgotten(store: Store, guild: int | None, left: list[int]) -> None:
    await store._sweeper.stop()
    await store.add([bobs(1), bobs(2, guild_id=OTHER_GUILD, channel_id=4)])
    await store.consent.forget(6, guild)
    assert [one.id async for one in store.consent.export(6)] == left


@pytest.mark.parametrize("page", [0, 1], ids=["before", "between two pages"])
async def test_an_export_is_complete_even_if_the_index_is_lost(
    store: Store, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(consent, "EXPORT_PAGE", 20)
    await store.add([bobs(number) for number in range(1, 201)])
    run, pages = store.buckets.run, 0

    async def losing(name: str, bucket: int, arguments: Sequence[Any] = ()) -> Any:
        nonlocal pages
        if name == "authored" and pages == page:
            await lose_index(store)
        pages += name == "authored"
        return await run(name, bucket, arguments)

    monkeypatch.setattr(store.buckets, "run", losing)
    assert [one.id async for one in store.consent.export(6)] == list(range(1, 201))


async def test_an_opt_in_that_waits_shows_how_much_is_left(store: Store) -> None:
    await store._sweeper.stop()
    await store.add([bobs(number) for number in range(1, 11)])
    assert await store.consent.returning(6) is None
    await store.consent.forget(6)
    assert await store.consent.returning(6) is None
    assert await store.consent.opt_in(6) == 10
    names = await store.buckets.run("forget", 0, ["find", "*:6", 4])
    await store._sweeper._remove(0, b"*:6", names)
    assert await store.consent.returning(6) == 6
    assert await store.consent.returning(5) is None


@pytest.mark.parametrize("change", ["opt_out", "forget"])
async def test_who_changes_their_mind_while_an_opt_in_waits_stays_out(store: Store, change: str) -> None:
    await store._sweeper.stop()
    await store.add([bobs(number) for number in range(1, 31)])
    await store.consent.forget(6)
    assert await store.consent.opt_in(6) == 30
    await getattr(store.consent, change)(6)
    await store._sweeper._sweep(0)
    assert await store.consent.opted_out(6)
    assert await store.consent.opt_in(6) is None
    assert not await store.consent.opted_out(6)


async def test_an_opt_in_waits_for_every_removal_of_its_author(store: Store) -> None:
    neighbour = GUILD + (4096 << 22)  # in the same bucket
    await store._sweeper.stop()
    await store.add([bobs(1), bobs(2, guild_id=neighbour, channel_id=4), message(3)])
    for guild in (GUILD, neighbour):
        await store.consent.forget(6, guild)
    assert await store.consent.opt_in(6, GUILD) == 2
    first, second = sorted(await store._sweeper._jobs(0))
    await store._sweeper._forget(0, second)
    assert await store.consent.opted_out(6, GUILD)
    await store._sweeper._forget(0, first)
    assert not await store.consent.opted_out(6, GUILD)
    assert await store.consent.opted_out(6, neighbour)


async def test_a_removal_that_has_ended_takes_nothing_of_who_came_back(store: Store, search: Search) -> None:
    sweeper = store._sweeper
    await sweeper.stop()
    await store.add([bobs(1)])
    await store.consent.forget(6)
    await store.consent.opt_in(6)
    jobs = await sweeper._jobs(0)
    for job in jobs:
        await sweeper._forget(0, job)
    await store.add([bobs(2, ts=NOW + 1)])
    for job in jobs:  # as another process read them earlier
        await sweeper._forget(0, job)
    assert [one.id for one in await search.newest(BUFFER)] == [2]
    assert [seen.person.id for seen in await store.channels.roster(GUILD, CHANNEL)] == [6]


@pytest.mark.parametrize("guild", [GUILD, 0], ids=["a guild", "direct messages"])
async def test_forgetting_in_one_guild_leaves_the_others(store: Store, search: Search, guild: int) -> None:
    await store.add([bobs(1, guild_id=guild), bobs(2, guild_id=OTHER_GUILD, channel_id=4)])
    await store.consent.forget(6, guild)
    await store.swept()
    assert await search.newest(replace(BUFFER, guild_id=guild)) == []
    assert [one async for one in store.consent.export(6)] == await search.newest(Query(OTHER_GUILD, (4,)))
    assert [one.id for one in await search.newest(Query(OTHER_GUILD, (4,)))] == [2]
    assert [seen.person.id for seen in await store.channels.roster(OTHER_GUILD, 4)] == [6]
    assert await store.channels.roster(guild, CHANNEL) == []


async def test_a_forget_job_survives_the_process(store: Store, redis: Redis, settings: Settings, clock: Clock) -> None:
    await store.add([bobs(number) for number in range(1, 61)])
    await store._sweeper.stop()
    await store.consent.forget(6)
    assert await redis.scard(store.buckets.keys(0).one("forgetting")) == 1
    other = await open_store(redis, settings, clock)
    await asyncio.wait_for(other.swept(), LIMIT_S)
    assert await redis.scard(store.buckets.keys(0).one("forgetting")) == 0
    assert [key async for key in redis.scan_iter(f"{settings.key_prefix}:*msg:*")] == []
    await other.close()


async def test_nothing_is_left_if_the_index_is_read_again_while_somebody_is_forgotten(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.add([message(number) for number in range(1, 1501)])
    await store.add([bobs(1501), bobs(1502)])
    run, indexed = store.buckets.run, store.buckets.indexed

    async def losing(name: str, bucket: int, arguments: Sequence[Any] = ()) -> Any:
        if name == "forget":
            monkeypatch.setattr(store.buckets, "run", run)
            await lose_index(store)
        return await run(name, bucket, arguments)

    async def late(bucket: int) -> bool:
        """The index is complete again when somebody asks whether it is."""
        await until(lambda: indexed(bucket))
        return await indexed(bucket)

    monkeypatch.setattr(store.buckets, "run", losing)
    monkeypatch.setattr(store.buckets, "indexed", late)
    await store.consent.forget(6)
    await asyncio.wait_for(store.swept(), LIMIT_S)
    assert [one.id async for one in store.consent.export(6)] == []


async def expire(store: Store, numbers: Sequence[int]) -> None:
    """Their time is over, but Redis has not removed them yet, so the index still knows them."""
    documents = f"{store.buckets.keys(0).one('msg')}{room(GUILD, CHANNEL)}"
    for number in numbers:
        await store.buckets.redis.pexpire(f"{documents}:{padded(number)}", 1)
    await asyncio.sleep(0.003)


async def test_expired_messages_do_not_end_a_removal(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    await store.add([bobs(number) for number in range(1, 31)])
    await expire(store, range(1, 21))
    await store.consent.forget(6)
    await asyncio.wait_for(store.swept(), LIMIT_S)
    assert [one.id async for one in store.consent.export(6)] == []
    assert "Background removal paused" not in caplog.text


async def test_expired_messages_do_not_end_an_export(store: Store) -> None:
    await store.add([bobs(number) for number in range(1, 31)])
    await expire(store, range(1, 21))
    assert [one.id async for one in store.consent.export(6)] == list(range(21, 31))


async def is_empty(redis: Redis, key: str) -> bool:
    return await redis.scard(key) == 0


async def test_a_memory_goes_on_with_removals_that_were_left(
    store: Store, redis: Redis, settings: Settings, clock: Clock, fake_embedder: FakeEmbedder
) -> None:
    await store.add([bobs(number) for number in range(1, 61)])
    await store.consent.forget(6)
    await store._sweeper.stop()
    jobs = store.buckets.keys(0).one("forgetting")
    async with Memory.open(settings, embedder=fake_embedder, clock=clock):
        await until(lambda: is_empty(redis, jobs))
    assert [key async for key in redis.scan_iter(f"{settings.key_prefix}:*msg:*")] == []


async def test_words_that_were_edited_during_an_opt_out_do_not_come_back(store: Store, search: Search) -> None:
    await store.add([bobs(1, text="the password is swordfish"), bobs(2)])
    await store.consent.opt_out(6)
    assert await store.edit(bobs(1, text="good morning", revision=NOW)) is Outcome.IGNORED
    await store.consent.opt_in(6)
    assert [one.id for one in await search.newest(BUFFER)] == [2]


@pytest.mark.parametrize("buckets", [1, 3])
async def test_export_gives_everything_of_an_author_and_nothing_of_others(
    redis: Redis, settings: Settings, clock: Clock, buckets: int
) -> None:
    store = await open_store(redis, settings.model_copy(update={"buckets": buckets}), clock)
    mine = [bobs(number, guild_id=number << 22, channel_id=number) for number in range(1, 8)]
    mine += [bobs(number, ts=NOW - 3 * 86_400 + number) for number in range(200, 420)]
    await store.add([*mine, message(1), bobs(2)])
    await store.delete(GUILD, CHANNEL, [2])
    exported = [one async for one in store.consent.export(6)]
    assert sorted(exported, key=lambda one: one.id) == mine
    await store.close()


async def test_names_that_look_like_query_syntax_are_just_names(store: Store, search: Search) -> None:
    odd = message(1, author="{a|b} @x:[0 1] *", aliases=("-(no)", "🐢"))
    await store.add([odd])
    [seen] = await store.channels.roster(GUILD, CHANNEL)
    assert (seen.person.name, seen.person.aliases) == (odd.author, odd.aliases)


async def test_an_export_asks_redis_for_little_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    replies: list[int] = []
    run = store.buckets.run

    async def noting(name: str, bucket: int, arguments: Sequence[Any] = ()) -> Any:
        reply = await run(name, bucket, arguments)
        replies.append(len(reply))
        return reply

    mine = [bobs(number) for number in range(1, 221)]
    await store.add([*mine[110:], *mine[:110]])
    monkeypatch.setattr(store.buckets, "run", noting)
    monkeypatch.setattr(consent, "EXPORT_PAGE", 50)
    assert [one.id for one in (await all_of(store))] == list(range(1, 221))
    assert max(replies) <= 2 * 50 + 1


async def all_of(store: Store) -> list[Message]:
    return [one async for one in store.consent.export(6)]
