"""Redis killed, frozen, flushed, its index dropped: what was stored stays, what was queued arrives, the rest heals."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder, OwnServer, make_settings, message, open_store
from redis.asyncio import Redis
from waiting import LIMIT_S, until, until_true

from channelmem.errors import CommandRefusedError, RedisLoadingError, RedisUnavailableError
from channelmem.ingest.worker import Worker
from channelmem.memory import Memory
from channelmem.policy.policy import Policy
from channelmem.recalling.candidates import Asked
from channelmem.recalling.recall import LOADING, Recall
from channelmem.store import consent, outbox
from channelmem.store.buckets import Bucket
from channelmem.store.keys import GROUP, room
from channelmem.store.redis import command, connect
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.tasks import cancel_all
from channelmem.types import Kind, Mode, Outcome, Question, Route, Source

ARCHIVE = Query(GUILD, (CHANNEL,), limit=1000, source=Source.ARCHIVE)


@dataclass
class Setup:
    """A store with a worker on a server that the test may ill-treat."""

    server: OwnServer
    redis: Redis
    store: Store
    search: Search
    embedder: FakeEmbedder

    async def ids(self) -> list[int]:
        return sorted(one.id for one in await self.search.newest(ARCHIVE))

    async def nearest(self, text: str) -> list[int]:
        """Best first, by the index."""
        query = replace(ARCHIVE, vector=self.embedder.vector(text), limit=3)
        return [hit.message.id for hit in (await self.search.nearest(query)).hits]

    async def taken(self) -> bool:
        """Whether the worker has read what is on the stream."""
        waiting = await self.redis.xpending(self.store.buckets.keys(0).one("ingest"), GROUP)
        return bool(waiting["pending"] == await self.store.pending() > 0)

    async def rewritten(self) -> bool:
        return not (await self.redis.info("persistence"))["aof_rewrite_in_progress"]

    async def loading(self) -> bool:
        """Whether reads are told so; the first ones meet connections of the killed server."""
        try:
            await self.search.newest(ARCHIVE)
        except RedisUnavailableError as error:
            return isinstance(error, RedisLoadingError)
        return False

    async def drained(self) -> bool:
        return self.store.available and self.store.queued == 0


@pytest.fixture
async def setup(
    request: pytest.FixtureRequest, own_server: OwnServer, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Setup]:
    """Parametrized with the client's limit on waiting where a test lets it pass."""
    monkeypatch.setattr(outbox, "LAST_RETRY_S", 0.1)
    monkeypatch.setattr(consent, "RETRY_S", 0.05)
    monkeypatch.setattr(consent, "STEP_MS", 0)  # so that a removal takes a while
    settings = make_settings(
        own_server.url, tmp_path, redis_timeout_s=getattr(request, "param", LIMIT_S), queue_size=500
    )
    redis = connect(own_server.url, settings)
    store = await open_store(redis, settings, clock)
    embedder = FakeEmbedder()
    task = asyncio.create_task(Worker(store, embedder, claim_idle_s=0.2).run())
    yield Setup(own_server, redis, store, Search(store.buckets), embedder)
    await cancel_all([task])
    await store.close(wait_s=0.1)
    await redis.aclose()


async def test_redis_killed_under_load_loses_nothing_that_was_stored_and_takes_the_rest_later(setup: Setup) -> None:
    outcomes: list[Outcome] = []
    enough = asyncio.Event()

    async def send() -> None:
        while not enough.is_set():
            number = len(outcomes) + 1
            outcomes.extend(await setup.store.add([message(number, f"word{number}")]))
            await asyncio.sleep(0)

    load = asyncio.create_task(send())
    await until_true(lambda: len(outcomes) > 60)
    setup.server.kill()
    await until_true(lambda: outcomes.count(Outcome.QUEUED) > 20)
    assert not setup.store.available
    enough.set()
    await load
    setup.server.start()
    await until(setup.drained)
    assert set(outcomes) == {Outcome.STORED, Outcome.QUEUED}
    assert await setup.ids() == list(range(1, len(outcomes) + 1))
    assert setup.store.dropped == 0
    assert await setup.store.flush(LIMIT_S)
    assert (await setup.nearest(f"word{len(outcomes)}"))[0] == len(outcomes)
    assert (await setup.nearest("word7"))[0] == 7


async def test_edits_and_deletes_made_while_redis_is_away_are_applied_in_order(setup: Setup) -> None:
    await setup.store.add([message(1), message(2), message(3)])
    setup.server.kill()
    assert await setup.store.add([message(4)]) == [Outcome.QUEUED]
    assert await setup.store.edit(message(1, "changed", revision=1.0)) is Outcome.QUEUED
    assert await setup.store.delete(GUILD, CHANNEL, [2]) == 0
    assert await setup.store.add([message(2)]) == [Outcome.QUEUED]
    assert await setup.store.delete(GUILD, CHANNEL, [4]) == 0
    setup.server.start()
    await until(setup.drained)
    assert await setup.ids() == [1, 3]
    assert (await setup.search.get(GUILD, CHANNEL, [1]))[0].content == "changed"


async def test_a_clear_made_while_redis_is_away_spares_what_was_sent_after_it(setup: Setup, clock: Clock) -> None:
    await setup.store.add([message(1)])
    setup.server.kill()
    await setup.store.add([message(2)])
    await setup.store.clear(GUILD, CHANNEL)
    clock.now += 10
    await setup.store.add([message(3, ts=clock.now - 5)])
    clock.now += 10
    setup.server.start()
    await until(setup.drained)
    assert await setup.ids() == [3]


async def test_the_queue_is_bounded_and_drops_the_oldest_first(setup: Setup) -> None:
    setup.server.kill()
    first = await setup.store.add([message(1)])
    assert first == [Outcome.QUEUED]
    outcomes = await setup.store.add([message(number) for number in range(2, 702)])
    assert set(outcomes) == {Outcome.QUEUED}
    assert (setup.store.queued, setup.store.dropped) == (500, 201)
    setup.server.start()
    await until(setup.drained)
    assert await setup.ids() == list(range(202, 702))


@pytest.mark.parametrize("setup", [0.4], indirect=True)
async def test_a_redis_that_hangs_is_away_too_and_what_it_did_not_answer_is_not_stored_twice(setup: Setup) -> None:
    await setup.store.add([message(1)])
    assert await setup.store.flush(LIMIT_S)
    setup.server.freeze()
    assert await setup.store.add([message(2)]) == [Outcome.QUEUED]
    with pytest.raises(RedisUnavailableError):
        await setup.search.newest(ARCHIVE)
    setup.server.thaw()
    await until(setup.drained)
    assert await setup.ids() == [1, 2]
    assert await setup.store.flush(LIMIT_S)
    assert await setup.redis.zcard(setup.store.buckets.keys(0).of("chan", room(GUILD, CHANNEL))) == 2


async def test_reads_and_commands_of_people_say_that_redis_is_away(setup: Setup) -> None:
    setup.server.kill()
    for call in (
        setup.search.newest(Query(GUILD, (CHANNEL,))),
        setup.search.nearest(Query(GUILD, (CHANNEL,))),
        setup.search.around(GUILD, CHANNEL, [1], 1),
        setup.store.channels.pause(GUILD, CHANNEL),
        setup.store.channels.status(GUILD, CHANNEL),
        setup.store.channels.roster(GUILD, CHANNEL),
        setup.store.consent.opt_out(5),
        setup.store.consent.forget(5),
        setup.store.pending(),
        setup.store.channels.last_seen(GUILD, CHANNEL),
    ):
        with pytest.raises(RedisUnavailableError):
            await call


async def test_flushall_heals(setup: Setup) -> None:
    await setup.store.add([message(number) for number in range(1, 11)])
    assert await setup.store.flush(LIMIT_S)
    await setup.redis.flushall()
    assert await setup.ids() == []
    assert await setup.store.add([message(20, "after the flood")]) == [Outcome.STORED]
    assert await setup.store.flush(LIMIT_S)
    assert await setup.nearest("flood") == [20]
    assert await setup.redis.hget(setup.store.buckets.keys(0).one("meta"), "model") == b"fake-hash-32"


async def test_flushall_while_messages_are_embedded_heals(setup: Setup) -> None:
    setup.embedder.gate.clear()
    await setup.store.add([message(number) for number in range(1, 31)])
    await until(setup.taken)
    await setup.redis.flushall()
    await setup.store.add([message(number) for number in range(31, 41)])
    setup.embedder.gate.set()
    assert await setup.store.flush(LIMIT_S)
    assert await setup.ids() == list(range(31, 41))
    assert set(await setup.nearest("turtles")) <= set(range(31, 41))


async def test_an_index_dropped_under_our_feet_is_made_again_and_refilled(setup: Setup) -> None:
    await setup.store.add([message(number, f"word{number}") for number in range(1, 101)])
    assert await setup.store.flush(LIMIT_S)
    await command(setup.redis, "FT.DROPINDEX", setup.store.buckets.keys(0).index(1))
    await setup.nearest("word77")  # notices
    await until(lambda: setup.store.buckets.indexed(0))
    assert (await setup.nearest("word77"))[0] == 77
    assert setup.store.buckets.healed  # the worker may have noticed too


async def test_a_restart_of_redis_keeps_messages_vectors_and_what_was_pending(setup: Setup) -> None:
    await setup.store.add([message(number, f"word{number}") for number in range(1, 21)])
    assert await setup.store.flush(LIMIT_S)
    setup.embedder.gate.clear()
    await setup.store.add([message(30, "word30")])
    setup.server.kill()
    setup.server.start()
    setup.embedder.gate.set()
    assert await setup.store.add([message(31, "word31")]) in ([Outcome.STORED], [Outcome.QUEUED])
    await until(setup.drained)
    assert await setup.store.flush(LIMIT_S)
    assert [(await setup.nearest(f"word{number}"))[0] for number in (3, 30, 31)] == [3, 30, 31]


async def test_removal_goes_on_after_redis_was_away(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    await setup.store.add([message(number) for number in range(1, 201)])
    assert await setup.store.clear(GUILD, CHANNEL) == 200
    setup.server.kill()
    await until_true(lambda: "Background removal paused" in caplog.text)
    setup.server.start()
    await asyncio.wait_for(setup.store.swept(), LIMIT_S)
    left = [key async for key in setup.redis.scan_iter("*msg:*")]
    assert left == []


async def test_another_process_finishes_a_removal(setup: Setup, tmp_path: Path, clock: Clock) -> None:
    await setup.store.add([message(number) for number in range(1, 201)])
    await setup.store._sweeper.stop()  # before there is anything to sweep: it could be done in one step
    await setup.store.clear(GUILD, CHANNEL)
    assert [key async for key in setup.redis.scan_iter("*msg:*")] != []
    other = await open_store(setup.redis, setup.store.buckets.settings, clock)
    await asyncio.wait_for(other.swept(), LIMIT_S)
    assert [key async for key in setup.redis.scan_iter("*msg:*")] == []
    await other.close()


async def test_a_full_redis_queues_instead_of_losing(setup: Setup) -> None:
    await setup.store.add([message(1)])
    await setup.redis.config_set("maxmemory", 1)
    assert await setup.store.add([message(2)]) == [Outcome.QUEUED]
    await setup.redis.config_set("maxmemory", 0)
    await until(setup.drained)
    assert await setup.ids() == [1, 2]


async def test_what_redis_refuses_for_good_is_dropped_and_holds_up_nobody(setup: Setup) -> None:
    broken = CHANNEL + 1
    await setup.redis.set(setup.store.buckets.keys(0).of("chan", room(GUILD, broken)), "no sorted set")
    talk = [message(number, channel_id=broken if number == 3 else CHANNEL) for number in range(1, 6)]
    outcomes = await setup.store.add(talk)
    assert outcomes == [Outcome.STORED, Outcome.STORED, Outcome.DROPPED, Outcome.STORED, Outcome.STORED]
    assert await setup.ids() == [1, 2, 4, 5]
    assert (setup.store.available, setup.store.dropped) == (True, 1)


async def test_while_redis_refuses_to_make_an_index_everything_waits(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(bucket: int) -> Bucket:
        raise CommandRefusedError("Could not create the index")

    with monkeypatch.context() as broken:
        broken.setattr(setup.store.buckets, "ready", refuse)
        assert await setup.store.add([message(1), message(2)]) == [Outcome.QUEUED] * 2
    await until(setup.drained)
    assert await setup.ids() == [1, 2]


@pytest.mark.parametrize("ts", [math.nan, math.inf, -math.inf, -1.0, 1e300, 1.8e18])
async def test_a_message_with_an_impossible_time_is_ignored_and_holds_up_nobody(setup: Setup, ts: float) -> None:
    memory = Memory(setup.store, setup.embedder)
    talk = [message(1), message(2, ts=ts), message(3, revision=ts), message(4)]
    stored, ignored = Outcome.STORED, Outcome.IGNORED
    assert await memory.remember_many(talk) == [stored, ignored, ignored, stored]
    # What an edit cannot replace is no longer what the message says.
    assert await memory.edit(message(4, "changed", ts=ts, revision=1.0)) is stored
    await memory.edit(message(4, "changed", revision=ts))
    assert await memory.remember(message(5)) is stored
    assert await setup.ids() == [1, 5]
    assert (setup.store.available, setup.store.dropped) == (True, 0)


@pytest.mark.parametrize(
    "ids", [{"channel_id": -100_123}, {"id": -3}, {"guild_id": -5}, {"id": 2**64}, {"author_id": -1}]
)
async def test_a_message_with_an_impossible_id_is_ignored_and_holds_up_nobody(
    setup: Setup, ids: dict[str, Any]
) -> None:
    memory = Memory(setup.store, setup.embedder)
    outcomes = await memory.remember_many([message(1), replace(message(2), **ids), message(3)])
    assert outcomes == [Outcome.STORED, Outcome.IGNORED, Outcome.STORED]
    assert await setup.store.flush(LIMIT_S)
    assert await memory.remember(message(4, reply_to=-1)) is Outcome.STORED
    assert await setup.ids() == [1, 3, 4]


async def test_while_redis_loads_its_data_questions_are_told_so_and_messages_wait(setup: Setup, clock: Clock) -> None:
    await setup.store.add([message(number) for number in range(1, 501)])
    await setup.redis.bgrewriteaof()
    await until(setup.rewritten)
    setup.server.kill()
    setup.server.start_loading()
    await until(setup.loading)
    assert await setup.store.add([message(501)]) == [Outcome.QUEUED]
    recall = Recall(setup.search, setup.embedder, clock=clock)
    route = Route(Kind.CHANNEL, Mode.TOPIC, topic="turtles", sources=(Source.BUFFER, Source.ARCHIVE))
    question = Question(GUILD, CHANNEL, 99, 7, "Zoe", "turtles?", NOW)
    found = await recall(Asked.of(question, route, Policy.of_settings(setup.store.buckets.settings)))
    assert [report.problem for report in found.reports] == [LOADING, LOADING]
    setup.server.kill()
    setup.server.start()
    await until_true(lambda: setup.store.queued == 0)
    assert await setup.ids() == list(range(1, 502))
