"""A real Redis Cluster: every guild's memory lives on one of its nodes, and nobody above the store notices."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from clusters import moved, slot_of_bucket
from conftest import Clock, FakeEmbedder, make_settings, message, open_store
from plain_server import plain_server
from redis import exceptions as redis_errors
from waiting import LIMIT_S, until, until_true

from channelmem.errors import RedisUnavailableError, RedisUnsuitableError
from channelmem.ingest.worker import Worker
from channelmem.ops.doctor import Health, check_settings_and_server
from channelmem.server import check
from channelmem.server.check import ServerInfo, check_server
from channelmem.settings import Settings
from channelmem.store.cancellation import cancel_all
from channelmem.store.cluster import Cluster as ClusterClient
from channelmem.store.connection import connect
from channelmem.store.search import Query, Search
from channelmem.store.store import Store
from channelmem.types import Message, Outcome, Source
from scripts import cluster as cluster_script
from scripts.cluster import Cluster

GUILDS = [number << 22 for number in range(1, 13)]


@pytest.fixture
def settings(cluster: Cluster, tmp_path: Path) -> Settings:
    return make_settings(cluster.url, tmp_path, key_prefix=f"c{uuid.uuid4().hex[:12]}")


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Store]:
    assert settings.redis_url is not None
    redis = connect(settings.redis_url.get_secret_value(), settings)
    store = await open_store(redis, settings, Clock())
    try:
        yield store
    finally:
        await store.close(wait_s=0.5)
        await redis.aclose()


@asynccontextmanager
async def working(store: Store) -> AsyncIterator[None]:
    task = asyncio.create_task(Worker(store, FakeEmbedder()).run())
    try:
        yield
    finally:
        await cancel_all([task])


def said(guild: int, number: int = 1, text: str = "turtles are slow") -> Message:
    return message(number, text, guild_id=guild)


async def found(store: Store, guild: int, text: str = "turtles are slow") -> list[str]:
    (vector,) = await FakeEmbedder().embed_messages([text])
    query = Query(guild, (said(guild).channel_id,), vector=vector, source=Source.ARCHIVE)
    return [hit.message.content for hit in (await Search(store.buckets).nearest(query)).hits]


def client_of(store: Store) -> ClusterClient:
    assert isinstance(store.buckets.redis, ClusterClient)
    return store.buckets.redis


# --- every day ---


async def test_messages_and_indexes_are_spread_over_the_masters(settings: Settings) -> None:
    async with opened(settings) as store, working(store):
        outcomes = await store.add([said(guild, text=f"turtles of {guild}") for guild in GUILDS])
        assert set(outcomes) == {Outcome.STORED}
        assert await store.flush(LIMIT_S)
        for guild in GUILDS:
            assert await found(store, guild, f"turtles of {guild}") == [f"turtles of {guild}"]
        masters = await client_of(store).masters()
        documents = [[key async for key in one.scan_iter(f"{settings.key_prefix}:*msg:*")] for one in masters]
        indexes = [await one.execute_command("FT._LIST") for one in masters]  # type: ignore[no-untyped-call]
    mine = [[name for name in names if name.startswith(settings.key_prefix.encode())] for names in indexes]
    assert len(masters) == 3
    assert sum(map(len, documents)) == len(GUILDS)
    assert sum(map(bool, documents)) >= 2
    assert sum(map(bool, mine)) >= 2


async def test_a_bucket_that_nobody_uses_costs_nothing(settings: Settings) -> None:
    async with opened(settings) as store, working(store):
        await store.add([said(GUILDS[0])])
        assert await store.flush(LIMIT_S)
        await store.swept()
        keys = [key async for key in client_of(store).scan_iter(f"{settings.key_prefix}:*")]
        tags = {key[: key.index(b"}")] for key in keys}
    assert settings.buckets == 1024
    assert len(tags) <= 2  # the guild's, and the first, which holds the number of buckets


async def test_what_a_person_decides_reaches_every_node(settings: Settings) -> None:
    async with opened(settings) as store, working(store):
        await store.add([said(guild) for guild in GUILDS])
        assert await store.flush(LIMIT_S)
        await store.consent.forget(5)
        assert [await found(store, guild) for guild in GUILDS] == [[]] * len(GUILDS)
        await store.swept()
        assert [key async for key in client_of(store).scan_iter(f"{settings.key_prefix}:*msg:*")] == []
        assert await store.consent.opt_in(5) is None
        assert await store.add([said(guild, 1000) for guild in GUILDS]) == [Outcome.STORED] * len(GUILDS)
        assert [one.id async for one in store.consent.export(5)] == [1000] * len(GUILDS)


async def test_a_setting_changed_by_one_process_is_heard_by_another(settings: Settings) -> None:
    async with opened(settings) as here, opened(settings) as there:
        following = asyncio.create_task(there.levels.follow())
        await until_true(lambda: there.levels.known)
        for guild in GUILDS[:4]:  # on different nodes
            await here.levels.change(f"channel:{guild}c1", guild, f"{guild}c1", 1, [("max_messages", "9")])
        places = [f"channel:{guild}c1" for guild in GUILDS[:4]]
        await until_true(lambda: all(place in there.levels.documents for place in places))
        await cancel_all([following])


async def test_several_workers_share_the_streams_of_all_nodes(settings: Settings) -> None:
    async with opened(settings) as store, opened(settings) as other, working(store), working(other):
        await store.add([said(guild, number) for guild in GUILDS for number in range(1, 21)])
        assert await store.flush(LIMIT_S)
        assert await other.pending() == 0
        assert await store.lag_s() == 0


# --- what it looks like from outside ---


def test_a_cluster_is_suitable(cluster: Cluster, settings: Settings) -> None:
    assert check_server(cluster.url).search_version >= "2.10"
    checks = list(check_settings_and_server(settings))
    assert {check.health for check in checks} <= {Health.OK, Health.NOTE}
    assert sum(check.name.startswith("redis memory (127.0.0.1:") for check in checks) == 3


def test_a_node_is_not_taken_for_a_single_server(cluster: Cluster) -> None:
    node = f"redis://:{cluster.password}@127.0.0.1:{cluster.nodes[0].port}"
    with pytest.raises(RedisUnsuitableError, match=r"write REDIS_URL as redis\+cluster://127") as error:
        check_server(node)
    assert cluster.password not in str(error.value)


def test_a_single_server_is_not_taken_for_a_cluster(tmp_path: Path) -> None:
    with plain_server(tmp_path) as url, pytest.raises(RedisUnsuitableError, match="write REDIS_URL as redis://"):
        check_server(url.replace("redis://", "redis+cluster://"))


def test_nodes_of_different_versions_are_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["2.10.1", "2.10.1", "2.10.9"])
    monkeypatch.setattr(check, "_suitable", lambda *_: ServerInfo("Redis", "7.4.1", next(answers), "2.8.0"))
    with pytest.raises(RedisUnsuitableError, match=r"nodes differ: .* RediSearch 2\.10\.1, .* RediSearch 2\.10\.9"):
        check_server(cluster.url)


async def test_a_user_with_rights_to_its_own_keys_only_is_enough(cluster: Cluster, settings: Settings) -> None:
    for node in cluster.nodes:
        cluster.ask(node, "ACL", "SETUSER", "bot", "on", ">swordfish", f"~{settings.key_prefix}:*", "&*", "+@all")
    url = cluster.url.replace(f":{cluster.password}@", "bot:swordfish@")
    async with opened(make_settings(url, settings.data_dir, key_prefix=settings.key_prefix)) as store, working(store):
        await store.add([said(guild) for guild in GUILDS])
        assert await store.flush(LIMIT_S)
        assert await found(store, GUILDS[0]) == ["turtles are slow"]


def test_the_script_starts_and_stops_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "mine"
    assert cluster_script.main(["start", "--dir", str(folder), "--masters", "1", "--replicas", "0"]) == 0
    url = capsys.readouterr().out.strip()
    assert check_server(url).search_version >= "2.10"
    assert cluster_script.main(["start", "--dir", str(folder)]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert cluster_script.main(["status", "--dir", str(folder)]) == 0
    assert "1 of 1 nodes run" in capsys.readouterr().out
    nodes = cluster_script.load(folder)
    assert cluster_script.main(["stop", "--dir", str(folder)]) == 0
    assert nodes.running() == []
    assert not folder.exists()
    assert cluster_script.main(["stop", "--dir", str(folder)]) == 1


# --- while a slot moves ---


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


async def test_an_index_that_has_read_a_part_of_the_messages_is_not_believed(
    cluster: Cluster, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    guild = GUILDS[0]
    async with opened(settings) as store, working(store):
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
        with pytest.raises(redis_errors.TryAgainError):
            await redis.hgetall(key)
        async with redis.pipeline(transaction=False) as pipe:
            pipe.hgetall(key)
            with pytest.raises(redis_errors.TryAgainError):
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
