"""The compose file and the Dockerfile keep their promises; no engine is needed to check that."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent


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
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    final = lines[max(i for i, line in enumerate(lines) if line.startswith("FROM")) :]
    assert any(line.startswith("USER ") and "root" not in line for line in final)
    assert any("/model /model" in line for line in final)
