"""What was refused at its time is never stored later: back-fill brings messages as of the time they were said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from conftest import CHANNEL, GUILD, NOW, Clock, message
from redis.asyncio import Redis
from stored import contents, ids

from channelmem.store.search import Search
from channelmem.store.store import Store
from channelmem.types import Message, Outcome

DAY_S = 86_400
ARCHIVE_S = 7 * DAY_S

Step = Callable[[Store], Awaitable[Any]]

REFUSALS: dict[str, tuple[Step, Step]] = {
    "pause": (lambda store: store.channels.pause(GUILD, CHANNEL), lambda store: store.channels.resume(GUILD, CHANNEL)),
    "opt-out": (lambda store: store.consent.opt_out(6), lambda store: store.consent.opt_in(6)),
    "opt-out of a guild": (lambda store: store.consent.opt_out(6, GUILD), lambda store: store.consent.opt_in(6, GUILD)),
}
FORGETTING: dict[str, tuple[Step, Step]] = {
    "everywhere": (lambda store: store.consent.forget(6), lambda store: store.consent.opt_in(6)),
    "in a guild": (lambda store: store.consent.forget(6, GUILD), lambda store: store.consent.opt_in(6, GUILD)),
}


def bobs(number: int, ts: float, **changes: Any) -> Message:
    return message(number, f"words {number}", author_id=6, author="Bob", ts=ts, **changes)


async def refused_for_a_minute(store: Store, clock: Clock, steps: tuple[Step, Step]) -> None:
    """From NOW on."""
    begin, end = steps
    await begin(store)
    clock.now += 60
    await end(store)
    await store.swept()  # an opt-in takes effect when what was to be forgotten is gone
    clock.now += 60


@pytest.mark.parametrize("steps", REFUSALS.values(), ids=REFUSALS)
async def test_back_fill_brings_what_was_said_before_and_after_but_not_during(
    store: Store, search: Search, clock: Clock, steps: tuple[Step, Step]
) -> None:
    await refused_for_a_minute(store, clock, steps)
    missed = [bobs(1, NOW - 30), bobs(2, NOW + 30), bobs(3, NOW + 90)]
    assert await store.add(missed) == [Outcome.STORED, Outcome.IGNORED, Outcome.STORED]
    assert await ids(search) == [3, 1]


@pytest.mark.parametrize("steps", FORGETTING.values(), ids=FORGETTING)
async def test_back_fill_brings_nothing_from_before_a_forget_me(
    store: Store, search: Search, clock: Clock, steps: tuple[Step, Step]
) -> None:
    await store.add([bobs(1, NOW - 30)])
    await refused_for_a_minute(store, clock, steps)
    missed = [bobs(1, NOW - 30), bobs(2, NOW + 30), bobs(3, NOW + 90)]
    assert await store.add(missed) == [Outcome.IGNORED, Outcome.IGNORED, Outcome.STORED]
    assert await ids(search) == [3]


@pytest.mark.parametrize("steps", REFUSALS.values(), ids=REFUSALS)
async def test_an_edit_made_during_it_takes_the_old_words_along_and_does_not_come(
    store: Store, search: Search, clock: Clock, steps: tuple[Step, Step]
) -> None:
    await store.add([bobs(1, NOW - 30), bobs(2, NOW - 20)])
    await refused_for_a_minute(store, clock, steps)
    assert await store.edit(bobs(1, NOW - 30, revision=NOW + 30)) is Outcome.IGNORED
    assert await store.edit(message(2, "changed later", author_id=6, ts=NOW - 20, revision=NOW + 90)) is Outcome.STORED
    assert await contents(search) == ["changed later"]


async def test_others_and_other_channels_are_not_refused(store: Store, clock: Clock) -> None:
    await refused_for_a_minute(store, clock, REFUSALS["opt-out of a guild"])
    await refused_for_a_minute(store, clock, REFUSALS["pause"])
    others = [
        message(1, author_id=7, ts=NOW + 30),
        bobs(2, NOW + 30, guild_id=GUILD + (1 << 22)),
        bobs(3, NOW + 130, channel_id=8),
    ]
    assert await store.add(others) == [Outcome.STORED] * 3


async def test_several_refusals_are_all_remembered(store: Store, clock: Clock) -> None:
    for _ in range(3):
        await refused_for_a_minute(store, clock, REFUSALS["pause"])
    moments = [NOW + 30 + 60 * at for at in range(6)]
    outcomes = await store.add([bobs(at, moment) for at, moment in enumerate(moments)])
    assert outcomes == [Outcome.IGNORED, Outcome.STORED] * 3


async def test_more_refusals_than_are_kept_refuse_what_lies_between_the_oldest(store: Store, clock: Clock) -> None:
    for _ in range(40):
        await refused_for_a_minute(store, clock, REFUSALS["pause"])
    assert await store.add([bobs(1, NOW + 30), bobs(2, NOW + 90), bobs(3, clock() - 30)]) == [
        Outcome.IGNORED,
        Outcome.IGNORED,
        Outcome.STORED,
    ]


@pytest.mark.parametrize("steps", [*REFUSALS.values(), *FORGETTING.values()], ids=[*REFUSALS, *FORGETTING])
async def test_a_window_is_dropped_once_back_fill_cant_reach_it(
    store: Store, redis: Redis, clock: Clock, steps: tuple[Step, Step]
) -> None:
    key = store.buckets.keys(0).one("refused")
    await refused_for_a_minute(store, clock, steps)
    clock.now += store.buckets.settings.longest_s - DAY_S  # summaries reach further back than the archive
    await store.channels.resume(GUILD, CHANNEL + 1)  # any decision checks a few windows
    assert await redis.hlen(key) == 1
    clock.now += 2 * DAY_S
    await store.channels.resume(GUILD, CHANNEL + 1)
    assert await redis.hlen(key) == 0


async def test_a_window_that_is_still_open_is_never_dropped(store: Store, redis: Redis, clock: Clock) -> None:
    await store.consent.opt_out(6)
    clock.now += 2 * ARCHIVE_S
    await store.channels.pause(GUILD, CHANNEL)
    assert sorted(await redis.hkeys(store.buckets.keys(0).one("refused"))) == [b"6", f"{GUILD}c{CHANNEL}".encode()]


@pytest.mark.parametrize("kind", ["optout", "policy"])
async def test_a_refusal_from_before_windows_were_kept_has_no_beginning(
    store: Store, redis: Redis, clock: Clock, kind: str
) -> None:
    keys = store.buckets.keys(0)
    if kind == "optout":
        await redis.sadd(keys.one("optout"), "6")
        await store.consent.opt_in(6)
    else:
        await redis.hset(keys.one("policy"), f"{GUILD}c{CHANNEL}:paused", "1")
        await store.channels.resume(GUILD, CHANNEL)
    assert await store.add([bobs(1, NOW - 30), bobs(2, NOW + 30)]) == [Outcome.IGNORED, Outcome.STORED]


@pytest.mark.parametrize("steps", [*REFUSALS.values(), *FORGETTING.values()], ids=[*REFUSALS, *FORGETTING])
async def test_the_platforms_history_shows_nothing_of_it_either(
    store: Store, clock: Clock, steps: tuple[Step, Step]
) -> None:
    await refused_for_a_minute(store, clock, steps)
    shown = await store.decisions.allowed(GUILD, CHANNEL, [bobs(2, NOW + 30), bobs(3, NOW + 90)])
    assert [one.id for one in shown] == [3]
