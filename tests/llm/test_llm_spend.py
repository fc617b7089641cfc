"""The daily cap holds, also for calls at the same time, and where it can't be checked."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from conftest import CHANNEL, GUILD, Clock, FakeEmbedder, OwnServer, make_settings
from llm_server import used_usd

from channelmem.ids import ChannelId
from channelmem.llm.spend import UNKNOWN, CapReachedError, Prices, Spend
from channelmem.memory import Memory
from channelmem.settings import Settings

DAY = 86_400
HERE = ChannelId(GUILD, CHANNEL)


@pytest.fixture
async def memory(settings: Settings, fake_embedder: FakeEmbedder) -> AsyncIterator[Memory]:
    async with Memory.open(settings, embedder=fake_embedder) as opened:
        yield opened


@pytest.fixture
def spend(memory: Memory, clock: Clock) -> Spend:
    return Spend(memory.spending, 1.0, clock)


def test_prices_are_per_million_tokens_in_the_settings() -> None:
    prices = Prices.of(Settings(_env_file=None, llm_usd_per_mtok_in=1, llm_usd_per_mtok_out=5))
    assert prices.cost(1_000_000, 0) == pytest.approx(1)
    assert prices.cost(0, 100_000) == pytest.approx(0.5)


async def test_what_is_set_aside_counts_until_it_is_settled(spend: Spend) -> None:
    hold = await spend.reserve(HERE, 0.8)
    with pytest.raises(CapReachedError):
        await spend.reserve(HERE, 0.3)
    await spend.settle(hold, 0.1)
    assert await used_usd(spend) == pytest.approx(0.1)
    await spend.reserve(HERE, 0.9)


async def test_the_refusal_names_the_cap(spend: Spend) -> None:
    with pytest.raises(CapReachedError, match="1 USD per day"):
        await spend.reserve(HERE, 1.01)


async def test_calls_at_the_same_time_never_exceed_the_cap_together(spend: Spend) -> None:
    most = 0.0

    async def call() -> bool:
        nonlocal most
        try:
            hold = await spend.reserve(HERE, 0.3)
        except CapReachedError:
            return False
        most = max(most, await used_usd(spend))
        await spend.settle(hold, 0.3)
        return True

    made = await asyncio.gather(*(call() for _ in range(20)))
    assert sum(made) == 3
    assert most <= 1.0
    assert await used_usd(spend) <= 1.0


async def test_a_cap_of_nothing_allows_nothing_that_costs(memory: Memory, clock: Clock) -> None:
    free = Spend(memory.spending, 0.0, clock)
    await free.reserve(HERE, 0.0)
    with pytest.raises(CapReachedError):
        await free.reserve(HERE, 0.000001)


async def test_no_call_is_too_cheap_to_count(spend: Spend) -> None:
    await spend.settle(await spend.reserve(HERE, 0.0000001), 0.0000001)
    assert await used_usd(spend) == pytest.approx(0.000001)


async def test_a_new_day_begins_with_an_empty_page(spend: Spend, clock: Clock) -> None:
    await spend.reserve(HERE, 1.0)
    clock.now = (clock.now // DAY + 1) * DAY - 1
    with pytest.raises(CapReachedError):
        await spend.reserve(HERE, 0.1)
    clock.now += 1
    assert await used_usd(spend) == 0
    await spend.reserve(HERE, 1.0)


async def test_a_call_that_began_yesterday_does_not_touch_today(spend: Spend, clock: Clock) -> None:
    hold = await spend.reserve(HERE, 0.9)
    clock.now += DAY
    today = await spend.reserve(HERE, 0.5)
    await spend.settle(hold, 0.1)
    assert await used_usd(spend) == pytest.approx(0.5)
    await spend.settle(today, 0.2)
    assert await used_usd(spend) == pytest.approx(0.2)


async def test_without_redis_only_what_costs_nothing_is_allowed(own_server: OwnServer, tmp_path: Path) -> None:
    settings = make_settings(own_server.url, tmp_path, redis_timeout_s=5.0)
    async with Memory.open(settings, embedder=FakeEmbedder()) as memory:
        spend = Spend(memory.spending, 1.0, Clock())
        hold = await spend.reserve(HERE, 0.4)
        own_server.kill()
        with pytest.raises(CapReachedError, match=UNKNOWN):
            await spend.reserve(HERE, 0.1)
        await spend.settle(await spend.reserve(HERE, 0.0), 0.0)
        await spend.settle(hold, 0.1)
        own_server.start()
        # What could not be settled counts with all it could have cost.
        assert await used_usd(spend) == pytest.approx(0.4)
