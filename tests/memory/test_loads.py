"""How far a load of a channel's past has come is kept in Redis, and goes with the channel."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import CHANNEL, GUILD, NOW

from channelmem.store.store import Store
from channelmem.types import Load

LOAD = Load(CHANNEL, 100, 100, 10**18)


async def test_a_load_is_kept_until_it_ends(store: Store) -> None:
    assert await store.loads.begin(GUILD, LOAD)
    further = replace(LOAD, done_id=500, stored=3, summarised=40)
    assert await store.loads.advance(GUILD, further)
    assert await store.loads.open(GUILD) == [further]
    assert await store.loads.open(GUILD + 1) == []
    await store.loads.end(GUILD, CHANNEL)
    assert await store.loads.open(GUILD) == []


async def test_the_first_of_two_loads_goes_on(store: Store) -> None:
    await store.loads.begin(GUILD, LOAD)
    assert not await store.loads.begin(GUILD, replace(LOAD, start_id=1))
    assert await store.loads.open(GUILD) == [LOAD]


@pytest.mark.parametrize("how", ["clear", "delete_channel", "delete_guild"])
async def test_a_channel_that_is_cleared_or_left_takes_its_load_along(store: Store, how: str) -> None:
    other = replace(LOAD, channel_id=CHANNEL + 1)
    await store.loads.begin(GUILD, LOAD)
    await store.loads.begin(GUILD, other)
    if how == "clear":
        await store.clear(GUILD, CHANNEL, at=NOW)
    elif how == "delete_channel":
        await store.delete_channel(GUILD, CHANNEL)
    else:
        await store.delete_guild(GUILD)
    assert not await store.loads.advance(GUILD, replace(LOAD, done_id=500))
    assert await store.loads.open(GUILD) == ([] if how == "delete_guild" else [other])
