"""The compose file and the Dockerfile keep their promises; no engine is needed to check that."""

import asyncio
import json
import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from containers import REDIS_IMAGE, redis_in_a_container

from bot.metrics import Metrics, StatusServer
from channelmem.embedding.model import prepare
from channelmem.errors import ConfigError
from channelmem.settings import Settings, load_settings

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()

EMBED_WITHOUT = """
import asyncio, json, sys
sys.modules.update(dict.fromkeys(json.loads(sys.argv[1])))
from channelmem.embedding.embed import open_embedder
from channelmem.settings import Settings
embedder = open_embedder(Settings(_env_file=None))
print(asyncio.run(embedder.embed_messages(["a turtle"])).shape, embedder.identity)
embedder.close()
"""


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


@pytest.mark.process
def test_the_compose_file_follows_the_compose_specification() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run(
        [*command, str(ROOT / "docker-compose.yml")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_redis_persists_asks_for_a_password_and_is_checked(compose: dict[str, Any]) -> None:
    redis = compose["services"]["redis"]
    assert "redis-stack" in redis["image"]
    assert "--appendonly yes" in redis["environment"]["REDIS_ARGS"]
    assert "--requirepass ${REDIS_PASSWORD:?" in redis["environment"]["REDIS_ARGS"]
    assert any(mount.endswith(":/data") for mount in redis["volumes"])
    assert "redis-cli ping" in redis["healthcheck"]["test"][1]


def test_only_redis_password_is_needed_to_start_any_part(compose: dict[str, Any]) -> None:
    # docker compose interpolates the whole file, also for `up redis` or another profile.
    text = (ROOT / "docker-compose.yml").read_text()
    assert set(re.findall(r"\$\{(\w+):?\?", text)) == {"REDIS_PASSWORD"}
    assert compose["services"]["bot"]["environment"]["DISCORD_TOKEN"] == "${DISCORD_TOKEN:-}"


@pytest.mark.process
@pytest.mark.parametrize("password", ["sword/fish", "sword#fish", "sword?fish", "sword fish", "sword$fish", "sw%6Frd"])
def test_redis_refuses_a_password_that_its_url_would_change(compose: dict[str, Any], password: str) -> None:
    done = redis_start(compose, password)
    assert done.returncode == 1
    assert done.stderr == "REDIS_PASSWORD may have letters and digits only; make one with: openssl rand -hex 24\n"


@pytest.mark.parametrize("password", ["sword/fish", "sword#fish", "sword?fish"])
def test_a_url_that_compose_made_of_such_a_password_is_refused_with_the_fix(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    for service in ("bot", "service"):
        url = re.sub(r"\$\{REDIS_PASSWORD[^}]*\}", password, compose["services"][service]["environment"]["REDIS_URL"])
        monkeypatch.setenv("REDIS_URL", url)
        with pytest.raises(ConfigError, match=r"set REDIS_PASSWORD to letters and digits only\)$") as error:
            load_settings(_env_file=None)
        assert "fish" not in str(error.value)


@pytest.mark.process
def test_redis_takes_the_password_that_the_example_suggests(compose: dict[str, Any]) -> None:
    done = redis_start(compose, secrets.token_hex(24))
    assert "REDIS_PASSWORD" not in done.stderr
    assert "/entrypoint.sh" in done.stderr  # which only the image has


def redis_start(compose: dict[str, Any], password: str) -> subprocess.CompletedProcess[str]:
    """What the container of Redis runs first, after compose has turned $$ into $."""
    command = [part.replace("$$", "$") for part in compose["services"]["redis"]["entrypoint"]]
    environment = os.environ | {"REDIS_PASSWORD": password}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_tests_use_the_image_of_the_compose_file(compose: dict[str, Any]) -> None:
    assert compose["services"]["redis"]["image"] == f"${{REDIS_IMAGE:-{REDIS_IMAGE}}}"


class EngineWithoutImages(BaseHTTPRequestHandler):
    """The interface of a Docker engine that has no image and reaches no registry."""

    def do_GET(self) -> None:
        if self.path == "/version":
            self.answer(200, {"ApiVersion": "1.41", "Version": "20.10.24"})
        else:
            self.answer(404, {"message": "No such image"})

    def do_POST(self) -> None:
        self.answer(500, {"message": "lookup registry: no such host"})

    def answer(self, status: int, body: dict[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Nothing: nobody reads it."""


def test_an_engine_that_can_pull_nothing_leaves_tests_to_the_embedded_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), EngineWithoutImages) as engine:
        threading.Thread(target=engine.serve_forever, daemon=True).start()
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{engine.server_port}")
        reason = r"^The tests use the embedded server: .* can't start .*no such host"
        with pytest.warns(UserWarning, match=reason), redis_in_a_container() as url:
            assert url is None
        engine.shutdown()


def test_ports_are_published_on_loopback_only(compose: dict[str, Any]) -> None:
    ports = [port for one in compose["services"].values() for port in one.get("ports", ())]
    assert {port.split(":")[-1] for port in ports} == {"6379", "8001", "8410"}
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_bot_waits_for_a_healthy_redis_and_holds_no_secret_of_its_own(compose: dict[str, Any]) -> None:
    bot = compose["services"]["bot"]
    assert bot["depends_on"]["redis"]["condition"] == "service_healthy"
    assert all("${" in value for value in bot["environment"].values())


def test_the_service_waits_for_redis_asks_for_tokens_and_is_checked(compose: dict[str, Any]) -> None:
    service = compose["services"]["service"]
    assert service["depends_on"]["redis"]["condition"] == "service_healthy"
    assert service["command"][0] == "serve"
    assert "--no-auth" not in service["command"]
    assert "/healthz" in service["healthcheck"]["test"][-1]
    assert service["profiles"] == ["service"]  # without a token it would not start


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("exit 1", "none of docker, podman and buildah answers"),
        ('[ "$1" = version ]', "python:3.12-slim is not on this machine; pull it, or set BASE_IMAGE"),
    ],
)
def test_an_image_that_cannot_be_built_is_no_failure_of_ci(tmp_path: Path, program: str, reason: str) -> None:
    for name in ("docker", "podman", "buildah"):
        (tmp_path / name).write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "scripts.test_image", "--if-possible"],
        env=os.environ | {"PATH": str(tmp_path)}, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, f"Image not tested: {reason}.\n", "")


@pytest.mark.process
def test_a_check_of_the_image_that_fails_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "docker").write_text('#!/bin/sh\n[ "$1" = version ] || { echo "no space left" >&2; exit 1; }\n')
    (tmp_path / "docker").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "scripts.test_image", "--base-image", "own", "--json"],
        env=os.environ | {"PATH": str(tmp_path)}, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert not told["ok"]
    assert [(one["name"], one["ok"]) for one in told["checks"]] == [("the image is built", False)]
    assert "no space left" in told["checks"][0]["note"]


def test_the_image_runs_as_an_ordinary_user_with_the_model_inside() -> None:
    lines = DOCKERFILE.splitlines()
    final = lines[max(i for i, line in enumerate(lines) if line.startswith("FROM")) :]
    assert any(line.startswith("USER ") and "root" not in line for line in final)
    assert any("/model /model" in line for line in final)


def test_the_image_installs_no_torch() -> None:
    locks = re.findall(r"requirements/(\w+)\.txt", DOCKERFILE)
    assert {"bot", "service"} <= set(locks)
    for lock in locks:
        assert "\ntorch==" not in (ROOT / "requirements" / f"{lock}.txt").read_text()


@pytest.mark.process
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_prepared_model_runs_without_what_prepared_it(precision: str) -> None:
    prepare(Settings(_env_file=None, embedding_precision=precision))
    environment = os.environ | {"CHANNELMEM_EMBEDDING_PRECISION": precision}
    command = [
        sys.executable,
        "-c",
        EMBED_WITHOUT,
        json.dumps(["onnx", "safetensors", "torch", "sentence_transformers"]),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(1, 384)")
    assert done.stdout.strip().endswith(precision)


def test_the_image_is_built_with_both_precisions() -> None:
    # int8 is made from fp32, which stays beside it in the cache; a first start in the image has nothing to do.
    (export,) = [line for line in DOCKERFILE.splitlines() if "open_embedder" in line]
    assert "CHANNELMEM_EMBEDDING_PRECISION=int8" in export


@pytest.fixture
async def bot_health() -> AsyncIterator[tuple[int, dict[str, bool]]]:
    """The bot's own port, and the state that it tells."""
    health = {"discord": True, "redis": True}

    async def refresh() -> None:
        raise AssertionError("a health check needs no figures")

    status_server = StatusServer(Metrics(), lambda: health, refresh)
    await status_server.start(0, "127.0.0.1")
    yield status_server.port, health
    await status_server.stop()


async def health_check(port: int, folder: Path, command: str = "bot") -> int:
    """The exit status of the image's health check, run as Docker runs it but with this Python and not as process 1."""
    found = re.search(r"^HEALTHCHECK .*?CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert found is not None
    program, *arguments = json.loads(found[1])
    assert program == "python"
    first = folder / "cmdline"
    first.write_bytes(b"\0".join([b"/venv/bin/python", b"/venv/bin/channelmem", command.encode(), b""]))
    assert "/proc/1/cmdline" in arguments[1]
    arguments[1] = arguments[1].replace("/proc/1/cmdline", str(first))
    # A proxy must not be asked about the container's own port.
    environment = os.environ | {"CHANNELMEM_METRICS_PORT": str(port), "http_proxy": "http://127.0.0.1:1"}
    done = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    return await done.wait()


@pytest.mark.process
@pytest.mark.parametrize(
    ("discord", "redis", "status"), [(True, True, 0), (True, False, 0), (False, True, 1), (False, False, 1)]
)
async def test_the_container_is_healthy_while_the_bot_says_so(
    bot_health: tuple[int, dict[str, bool]], tmp_path: Path, discord: bool, redis: bool, status: int
) -> None:
    port, health = bot_health
    health |= {"discord": discord, "redis": redis}
    assert await health_check(port, tmp_path) == status


@pytest.mark.process
async def test_the_container_is_unhealthy_when_nothing_listens_and_the_port_is_not_switched_off(
    tmp_path: Path,
) -> None:
    assert await health_check(1, tmp_path) == 1
    assert await health_check(0, tmp_path) == 0


@pytest.mark.process
async def test_a_container_that_runs_a_worker_is_not_asked_for_the_bots_port(tmp_path: Path) -> None:
    assert await health_check(1, tmp_path, "worker") == 0


def test_the_image_opens_the_port_that_its_health_check_asks() -> None:
    final = DOCKERFILE[DOCKERFILE.rindex("\nFROM") :]
    assert re.search(r"^ENV .*\bCHANNELMEM_METRICS_PORT=[1-9]\d+", final, re.MULTILINE)
