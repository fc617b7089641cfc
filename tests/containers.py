"""Redis Stack in a container, where a Docker engine answers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import docker  # type: ignore[import-untyped]
import redis
from docker.errors import DockerException  # type: ignore[import-untyped]
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from requests import RequestException
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

REDIS_IMAGE = "redis/redis-stack:7.4.0-v3"
"""As in docker-compose.yml; a test compares."""
# One more image to pull, which would only remove what a killed run leaves.
testcontainers_config.ryuk_disabled = True


@contextmanager
def redis_in_a_container() -> Iterator[str | None]:
    container = _started() if _engine_answers() else None
    if container is None:
        yield None
        return
    try:
        url = f"redis://{container.get_container_host_ip()}:{container.get_exposed_port(6379)}/0"
        _await(url)
        yield url
    finally:
        container.stop()


def _engine_answers() -> bool:
    with suppress(DockerException):
        docker.from_env(timeout=2).close()
        return True
    return False


def _started() -> DockerContainer | None:
    container = DockerContainer(REDIS_IMAGE).with_exposed_ports(6379)
    try:
        return container.start()
    except (DockerException, RequestException) as error:
        reason = str(error).strip().splitlines()[-1]
        warnings.warn(f"The tests use the embedded server: Docker can't start {REDIS_IMAGE} ({reason})", stacklevel=2)
        with suppress(DockerException, RequestException):
            container.stop()
        return None


def _await(url: str) -> None:
    busy = [redis.ConnectionError, redis.BusyLoadingError]
    with redis.Redis.from_url(url, retry=Retry(ConstantBackoff(0.1), 300), retry_on_error=busy) as client:
        client.ping()
