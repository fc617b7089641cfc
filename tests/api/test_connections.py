"""What strangers can do to the service by opening connections: nothing to others, and nothing for long."""

from __future__ import annotations

import asyncio
import logging
import resource
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest
from conftest import FakeEmbedder
from processes import started
from serving import Running, serving
from test_cli_serve import environment as environment  # noqa: PLC0414  (a fixture)
from waiting import until_true

from channelmem import Settings, connections
from channelmem.connections import Rarely

pytest_plugins = ["serving_fixtures"]

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def opened(service: Running, sent: bytes, count: int = 1) -> AsyncIterator[list[Stream]]:
    """Connections that send this and nothing more."""
    port = httpx.URL(service.url).port
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    try:
        for _, writer in streams:
            writer.write(sent)
        yield streams
    finally:
        for _, writer in streams:
            writer.close()


async def ended(stream: Stream) -> bytes:
    """What came before the service closed the connection."""
    try:
        return await asyncio.wait_for(stream[0].read(), 30)
    except ConnectionError:
        return b""


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A"])
async def test_headers_that_never_end_end_the_connection(
    service: Running, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "HEADERS_S", 0.2)
    async with opened(service, sent) as (one,):
        assert await ended(one) == b""


async def test_headers_that_never_end_behind_an_answer_end_the_connection(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADERS_S", 0.2)
    async with opened(service, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") as (one,):
        assert b"200 OK" in await one[0].readuntil(b"}")
        one[1].write(b"GET /heal")
        assert await ended(one) == b""


async def test_a_body_that_never_ends_ends_the_connection(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_S", 0.2)
    token = await service.token()
    head = f"POST /v1/ask HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 9\r\n\r\n"
    async with opened(service, head.encode()) as (one,):
        assert await ended(one) == b""


async def test_idle_connections_make_room_and_others_are_answered(
    settings: Settings, fake_embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "most_connections", lambda: 20)
    async with serving(settings, fake_embedder) as service, opened(service, b"", 30) as streams:
        for _ in range(5):
            async with httpx.AsyncClient(trust_env=False, timeout=30) as somebody:
                assert (await somebody.get(f"{service.url}/healthz")).status_code == 200
        assert await ended(streams[0]) == b"", "the oldest went"
        assert not streams[-1][0].at_eof()


def test_one_address_takes_no_more_than_half_and_whoever_works_stays() -> None:
    class One:
        def __init__(self, address: str) -> None:
            self.address, self.transport, self.gone, self.unsent = address, self, False, 0

        def get_write_buffer_size(self) -> int:
            return self.unsent

        def abort(self) -> None:
            self.gone = True

    table = connections.Connections(4)
    first, second, third, *others = [One("a") for _ in range(3)] + [One(name) for name in "bcd"]
    for one in (first, second):
        table.add(one)  # type: ignore[arg-type]
    table.works(first)  # type: ignore[arg-type]
    table.add(third)  # type: ignore[arg-type]
    assert (first.gone, second.gone, third.gone) == (False, True, False)
    for one in others:
        table.add(one)  # type: ignore[arg-type]
    assert [one.gone for one in (first, third, *others)] == [False, True, False, False, False]
    others[0].unsent = 5_000_000
    last = One("e")
    for one in (One("f"), last):
        table.add(one)  # type: ignore[arg-type]
    assert not others[0].gone, "its response is still being sent"
    assert not last.gone
    table.remove(first)  # type: ignore[arg-type]
    table.remove(first)  # type: ignore[arg-type]
    assert len(table._open) == 3


@pytest.mark.parametrize(("files", "most"), [(1_024, 768), (20_000, 1_000), (100, 16)])
def test_a_process_takes_as_many_connections_as_it_has_files_for(
    monkeypatch: pytest.MonkeyPatch, files: int, most: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert connections.most_connections() == most


def test_the_same_line_is_logged_a_few_times_a_minute() -> None:
    now = [0.0]
    rarely = Rarely(lambda: now[0])

    def record(text: str, *arguments: object) -> logging.LogRecord:
        return logging.LogRecord("a", logging.WARNING, "", 0, text, arguments, None)

    def logged(count: int) -> list[str]:
        records = [record("bad request %s", one) for one in range(count)]
        return [one.getMessage() for one in records if rarely.filter(one)]

    shown = logged(1_000)
    assert len(shown) == connections.REPEATED
    assert "not logged" in shown[-1]
    assert logged(5) == []
    assert rarely.filter(record("another line"))
    now[0] += connections.PERIOD_S
    assert logged(1) == ["bad request 0"]


# --- the whole process, with few files ---


@contextmanager
def with_few_files(environment: dict[str, str], cwd: Path, log: Path) -> Iterator[None]:
    command = f"ulimit -n 1024; exec {sys.executable} -m channelmem serve --port 0 2>{log}"
    with started(["sh", "-c", command], env=environment, cwd=cwd, text=True):
        yield


@pytest.mark.process
async def test_more_connections_than_files_neither_stop_the_service_nor_fill_its_log(
    environment: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.touch()
    with with_few_files(environment, tmp_path, log):
        await until_true(lambda: "Listening on " in log.read_text())
        where = httpx.URL(log.read_text().partition("Listening on ")[2].partition(" ")[0])
        streams = await asyncio.gather(*(asyncio.open_connection(where.host, where.port) for _ in range(1_200)))
        try:
            for _ in range(3):
                async with httpx.AsyncClient(trust_env=False, timeout=30) as somebody:
                    assert (await somebody.get(f"{where}/healthz")).status_code == 200
        finally:
            for _, writer in streams:
                writer.close()
    assert log.stat().st_size < 20_000
