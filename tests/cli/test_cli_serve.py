"""`channelmem token` and `channelmem serve`, as an operator starts them: processes of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from conftest import CACHE_DIR, CHANNEL, GUILD
from processes import python_path, run, started

from channelmem import Settings

pytestmark = pytest.mark.process

ANYWHERE = "0.0.0.0"  # noqa: S104  (refused)
ASK = {"guild_id": GUILD, "channel_id": CHANNEL, "text": "what did Ann say about turtles?"}


@pytest.fixture
def environment(settings: Settings) -> dict[str, str]:
    assert settings.redis_url is not None
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CHANNELMEM_", "REDIS_"))}
    return kept | {
        "REDIS_URL": settings.redis_url.get_secret_value(),
        "CHANNELMEM_KEY_PREFIX": settings.key_prefix,
        "CHANNELMEM_DATA_DIR": str(settings.data_dir),
        "CHANNELMEM_CACHE_DIR": str(CACHE_DIR),
        "PYTHONPATH": python_path(),
    }


def command(environment: dict[str, str], cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-m", "channelmem", *arguments], timeout_s=60, env=environment, cwd=cwd)


@contextmanager
def service(environment: dict[str, str], cwd: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running `channelmem serve` and its URL."""
    process = [sys.executable, "-m", "channelmem", "serve", "--port", "0", *options]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CHANNELMEM_", "REDIS_"))}
    environment = kept | {"PYTHONPATH": python_path()} | environment
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(process, env=environment, cwd=cwd, text=True, **pipes) as running:
        assert running.stderr is not None
        for line in running.stderr:
            assert "--demo" not in options or "There are no tokens" not in line  # the demo makes one
            if found := re.search(r"Listening on (http://\S+)", line):
                yield running, found[1]
                return
        raise AssertionError(f"it ended with {running.wait()}")


def test_a_token_is_made_listed_used_and_revoked_while_the_service_runs(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with (
        service(environment, tmp_path) as (process, url),
        httpx.Client(base_url=url, trust_env=False, timeout=60) as http,
    ):
        made = command(environment, tmp_path, "token", "add", "bot", "--scopes", "read,write", "--expires", "90d")
        token = made.stdout.strip()
        assert token.startswith("cm_")
        http.headers["Authorization"] = f"Bearer {token}"
        said = {"id": "1", "author_id": "5", "author": "Ann", "content": "turtles are slow"}
        place = {"guild_id": str(GUILD), "channel_id": str(CHANNEL)}
        assert http.post("/v1/messages", json=place | said).status_code == 202
        assert "turtles are slow" in http.post("/v1/ask", json=ASK).json()["text"]
        assert http.get(f"/v1/{token}").status_code == 404
        listed = command(environment, tmp_path, "token", "list")
        assert "bot" in listed.stdout
        assert token.rpartition("_")[2] not in listed.stdout
        assert command(environment, tmp_path, "token", "revoke", "bot").stdout == "Revoked 1 token.\n"
        while http.post("/v1/ask", json=ASK).status_code == 200:
            pass
        assert http.post("/v1/ask", json=ASK).status_code == 401
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert process.returncode in {0, -signal.SIGTERM}
        assert token.rpartition("_")[2] not in out + err


def test_the_options_of_a_token_are_checked_and_shown(environment: dict[str, str], tmp_path: Path) -> None:
    arguments = ("token", "add", "two", "--scopes", "read", "--guild", "5", "--guild", "7", "--json")
    made = json.loads(command(environment, tmp_path, *arguments).stdout)
    assert (made["name"], made["scopes"], made["guilds"], made["expires_at"]) == ("two", ["read"], ["5", "7"], None)
    for wrong, sentence in (
        (("token", "add", "two"), "There is a token 'two' already"),
        (("token", "add", "a b"), "A token's name has"),
        (("token", "add", "x", "--scopes", "root"), "--scopes takes read, write, export and admin"),
        (("token", "add", "x", "--expires", "soon"), "--expires:"),
        (("token", "revoke", "nobody"), "There is no token 'nobody'"),
    ):
        failed = command(environment, tmp_path, *wrong)
        assert (failed.returncode, sentence in failed.stderr) == (1, True), failed.stderr


def test_without_tokens_it_listens_on_loopback_only(environment: dict[str, str], tmp_path: Path) -> None:
    refused = command(environment, tmp_path, "serve", "--host", ANYWHERE, "--port", "0")
    assert refused.returncode == 1
    assert "channelmem token add" in " ".join(refused.stderr.split())
    open_door = command(environment, tmp_path, "serve", "--host", ANYWHERE, "--port", "0", "--no-auth")
    assert open_door.returncode == 1
    assert "loopback only" in " ".join(open_door.stderr.split())


def test_the_demo_prints_a_request_that_works(environment: dict[str, str], tmp_path: Path) -> None:
    with service(environment, tmp_path, "--demo") as (process, _):
        assert process.stdout is not None
        text = ""
        while "reptiles" not in text:
            text += process.stdout.readline()
        token = re.search(r"TOKEN=(\S+)", text)
        url = re.search(r"curl -s (\S+)", text)
        body = re.search(r"-d '(.*)'", text)
        assert token
        assert url
        assert body
        headers = {"Authorization": f"Bearer {token[1]}"}
        answer = httpx.post(url[1], headers=headers, json=json.loads(body[1]), trust_env=False, timeout=60).json()
        assert "turtles" in answer["text"]


def test_help_teaches_by_example(environment: dict[str, str], tmp_path: Path) -> None:
    for arguments in (("serve", "--help"), ("token", "--help"), ("token", "add", "--help")):
        shown = command(environment, tmp_path, *arguments).stdout
        assert "Examples:" in shown
        assert "channelmem token add" in shown
