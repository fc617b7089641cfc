"""Access tokens: how they are made, kept, recognised and ended, also while Redis is away."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from conftest import NOW, Clock, OwnServer, make_settings
from redis.asyncio import Redis

from channelmem import Settings
from channelmem.access import Scope, new_token, split
from channelmem.errors import RedisUnavailableError
from channelmem.ops import open_access
from channelmem.store import access
from channelmem.store.access import AccessTokens

READ = frozenset({Scope.READ})


def test_a_token_is_long_random_and_splits_into_id_and_secret() -> None:
    made = {new_token("bot", READ, None, now=NOW)[0] for _ in range(200)}
    assert len(made) == 200
    for text in made:
        parts = split(text)
        assert parts is not None
        assert len(parts[1]) == 43
    for wrong in (
        "",
        "cm",
        "cm__",
        "xx_0123456789ab_" + "a" * 43,
        "cm_0123456789ab_" + "a" * 42,
        "cm_0123456789ab_" + "é" * 43,
    ):
        assert split(wrong) is None


async def test_redis_holds_a_digest_and_never_the_secret(redis: Redis, settings: Settings) -> None:
    tokens = AccessTokens(redis, settings.key_prefix)
    text, kept = new_token("bot", READ, frozenset({7}), now=NOW)
    await tokens.add(kept)
    stored = await redis.hgetall(f"{settings.key_prefix}:{{0}}:access")
    secret = text.rpartition("_")[2]
    assert secret not in str(stored)
    assert json.loads(stored[kept.id.encode()])["guilds"] == ["7"]
    assert secret not in repr(kept)


async def test_another_process_knows_a_new_token_and_misses_a_revoked_one(
    redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "COPY_S", 0.0)
    monkeypatch.setattr(access, "UNKNOWN_S", 0.0)
    here, there = AccessTokens(redis, settings.key_prefix), AccessTokens(redis, settings.key_prefix)
    text, kept = new_token("bot", READ, frozenset({7}), now=NOW)
    assert await there.caller(text) is None
    await here.add(kept)
    caller = await there.caller(text)
    assert caller == kept.caller
    assert caller.may_reach(7)
    assert not caller.may_reach(8)
    assert await here.remove(kept.id)
    assert not await here.remove(kept.id)
    assert await there.caller(text) is None


async def test_a_copy_is_read_again_only_when_it_is_old(
    redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "COPY_S", 1e9)
    tokens = AccessTokens(redis, settings.key_prefix)
    text, kept = new_token("bot", READ, None, now=NOW)
    await tokens.add(kept)
    assert await tokens.caller(text)
    await redis.delete(f"{settings.key_prefix}:{{0}}:access")
    assert await tokens.caller(text)


async def test_a_token_ends_at_its_time(redis: Redis, settings: Settings, clock: Clock) -> None:
    tokens = AccessTokens(redis, settings.key_prefix, clock)
    text, kept = new_token("bot", READ, None, now=clock(), life_s=60)
    await tokens.add(kept)
    clock.now += 59
    assert await tokens.caller(text)
    clock.now += 1
    assert await tokens.caller(text) is None


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b'{"name": 1}', b'{"scopes": ["root"]}'])
async def test_a_damaged_entry_lets_nobody_in(redis: Redis, settings: Settings, raw: bytes) -> None:
    text, kept = new_token("bot", READ, None, now=NOW)
    await redis.hset(f"{settings.key_prefix}:{{0}}:access", kept.id, raw)
    assert await AccessTokens(redis, settings.key_prefix).caller(text) is None


async def test_while_redis_is_away_known_tokens_work_and_a_fresh_process_knows_nobody(
    own_server: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "COPY_S", 0.0)
    settings = make_settings(own_server.url, own_server.folder, redis_timeout_s=0.5)
    async with open_access(settings) as tokens, open_access(settings, patient=True) as fresh:
        text, kept = new_token("bot", READ, None, now=NOW)
        await tokens.add(kept)
        assert await tokens.caller(text)
        own_server.kill()
        assert await tokens.caller(text) == kept.caller
        assert await tokens.caller(text[:-1] + ("A" if text[-1] != "A" else "B")) is None
        with pytest.raises(RedisUnavailableError):
            await fresh.caller(text)


def test_a_wrong_secret_does_not_match() -> None:
    text, kept = new_token("bot", READ, None, now=NOW)
    assert kept.matches(text.rpartition("_")[2])
    assert not kept.matches("A" * 43)
    assert not replace(kept, digest="").matches("")


async def test_before_the_first_read_nobody_is_turned_away(own_server: OwnServer) -> None:
    """Requests that come together, to a service that was started before Redis."""
    settings = make_settings(own_server.url, own_server.folder, redis_timeout_s=0.5)
    async with open_access(settings) as tokens, open_access(settings, patient=True) as fresh:
        text, kept = new_token("bot", READ, None, now=NOW)
        await tokens.add(kept)
        own_server.kill()
        answers = await asyncio.gather(*(fresh.caller(text) for _ in range(8)), return_exceptions=True)
        assert [type(one) for one in answers] == [RedisUnavailableError] * 8
        own_server.start()
        assert await asyncio.gather(*(fresh.caller(text) for _ in range(8))) == [kept.caller] * 8


async def test_a_token_that_was_just_made_is_known_to_all_who_come_together(
    redis: Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "UNKNOWN_S", 0.0)
    here, there = AccessTokens(redis, settings.key_prefix), AccessTokens(redis, settings.key_prefix)
    assert await there.all() == []
    text, kept = new_token("bot", READ, None, now=NOW)
    await here.add(kept)
    monkeypatch.setattr(access, "UNKNOWN_S", 1e9)
    there._read_at = float("-inf")
    assert await asyncio.gather(*(there.caller(text) for _ in range(8))) == [kept.caller] * 8


async def test_while_redis_is_away_nobody_can_tell_whether_an_unknown_token_is_valid(
    own_server: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "UNKNOWN_S", 0.0)
    settings = make_settings(own_server.url, own_server.folder, redis_timeout_s=0.5)
    async with open_access(settings) as tokens, open_access(settings) as other:
        assert await other.all() == []
        text, kept = new_token("bot", READ, None, now=NOW)
        await tokens.add(kept)
        own_server.kill()
        with pytest.raises(RedisUnavailableError):
            await other.caller(text)
