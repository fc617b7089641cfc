"""The spend cap in Redis: one for all processes and restarts, and none that can't be checked is passed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from conftest import CHANNEL, GUILD, Clock, OwnServer, make_settings, open_store

from channelmem.errors import RedisUnavailableError
from channelmem.ids import ChannelId
from channelmem.settings import Settings
from channelmem.store.channel_state import KEPT_S, Spending
from channelmem.store.redis import connect
from channelmem.store.store import Store

HERE = ChannelId(GUILD, CHANNEL)
THERE = ChannelId(GUILD, CHANNEL + 1)
TODAY = 20_833
CAP = 1_000_000


@pytest.fixture
def spending(store: Store) -> Spending:
    return store.spending


@asynccontextmanager
async def another_process(settings: Settings) -> AsyncIterator[Spending]:
    assert settings.redis_url is not None
    redis = connect(settings.redis_url.get_secret_value(), settings)
    store = await open_store(redis, settings, Clock())
    yield store.spending
    await store.close(wait_s=0.5)
    await redis.aclose()


async def test_what_another_process_spent_counts(spending: Spending, settings: Settings) -> None:
    assert await spending.reserve(TODAY, HERE, 700_000, CAP)
    async with another_process(settings) as other:
        assert not await other.reserve(TODAY, THERE, 400_000, CAP)
        await spending.settle(TODAY, HERE, -600_000)
        assert await other.reserve(TODAY, THERE, 400_000, CAP)
    # That one has ended, and what it spent still counts.
    assert await spending.total(TODAY) == 500_000
    assert await spending.by_channel(TODAY) == {HERE: 100_000, THERE: 400_000}


async def test_many_at_once_never_exceed_the_cap_together(spending: Spending, settings: Settings) -> None:
    async with another_process(settings) as other:
        wanted = [one.reserve(TODAY, HERE, 90_000, CAP) for one in (spending, other) for _ in range(40)]
        granted = await asyncio.gather(*wanted)
    assert sum(granted) == CAP // 90_000
    assert await spending.total(TODAY) <= CAP


async def test_each_day_has_its_own_page_that_ends_by_itself(spending: Spending, store: Store) -> None:
    await spending.reserve(TODAY, HERE, CAP, CAP)
    assert await spending.reserve(TODAY + 1, HERE, CAP, CAP)
    for date in ("2027-01-15", "2027-01-16"):
        page = store.buckets.keys(0).of("spend", date)
        assert 0 < await store.buckets.redis.ttl(page) <= KEPT_S


async def test_settling_after_a_flush_never_raises_the_cap(spending: Spending, store: Store) -> None:
    await spending.reserve(TODAY, HERE, 900_000, CAP)
    await store.buckets.redis.delete(store.buckets.keys(0).of("spend", "2027-01-15"))
    await spending.settle(TODAY, HERE, -900_000)
    assert await spending.total(TODAY) == 0
    await spending.reserve(TODAY, HERE, 100, CAP)
    await spending.settle(TODAY, HERE, -900_000)
    assert await spending.total(TODAY) == 0
    assert not await spending.reserve(TODAY, HERE, CAP + 1, CAP)


async def test_no_channel_gives_back_what_others_spent(spending: Spending) -> None:
    await spending.reserve(TODAY, HERE, 300, CAP)
    await spending.reserve(TODAY, THERE, 200, CAP)
    await spending.settle(TODAY, THERE, -CAP)
    assert await spending.by_channel(TODAY) == {HERE: 300, THERE: 0}
    assert await spending.total(TODAY) == 300


async def test_a_redis_that_is_away_or_holds_something_else_is_unavailable(
    own_server: OwnServer, tmp_path: Path
) -> None:
    settings = make_settings(own_server.url, tmp_path, redis_timeout_s=5.0)
    async with another_process(settings) as spending:
        await spending.reserve(TODAY, HERE, 5, CAP)
        redis = connect(own_server.url, settings)
        await redis.set(f"{settings.key_prefix}:{{0}}:spend:2027-01-16", "no page")
        await redis.aclose()
        with pytest.raises(RedisUnavailableError):
            await spending.reserve(TODAY + 1, HERE, 5, CAP)
        own_server.kill()
        with pytest.raises(RedisUnavailableError):
            await spending.reserve(TODAY, HERE, 5, CAP)
        with pytest.raises(RedisUnavailableError):
            await spending.total(TODAY)
        own_server.start()
        assert await spending.total(TODAY) == 5


async def test_giving_back_more_than_there_is_left_changes_nothing(spending: Spending) -> None:
    await spending.reserve(TODAY, HERE, 500, CAP)
    for _ in range(3):
        await spending.settle(TODAY, HERE, -500)
    assert await spending.by_channel(TODAY) == {HERE: 0}
    assert await spending.total(TODAY) == 0
