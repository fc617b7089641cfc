"""The MCP server as clients meet it: a process that they start (stdio), and a socket with tokens (streamable HTTP)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import httpx2
import pytest
from clock import wall_now
from conftest import CACHE_DIR, CHANNEL, GUILD, FakeEmbedder
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_calls import call
from processes import python_path
from serving import listening

from channelmem import Memory, Message, Settings
from channelmem.access import OpenDoor, Scope, new_token
from channelmem.mcp.http import Verifier, make_app
from channelmem.mcp.results import Bounds
from channelmem.ops import open_access

OTHER_GUILD = GUILD + (1 << 22)


def environment(settings: Settings) -> dict[str, str]:
    assert settings.redis_url is not None
    return {
        **os.environ,
        "PYTHONPATH": python_path(),
        "REDIS_URL": settings.redis_url.get_secret_value(),
        "CHANNELMEM_KEY_PREFIX": settings.key_prefix,
        "CHANNELMEM_DATA_DIR": str(settings.data_dir),
        "CHANNELMEM_CACHE_DIR": str(CACHE_DIR),
        "CHANNELMEM_REDIS_TIMEOUT_S": "60",
    }


@pytest.mark.process
@pytest.mark.parametrize(("mode", "protocol"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_a_client_starts_the_command_and_speaks_over_its_pipes(
    settings: Settings, mode: str, protocol: str
) -> None:
    command = ["-m", "channelmem", "mcp", "--guild", str(GUILD), "--channel", str(CHANNEL), "--allow-write"]
    server = StdioServerParameters(command=sys.executable, args=command, env=environment(settings))
    async with Client(server, mode=mode, read_timeout_seconds=90) as client:
        assert client.session.protocol_version == protocol
        await call(client, "remember", text="the deploy is on Friday at nine", author="Ann")
        answer = await call(client, "ask", question="when is the deploy?")
        outside = await client.call_tool("recent_messages", {"channel": "1", "guild": str(GUILD)})
    assert "Friday at nine" in answer["text"]
    assert outside.is_error


@pytest.mark.process
def test_the_command_refuses_to_serve_a_network_without_tokens(settings: Settings) -> None:
    command = [sys.executable, "-m", "channelmem", "mcp", "--http"]
    for options, reason in ((["--host", "192.0.2.1", "--no-auth"], "loopback only"), (["--port", "0"], "token add")):
        done = subprocess.run(
            [*command, *options], env=environment(settings), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 1
        assert reason in " ".join(done.stderr.split())


# --- streamable HTTP ---


@pytest.fixture
async def memory(settings: Settings, fake_embedder: FakeEmbedder) -> AsyncIterator[Memory]:
    async with Memory.open(settings, embedder=fake_embedder) as opened:
        now = wall_now()
        for guild, text in ((GUILD, "the release is on Friday"), (OTHER_GUILD, "the vault code is 4711")):
            await opened.remember(Message(guild, CHANNEL, 1, 5, "Ann", text, now - 60))
        await opened.flush()
        yield opened


@pytest.fixture
async def tokens(settings: Settings) -> AsyncIterator[dict[str, str]]:
    """By name: for all guilds, for one, for one with leave to write, for none that is here."""
    read, both = frozenset({Scope.READ}), frozenset({Scope.READ, Scope.WRITE})
    made = {
        "all": new_token("all", read, None, now=wall_now()),
        "one": new_token("one", read, frozenset({GUILD}), now=wall_now()),
        "writer": new_token("writer", both, frozenset({GUILD}), now=wall_now()),
        "write only": new_token("write only", frozenset({Scope.WRITE}), None, now=wall_now()),
        "expired": new_token("expired", read, None, now=wall_now() - 10, life_s=5),
    }
    async with open_access(settings) as kept:
        for _, token in made.values():
            await kept.add(token)
        yield {name: text for name, (text, _) in made.items()}


@asynccontextmanager
async def serving(memory: Memory, settings: Settings, bounds: Bounds, *, guarded: bool = True) -> AsyncIterator[str]:
    async with open_access(settings) as kept:
        door = kept if guarded else OpenDoor()
        app = make_app(memory, bounds, door, url="http://127.0.0.1/mcp", host="127.0.0.1")
        async with listening(app) as url:
            yield f"{url}/mcp"


@asynccontextmanager
async def connected(url: str, token: str, mode: str = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_token_reaches_its_own_guilds_only(
    memory: Memory, settings: Settings, tokens: dict[str, str], mode: str
) -> None:
    async with serving(memory, settings, Bounds()) as url:
        async with connected(url, tokens["all"], mode) as client:
            assert len(await call(client, "list_channels")) == 2
        async with connected(url, tokens["one"], mode) as client:
            (listed,) = await call(client, "list_channels")
            assert listed["guild_id"] == str(GUILD)
            foreign = await client.call_tool("recent_messages", {"guild": str(OTHER_GUILD), "channel": str(CHANNEL)})
            resources = [one.uri for one in (await client.list_resources()).resources]
    assert foreign.is_error
    assert "4711" not in str(foreign)
    assert not [uri for uri in resources if str(OTHER_GUILD) in uri]


async def test_options_bind_a_token_that_could_reach_more(
    memory: Memory, settings: Settings, tokens: dict[str, str]
) -> None:
    async with (
        serving(memory, settings, Bounds(frozenset({OTHER_GUILD}))) as url,
        connected(url, tokens["all"]) as client,
    ):
        (listed,) = await call(client, "list_channels")
    assert listed["guild_id"] == str(OTHER_GUILD)


async def test_writing_needs_the_option_and_the_scope(
    memory: Memory, settings: Settings, tokens: dict[str, str]
) -> None:
    async with serving(memory, settings, Bounds(write=True)) as url:
        async with connected(url, tokens["one"]) as client:
            refused = await client.call_tool("remember", {"text": "hello"})
        async with connected(url, tokens["writer"]) as client:
            stored = await call(client, "remember", text="hello")
    assert refused.is_error
    assert "read-only" in str(refused.content)
    assert stored["outcome"] == "stored"


@pytest.mark.parametrize(("name", "status"), [("none", 401), ("made up", 401), ("expired", 401), ("write only", 403)])
async def test_nobody_gets_in_without_a_token_that_may_read(
    memory: Memory, settings: Settings, tokens: dict[str, str], name: str, status: int
) -> None:
    text = tokens.get(name, "cm_000000000000_" + "a" * 43)
    headers = {} if name == "none" else {"Authorization": f"Bearer {text}"}
    async with serving(memory, settings, Bounds()) as url, httpx.AsyncClient() as http:
        reply = await http.post(url, headers=headers, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert reply.status_code == status
    assert text not in reply.text


async def test_a_web_page_under_another_name_cannot_ask_an_open_server(memory: Memory, settings: Settings) -> None:
    async with serving(memory, settings, Bounds(), guarded=False) as url, httpx.AsyncClient() as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        rebound = await http.post(url, headers={"Host": "evil.example"}, json=body)
        foreign = await http.post(url, headers={"Origin": "http://evil.example"}, json=body)
        async with Client(url) as client:
            assert len(await call(client, "list_channels")) == 2
    assert rebound.status_code == 421
    assert foreign.status_code == 403


OPENING = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip


async def test_one_token_cannot_take_all_sessions(
    memory: Memory, settings: Settings, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("channelmem.mcp.http.SESSIONS_OF_ONE", 2)
    accepts = {"Accept": "application/json, text/event-stream"}
    async with serving(memory, settings, Bounds()) as url, httpx.AsyncClient() as http:

        async def opened(name: str) -> int:
            headers = accepts | {"Authorization": f"Bearer {tokens[name]}"}
            return (await http.post(url, headers=headers, json=OPENING)).status_code

        assert [await opened("all") for _ in range(4)] == [200, 200, 503, 503]
        assert await opened("one") == 200, "others still can"


async def test_an_agent_has_no_scope_but_reading_and_writing(settings: Settings, tokens: dict[str, str]) -> None:
    del tokens
    async with open_access(settings) as door:
        text, kept = new_token("everything", frozenset(Scope), None, now=wall_now())
        await door.add(kept)
        known = await Verifier(door).verify_token(text)
    assert known is not None
    assert known.scopes == ["read", "write"]
