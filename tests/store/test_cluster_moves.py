"""Slots of a real cluster that move to another node: their buckets wait meanwhile, and nothing is lost or half read."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from clusters import GUILDS, client_of, found, moved, opened, said, slot_of_bucket, working
from conftest import make_settings, message
from waiting import LIMIT_S, until, until_true

from channelmem.errors import RedisUnavailableError
from channelmem.settings import Settings
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.types import Outcome
from scripts.cluster import Cluster


@pytest.fixture
def settings(cluster: Cluster, tmp_path: Path) -> Settings:
    return make_settings(cluster.url, tmp_path, key_prefix=f"c{uuid.uuid4().hex[:12]}")


async def test_while_a_bucket_moves_it_waits_and_nothing_is_lost(cluster: Cluster, settings: Settings) -> None:
    guild, other = GUILDS[:2]
    async with opened(settings) as store, opened(settings) as late, working(store):
        await store.add([said(guild, number) for number in (1, 2)])
        await late.add([said(guild, 3)])
        assert await store.flush(LIMIT_S)
        await store.consent.opt_out(77, guild)
        with moved(cluster, slot_of_bucket(store.buckets.bucket(guild))) as move:
            move.begin(keys=1)  # one key is there, the others are still here
            assert await store.add([said(guild, 4)]) == [Outcome.QUEUED]
            assert await store.add([said(other, 4)]) == [Outcome.STORED]
            with pytest.raises(RedisUnavailableError):
                await found(store, guild)
            with pytest.raises(RedisUnavailableError):
                await Search(store.buckets).newest(Query(guild, (said(guild).channel_id,)))
            move.finish()
        await until_true(lambda: store.queued == 0)
        assert await store.flush(LIMIT_S)
        assert store.dropped == 0
        assert len(await _all_found(store, guild, 4)) == 4
        assert (
            len(await _all_found(late, guild, 4)) == 4
        )  # it learns of the move from the node that no longer serves it
        assert await store.add([said(guild, 5), message(6, guild_id=guild, author_id=77)]) == [
            Outcome.STORED,
            Outcome.IGNORED,
        ]


async def _all_found(store: Store, guild: int, count: int) -> list[str]:
    """The index on the new node reads the documents in the background."""
    await until(lambda: _finds(store, guild, count))
    return await found(store, guild)


async def _finds(store: Store, guild: int, count: int) -> bool:
    try:
        return len(await found(store, guild)) == count
    except RedisUnavailableError:
        return False


@pytest.mark.parametrize("keys", [0, 1, 100], ids=["begun", "half way", "almost done"])
async def test_a_move_that_begins_between_two_steps_of_a_search_does_not_hide_messages(
    cluster: Cluster, settings: Settings, monkeypatch: pytest.MonkeyPatch, keys: int
) -> None:
    guild = GUILDS[0]
    async with opened(settings) as store, working(store):
        await store.add([said(guild)])
        assert await store.flush(LIMIT_S)
        with moved(cluster, slot_of_bucket(store.buckets.bucket(guild))) as move, monkeypatch.context() as patch:
            _before_the_search(store, patch, lambda: move.begin(keys=keys))
            with pytest.raises(RedisUnavailableError):
                await found(store, guild)


async def test_a_move_that_ends_between_two_steps_of_a_search_does_not_hide_messages(
    cluster: Cluster, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    guild = GUILDS[0]
    async with opened(settings) as store, working(store):
        await store.add([said(guild)])
        assert await store.flush(LIMIT_S)
        with moved(cluster, slot_of_bucket(store.buckets.bucket(guild))) as move, monkeypatch.context() as patch:
            _before_the_search(store, patch, move.whole)
            assert await found(store, guild) == ["turtles are slow"]


async def test_a_search_that_its_node_answers_although_the_bucket_moves_is_not_believed(
    cluster: Cluster, settings: Settings
) -> None:
    guild = GUILDS[0]
    async with opened(settings) as store:
        await store.add([said(guild)])
        bucket = store.buckets.bucket(guild)
        where = store.buckets.keys(bucket)
        searching = [("HGET", where.one("meta"), "version")]  # in place of a search that is not redirected
        with moved(cluster, slot_of_bucket(bucket)) as move:
            move.begin()
            assert await store.buckets.redis.hget(where.one("meta"), "version") == b"1"
            with pytest.raises(RedisUnavailableError, match="rejects this for now"):
                await store.buckets.search(bucket, searching)
            move.finish()
            with pytest.raises(RedisUnavailableError, match="taken over"):
                await store.buckets.search(bucket, searching)
            assert await store.buckets.search(bucket, searching) == [b"1"]


def _before_the_search(store: Store, patch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """After it was said what may be looked at, and before the index is asked."""
    search = store.buckets.search

    async def late(bucket: int, commands: Sequence[Sequence[Any]]) -> list[Any]:
        happens()
        return await search(bucket, commands)

    patch.setattr(store.buckets, "search", late)


async def test_an_index_that_has_read_a_part_of_the_messages_is_not_believed(
    cluster: Cluster, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    guild = GUILDS[0]
    hasty = settings.model_copy(update={"redis_timeout_s": 4.0})  # it waits for a quarter of that
    async with opened(hasty) as store, working(store):
        await store.add([said(guild)])
        assert await store.flush(LIMIT_S)
        with moved(cluster, slot_of_bucket(store.buckets.bucket(guild))) as move:
            move.begin()
        with monkeypatch.context() as patch:
            patch.setattr(store.buckets, "indexed", _not_yet)
            await until(lambda: _is_moved(store, guild))
            with pytest.raises(RedisUnavailableError, match="being built on another node"):
                await found(store, guild)
        await until(lambda: _finds(store, guild, 1))
        async with opened(hasty) as started:  # it cannot know when the bucket moved
            with monkeypatch.context() as patch:
                patch.setattr(started.buckets, "indexed", _not_yet)
                with pytest.raises(RedisUnavailableError, match="being built on another node"):
                    await found(started, guild)
            assert await found(started, guild) == ["turtles are slow"]


async def _not_yet(_bucket: int) -> bool:
    return False


async def _is_moved(store: Store, guild: int) -> bool:
    return await store.add([said(guild)]) == [Outcome.STORED]


async def test_a_script_never_runs_on_half_a_bucket(cluster: Cluster, settings: Settings) -> None:
    guild = GUILDS[0]
    async with opened(settings) as store:
        await store.add([said(guild)])
        bucket = store.buckets.bucket(guild)
        with moved(cluster, slot_of_bucket(bucket)) as move:
            for keys in range(move.count()):
                move.begin(keys=keys)
                with pytest.raises(RedisUnavailableError):
                    await store.buckets.run("known", bucket, [f"{guild}c1", 5])
            move.finish()


async def test_a_command_that_is_always_sent_elsewhere_ends(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(settings) as store:
        redis = client_of(store)
        key = store.buckets.keys(0).one("meta")
        wrong = next(one for one in await redis.masters() if one is not redis._client(redis.owner(key)))  # type: ignore[arg-type]

        async def never_right(_slot: int | None) -> object:
            return wrong

        monkeypatch.setattr(redis, "_serving", never_right)
        with pytest.raises(RedisUnavailableError, match="moved again"):
            await redis.hgetall(key)
        async with redis.pipeline(transaction=False) as pipe:
            pipe.hgetall(key)
            with pytest.raises(RedisUnavailableError, match="moved again"):
                await pipe.execute()


async def test_a_pipeline_finds_keys_that_have_moved(settings: Settings) -> None:
    async with opened(settings) as store:
        redis = client_of(store)
        keys = [store.buckets.keys(bucket).of("people", "1c1") for bucket in range(20)]
        async with redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.hset(key, "7", key)
            await pipe.execute()
        somewhere = redis.owner(keys[0])
        redis._owners = [somewhere] * len(redis._owners)  # as an outdated view of the cluster
        async with redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.hget(key, "7")
            assert await pipe.execute() == [key.encode() for key in keys]
        redis._owners = [somewhere] * len(redis._owners)
        async with redis.pipeline(transaction=True) as pipe:
            pipe.hget(keys[-1], "7")
            pipe.hgetall(keys[-1])
            assert await pipe.execute() == [keys[-1].encode(), {b"7": keys[-1].encode()}]
