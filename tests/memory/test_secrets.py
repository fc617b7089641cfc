"""Secrets: a mistake in one is a plain sentence everywhere, and no part of it is ever shown, not even by libraries."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from processes import run as run_process
from pydantic import SecretStr, ValidationError

from bot.client import configure_logging
from channelmem.errors import ConfigError, RedisUnavailableError
from channelmem.secrets import check_redis_url
from channelmem.server.check import check_server
from channelmem.settings import Settings, hide, load_settings
from channelmem.store.redis import connect

PARTS = ("hunter", "swordfish", "4711")
MALFORMED = {
    "no scheme": "localhost:6379",
    "no scheme, with a password": "hunter:swordfish@localhost:6379",
    "another scheme": "http://:swordfish@localhost:6379",
    "a port in letters": "redis://:swordfish@localhost:abc",
    "a port too high": "redis://:swordfish@localhost:99999",
    "# in the password": "redis://:hunter#swordfish@localhost:6379/0",
    "# after digits": "redis://hunter:4711#swordfish@localhost:6379/0",
    "/ in the password": "redis://:hunter/swordfish@localhost:6379/0",
    "/ after digits": "redis://:4711/swordfish@localhost:6379/0",
    "? in the password": "redis://:hunter?swordfish@localhost:6379/0",
    "[ in the password": "redis://:hunter[swordfish@localhost:6379/0",
    "a database in letters": "redis://:swordfish@localhost:6379/hunter",
    "a line break": "redis://:hunter\nswordfish@localhost:6379/0",
    "a socket without a path": "unix://:swordfish@",
    "a cluster without a host": "redis+cluster://:swordfish@",
    "a cluster's host left empty": "redis+cluster://:swordfish@localhost:7000,/0",
    "a database of a cluster": "redis+cluster://:swordfish@localhost:7000/2",
    "a cluster's port in letters": "rediss+cluster://:swordfish@localhost:7000,localhost:abc",
    "# in a cluster's password": "redis+cluster://:hunter#swordfish@localhost:7000,localhost:7001",
    "/ in a cluster's password": "redis+cluster://:4711/swordfish@localhost:7000,localhost:7001",
}
FINE = [
    "redis://localhost",
    "redis://localhost:6379/0",
    "rediss://user:p%23ss%2Fword@redis.example.com:6380/2?ssl_cert_reqs=none",
    "redis://:p@ss@127.0.0.1:1/0",
    "redis://[::1]:6379",
    "redis+cluster://localhost:7000",
    "redis+cluster://:p@s,s@127.0.0.1:7000,127.0.0.1:7001/0",
    "rediss+cluster://user:p%23ss@a.example.com:7000,[::1]:7001,c.example.com/?ssl_cert_reqs=none",
    "unix:///tmp/redis.sock",
    "unix://user:pass@/tmp/redis.sock?db=1",
]


def show_no_part(text: str) -> bool:
    return not any(part in text for part in PARTS)


def run(*arguments: str, cwd: Path, **environment: str) -> tuple[int, str]:
    known = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
    done = run_process(
        [sys.executable, "-m", *arguments], env={**known, "NO_COLOR": "1", **environment}, cwd=cwd, timeout_s=120
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("url", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_url_is_one_sentence_without_its_password(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", url)
    with pytest.raises(ConfigError, match=r"^REDIS_URL is not a valid Redis URL; ") as error:
        load_settings()
    with pytest.raises(ConfigError, match=r"^REDIS_URL is not a valid Redis URL; ") as checked:
        check_server(url)
    with pytest.raises(ConfigError, match=r"^REDIS_URL is not a valid Redis URL; ") as connected:
        connect(url, Settings(_env_file=None, redis_url=None))
    assert all(show_no_part(str(one.value)) for one in (error, checked, connected))


@pytest.mark.parametrize("url", MALFORMED.values(), ids=MALFORMED)
def test_not_even_the_error_behind_it_shows_the_password(url: str) -> None:
    with pytest.raises(ValidationError) as error:
        Settings(_env_file=None, redis_url=SecretStr(url))
    assert show_no_part(str(error.value))
    with pytest.raises(ConfigError) as ours:
        load_settings(redis_url=url)
    assert show_no_part(repr(ours.value.__cause__))


@pytest.mark.parametrize("url", FINE)
def test_a_proper_url_is_accepted(url: str) -> None:
    check_redis_url(url)
    settings = Settings(_env_file=None, redis_url=SecretStr(url))
    connect(url, settings)


@pytest.mark.parametrize("option", ["foo=bar", "socket_timeout=soon", "ssl_cert_reqs=maybe"])
def test_an_unknown_option_of_a_url_is_one_sentence(option: str) -> None:
    with pytest.raises(ConfigError, match="REDIS_URL is not a valid Redis URL"):
        connect(f"rediss://:swordfish@localhost/0?{option}", Settings(_env_file=None, redis_url=None))
    with pytest.raises(ConfigError, match="REDIS_URL is not a valid Redis URL"):
        check_server(f"rediss://:swordfish@localhost/0?{option}")


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [
        ["channelmem", "demo"],
        ["channelmem", "chat"],
        ["channelmem", "doctor"],
        ["channelmem", "inspect"],
        ["channelmem", "settings", "show"],
        ["channelmem", "redis", "cli", "PING"],
        ["channelmem", "redis", "url"],
        ["channelmem", "worker"],
        ["channelmem", "reindex"],
        ["channelmem", "bot"],
        ["bot"],
    ],
    ids=" ".join,
)
def test_every_command_and_the_bot_say_that_sentence_and_nothing_else(command: list[str], tmp_path: Path) -> None:
    status, said = run(*command, cwd=tmp_path, REDIS_URL=MALFORMED["# after digits"], DISCORD_TOKEN="x.y.z")
    assert status == 1
    assert "REDIS_URL is not a valid Redis URL; " in said
    assert "Traceback" not in said
    assert show_no_part(said)


@pytest.mark.parametrize("name", ["DISCORD_TOKEN", "CHANNELMEM_LLM_API_KEY"])
@pytest.mark.parametrize("value", ["hunter\nswordfish", "hunter swordfish", "hunter\x1bswordfish", "hünter-swordfish"])
def test_a_token_that_no_header_can_carry_is_one_sentence(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"^{name} is not valid: .*copy it again") as error:
        load_settings()
    assert show_no_part(str(error.value))


def test_the_line_break_at_the_end_of_a_copied_token_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCORD_TOKEN", " a.b.c\n")
    assert load_settings().discord_token == SecretStr("a.b.c")


def test_a_file_of_settings_in_another_encoding_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_bytes("DISCORD_TOKEN=hünter".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"^\.env is not valid UTF-8; "):
        load_settings()


@pytest.fixture
def echoing() -> Iterator[int]:
    """A server that knows no AUTH and, like Redis, quotes the arguments of an unknown command."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            try:
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(4096)
                        connection.sendall(b"-ERR unknown command 'AUTH', with args beginning with: 'sword/fish' \r\n")
            except OSError:
                return

        thread = threading.Thread(target=answer)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_server_that_quotes_the_password_is_not_quoted(echoing: int) -> None:
    with pytest.raises(RedisUnavailableError) as error:
        check_server(f"redis://:sword%2Ffish@127.0.0.1:{echoing}/0")
    assert "unknown command" in str(error.value)
    assert "sword/fish" not in str(error.value)
    assert "sword%2Ffish" not in str(error.value)


def test_no_secret_of_the_settings_survives_hiding() -> None:
    settings = Settings(
        _env_file=None,
        redis_url=SecretStr("redis://:sword%2Ffish@localhost/0"),
        discord_token=SecretStr("hunter.token"),
        llm_api_key=SecretStr("sk-4711"),
    )
    said = "AUTH sword/fish, sword%2Ffish, Bot hunter.token, Bearer sk-4711, http://me:pass@proxy:80/x"
    assert hide(said, settings) == (
        "AUTH ********, ********, Bot ********, Bearer ********, http://********@proxy:80/x"
    )


@pytest.mark.parametrize("as_json", [True, False])
def test_no_log_line_of_a_library_shows_a_secret(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        secrets = {"redis_url": SecretStr("redis://:sword%2Ffish@h/0"), "discord_token": SecretStr("hunter.token")}
        configure_logging(Settings(_env_file=None, log_json=as_json, **secrets))  # type: ignore[arg-type]
        failed = ValueError("unexpected reply to AUTH sword/fish")
        logging.getLogger("redis").error("header %s", "Bot hunter.token", exc_info=failed)
        written = capsys.readouterr().err
    finally:
        root.handlers[:], root.level = handlers, level
        structlog.reset_defaults()
    assert "unexpected reply" in written
    assert "hunter" not in written
    assert "sword" not in written
