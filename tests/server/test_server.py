"""The embedded server with real processes: starting, sharing and stopping it, and what a kill -9 leaves behind."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import redis
from clock import pause
from plain_server import plain_server
from processes import quiet_port, started
from pydantic import SecretStr

from channelmem.errors import ConfigError, RedisUnavailableError, RedisUnsuitableError, ServerError
from channelmem.server import lease as server
from channelmem.server import supervisor
from channelmem.server.check import _suitable as server_check_suitable
from channelmem.server.check import os_sentence, tried_sentence
from channelmem.server.lease import port_url
from channelmem.settings import Settings

pytestmark = pytest.mark.process

USER = """
import json, sys
from pathlib import Path
from channelmem.server.lease import lease
from channelmem.settings import Settings
with lease(Settings(data_dir=Path(sys.argv[1]), embedded_grace_s=0.2)) as server:
    print(json.dumps({"url": server.url, "pid": server.pid}), flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    settings = Settings(data_dir=tmp_path / "data", embedded_grace_s=0.2, redis_url=None)
    yield settings
    server.stop(settings)


def eventually(true: Callable[[], object], *, within_s: float = 300) -> None:
    """The limit is against a hang only: beside busy cores everything takes its time."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        pause()


class UserProcess:
    """Another process that holds a lease until told to leave, or until killed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def joined(self) -> tuple[str, int]:
        assert self.process.stdout is not None
        line = json.loads(self.process.stdout.readline())
        return line["url"], line["pid"]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def user(settings: Settings) -> Iterator[Callable[[], UserProcess]]:
    with contextlib.ExitStack() as stack:

        def start() -> UserProcess:
            command = [sys.executable, "-c", USER, str(settings.data_dir)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            return UserProcess(stack.enter_context(started(command, text=True, **pipes)))

        yield start


def client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True)


def answers(url: str) -> bool:
    with contextlib.suppress(redis.ConnectionError, redis.BusyLoadingError), client(url) as connection:
        return bool(connection.ping())
    return False


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def socket_of(url: str) -> Path:
    return Path(urlsplit(url).path)


def is_gone(settings: Settings, pid: int) -> bool:
    return server.running(settings) is None and not psutil.pid_exists(pid)


# --- starting, sharing, stopping ---


def test_a_lease_gives_a_private_server_with_search_and_json(settings: Settings) -> None:
    with server.lease(settings) as leased:
        info = server.check_server(leased.url)
        assert info.search_version.startswith("2.1")
        assert info.json_version is not None
        with client(leased.url) as connection:
            assert connection.config_get("appendonly", "appendfsync", "maxmemory-policy", "port") == {
                "appendonly": "yes",
                "appendfsync": "everysec",
                "maxmemory-policy": "noeviction",
                "port": "0",
            }
        with pytest.raises(redis.AuthenticationError):
            client(without_password(leased.url)).ping()


def test_nobody_else_can_read_any_file_of_the_server(settings: Settings) -> None:
    with server.lease(settings) as leased, client(leased.url) as connection:
        connection.set("secret", "words")
        everything = [leased.data_dir, *leased.data_dir.rglob("*")]
        assert {p.name for p in everything} >= {"state.json", "redis.conf", "server.log", "appendonlydir"}
        open_to_others = [p for p in everything if stat.S_IMODE(p.stat().st_mode) & 0o077]
        assert open_to_others == []


def test_the_password_is_on_no_command_line(settings: Settings) -> None:
    with server.lease(settings) as leased:
        password = supervisor.read_state(leased.data_dir)["password"]
        for pid in (leased.pid, leased.supervisor_pid):
            assert password not in " ".join(psutil.Process(pid).cmdline())


# --- sockets and ports ---


def connections(pid: int) -> list[object]:
    return list(psutil.Process(pid).net_connections("inet"))


def test_the_server_listens_on_a_socket_and_on_no_port(settings: Settings) -> None:
    with server.lease(settings) as leased:
        assert socket_of(leased.url) == leased.data_dir / "redis.sock"
        assert stat.S_IMODE(socket_of(leased.url).stat().st_mode) == 0o600
        assert connections(leased.pid) == []


def test_a_port_is_opened_on_request_with_a_password_of_its_own(settings: Settings) -> None:
    with server.lease(settings) as leased:
        url = port_url(leased)
        assert url == port_url(leased), "the same one for everybody who asks"
        assert answers(url)
        with pytest.raises(redis.AuthenticationError):
            client(without_password(url)).ping()
        with client(url) as connection:
            assert connection.config_get("bind") == {"bind": "127.0.0.1"}
        assert str(urlsplit(leased.url).password) not in url


def test_a_fixed_port_is_open_from_the_start(settings: Settings) -> None:
    port = quiet_port()
    with server.lease(settings.model_copy(update={"embedded_port": port})) as leased:
        assert port_url(leased).endswith(f"@127.0.0.1:{port}/0")
        assert answers(port_url(leased))
        assert answers(leased.url)


def test_a_stranger_on_the_port_of_a_crashed_server_learns_no_password_that_opens_the_next(settings: Settings) -> None:
    port = quiet_port()
    with server.lease(settings.model_copy(update={"embedded_port": port})) as leased:
        insight = port_url(leased)  # what RedisInsight sends when it reconnects
        with frozen(leased.supervisor_pid):
            os.kill(leased.pid, signal.SIGKILL)
            eventually(lambda: not supervisor.taken(port))
            stranger = socket.create_server(("127.0.0.1", port))
        with stranger:
            eventually(lambda: answers(leased.url))  # the stranger keeps nobody from the socket
            stranger.settimeout(0)
            with pytest.raises(BlockingIOError):
                stranger.accept()  # and nobody of us spoke to them
        assert port_url(leased) != insight
        again = port_url(leased)
        assert answers(again)
        stolen = insight.rpartition("@")[0] + "@" + again.rpartition("@")[2]
        with pytest.raises(redis.AuthenticationError):
            client(stolen).ping()


def test_the_port_has_the_password_of_the_server_that_runs_before_the_state_file_has_it(settings: Settings) -> None:
    with server.lease(settings) as leased:
        port_url(leased)
        (leased.data_dir / ".state.json.new").mkdir()  # the supervisor cannot write the file
        os.kill(leased.pid, signal.SIGKILL)
        eventually(lambda: not psutil.pid_exists(leased.pid) and answers(leased.url))
        assert supervisor.read_state(leased.data_dir)["pid"] == leased.pid, "the state of the crashed server"
        assert answers(port_url(leased))


def test_a_path_too_long_for_a_socket_gets_a_short_private_directory(settings: Settings, tmp_path: Path) -> None:
    deep = settings.model_copy(update={"data_dir": tmp_path / ("d" * 90) / "data"})
    with server.lease(deep) as leased:
        folder = socket_of(leased.url).parent
        assert not folder.is_relative_to(tmp_path)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert answers(leased.url)
        os.kill(leased.pid, signal.SIGKILL)
        eventually(lambda: (now := server.running(deep)) and now.pid != leased.pid)
        eventually(lambda: answers(leased.url))
        os.kill(leased.supervisor_pid, signal.SIGKILL)
        eventually(lambda: (now := server.running(deep)) and now.supervisor_pid != leased.supervisor_pid)
        eventually(lambda: answers(leased.url))
    eventually(lambda: server.running(deep) is None)
    eventually(lambda: not folder.exists())


@pytest.mark.parametrize("which", ["data", "data/redis"])
def test_a_directory_that_is_a_symlink_is_refused(settings: Settings, tmp_path: Path, which: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = tmp_path / which
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)
    with (
        pytest.raises(ServerError, match=rf"{link} is a symbolic link; set CHANNELMEM_DATA_DIR"),
        server.lease(settings),
    ):
        pass
    assert list(elsewhere.iterdir()) in ([], [elsewhere / "redis"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("which", ["data", "data/redis"])
def test_a_directory_of_somebody_else_is_refused(settings: Settings, tmp_path: Path, which: str) -> None:
    folder = tmp_path / which
    folder.mkdir(parents=True)
    os.chown(folder, 12_345, -1)
    with pytest.raises(ServerError, match=rf"{folder} belongs to another user; set CHANNELMEM_DATA_DIR"):  # noqa: SIM117
        with server.lease(settings):
            pass


def test_a_directory_that_everybody_may_change_is_refused_unless_it_is_like_tmp(settings: Settings) -> None:
    settings.data_dir.mkdir()
    settings.data_dir.chmod(0o777)
    with pytest.raises(ServerError, match=r"everybody may write to .*; run `chmod o-w "), server.lease(settings):
        pass
    settings.data_dir.chmod(0o1777)
    with server.lease(settings) as leased:
        assert answers(leased.url)


def test_leases_within_one_process_share_the_server(settings: Settings) -> None:
    with server.lease(settings) as first:
        with server.lease(settings) as second:
            assert second == first
        assert answers(first.url)


def test_the_server_stops_after_its_last_user_and_keeps_the_data(settings: Settings) -> None:
    with server.lease(settings) as leased, client(leased.url) as connection:
        connection.set("turtles", "green")
    eventually(lambda: is_gone(settings, leased.pid))
    with server.lease(settings) as again, client(again.url) as connection:
        assert again.pid != leased.pid
        assert connection.get("turtles") == "green"
        assert again.url == leased.url, "a client that was given it goes on working"


def test_processes_that_start_at_once_get_one_server(settings: Settings, user: Callable[[], UserProcess]) -> None:
    several = [user() for _ in range(4)]
    assert len({process.joined() for process in several}) == 1


def test_kill_9_of_any_user_leaves_the_server_to_the_others(
    settings: Settings, user: Callable[[], UserProcess]
) -> None:
    first = user()
    url, pid = first.joined()
    second, third = user(), user()
    assert second.joined() == third.joined() == (url, pid)
    client(url).set("turtles", "green")

    first.kill()
    second.kill()
    eventually(lambda: [u.pid for u in server.users(settings)] == [third.process.pid])
    assert answers(url)

    third.kill()
    eventually(lambda: is_gone(settings, pid))
    with server.lease(settings) as again:
        assert client(again.url).get("turtles") == "green"


def test_a_start_during_the_shutdown_waits_for_it_and_begins_anew(
    settings: Settings, user: Callable[[], UserProcess]
) -> None:
    with contextlib.ExitStack() as shutdown:
        with server.lease(settings) as leased:
            client(leased.url).set("turtles", "green")
            shutdown.enter_context(frozen(leased.pid))  # so that it lasts until we say
        eventually(lambda: server.locked(leased.data_dir / "lease.lock"))
        newcomer = user()
        eventually(lambda: server.locked(leased.data_dir / "start.lock"))
    url, pid = newcomer.joined()
    assert pid != leased.pid
    assert client(url).get("turtles") == "green"


def test_redis_url_wins_over_the_embedded_server(settings: Settings) -> None:
    elsewhere = settings.model_copy(update={"redis_url": SecretStr("redis://elsewhere:6379/3")})
    with server.connect_url(elsewhere) as url:
        assert url == "redis://elsewhere:6379/3"
    assert server.running(settings) is None
    with server.connect_url(settings) as url:
        assert answers(url)


def test_a_pinned_server_outlives_its_starter_until_stopped(settings: Settings) -> None:
    pinned = server.pin(settings)
    assert server.users(settings) == ()
    assert answers(pinned.url)
    assert server.stop(settings)
    assert is_gone(settings, pinned.pid)
    assert not server.stop(settings)


class SleptClock:
    """Time that passes only by sleeping; `at` runs something at a moment."""

    def __init__(self) -> None:
        self.now = 0.0
        self.at: dict[float, Callable[[], object]] = {}

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for moment in [moment for moment in self.at if moment <= self.now]:
            self.at.pop(moment)()


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> SleptClock:
    clock = SleptClock()
    monkeypatch.setattr(supervisor, "time", clock)
    return clock


def supervised(root: Path) -> None:
    """Supervises a process that never crashes until it is time to stop it."""
    with supervisor.opened(root / "lease.lock") as lease, started([sys.executable, "-c", "input()"], stdin=-1) as idle:
        watching = supervisor.Supervisor(root, {"grace_s": 2.0})
        watching.process = idle
        watching._supervise(lease)


def test_a_held_lease_keeps_the_server_for_however_long(tmp_path: Path, slept: SleptClock) -> None:
    held = os.open(tmp_path / "lease.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(held, fcntl.LOCK_SH)
    slept.at[1_000.0] = lambda: os.close(held)
    supervised(tmp_path)
    assert 1_002.0 <= slept.now < 1_002.0 + 3 * supervisor.POLL_S


def test_a_lease_that_comes_back_within_the_grace_keeps_the_server(tmp_path: Path, slept: SleptClock) -> None:
    late: list[int] = []

    def come_back() -> None:
        late.append(os.open(tmp_path / "lease.lock", os.O_RDWR))
        fcntl.flock(late[0], fcntl.LOCK_SH | fcntl.LOCK_NB)

    slept.at = {1.0: come_back, 500.0: lambda: os.close(late[0])}
    supervised(tmp_path)
    assert 502.0 <= slept.now < 502.0 + 3 * supervisor.POLL_S


def test_a_pinned_server_needs_no_lease(tmp_path: Path, slept: SleptClock) -> None:
    pin = tmp_path / "pinned"
    pin.touch()
    slept.at[1_000.0] = pin.unlink
    supervised(tmp_path)
    assert 1_002.0 <= slept.now < 1_002.0 + 3 * supervisor.POLL_S


def test_a_forced_stop_is_final_for_those_who_used_it_but_not_for_newcomers(settings: Settings) -> None:
    with server.lease(settings) as leased:
        server.stop(settings)
        eventually(lambda: not server.locked(leased.data_dir / "supervisor.lock"))
        eventually(lambda: leased.data_dir not in server._watched)
        assert server.running(settings) is None
        with server.lease(settings) as again:
            assert answers(again.url)


# --- crashes ---


def test_a_crashed_server_comes_back_on_its_socket_with_its_data(settings: Settings) -> None:
    with server.lease(settings) as leased:
        with client(leased.url) as connection:
            connection.set("turtles", "green")
            connection.execute_command("FT.CREATE", "idx", "SCHEMA", "t", "TEXT")
            # With everysec, a reply may precede the write to the file while an fsync is under way.
            connection.execute_command("WAITAOF", 1, 0, 10_000)
        os.kill(leased.pid, signal.SIGKILL)
        eventually(lambda: (now := server.running(settings)) and now.pid != leased.pid)
        eventually(lambda: answers(leased.url))
        with client(leased.url) as connection:
            assert connection.get("turtles") == "green"
            assert connection.execute_command("FT._LIST") == ["idx"]
        with server.lease(settings) as joined:
            assert joined.url == leased.url


def test_a_killed_supervisor_is_replaced_while_somebody_uses_the_server(
    settings: Settings, user: Callable[[], UserProcess]
) -> None:
    with server.lease(settings) as leased:
        another = user()
        assert another.joined() == (leased.url, leased.pid)
        client(leased.url).set("turtles", "green")
        os.kill(leased.supervisor_pid, signal.SIGKILL)
        eventually(lambda: (now := server.running(settings)) and now.supervisor_pid != leased.supervisor_pid)
        eventually(lambda: answers(leased.url))
        eventually(lambda: not psutil.pid_exists(leased.pid))
        assert client(leased.url).get("turtles") == "green"
        another.kill()
    eventually(lambda: server.running(settings) is None)


def test_killing_user_and_supervisor_leaves_no_orphan(settings: Settings, user: Callable[[], UserProcess]) -> None:
    starter = user()
    _, pid = starter.joined()
    found = server.running(settings)
    assert found is not None
    starter.kill()
    os.kill(found.supervisor_pid, signal.SIGKILL)
    eventually(lambda: not psutil.pid_exists(pid))
    with server.lease(settings) as again:
        assert answers(again.url)


def test_an_orphan_that_was_not_told_is_ended_before_the_next_start(settings: Settings) -> None:
    """As on macOS, where no signal follows the supervisor's death: something still holds server.lock."""
    root = server._prepare(settings)
    holding = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(flush=True); time.sleep(99)"
    )
    with started([sys.executable, "-c", holding, root / "server.lock"], stdout=subprocess.PIPE) as orphan:
        assert orphan.stdout is not None
        orphan.stdout.readline()
        with server.lease(settings) as leased:
            assert orphan.wait(300) == -signal.SIGTERM
            assert answers(leased.url)


def test_a_stale_state_whose_pids_now_belong_to_others_harms_nobody(settings: Settings) -> None:
    with started([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        with server.lease(settings) as leased:
            root = leased.data_dir
        eventually(lambda: is_gone(settings, leased.pid))
        state = supervisor.read_state(root) | {"pid": bystander.pid, "supervisor_pid": bystander.pid}
        supervisor.write_private(root / "state.json", json.dumps(state))
        assert server.running(settings) is None
        with server.lease(settings) as again:
            assert again.pid != bystander.pid
            assert answers(again.url)
        eventually(lambda: is_gone(settings, again.pid))
        assert bystander.poll() is None


def test_an_unreadable_state_is_written_anew(settings: Settings) -> None:
    (server._prepare(settings) / "state.json").write_text("{half a fi")
    with server.lease(settings) as leased:
        assert answers(leased.url)


# --- what is said when it does not work ---


def test_a_taken_port_is_named_with_the_setting_that_moves_it(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        fixed = settings.model_copy(update={"embedded_port": port})
        with pytest.raises(ServerError, match=f"^Port {port} is taken .*CHANNELMEM_EMBEDDED_PORT"), server.lease(fixed):
            pass
        taken.settimeout(0)
        with pytest.raises(BlockingIOError):
            taken.accept()  # whoever sits there was not even spoken to, let alone sent the password


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = Settings(data_dir=tmp_path / "file" / "data", redis_url=None)
    with (
        pytest.raises(ServerError, match=r"file/data/redis \(Not a directory\).*CHANNELMEM_DATA_DIR"),
        server.lease(settings),
    ):
        pass


def test_a_directory_where_the_server_may_not_write_is_named(settings: Settings) -> None:
    (server._prepare(settings) / "redis.conf").mkdir()
    with pytest.raises(ServerError, match=r"cannot use .*redis.*CHANNELMEM_DATA_DIR"), server.lease(settings):
        pass


@pytest.mark.parametrize(
    "said",
    [
        "Can't open or create append-only dir appendonlydir: No space left on device",
        "Error writing to the AOF file: No space left on device",
    ],
)
def test_a_full_disk_is_named(said: str, settings: Settings, tmp_path: Path) -> None:
    tried = [{"label": "a server", "binary": "x", "why": f"it exited with status 1\n{said}"}]
    assert tried_sentence(tried, settings, tmp_path) == os_sentence(OSError(errno.ENOSPC, ""), tmp_path)
    assert "is full; free some space" in os_sentence(OSError(errno.ENOSPC, ""), tmp_path)


def test_no_server_that_starts_says_what_was_tried_and_what_to_do(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken-server"
    broken.write_text("#!/bin/sh\necho error while loading shared libraries: libssl.so.1.1 >&2\nexit 127\n")
    broken.chmod(0o700)
    found = (
        server.Candidate("the broken one", broken, ()),
        server.Candidate("the absent one", tmp_path / "absent", ()),
    )
    monkeypatch.setattr(server, "candidates", lambda: found)
    with pytest.raises(ServerError) as error, server.lease(settings):
        pass
    assert "the broken one: error while loading shared libraries: libssl.so.1.1" in str(error.value)
    assert "the absent one: [Errno 2] No such file" in str(error.value)
    assert "docker compose up" in str(error.value)
    assert server.running(settings) is None
    monkeypatch.undo()
    with server.lease(settings) as leased:
        assert answers(leased.url), "a failed start leaves nothing in the way of the next"


def test_a_server_that_runs_without_search_is_passed_over(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    real = server.candidates()
    without = tuple(server.Candidate(f"bare {c.label}", c.binary, ()) for c in real)
    monkeypatch.setattr(server, "candidates", lambda: without + real)
    with server.lease(settings) as leased:
        assert not leased.name.startswith("bare")
        server.check_server(leased.url)


def test_no_installed_server_at_all_is_said(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "candidates", tuple)
    with pytest.raises(ServerError, match=r"^No embedded server is installed .*REDIS_URL"), server.lease(settings):
        pass


# --- is a server suitable ---


def test_a_server_without_the_search_module_is_named_with_what_is_needed(tmp_path: Path) -> None:
    with plain_server(tmp_path) as url, pytest.raises(RedisUnsuitableError) as error:
        server.check_server(url)
    assert "without the search module" in str(error.value)
    assert "RediSearch 2.10 or newer" in str(error.value)
    assert "plain@" not in str(error.value)


def test_a_cluster_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with plain_server(tmp_path, cluster=True) as url, pytest.raises(RedisUnsuitableError, match="Redis cluster"):
        server.check_server(url)


def test_an_older_search_module_is_named_with_its_version() -> None:
    from_an_older_stack = {"redis_version": "7.2.4", "modules": [{"name": "search", "ver": 20809}]}
    with pytest.raises(RedisUnsuitableError, match=r"Redis 7\.2\.4 with RediSearch 2\.8\.9, but channelmem needs"):
        server_check_suitable(from_an_older_stack, "host:1")


def test_a_wrong_password_and_a_missing_one_are_said(tmp_path: Path) -> None:
    with plain_server(tmp_path) as url:
        for wrong in (url.replace("plain@", "other@"), url.replace(":plain@", "")):
            with pytest.raises(RedisUnavailableError, match="rejects the user or password; correct them in REDIS_URL"):
                server.check_server(wrong)


def test_tls_to_a_plain_server_is_said(tmp_path: Path) -> None:
    with plain_server(tmp_path) as url, pytest.raises(RedisUnavailableError, match=r"TLS.*use redis:// if"):
        server.check_server(url.replace("redis://", "rediss://"), timeout_s=0.5)


def test_a_server_that_is_not_there_is_said() -> None:
    with pytest.raises(RedisUnavailableError, match=r"^Redis at 127.0.0.1:\d+ does not answer .*REDIS_URL"):
        server.check_server(f"redis://:secret@127.0.0.1:{quiet_port()}/0")


def test_an_address_that_is_none_is_said_without_its_password() -> None:
    with pytest.raises(ConfigError, match="REDIS_URL is not a valid Redis URL") as error:
        server.check_server("redis://:se/cret@host:6379")
    assert "cret" not in str(error.value)
    assert "se" not in str(error.value).split("write it")[0]
