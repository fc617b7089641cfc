"""A real Redis Cluster: every guild's memory lives on one of its nodes, and nobody above the store notices."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest
from clusters import GUILDS, client_of, found, opened, said, working
from conftest import make_settings
from plain_server import plain_server
from waiting import LIMIT_S, until_true

from channelmem.cli.doctor import Health, check_settings_and_server
from channelmem.errors import RedisUnsuitableError
from channelmem.server import check
from channelmem.server.check import ServerInfo, check_server
from channelmem.settings import Settings
from channelmem.tasks import cancel_all
from channelmem.types import Outcome
from scripts import cluster as cluster_script
from scripts.cluster import Cluster


@pytest.fixture
def settings(cluster: Cluster, tmp_path: Path) -> Settings:
    return make_settings(cluster.url, tmp_path, key_prefix=f"c{uuid.uuid4().hex[:12]}")


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
            await here.levels.change(f"channel:{guild}c1", guild, f"{guild}c1", 1, [("context_messages", "9")])
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
    limits = {check.says for check in checks if check.name.startswith("search limits (")}
    assert limits == {"results at most: search 10,000, aggregate 10,000"}, "as Redis Stack's image has them"


def test_a_node_is_not_taken_for_a_single_server(cluster: Cluster) -> None:
    node = f"redis://:{cluster.password}@127.0.0.1:{cluster.nodes[0].port}"
    with pytest.raises(RedisUnsuitableError, match=r"write REDIS_URL as redis\+cluster://127") as error:
        check_server(node)
    assert cluster.password not in str(error.value)


@pytest.mark.process
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


@pytest.mark.process
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
