"""`channelmem redis` as people run it: real processes, a real server, exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from processes import run as run_process

from channelmem.cli import redis as cli_redis
from channelmem.server import lease as server
from channelmem.settings import Settings

pytestmark = pytest.mark.process

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    settings = Settings(data_dir=tmp_path / "data", embedded_grace_s=0.2, redis_url=None)
    yield settings
    server.stop(settings)


@pytest.fixture
def run(settings: Settings, tmp_path: Path) -> Run:
    environment = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
    environment |= {"CHANNELMEM_DATA_DIR": str(settings.data_dir), "CHANNELMEM_EMBEDDED_GRACE_S": "0.2"}
    environment |= {"CHANNELMEM_REDIS_TIMEOUT_S": "60"}  # a busy machine must not look like a dead server

    def run(*arguments: str, typed: str = "", **extra: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "channelmem.cli", "redis", *arguments]
        return run_process(command, stdin=typed, env=environment | extra, cwd=tmp_path, timeout_s=300)

    return run


def words(text: str) -> str:
    """The terminal wraps sentences anywhere."""
    return " ".join(text.split())


def test_start_keeps_the_server_until_stop(run: Run, settings: Settings) -> None:
    started = run("start")
    assert started.returncode == 0, started.stderr
    assert json.loads(run("status", "--json").stdout)["port"] is None
    for arguments in (["url"], ["url", "--socket"]):
        with redis.Redis.from_url(run(*arguments).stdout.strip()) as client:
            assert client.ping()
    report = json.loads(run("status", "--json").stdout)
    assert report["port"] > 0
    assert (report["running"], report["kept"], report["users"]) == (True, True, [])
    assert report["search"].startswith("2.1")
    assert run("stop").returncode == 0
    assert server.running(settings) is None


def test_status_shows_no_password(run: Run, settings: Settings) -> None:
    with server.lease(settings) as leased:
        password = leased.url.split("@")[0].rpartition(":")[2]
        for arguments in (["status"], ["status", "--json"]):
            shown = run(*arguments)
            assert shown.returncode == 0
            assert "redis.sock" in shown.stdout
            assert password not in shown.stdout


def test_everything_says_so_when_nothing_runs(run: Run) -> None:
    for arguments in (["status"], ["url"], ["cli", "PING"]):
        done = run(*arguments)
        assert done.returncode == 1
        assert "The embedded server is not running; start it" in words(done.stdout + done.stderr)
    done = run("status", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (1, {"running": False})
    stopped = run("stop")
    assert (stopped.returncode, stopped.stdout) == (0, "The embedded server was not running.\n")


def test_stop_refuses_while_it_is_used_and_says_by_whom(run: Run, settings: Settings) -> None:
    with server.lease(settings) as leased:
        refused = run("stop")
        assert refused.returncode == 1
        assert f"in use by process {os.getpid()}" in words(refused.stderr)
        assert "--force" in refused.stderr
        with redis.Redis.from_url(leased.url) as client:
            assert client.ping()
        assert run("stop", "--force").returncode == 0
        assert server.running(settings) is None


def test_cli_passes_a_command_and_its_error_through(run: Run, settings: Settings) -> None:
    with server.lease(settings):
        assert run("cli", "SET", "turtles", "green and slow").returncode == 0
        assert "green and slow" in run("cli", "GET", "turtles").stdout
        assert run("cli", "FT._LIST").returncode == 0
        assert "unknown command" in run("cli", "NOSUCH").stdout


def test_cli_prefers_a_client_that_works_and_keeps_the_password_off_its_command_line(
    run: Run, settings: Settings, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "redis-cli"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "arguments: $*"\necho "password: $REDISCLI_AUTH"\n')
    program.chmod(0o700)
    with server.lease(settings) as leased:
        shown = run("cli", "FT.SEARCH", "idx", "*", PATH=f"{program.parent}:{os.environ['PATH']}").stdout
        password = leased.url.split("@")[0].rpartition(":")[2]
    options = f"-s {leased.data_dir / 'redis.sock'} --user channelmem -n 0"
    assert shown == f"arguments: {options} FT.SEARCH idx *\npassword: {password}\n"


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("redis://:secret@127.0.0.1:1/0", "Redis at 127.0.0.1:1 does not answer"),
        ("redis+cluster://:secret@127.0.0.1:1,127.0.0.1:2", "Redis at 127.0.0.1:2 does not answer"),
        ("redis+cluster://:secret@127.0.0.1:abc", "REDIS_URL is not a valid Redis URL"),
        ("redis://:secret@127.0.0.1:abc", "REDIS_URL is not a valid Redis URL"),
    ],
)
def test_cli_says_in_one_sentence_that_the_configured_redis_cannot_be_reached(
    run: Run, address: str, sentence: str
) -> None:
    done = run("cli", "PING", REDIS_URL=address)
    assert done.returncode == 1
    assert sentence in words(done.stderr)
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr


def test_our_own_prompt_survives_a_server_that_went_away(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["PING", "PING", ""])
    monkeypatch.setattr("builtins.input", lambda _: next(typed))
    with server.lease(settings) as leased:
        client = redis.Redis.from_url(leased.url, protocol=2, decode_responses=True)
        assert cli_redis._say(client, ["PING"]) == 0
        server.stop(settings)
        cli_redis._prompt(client)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "PONG"
    assert [line[:8] for line in lines[2:]] == ["(error) ", "(error) "]


def test_our_own_prompt_reads_quotes_and_survives_mistakes(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(['SET t "green and slow"', "NOSUCH", 'GET "t', "GET t", ""])
    monkeypatch.setattr("builtins.input", lambda _: next(typed))
    with (
        server.lease(settings) as leased,
        redis.Redis.from_url(leased.url, protocol=2, decode_responses=True) as client,
    ):
        cli_redis._prompt(client)
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines[0] == "OK"
    assert lines[1].startswith("(error) unknown command")
    assert lines[2] == "(error) No closing quotation"
    assert lines[3] == "green and slow"


def test_replies_are_numbered_as_in_redis_cli() -> None:
    reply = [1, "cm:{0}:msg:10:100", ["content", "It's turtles.", "author", None], []]
    assert cli_redis._formatted(reply).splitlines() == [
        "1) (integer) 1",
        '2) "cm:{0}:msg:10:100"',
        '3) 1) "content"',
        '   2) "It\'s turtles."',
        '   3) "author"',
        "   4) (nil)",
        "4) (empty array)",
    ]


def test_url_prints_the_configured_redis_where_one_is_set(run: Run) -> None:
    assert run("url", REDIS_URL="redis://:pw@elsewhere:6379/1").stdout == "redis://:pw@elsewhere:6379/1\n"
