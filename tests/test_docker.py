"""The compose file and the Dockerfile keep their promises; no engine is needed to check that."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.ops.metrics import Metrics
from bot.ops.status_server import StatusServer
from channelmem.embedding.model import prepare
from channelmem.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
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


def test_the_image_runs_as_an_ordinary_user_with_the_model_inside() -> None:
    lines = DOCKERFILE.splitlines()
    final = lines[max(i for i, line in enumerate(lines) if line.startswith("FROM")) :]
    assert any(line.startswith("USER ") and "root" not in line for line in final)
    assert any("/model /model" in line for line in final)


def test_the_image_installs_no_torch() -> None:
    (installed,) = [line for line in DOCKERFILE.splitlines() if "pip install" in line]
    assert "'.[discord,llm,media,service]'" in installed
    assert "torch==" not in DOCKERFILE


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
