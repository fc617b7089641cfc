"""Fixtures on real Redis, never a fake: a container where a Docker engine can start one, else the embedded server.

One server per run (all xdist workers join it) and a key prefix of its own for every test. `own_server` is for
tests that kill, restart or flush; process_guard.py gives them the marker `process`. `fake_embedder` is deterministic
and quick, `embedder` is the real model. A run fails if one of its processes outlives it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs
import process_guard
import pytest
import redis as sync_redis
from clock import begin_test, pause, to_real_time
from containers import redis_in_a_container
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from processes import begin_run, end_group, leftovers, quiet_port
from pydantic import SecretStr
from redis.asyncio import Redis

from channelmem.embedding.embed import Embedder, open_embedder
from channelmem.ingest.worker import Worker
from channelmem.secrets import node_urls
from channelmem.server.lease import Candidate, candidates, lease
from channelmem.server.supervisor import ask, loaded
from channelmem.settings import Settings
from channelmem.store.redis import connect
from channelmem.store.search import Search
from channelmem.store.store import Store
from channelmem.tasks import cancel_all
from channelmem.types import Message
from scripts.chromium import MISSING
from scripts.cluster import Cluster
from scripts.cluster import start as start_cluster
from scripts.fake_embedder import FakeEmbedder as FakeEmbedder  # noqa: PLC0414  (for tests, which import it from here)

# How long an example takes says something about the machine, nothing about the code. The same examples in every run, so
# that nothing fails by chance; `--hypothesis-profile=random` draws others, and more.
hypothesis_settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.register_profile(
    "same", hypothesis_settings.get_profile("random"), derandomize=True, database=None, max_examples=30
)
hypothesis_settings.load_profile("same")

CACHE_DIR = platformdirs.user_cache_path("channelmem")
GUILD = 811_111_102_199_889_920
"""In bucket 0 for any power of two, so tests that look into Redis find it there on a cluster too."""
CHANNEL = 922_222_222_222_222_222
NOW = 1_800_000_000.0


LEFT_BEHIND = pytest.StashKey[list[str]]()
LEFT_BEHIND_STATUS = 6
"""Not the status of failed tests: running those again would not help."""


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(process_guard)
    if not hasattr(config, "workerinput"):  # xdist workers inherit the id of their controller
        begin_run()


def pytest_xdist_auto_num_workers() -> int:
    """Tests mostly wait, for Redis, sockets and each other: two workers per core take two thirds of the time of one."""
    return 2 * len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2 * (os.cpu_count() or 1)


@pytest.hookimpl(tryfirst=True)  # before its fixtures
def pytest_runtest_setup() -> None:
    begin_test()


@pytest.hookimpl(trylast=True)  # after xdist has ended its workers
def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        # The shared server stops a moment after its last lease.
        session.config.stash[LEFT_BEHIND] = leftovers(wait_s=20)
        if session.config.stash[LEFT_BEHIND]:
            session.exitstatus = LEFT_BEHIND_STATUS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for process in config.stash.get(LEFT_BEHIND, []):
        terminalreporter.write_line(f"ERROR: this process outlived the test run: {process}", red=True)
    if any(MISSING in str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(f"SKIPPED: {MISSING}", yellow=True)  # quiet runs show no other reason


def message(number: int, text: str = "turtles are slow", **changes: Any) -> Message:
    """The number-th message of a conversation, a second after the one before it."""
    one = Message(GUILD, CHANNEL, number, 5, "Ann", text, NOW - 600 + number)
    return replace(one, **changes)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three masters and three replicas, for all tests of a worker."""
    started = start_cluster(tmp_path_factory.mktemp("cluster"))
    try:
        for node in started.nodes:
            started.ask(node, "FT.CONFIG", "SET", "TIMEOUT", 120_000)
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def redis_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if os.environ.get("CHANNELMEM_TEST_CLUSTER"):
        yield request.getfixturevalue("cluster").url
        return
    with redis_in_a_container() as url:
        if url is not None:
            search_to_the_end(url)
            yield url
            return
    # The parent is shared by all xdist workers, so they join one server.
    base = tmp_path_factory.getbasetemp()
    root = base.parent if base.name.startswith("popen-") else base
    with lease(Settings(_env_file=None, redis_url=None, data_dir=root / "redis", embedded_grace_s=0.5)) as server:
        search_to_the_end(server.url)
        yield server.url


def search_to_the_end(url: str) -> None:
    """By default RediSearch returns what it has after half a second; on a busy machine that would be luck."""
    with sync_redis.Redis.from_url(url, protocol=2) as client:
        client.execute_command("FT.CONFIG", "SET", "TIMEOUT", 120_000)


@pytest.fixture
def settings(redis_url: str, tmp_path: Path) -> Iterator[Settings]:
    prefix = f"t{uuid.uuid4().hex[:12]}"
    yield make_settings(redis_url, tmp_path, key_prefix=prefix)
    _remove(redis_url, prefix)


def make_settings(url: str, data_dir: Path, **changes: object) -> Settings:
    """Settings that no environment or .env of the developer can change, and patience with a machine that is busy."""
    patient: dict[str, object] = {"redis_timeout_s": 60.0, "pending_wait_ms": 60_000.0}
    values = {"data_dir": data_dir, "cache_dir": CACHE_DIR, **patient, **changes}
    return Settings(_env_file=None, redis_url=SecretStr(url), **values)  # type: ignore[arg-type]


@pytest.fixture
async def redis(settings: Settings) -> AsyncIterator[Redis]:
    assert settings.redis_url is not None
    client = connect(settings.redis_url.get_secret_value(), settings)
    yield client
    await client.aclose()


@pytest.fixture
def fake_embedder() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture(scope="session")
def embedder() -> Iterator[Embedder]:
    """The real model; exported to ONNX on the first run of a machine."""
    model = open_embedder(Settings(_env_file=None, cache_dir=CACHE_DIR))
    yield model
    model.close()


class Clock:
    """A clock that the test sets."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def real_time() -> None:
    """For tests that hold our clock against that of Redis, which `scripts.flake_hunt` cannot move."""
    to_real_time()


@pytest.fixture
async def store(redis: Redis, settings: Settings, fake_embedder: FakeEmbedder, clock: Clock) -> AsyncIterator[Store]:
    """A store without a worker: messages stay pending until something embeds them."""
    opened = await open_store(redis, settings, clock)
    yield opened
    await opened.close(wait_s=0.5)


async def open_store(redis: Redis, settings: Settings, clock: Callable[[], float]) -> Store:
    return await Store.open(redis, settings, dims=FakeEmbedder.dims, identity=FakeEmbedder.identity, clock=clock)


@pytest.fixture
def search(store: Store) -> Search:
    return Search(store.buckets)


@pytest.fixture
async def worker(store: Store, fake_embedder: FakeEmbedder) -> AsyncIterator[Worker]:
    """A running worker on the store."""
    running = Worker(store, fake_embedder, claim_idle_s=0.2)
    task = asyncio.create_task(running.run())
    yield running
    await cancel_all([task])


def count_commands(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the commands that this client sends from now on. (The server's own statistics count every test's.)"""
    sent: list[str] = []
    send = redis.execute_command

    async def noting(*arguments: Any, **options: Any) -> Any:
        sent.append(str(arguments[0]))
        return await send(*arguments, **options)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(redis, "execute_command", noting)
    return sent


def count_pipelines(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each pipeline that this client sends from now on."""
    sent: list[str] = []
    begin = redis.pipeline

    def noting(*arguments: Any, **options: Any) -> Any:
        sent.append("pipeline")
        return begin(*arguments, **options)

    monkeypatch.setattr(redis, "pipeline", noting)
    return sent


class OwnServer:
    """A Redis process of one test: it can be killed, started again on the same data and port, and frozen."""

    def __init__(self, folder: Path) -> None:
        self.port = quiet_port()
        self.url = f"redis://:own@127.0.0.1:{self.port}/0"
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._closed = False

    def start(self) -> None:
        for candidate in candidates():
            self._launch(self._command(candidate))
            if self._answers():
                search_to_the_end(self.url)
                return
            self.kill()
        raise RuntimeError("no server program runs here")

    def start_loading(self) -> None:
        """Starts it so that it reads its data for long, as a large Redis does. Needs a rewritten append-only file."""
        slow = ["--key-load-delay", "50000", "--loading-process-events-interval-bytes", "1024"]
        for candidate in candidates():
            self._launch([*self._command(candidate), *slow])
            while (process := self._process) is not None and process.poll() is None:
                if "LOADING" in ask(self.port, "own", "PING"):
                    return
                pause()
        raise RuntimeError("no server program runs here")

    def _launch(self, command: list[str]) -> None:
        with self._lock:  # a thread of a cancelled test may still be starting it when the test ends
            assert not self._closed, "the test is over"
            self._process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder, start_new_session=True
            )

    def kill(self) -> None:
        """Like kill -9."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            end_group(process)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self.kill()

    def freeze(self) -> None:
        """It keeps its connections and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _command(self, candidate: Candidate) -> list[str]:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder)]
        durable = ["--requirepass", "own", "--appendonly", "yes", "--appendfsync", "always"]
        modules = [part for module in candidate.modules for part in ("--loadmodule", *loaded(module))]
        return [str(candidate.binary), *options, *durable, *modules]

    def _answers(self) -> bool:
        deadline = time.monotonic() + 120  # a large index is built anew while the data is loaded
        while (process := self._process) is not None and process.poll() is None and time.monotonic() < deadline:
            if "PONG" in ask(self.port, "own", "PING"):
                return True
            pause()
        return False


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[OwnServer]:
    folder = tmp_path / "own-redis"
    folder.mkdir()
    server = OwnServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.close()


def _remove(url: str, prefix: str) -> None:
    """What a test leaves behind would slow down the others."""
    for one in node_urls(url):
        with sync_redis.Redis.from_url(one, protocol=2) as client:
            if client.info("replication")["role"] == "master":
                _remove_from(client, prefix)


def _remove_from(client: sync_redis.Redis, prefix: str) -> None:
    for name in client.execute_command("FT._LIST"):  # type: ignore[no-untyped-call]  # redis-py's gap
        if name.startswith(prefix.encode()):
            client.execute_command("FT.DROPINDEX", name)  # type: ignore[no-untyped-call]
    with client.pipeline(transaction=False) as pipe:
        for key in client.scan_iter(f"{prefix}:*", count=1000):
            pipe.unlink(key)
        pipe.execute()
