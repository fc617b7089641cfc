"""The key layout: one slot per bucket, ids that sort, and the same names in Python and Lua."""

from __future__ import annotations

import re
from importlib import resources

import pytest
from redis.asyncio import Redis
from redis.crc import key_slot

from channelmem.settings import Settings
from channelmem.store import keys
from channelmem.store.buckets import Buckets
from channelmem.store.index import FIELDS
from channelmem.store.scripts import source

LUA = resources.files("channelmem.store") / "lua"
SCRIPTS = sorted(path.name.removesuffix(".lua") for path in LUA.iterdir() if path.is_file())


def buckets(count: int) -> Buckets:
    return Buckets(Redis(), Settings(_env_file=None, buckets=count), dims=2, identity="none", clock=lambda: 0.0)


def test_every_key_of_a_bucket_lives_in_one_slot() -> None:
    bucket = keys.keys_of("cm", 7)
    made = [bucket.one(name) for name in keys.KEYS] + [bucket.message(2**62, 2**60, 2**63), bucket.index(3)]
    assert len({key_slot(key.encode()) for key in made}) == 1


def test_a_guild_always_maps_to_the_same_bucket_and_guilds_spread() -> None:
    guilds = [(1_420_070_400_000 + day * 86_400_000) << 22 for day in range(1000)]
    many, one = buckets(16), buckets(1)
    used = [many.bucket(guild) for guild in guilds]
    assert used == [many.bucket(guild + 4_194_303) for guild in guilds]  # the low 22 bits do not matter
    assert one.bucket(811_111_111_111_111_111) == 0
    spread = {many.bucket((1_420_070_400_000 + n * 997) << 22) for n in range(200)}
    assert spread == set(range(16))


def test_the_same_channel_id_in_two_guilds_is_two_rooms() -> None:
    assert keys.room(1, 10) != keys.room(2, 10)
    assert keys.room(1, 110) != keys.room(11, 10)
    assert keys.guild_and_channel(keys.room(2**62, 2**60).encode()) == (2**62, 2**60)


def test_padded_ids_sort_as_text_like_they_do_as_numbers() -> None:
    ids = [0, 9, 10, 2**53, 2**53 + 1, 999_999_999_999_999_999, 1_000_000_000_000_000_000, 2**64 - 1]
    assert sorted(map(keys.padded, ids)) == [keys.padded(one) for one in ids]
    assert [int(keys.padded(one)) for one in ids] == ids


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name != "each"])
def test_scripts_name_keys_only_through_the_table(name: str) -> None:
    text = source(name)
    body = text.split("\n", 1)[1].split("-- Prepended to every script", 1)[1]
    assert not re.search(r"base\s*\.\.", body)


def test_the_reading_scripts_ask_for_the_fields_of_the_schema_in_their_order() -> None:
    listed = re.search(r"FIELDS = \{(.*?)\}", source("around"))
    assert listed is not None
    assert tuple(re.findall(r"'(\w+)'", listed[1])) == FIELDS
