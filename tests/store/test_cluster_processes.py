"""Two bots, two workers and a service, each a process of its own, on one real cluster: they share what was said, what
is set and what people decide, although their guilds live on different nodes."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from clusters import holders, master_of, masters, slot_of_bucket
from conftest import CACHE_DIR, make_settings
from loopback import Loopback
from loopback.bots import BotProcess
from loopback.payloads import Channel, User
from loopback.server import PATIENCE_S
from loopback.world import World
from processes import started
from serving import EVERYTHING
from test_cli_serve import service
from waiting import until

from channelmem.access import new_token
from channelmem.ops import open_access
from channelmem.settings import Settings
from channelmem.store.buckets import bucket_of
from channelmem.store.levels import COMPARE_S
from scripts.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TURTLES = "It's turtles. All the way down it is recursive spirals of turtles!"
RABBITS = "the rabbit sits on the moon and counts carrots"
QUESTIONS = {TURTLES: "what did Mark say about turtles?", RABBITS: "what did Ann say about the rabbit?"}
WORKERS = 2


@dataclass
class Club:
    """A guild with its own bot."""

    server: Loopback
    general: Channel
    guild_id: int
    mark: User
    ann: User

    async def tells(self, words: str) -> bool:
        """Whether the bot answers with these words."""
        return words in await self.server.ask(self.general, self.ann, QUESTIONS[words])


@dataclass
class Service:
    http: httpx.AsyncClient

    async def tells(self, club: Club, words: str) -> bool:
        place = {"guild_id": str(club.guild_id), "channel_id": str(club.general.id)}
        answer = await self.http.post("/v1/ask", json=place | {"text": QUESTIONS[words]})
        return words in answer.json()["text"]

    async def enable(self, club: Club, value: object) -> None:
        url = f"/v1/settings/guilds/{club.guild_id}/channels/{club.general.id}"
        (await self.http.patch(url, json={"enabled": value})).raise_for_status()

    async def words_of(self, person: User) -> str:
        return (await self.http.get(f"/v1/people/{person.id}/export")).text


@pytest.fixture
def settings(cluster: Cluster, tmp_path: Path) -> Settings:
    return make_settings(cluster.url, tmp_path, key_prefix=f"p{uuid.uuid4().hex[:12]}")


@pytest.fixture
def environment(cluster: Cluster, settings: Settings) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CHANNELMEM_", "DISCORD_", "REDIS_"))}
    return kept | {
        "REDIS_URL": cluster.url,
        "CHANNELMEM_KEY_PREFIX": settings.key_prefix,
        "CHANNELMEM_CACHE_DIR": str(CACHE_DIR),
        "CHANNELMEM_REDIS_TIMEOUT_S": "60",
        "CHANNELMEM_EMBED_IN_PROCESS": "false",  # the workers do
        "CHANNELMEM_PENDING_WAIT_MS": str(PATIENCE_S * 1000),
        "CHANNELMEM_COOLDOWN_USER_S": "0",
        "CHANNELMEM_COOLDOWN_CHANNEL_S": "0",
    }


@pytest.fixture
def workers(environment: dict[str, str], tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with ExitStack() as running:
        yield [
            running.enter_context(
                started(
                    [sys.executable, "-m", "channelmem", "worker"],
                    env={**environment, "CHANNELMEM_DATA_DIR": str(tmp_path / f"worker-{number}")},
                    cwd=tmp_path,
                    **quiet,
                )
            )
            for number in range(WORKERS)
        ]


def guilds_apart(cluster: Cluster, settings: Settings, count: int) -> list[int]:
    """Ids of guilds that live on different masters."""
    found: dict[int, int] = {}
    for number in range(1_000, 2_000):
        slot = slot_of_bucket(bucket_of(number << 22, settings.buckets))
        found.setdefault(master_of(cluster, slot).port, number << 22)
        if len(found) == count:
            break
    return list(found.values())


@asynccontextmanager
async def club(people: World, guild_id: int, environment: dict[str, str], folder: Path) -> AsyncIterator[Club]:
    async with Loopback() as server:
        mark, ann = (one for one in people.users.values() if one.username in {"mark", "ann"})
        server.world.users |= {mark.id: mark, ann.id: ann}
        guild = server.world.add_guild(f"Club {guild_id}", mark, ann, id_=guild_id)
        made = Club(server, server.world.add_channel(guild, "general"), guild_id, mark, ann)
        async with BotProcess(server, environment | {"CHANNELMEM_DATA_DIR": str(folder)}) as process:
            await process.start(folder.parent)
            await server.ready()
            yield made
            code, log = await process.terminate()
            assert code == 0, log
        assert server.rest.violations == []


@asynccontextmanager
async def everything(
    cluster: Cluster, settings: Settings, environment: dict[str, str], folder: Path
) -> AsyncIterator[tuple[list[Club], Service]]:
    async with open_access(settings) as tokens:
        text, kept = new_token("test", EVERYTHING, None, now=0.0)
        await tokens.add(kept)
    async with AsyncExitStack() as stack:
        own = environment | {"CHANNELMEM_DATA_DIR": str(folder / "service")}
        _, url = stack.enter_context(service(own, folder))
        headers = {"Authorization": f"Bearer {text}"}
        http = httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE_S, trust_env=False)
        await stack.enter_async_context(http)
        people = World()
        for name in ("mark", "ann"):
            people.add_user(name, name.title())
        clubs = [
            await stack.enter_async_context(club(people, one, environment, folder / f"bot-{one}"))
            for one in guilds_apart(cluster, settings, 2)
        ]
        yield clubs, Service(http)


async def test_bots_workers_and_a_service_share_one_cluster(
    cluster: Cluster,
    settings: Settings,
    environment: dict[str, str],
    workers: list[subprocess.Popen[bytes]],
    tmp_path: Path,
) -> None:
    async with everything(cluster, settings, environment, tmp_path) as (clubs, web):
        for one in clubs:
            await one.server.say(one.general, one.mark, TURTLES)
            await one.server.say(one.general, one.ann, RABBITS)
        for one in clubs:
            for words in QUESTIONS:
                assert await one.tells(words)
                assert await web.tells(one, words)
        await until(lambda: asyncio.to_thread(_all_embedded, cluster, settings.key_prefix))
        assert min(holders(cluster, settings.key_prefix)) >= 2
        await _settings_are_heard(cluster, clubs, web)
        await _people_are_forgotten(clubs, web)
        assert [worker.poll() for worker in workers] == [None] * WORKERS
    for worker in workers:
        worker.terminate()
        assert await asyncio.to_thread(worker.wait, PATIENCE_S) == 0


def _all_embedded(cluster: Cluster, prefix: str) -> bool:
    """Only the workers have done that."""
    for node in masters(cluster):
        with cluster.client(node) as client:
            if not all(client.hexists(key, "vec1") for key in client.scan_iter(f"{prefix}:*msg:*", count=1_000)):
                return False
    return True


def _listening(cluster: Cluster) -> int:
    """Connections, on whichever node, that hear of changed settings."""
    found = 0
    for node in cluster.nodes:
        with cluster.client(node) as client:
            found += sum(int(one["psub"]) for one in client.client_list())
    return found


async def _settings_are_heard(cluster: Cluster, clubs: list[Club], web: Service) -> None:
    """What is changed over HTTP holds in a bot, mostly sooner than by comparing every few seconds."""
    assert _listening(cluster) >= len(clubs) + 1
    taken = []
    for one in clubs:
        for value in (False, None, False, None):
            await web.enable(one, value)
            changed = time.monotonic()
            await until(lambda one=one, value=value: _shows(one, value is None))  # type: ignore[misc]
            taken.append(time.monotonic() - changed)
    assert statistics.median(taken) < COMPARE_S / 2


async def _shows(club: Club, wanted: bool) -> bool:
    return await club.tells(TURTLES) is wanted


async def _people_are_forgotten(clubs: list[Club], web: Service) -> None:
    """Mark over HTTP, Ann with one of the bots; both everywhere."""
    here, there = clubs
    (await web.http.post(f"/v1/people/{here.mark.id}/forget")).raise_for_status()
    for one in clubs:
        assert not await one.tells(TURTLES)
        assert await one.tells(RABBITS)
    assert await web.words_of(here.mark) == ""
    assert (await web.words_of(here.ann)).count(RABBITS) == len(clubs)
    await here.server.answered(await here.server.slash(here.general, here.ann, "memory forget me"))
    assert not await there.tells(RABBITS)
    for one in clubs:
        assert not await web.tells(one, RABBITS)
    assert RABBITS not in await web.words_of(here.ann)
