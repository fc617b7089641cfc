"""`channelmem doctor`: each check passes or says how to fix it; scripts read the exit status."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from conftest import OwnServer
from plain_server import plain_server
from pydantic import SecretStr
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from typer.testing import CliRunner
from waiting import until

from channelmem.cli import app
from channelmem.cli.doctor import Health, check_discord, check_machine, check_model
from channelmem.embedding.model import find_source
from channelmem.settings import Settings


@pytest.fixture(autouse=True)
def _enough_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """How much memory and disk the machine has left is not under test."""
    monkeypatch.setattr("channelmem.cli.doctor.MEMORY_FREE", 0)
    monkeypatch.setattr("channelmem.cli.doctor.DISK_FREE", 0)


def doctor(*options: str, **env: str) -> tuple[int, list[dict[str, str]]]:
    # A busy machine must not look like a Redis that does not answer.
    done = CliRunner().invoke(app, ["doctor", "--json", *options], env={"CHANNELMEM_REDIS_TIMEOUT_S": "60", **env})
    rows: list[dict[str, str]] = json.loads(done.stdout)
    return done.exit_code, rows


def health_of(rows: list[dict[str, str]], name: str) -> str:
    return next(row["health"] for row in rows if row["name"] == name)


@pytest.mark.usefixtures("real_time")
def test_a_healthy_machine_passes(redis_url: str, tmp_path: Path) -> None:
    status, rows = doctor(REDIS_URL=redis_url, CHANNELMEM_DATA_DIR=str(tmp_path), CHANNELMEM_KEY_PREFIX="nobody")
    assert status == 0
    assert {row["health"] for row in rows} <= {"ok", "note"}
    asked = {"server", "index", "search limits", "clock", "persistence", "redis memory", "model", "token", "memory"}
    assert asked <= {row["name"] for row in rows}
    limits = next(row["says"] for row in rows if row["name"] == "search limits")
    assert limits == "results at most: search 10,000, aggregate 10,000", "as Redis Stack's image has them"


@pytest.mark.usefixtures("real_time")
def test_data_that_would_load_for_long_is_noted(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"REDIS_URL": redis_url, "CHANNELMEM_DATA_DIR": str(tmp_path), "CHANNELMEM_KEY_PREFIX": "nobody"}
    status, rows = doctor(**place)
    assert (status, health_of(rows, "restart")) == (0, "ok")
    monkeypatch.setattr("channelmem.cli.doctor.MESSAGE_BYTES", 1)
    status, rows = doctor(**place)
    assert (status, health_of(rows, "restart")) == (0, "note")
    says = next(row["says"] for row in rows if row["name"] == "restart")
    assert "CHANNELMEM_INDEX_ALGORITHM=flat" in says


def found(server: OwnServer, name: str) -> tuple[str, str]:
    _, rows = doctor(REDIS_URL=server.url)
    return next((row["health"], row["says"]) for row in rows if row["name"] == name)


@pytest.mark.process
def test_a_server_that_returns_too_few_results_is_said_with_the_fix(own_server: OwnServer) -> None:
    assert found(own_server, "search limits") == ("ok", "results at most: search 10,000, aggregate 10,000")
    with Redis.from_url(own_server.url) as redis:
        redis.execute_command("FT.CONFIG", "SET", "MAXSEARCHRESULTS", "9999")
    health, says = found(own_server, "search limits")
    assert (health, "set MAXSEARCHRESULTS to 10000" in says) == ("bad", True)
    with Redis.from_url(own_server.url) as redis:
        redis.execute_command("FT.CONFIG", "SET", "MAXSEARCHRESULTS", "1000000")
    assert found(own_server, "search limits") == ("ok", "results at most: search 1,000,000, aggregate 10,000")


@pytest.mark.process
def test_how_a_server_saves_is_said(own_server: OwnServer) -> None:
    with Redis.from_url(own_server.url) as redis:
        health, says = found(own_server, "persistence")
        assert (health, says.startswith("append-only file, last write ok; last snapshot ")) == ("ok", True)
        redis.config_set("appendonly", "no")
        assert found(own_server, "persistence")[0] == "bad"
        redis.config_set("save", "3600 1")
        health, says = found(own_server, "persistence")
    assert (health, "snapshots only" in says, "appendonly" in says) == ("note", True, True)


@pytest.mark.process
async def test_a_snapshot_that_failed_is_said(own_server: OwnServer) -> None:
    (own_server.folder / "dump.rdb").mkdir()
    async with AsyncRedis.from_url(own_server.url) as redis:
        await redis.bgsave()

        async def failed() -> bool:
            return bool((await redis.info("persistence"))["rdb_last_bgsave_status"] == "err")

        await until(failed)
    health, says = await asyncio.to_thread(found, own_server, "persistence")
    assert (health, "the last snapshot failed" in says) == ("bad", True)


@pytest.mark.process
def test_the_memory_that_is_left_to_a_server_is_said(own_server: OwnServer, monkeypatch: pytest.MonkeyPatch) -> None:
    health, says = found(own_server, "redis memory")
    assert (health, "no maxmemory, host " in says) == ("ok", True)
    with Redis.from_url(own_server.url) as redis:
        redis.config_set("maxmemory", str(2**30))
        health, says = found(own_server, "redis memory")
        assert (health, " left of maxmemory 1,024 MB, host " in says) == ("ok", True)
        redis.config_set("maxmemory", "1")
        assert "raise maxmemory" in found(own_server, "redis memory")[1]
        redis.config_set("maxmemory", str(2**60))
        assert "exceeds the host's" in found(own_server, "redis memory")[1]
        redis.config_set("maxmemory-policy", "allkeys-lru")
        assert "set maxmemory-policy to noeviction" in found(own_server, "redis memory")[1]
        redis.config_set("maxmemory", "0")
    monkeypatch.setattr("channelmem.cli.doctor.FULL_SHARE", 0)
    health, says = found(own_server, "redis memory")
    assert (health, "takes up almost all of its host's" in says) == ("bad", True)


@pytest.mark.usefixtures("real_time")
def test_a_misspelt_setting_is_noted_without_its_value_and_is_no_failure(redis_url: str, tmp_path: Path) -> None:
    status, rows = doctor(REDIS_URL=redis_url, CHANNELMEM_DATA_DIR=str(tmp_path), CHANNELMEM_MAX_MESAGES="4321")
    notes = [row["says"] for row in rows if row["name"] == "settings" and row["health"] == "note"]
    assert status == 0
    assert notes == ["CHANNELMEM_MAX_MESAGES is not a setting and is ignored; did you mean CHANNELMEM_MAX_MESSAGES?"]


@pytest.mark.process
def test_a_server_without_the_search_module_is_named_in_one_sentence(tmp_path: Path) -> None:
    with plain_server(tmp_path) as url:
        status, rows = doctor(REDIS_URL=url)
        shown = CliRunner().invoke(app, ["doctor", "--quiet"], env={"REDIS_URL": url})
    assert status == 1
    assert health_of(rows, "server") == "bad"
    says = next(row["says"] for row in rows if row["name"] == "server")
    assert "without the search module" in says
    assert says.count(". ") == 0
    assert [line for line in shown.stdout.splitlines() if line.startswith("BAD")] == shown.stdout.splitlines()


def test_a_server_that_does_not_answer_hides_no_other_check() -> None:
    status, rows = doctor(REDIS_URL="redis://127.0.0.1:1/0")
    assert status == 1
    assert health_of(rows, "server") == "bad"
    assert health_of(rows, "memory") == "ok"


def test_a_missing_model_is_said_with_its_path(tmp_path: Path) -> None:
    check = check_model(Settings(embedding_model=str(tmp_path / "nowhere"), cache_dir=tmp_path))
    assert check.health is Health.BAD
    assert "nowhere" in check.says


def test_a_model_that_was_never_exported_is_no_failure(tmp_path: Path) -> None:
    assert check_model(Settings(cache_dir=tmp_path)).health is Health.NOTE


def test_a_damaged_export_is_not_said_to_be_missing_for_sure(tmp_path: Path) -> None:
    settings = Settings(cache_dir=tmp_path)
    entry = tmp_path / "models" / find_source(settings).identity("fp32")
    entry.mkdir(parents=True)
    (entry / "manifest.json").write_text("{")
    check = check_model(settings)
    assert check.health is Health.NOTE
    assert "not exported yet or is damaged; the next start exports it" in check.says


def test_disks_are_looked_at_where_the_folders_will_be(tmp_path: Path) -> None:
    checks = {check.name: check for check in check_machine(Settings(data_dir=tmp_path / "a" / "b", cache_dir=tmp_path))}
    assert str(tmp_path / "a" / "b") in checks["disk (data)"].says
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["/proc/nope", "/dev/null/nope", "/tmp/" + "x" * 300])  # noqa: S108  (never made)
def test_a_folder_that_cannot_be_made_is_not_called_full(tmp_path: Path, folder: str) -> None:
    checks = {check.name: check for check in check_machine(Settings(data_dir=folder, cache_dir=tmp_path))}
    assert checks["disk (data)"].health is Health.BAD
    assert f"{folder} cannot be created" in checks["disk (data)"].says
    assert "CHANNELMEM_DATA_DIR" in checks["disk (data)"].says
    assert "free" not in checks["disk (data)"].says
    assert checks["disk (cache)"].health is Health.OK


def test_a_folder_that_is_there_but_not_writable_is_said(tmp_path: Path) -> None:
    checks = {check.name: check for check in check_machine(Settings(data_dir=tmp_path, cache_dir="/dev/null"))}
    assert checks["disk (cache)"].health is Health.BAD
    assert "/dev/null is not writable" in checks["disk (cache)"].says
    assert "CHANNELMEM_CACHE_DIR" in checks["disk (cache)"].says


@pytest.fixture
async def discord_api() -> AsyncIterator[tuple[str, dict[str, object]]]:
    """A loopback that answers the one request of doctor with what the test puts into the dictionary."""
    reply: dict[str, object] = {"status": 200, "flags": 1 << 19}

    async def application(request: web.Request) -> web.Response:
        reply["token"] = request.headers["Authorization"]
        status = reply["status"]
        assert isinstance(status, int)
        return web.json_response({"flags": reply["flags"]}, status=status)

    server = web.Application()
    server.router.add_get("/applications/@me", application)
    runner = web.AppRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield site.name, reply
    await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "flags", "name", "health"),
    [
        (200, 1 << 19, "intents", Health.OK),
        (200, 0, "intents", Health.BAD),
        (401, 0, "token", Health.BAD),
        (503, 0, "token", Health.BAD),
    ],
)
async def test_token_and_intents_are_asked_of_discord(
    discord_api: tuple[str, dict[str, object]], status: int, flags: int, name: str, health: Health
) -> None:
    url, reply = discord_api
    reply |= {"status": status, "flags": flags}
    found = await check_discord(Settings(discord_token=SecretStr("t0ken"), discord_api_base=url))
    checks = {check.name: check for check in found}
    assert checks[name].health is health
    assert reply["token"] == "Bot t0ken"
    assert all("t0ken" not in check.says for check in checks.values())


async def test_an_unreachable_discord_is_said() -> None:
    found = list(await check_discord(Settings(discord_token=SecretStr("x"), discord_api_base="http://127.0.0.1:1")))
    assert found[0].health is Health.BAD
    assert "could not reach Discord" in found[0].says
