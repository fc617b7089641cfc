"""The daily cap holds, also for calls at the same time."""

import asyncio

import pytest
from conftest import Clock

from channelmem.llm.spend import CapReachedError, Prices, Reservation, Spend
from channelmem.settings import Settings

DAY = 86_400


@pytest.fixture
def spend(clock: Clock) -> Spend:
    return Spend(1.0, clock)


def test_prices_are_per_million_tokens_in_the_settings() -> None:
    prices = Prices.of(Settings(_env_file=None, llm_usd_per_mtok_in=1, llm_usd_per_mtok_out=5))
    assert prices.cost(1_000_000, 0) == pytest.approx(1)
    assert prices.cost(0, 100_000) == pytest.approx(0.5)


def test_what_is_set_aside_counts_until_it_is_settled(spend: Spend) -> None:
    hold = spend.reserve(0.8)
    with pytest.raises(CapReachedError):
        spend.reserve(0.3)
    spend.settle(hold, 0.1)
    assert spend.used_usd == pytest.approx(0.1)
    spend.reserve(0.9)


def test_the_refusal_names_the_cap(spend: Spend) -> None:
    with pytest.raises(CapReachedError, match="1 USD per day"):
        spend.reserve(1.01)


async def test_calls_at_the_same_time_never_exceed_the_cap_together(spend: Spend) -> None:
    most = 0.0

    async def call() -> bool:
        nonlocal most
        try:
            hold = spend.reserve(0.3)
        except CapReachedError:
            return False
        most = max(most, spend.used_usd)
        await asyncio.sleep(0)
        spend.settle(hold, 0.3)
        return True

    made = await asyncio.gather(*(call() for _ in range(20)))
    assert sum(made) == 3
    assert most <= 1.0
    assert spend.used_usd <= 1.0


def test_a_cap_of_nothing_allows_nothing_that_costs(clock: Clock) -> None:
    free = Spend(0.0, clock)
    free.reserve(0.0)
    with pytest.raises(CapReachedError):
        free.reserve(0.000001)


def test_a_new_day_begins_with_an_empty_page(spend: Spend, clock: Clock) -> None:
    spend.reserve(1.0)
    clock.now = (clock.now // DAY + 1) * DAY - 1
    with pytest.raises(CapReachedError):
        spend.reserve(0.1)
    clock.now += 1
    assert spend.used_usd == 0
    spend.reserve(1.0)


def test_a_call_that_began_yesterday_does_not_touch_today(spend: Spend, clock: Clock) -> None:
    hold: Reservation = spend.reserve(0.9)
    clock.now += DAY
    today = spend.reserve(0.5)
    spend.settle(hold, 0.1)
    assert spend.used_usd == pytest.approx(0.5)
    spend.settle(today, 0.2)
    assert spend.used_usd == pytest.approx(0.2)
