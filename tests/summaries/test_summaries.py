"""Summaries of a channel through Memory: made when windows close, kept in Redis, gone with what they were made of."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, FakeEmbedder
from redis.asyncio import Redis
from stored import documents
from waiting import until

from channelmem.errors import SummariesBusyError
from channelmem.memory import Memory
from channelmem.policy.cascade import GRACE_S, Place
from channelmem.settings import Settings
from channelmem.store.derived import SummaryStore
from channelmem.store.keys import room
from channelmem.store.redis import command
from channelmem.summaries import update
from channelmem.summaries.pyramid import ClosedWindow, Summary, pairs, roots
from channelmem.summaries.update import Extractive
from channelmem.types import Attachment, Message, Outcome, Question, Window

HOUR, DAY = 3_600.0, 86_400.0
PEOPLE = {"Ann": 5, "Bob": 6, "Carol": 7}


def said(number: int, text: str, ago_s: float, author: str = "Ann", **changes: Any) -> Message:
    return Message(GUILD, CHANNEL, number, PEOPLE[author], author, text, NOW - ago_s, **changes)


MORNING = [
    said(1, "the release moves to Friday", 5.3 * HOUR),
    said(2, "Carol booked room Bristol for 9 people", 5.2 * HOUR, "Bob"),
    said(3, "the invoice of 420 euros is paid", 3.3 * HOUR),
    said(4, "we changed the database to postgres 16", 1.3 * HOUR, "Carol"),
]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Nothing happens in the background unless a test wants it."""
    return settings.model_copy(update={"embed_in_process": False})


@pytest.fixture
async def memory(settings: Settings, fake_embedder: FakeEmbedder, clock: Clock) -> AsyncIterator[Memory]:
    async with Memory.open(settings, clock=clock, embedder=fake_embedder) as opened:
        yield opened


@pytest.fixture
async def morning(memory: Memory) -> Memory:
    assert set(await memory.remember_many(MORNING)) == {Outcome.STORED}
    assert await memory.summaries.update(GUILD, CHANNEL) == 4  # three windows, and a pair
    return memory


async def texts(memory: Memory, level: int = 1) -> list[str]:
    return [one.text for one in await memory.summaries.of(GUILD, CHANNEL) if one.level == level]


async def told(memory: Memory) -> str:
    return "\n".join(one.text for one in await memory.summaries.of(GUILD, CHANNEL))


# --- made ---


async def test_times_keep_every_digit_so_that_no_message_counts_twice(memory: Memory) -> None:
    # RedisJSON rounds some numbers: with a start that is a little late, a summary would not cover its first message.
    odd = [said(n + 1, f"crate {n} is in Hull", 7 * HOUR - 600 * n - n * 0.012_345_67) for n in range(36)]
    await memory.remember_many(odd)
    for one in odd:
        await memory.edit(replace(one, content=f"{one.content} now", revision=one.ts + 1.234_567_8))
    assert await memory.summaries.update(GUILD, CHANNEL)
    assert await memory.summaries.update(GUILD, CHANNEL) == 0
    found = [one for one in await memory.summaries.of(GUILD, CHANNEL) if one.level == 1]
    assert {one.start for one in found} | {one.end for one in found} <= {one.ts for one in odd}
    assert {origin.revision for one in found for origin in one.origins} == {one.ts + 1.234_567_8 for one in odd}
    question = Question(GUILD, CHANNEL, 900, 5, "Ann", "", NOW)
    recap = await memory.recaps.of_span(question, Window(NOW - DAY, NOW), memory.policy(GUILD, CHANNEL))
    assert recap is not None
    assert recap.text.startswith("36 messages ")


async def test_closed_windows_are_summarised_and_paired_and_the_current_one_stays_raw(morning: Memory) -> None:
    await morning.remember(said(5, "just now", 0))
    assert await morning.summaries.update(GUILD, CHANNEL) == 0
    assert await texts(morning) == [
        "Ann: the release moves to Friday\nBob: Carol booked room Bristol for 9 people",
        "Ann: the invoice of 420 euros is paid",
        "Carol: we changed the database to postgres 16",
    ]
    [pair] = await texts(morning, 2)
    assert "[1.9 hours of silence]" in pair
    assert "420 euros" in pair


async def test_a_summary_is_a_readable_document_under_the_channels_hash_tag(
    morning: Memory, redis: Redis, settings: Settings
) -> None:
    one = (await morning.summaries.of(GUILD, CHANNEL))[0]
    key = f"{settings.key_prefix}:{{0}}:summary:{room(GUILD, CHANNEL)}:{one.id}"
    document = json.loads(await command(redis, "JSON.GET", key))
    assert document["level"] == 1
    assert document["messages"] == [{"id": "1", "revision": "0.0"}, {"id": "2", "revision": "0.0"}]
    assert document["authors"] == [{"id": "5", "name": "Ann"}, {"id": "6", "name": "Bob"}]
    assert document["model"] == "extractive"
    assert 24 * DAY < await redis.ttl(key) <= 30 * DAY


async def test_the_answers_of_the_bot_are_not_summarised(memory: Memory) -> None:
    await memory.remember_many([MORNING[0], said(9, "Ann said: the release moves", 5.2 * HOUR, "Bob", own=True)])
    await memory.summaries.update(GUILD, CHANNEL)
    assert await texts(memory) == ["Ann: the release moves to Friday"]


async def test_attachments_are_counted(memory: Memory) -> None:
    images = tuple(Attachment(number, content_type="image/png") for number in (1, 2, 3))
    await memory.remember(said(1, "look at these", 2 * HOUR, attachments=images))
    await memory.summaries.update(GUILD, CHANNEL)
    assert await texts(memory) == ["Ann: look at these\n[3 images shared]"]


@pytest.mark.parametrize("place", [Place.everywhere(), Place.channel(GUILD, CHANNEL)], ids=str)
@pytest.mark.parametrize("setting", ["summaries", "archive", "enabled"])
async def test_where_they_are_not_wanted_there_are_none(morning: Memory, place: Place, setting: str) -> None:
    await morning.policies.set(place, setting, value=False)
    await morning.policies.fitted()
    assert await morning.summaries.of(GUILD, CHANNEL) == ()
    await morning.remember(said(5, "the lift is broken", 0.8 * HOUR))
    assert await morning.summaries.update(GUILD, CHANNEL) == 0


async def test_switching_the_archive_off_removes_them_once_that_cannot_be_undone(
    morning: Memory, redis: Redis, settings: Settings, clock: Clock
) -> None:
    await morning.policies.set(Place.channel(GUILD, CHANNEL), "archive", value=False)
    clock.now += GRACE_S
    await morning.policies.fit_overdue()
    assert not [key async for key in redis.scan_iter(f"{settings.key_prefix}:*summar*:*")]


# --- gone and made again ---


async def test_a_deleted_message_leaves_all_levels_at_once_and_the_rest_is_made_again(morning: Memory) -> None:
    await morning.delete(GUILD, CHANNEL, [1])
    assert "release" not in await told(morning)
    assert len(await texts(morning)) == 2
    assert await texts(morning, 2) == []
    assert await morning.summaries.update(GUILD, CHANNEL) == 2
    assert (await texts(morning))[0] == "Bob: Carol booked room Bristol for 9 people"
    assert len(await texts(morning, 2)) == 1


async def test_an_edited_message_is_summarised_with_its_new_words(morning: Memory) -> None:
    edited = replace(MORNING[0], content="the release moves to Monday", revision=NOW)
    await morning.edit(edited)
    assert "Friday" not in await told(morning)
    await morning.summaries.update(GUILD, CHANNEL)
    assert "Monday" in await told(morning)


async def test_whoever_opts_out_leaves_all_summaries_and_is_back_after_opting_in(morning: Memory) -> None:
    await morning.opt_out(6)
    assert "Bristol" not in await told(morning)
    await morning.summaries.update(GUILD, CHANNEL)
    assert "Bristol" not in await told(morning)
    assert "release" in await told(morning)
    await morning.opt_in(6)
    await morning.summaries.update(GUILD, CHANNEL)
    assert "Bristol" in await told(morning)


async def test_a_summary_of_expired_messages_goes_for_good(morning: Memory, clock: Clock) -> None:
    clock.now = NOW + 8 * DAY
    await morning.remember(replace(said(9, "back again", 0), ts=clock()))
    assert len(await texts(morning)) == 3
    await morning.delete(GUILD, CHANNEL, [1])
    assert len(await texts(morning)) == 2
    await morning.summaries.update(GUILD, CHANNEL)
    assert "Bristol" not in await told(morning)
    assert len(await texts(morning)) == 2


async def test_late_messages_join_their_window_or_make_one_between_its_neighbours(morning: Memory) -> None:
    late = [said(11, "the key is under the mat", 5.25 * HOUR), said(12, "lunch is at noon", 4.3 * HOUR, "Carol")]
    await morning.remember_many(late)
    await morning.summaries.update(GUILD, CHANNEL)
    found = await morning.summaries.of(GUILD, CHANNEL)
    lowest = [one for one in found if one.level == 1]
    assert [len(one.origins) for one in lowest] == [3, 1, 1, 1]
    assert sum(one.message_count for one in roots(found)) == 6
    assert pairs(found) == ()


async def test_a_rebuild_makes_anew_what_can_be_made_and_keeps_the_rest(morning: Memory, clock: Clock) -> None:
    clock.now = NOW + 6.9 * DAY  # the first window has expired
    recent = [replace(one, id=20 + one.id, ts=one.ts + 6.5 * DAY) for one in MORNING]
    await morning.remember_many(recent)
    await morning.summaries.update(GUILD, CHANNEL)
    before = await morning.summaries.of(GUILD, CHANNEL)
    clock.now += 60
    assert await morning.summaries.rebuild(GUILD, CHANNEL) > 0
    after = await morning.summaries.of(GUILD, CHANNEL)
    assert {one.id for one in after if one.level == 1} == {one.id for one in before if one.level == 1}
    created = {one.created for one in after if one.level == 1}
    assert created == {NOW, clock.now}


async def test_what_ties_expired_summaries_to_their_messages_does_not_pile_up(
    memory: Memory, redis: Redis, clock: Clock
) -> None:
    into = memory._store.buckets.keys(0).of("into", room(GUILD, CHANNEL))
    for days in range(0, 120, 2):
        clock.now = NOW + days * DAY
        talk = [replace(one, id=100 * days + one.id, ts=one.ts + days * DAY) for one in MORNING]
        await memory.remember_many(talk)
        await memory.summaries.update(GUILD, CHANNEL)
    found = await memory.summaries.of(GUILD, CHANNEL)
    alive = sum(len(one.origins) for one in found) + sum(len(one.parts) for one in found)
    assert len(found) > 60
    assert await redis.hlen(into) <= 1.5 * alive


# --- what is not stored ---


def old(number: int, text: str, days: float, author: str = "Ann") -> Message:
    return said(number, text, days * DAY, author)


OLD = [
    old(1, "the lease ends in June", 20.0),
    old(2, "Bob signs it", 19.99, "Bob"),
    old(3, "the garden needs a fence", 18.0, "Carol"),
]


async def test_messages_older_than_the_archive_are_summarised_and_not_stored(
    memory: Memory, redis: Redis, settings: Settings
) -> None:
    assert await memory.summaries.absorb(GUILD, CHANNEL, OLD) == ()
    assert "lease" in await told(memory)
    assert "fence" in await told(memory)
    assert not await documents(redis, settings)
    assert await memory.recent(GUILD, CHANNEL, 10) == []
    assert await memory.summaries.absorb(GUILD, CHANNEL, OLD) == ()
    assert len(await texts(memory)) == len({one.ts // 1800 for one in OLD})


async def test_an_incomplete_last_window_waits_for_its_rest(memory: Memory) -> None:
    left = await memory.summaries.absorb(GUILD, CHANNEL, OLD[:1], more=True)
    assert left == (OLD[0],)
    assert await memory.summaries.of(GUILD, CHANNEL) == ()
    left = await memory.summaries.absorb(GUILD, CHANNEL, [*left, *OLD[1:]], more=True)
    assert left == (OLD[2],)
    assert "lease" in await told(memory)


async def test_a_message_that_was_never_stored_still_takes_its_summary_along(memory: Memory) -> None:
    await memory.summaries.absorb(GUILD, CHANNEL, OLD)
    await memory.delete(GUILD, CHANNEL, [1])
    assert "lease" not in await told(memory)
    await memory.edit(replace(OLD[2], content="the garden is sold", revision=NOW))
    assert await memory.summaries.of(GUILD, CHANNEL) == ()


async def test_what_was_refused_at_its_time_is_not_summarised_in_passing(memory: Memory, clock: Clock) -> None:
    clock.now = NOW - 25 * DAY
    await memory.pause(GUILD, CHANNEL)
    await memory.opt_out(6)
    clock.now = NOW - 19 * DAY
    await memory.resume(GUILD, CHANNEL)
    clock.now = NOW
    await memory.summaries.absorb(GUILD, CHANNEL, [*OLD, old(4, "Bob was here", 17, "Bob")])
    assert await texts(memory) == ["Carol: the garden needs a fence"]


async def test_what_was_cleared_is_not_summarised_in_passing(memory: Memory) -> None:
    await memory.clear(GUILD, CHANNEL, at=NOW - 19 * DAY)
    await memory.summaries.absorb(GUILD, CHANNEL, OLD)
    assert await texts(memory) == ["Carol: the garden needs a fence"]


# --- in the background ---


async def test_a_window_is_summarised_a_while_after_it_closed_without_any_message(memory: Memory, clock: Clock) -> None:
    upkeep = memory.summaries.worker
    await memory.remember(said(1, "the release moves to Friday", 0))
    assert await upkeep.run_due() == 0
    clock.now = (NOW // 1800 + 1) * 1800 + 299
    assert await upkeep.run_due() == 0
    clock.now += 2
    assert await upkeep.run_due() == 1
    assert await texts(memory) == ["Ann: the release moves to Friday"]
    assert await upkeep.run_due() == 0


async def test_an_open_memory_does_that_by_itself(
    settings: Settings, fake_embedder: FakeEmbedder, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "POLL_S", 0.02)
    alone = settings.model_copy(update={"embed_in_process": True, "summary_debounce_s": 0})
    async with Memory.open(alone, clock=clock, embedder=fake_embedder) as memory:
        await memory.remember_many(MORNING)
        await until(lambda: _has_summaries(memory))


async def _has_summaries(memory: Memory) -> bool:
    return len(await texts(memory)) == 3


async def test_messages_of_the_open_window_are_summarised_later(memory: Memory, clock: Clock) -> None:
    await memory.remember_many([said(1, "the release moves", HOUR), said(2, "the lift is broken", 0)])
    clock.now += 301
    await memory.summaries.worker.finish()
    assert len(await texts(memory)) == 1
    clock.now += 1801
    await memory.summaries.worker.finish()
    assert len(await texts(memory)) == 2


async def test_removed_summaries_are_made_again_in_the_background(morning: Memory, clock: Clock) -> None:
    await morning.delete(GUILD, CHANNEL, [1])
    await morning.summaries.worker.finish()
    clock.now += 301
    await morning.summaries.worker.finish()
    assert len(await texts(morning)) == 3
    assert "release" not in await told(morning)


async def test_a_channel_is_updated_by_one_process_at_a_time(morning: Memory, clock: Clock) -> None:
    store = SummaryStore(morning._store.buckets)
    await morning.remember(said(9, "the lift is broken", 0.9 * HOUR))
    assert await store.lock(GUILD, CHANNEL, "another process")
    clock.now += 301
    assert await morning.summaries.worker.run_due() == 0
    with pytest.raises(SummariesBusyError):
        await morning.summaries.worker.now(GUILD, CHANNEL, morning.summaries._updater.update)
    await store.free(GUILD, CHANNEL, "another process", NOW)
    assert await morning.summaries.worker.run_due() == 1


async def test_a_channel_whose_process_died_is_due_again_once_its_lock_has_expired(
    morning: Memory, redis: Redis, settings: Settings
) -> None:
    store = SummaryStore(morning._store.buckets)
    await morning.remember(said(9, "the lift is broken", 0.9 * HOUR))
    assert await store.lock(GUILD, CHANNEL, "killed with -9")
    assert await morning.summaries.worker.run_due() == 0
    lock = f"{settings.key_prefix}:{{0}}:lock:{room(GUILD, CHANNEL)}"
    assert 0 < await redis.pttl(lock) <= 60_000
    await redis.pexpire(lock, 1)
    await until(lambda: _updated(morning))
    assert "lift" in await told(morning)


async def _updated(memory: Memory) -> bool:
    return await memory.summaries.worker.run_due() == 1


class Failing(Extractive):
    failures = 0

    async def of_window(self, window: ClosedWindow, *, created: float) -> Summary:
        if self.failures > 0:
            self.failures -= 1
            raise RuntimeError("out of order")
        return await super().of_window(window, created=created)


async def test_a_channel_that_fails_is_tried_again_later_each_time(
    settings: Settings, fake_embedder: FakeEmbedder, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Failing()
    async with Memory.open(settings, clock=clock, embedder=fake_embedder, summariser=failing) as memory:
        await memory.remember_many(MORNING)
        failing.failures = 2
        clock.now += 301
        upkeep = memory.summaries.worker
        assert await upkeep.run_due() == 1
        for wait in (30, 60):
            clock.now += wait - 1
            assert await upkeep.run_due() == 0
            clock.now += 2
            assert await upkeep.run_due() == 1
        assert len(await texts(memory)) == 3
    assert "out of order" in caplog.text
    assert "release" not in caplog.text


async def test_something_deleted_while_it_is_summarised_is_not_committed(
    settings: Settings, fake_embedder: FakeEmbedder, clock: Clock
) -> None:
    class Interrupted(Extractive):
        async def of_window(self, window: ClosedWindow, *, created: float) -> Summary:
            made = await super().of_window(window, created=created)
            await talk.delete(GUILD, CHANNEL, [1])
            return made

    async with Memory.open(settings, clock=clock, embedder=fake_embedder, summariser=Interrupted()) as talk:
        await talk.remember_many(MORNING)
        await talk.summaries.update(GUILD, CHANNEL)
        assert "release" not in await told(talk)
        assert "Bristol" in await told(talk)


async def test_many_windows_are_committed_in_several_steps_and_give_the_same_pyramid(memory: Memory) -> None:
    busy = [said(n, f"pallet {n} goes to dock {n % 7}", (3_000 - n) * 60) for n in range(1, 2_900)]
    await memory.remember_many(busy)
    await memory.summaries.update(GUILD, CHANNEL)
    found = await memory.summaries.of(GUILD, CHANNEL)
    tops = [one.level for one in roots(found)]
    assert tops == sorted(tops, reverse=True)
    assert len(set(tops)) == len(tops)
    assert sum(one.message_count for one in roots(found)) == sum(one.ts < NOW // 1800 * 1800 for one in busy)


async def test_the_summaries_of_a_span_are_those_that_lie_within_it(morning: Memory) -> None:
    span = Window(NOW - 4 * HOUR, NOW - 2 * HOUR)
    assert [one.text for one in await morning.summaries.of(GUILD, CHANNEL, span)] == [
        "Ann: the invoice of 420 euros is paid"
    ]
