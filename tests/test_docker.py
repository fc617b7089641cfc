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
    ports = compose["services"]["redis"]["ports"]
    assert {port.split(":")[-1] for port in ports} == {"6379", "8001"}
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_bot_waits_for_a_healthy_redis_and_holds_no_secret_of_its_own(compose: dict[str, Any]) -> None:
    bot = compose["services"]["bot"]
    assert bot["depends_on"]["redis"]["condition"] == "service_healthy"
    assert all("${" in value for value in bot["environment"].values())


def test_the_image_runs_as_an_ordinary_user_with_the_model_inside() -> None:
    lines = DOCKERFILE.splitlines()
    final = lines[max(i for i, line in enumerate(lines) if line.startswith("FROM")) :]
    assert any(line.startswith("USER ") and "root" not in line for line in final)
    assert any("/model /model" in line for line in final)


FREEZE = """\
cuda-bindings==13.0.3
nvidia-cublas==13.1.0.3
nvidia-cudnn-cu13==9.19.0.56
onnx==1.20.0
onnxruntime==1.31.1
redis==6.4.0
sentence-transformers==5.1.2
tokenizers==0.22.1
torch @ file:///wheels/torch-2.13.0-cp312-cp312-linux_x86_64.whl
transformers==4.57.1
triton==3.5.0
"""


def test_what_only_the_export_needs_is_uninstalled_and_nothing_else() -> None:
    found = re.search(r"pip freeze (\| .*?)\| xargs", DOCKERFILE, re.DOTALL)
    assert found is not None
    command = f"cat {found[1]}".replace("\\\n", "")
    done = subprocess.run(["/bin/sh", "-c", command], input=FREEZE, capture_output=True, text=True, check=True)
    kept = {"onnxruntime", "redis", "tokenizers"}
    names = {re.split("[= ]", line)[0] for line in FREEZE.splitlines()}
    assert set(done.stdout.split()) == names - kept


def uninstalled() -> list[str]:
    """The modules that the image does without, by the names that Python imports them with."""
    found = re.search(r"grep -iE '\^\(([^)]*)\)", DOCKERFILE)
    assert found is not None
    return ["sklearn", *(name.replace("-", "_") for name in found[1].split("|"))]


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_exports_of_the_image_run_without_what_it_uninstalls(precision: str) -> None:
    prepare(Settings(_env_file=None, embedding_precision=precision))
    environment = os.environ | {"CHANNELMEM_EMBEDDING_PRECISION": precision}
    command = [sys.executable, "-c", EMBED_WITHOUT, json.dumps(uninstalled())]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(1, 384)")
    assert done.stdout.strip().endswith(precision)


def test_the_image_is_built_with_both_precisions() -> None:
    # int8 is made from fp32, which stays beside it in the cache; nothing in the image could make it later.
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


@pytest.mark.parametrize(
    ("discord", "redis", "status"), [(True, True, 0), (True, False, 0), (False, True, 1), (False, False, 1)]
)
async def test_the_container_is_healthy_while_the_bot_says_so(
    bot_health: tuple[int, dict[str, bool]], tmp_path: Path, discord: bool, redis: bool, status: int
) -> None:
    port, health = bot_health
    health |= {"discord": discord, "redis": redis}
    assert await health_check(port, tmp_path) == status


async def test_the_container_is_unhealthy_when_nothing_listens_and_the_port_is_not_switched_off(
    tmp_path: Path,
) -> None:
    assert await health_check(1, tmp_path) == 1
    assert await health_check(0, tmp_path) == 0


async def test_a_container_that_runs_a_worker_is_not_asked_for_the_bots_port(tmp_path: Path) -> None:
    assert await health_check(1, tmp_path, "worker") == 0


def test_the_image_opens_the_port_that_its_health_check_asks() -> None:
    final = DOCKERFILE[DOCKERFILE.rindex("\nFROM") :]
    assert re.search(r"^ENV .*\bCHANNELMEM_METRICS_PORT=[1-9]\d+", final, re.MULTILINE)
