"""A long run of the bot as its own process: many channels, steady traffic, questions, Redis killed and restarted.

SOAK_CHANNELS, SOAK_RATE (messages per second), SOAK_SECONDS and SOAK_RESTARTS make it shorter or longer; with
SOAK_REPORT the figures are written to that file as JSON. docs/notes/reliability.md shows the runs that were made.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from conftest import CACHE_DIR, OwnServer, make_settings
from loopback import Channel, Json, Loopback, User
from loopback.bots import BotProcess

from channelmem.memory import Memory
from channelmem.settings import Settings

pytestmark = pytest.mark.slow

CHANNELS = int(os.environ.get("SOAK_CHANNELS", "200"))
RATE = float(os.environ.get("SOAK_RATE", "100"))
SECONDS = float(os.environ.get("SOAK_SECONDS", "300"))
RESTARTS = int(os.environ.get("SOAK_RESTARTS", "2"))
REPORT = os.environ.get("SOAK_REPORT")
ASK_EVERY_S = 1.0
DOWN_S = 6.0
CATCH_UP_S = 600.0
PEOPLE = ("Mark", "Ann", "Bob", "Carol", "Dave", "Eve", "Frank", "Grace", "Heidi", "Ivan")
ANIMALS = ("turtle", "rabbit", "heron", "badger", "salmon", "lizard", "falcon", "otter", "spider", "walrus")
DOINGS = ("sleeps under the bridge", "eats all the cake", "paints the fence", "sings at night", "hides in the attic")


@dataclass
class Figures:
    """What the run measured."""

    sent: int = 0
    asked: int = 0
    answered: int = 0
    exact: int = 0
    strayed: list[str] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    outage_asked: int = 0
    outage_exact: int = 0
    rss_mb: list[float] = field(default_factory=list)
    lost: int = 0
    behind_s: float = 0.0


class Soak:
    """The traffic, the questions and the outages; three loops that run side by side."""

    def __init__(self, server: Loopback, redis: OwnServer, process: BotProcess) -> None:
        self.server, self.redis, self.process = server, redis, process
        self.random = random.Random(7)  # noqa: S311  (traffic, not secrets)
        self.people = [server.world.add_user(name.lower(), name) for name in PEOPLE]
        guild = server.world.add_guild("Soak", *self.people)
        self.guild_id = guild.id
        self.rooms = [server.world.add_channel(guild, f"room-{n}") for n in range(CHANNELS)]
        self.newest: dict[tuple[int, int, str], str] = {}
        self.ids: dict[int, set[int]] = {person.id: set() for person in self.people}
        self.figures = Figures()
        self.down = False
        self.until = 0.0

    async def talk(self) -> None:
        started, n = time.monotonic(), 0
        while time.monotonic() < self.until:
            n += 1
            await self._say(n)
            await asyncio.sleep(max(0.0, started + n / RATE - time.monotonic()))

    async def _say(self, n: int) -> None:
        place = self.random.randrange(CHANNELS)
        person, animal = self.random.choice(self.people), self.random.choice(ANIMALS)
        text = f"the {animal} {self.random.choice(DOINGS)}, mark {place}x{n}"
        self.newest[place, person.id, animal] = text
        message = await self.server.say(self.rooms[place], person, text)
        self.ids[person.id].add(int(message["id"]))
        self.figures.sent += 1

    async def question(self) -> None:
        """Somebody asks about the newest thing that somebody said about an animal in that room."""
        await asyncio.sleep(2)
        waiting: set[asyncio.Task[None]] = set()
        while time.monotonic() < self.until - 2:
            await asyncio.sleep(ASK_EVERY_S)
            waiting.add(asyncio.create_task(self._ask()))
        await asyncio.gather(*waiting)

    async def _ask(self) -> None:
        place, author_id, animal = self.random.choice(list(self.newest)[-20:])
        author = self.server.world.users[author_id]
        asker = self.random.choice(self.people)
        who = "I" if asker is author else author.global_name
        expected, down, begun = self.newest[place, author_id, animal], self.down, time.monotonic()
        self.figures.asked += 1
        answer = await self._answer(self.rooms[place], asker, f"what did {who} just say about the {animal}?")
        if answer is None:
            return
        self.figures.answered += 1
        exact = expected in answer or self.newest[place, author_id, animal] in answer
        self.figures.exact += exact
        self.figures.outage_asked += down
        self.figures.outage_exact += down and exact
        if not down and not self.down:
            self.figures.latency_s.append(time.monotonic() - begun)
        self._check_place(answer, place)

    async def _answer(self, room: Channel, asker: User, text: str) -> str | None:
        asked = await self.server.say(room, asker, f"{self.server.world.bot.mention} {text}")
        try:
            reply: Json = await self.server.reply(asked, timeout_s=30)
        except TimeoutError:
            return None
        return str(reply["content"])

    def _check_place(self, answer: str, place: int) -> None:
        rooms = {str(self.rooms[place].id)}
        marks = set(re.findall(r"mark (\d+)x", answer))
        links = set(re.findall(r"/channels/\d+/(\d+)/", answer))
        if marks - {str(place)} or links - rooms:
            self.figures.strayed.append(answer)

    async def break_redis(self) -> None:
        """Kills Redis at even distances and starts it again on its data after a while."""
        pause = (self.until - time.monotonic()) / (RESTARTS + 1)
        for _ in range(RESTARTS):
            await asyncio.sleep(pause - DOWN_S)
            self.down = True
            await asyncio.to_thread(self.redis.kill)
            await asyncio.sleep(DOWN_S)
            await asyncio.to_thread(self.redis.start)
            self.down = False

    async def watch(self) -> None:
        bot = psutil.Process(self.process.process.pid)
        while time.monotonic() < self.until:
            self.figures.rss_mb.append(bot.memory_info().rss / 1e6)
            await asyncio.sleep(max(0.5, SECONDS / 60))

    async def run(self) -> None:
        self.until = time.monotonic() + SECONDS
        await asyncio.gather(self.talk(), self.question(), self.break_redis(), self.watch())

    async def catch_up(self) -> None:
        """Until the bot has read all events: they arrive in order, so one answer tells. How long is a figure too.

        A bot that cannot keep up is not excused by this: its questions run into their time-out.
        """
        begun = time.monotonic()
        asked = await self.server.say(self.rooms[0], self.people[0], f"{self.server.world.bot.mention} catch me up")
        await self.server.reply(asked, timeout_s=CATCH_UP_S)
        self.figures.behind_s = time.monotonic() - begun

    async def count_lost(self, settings: Settings) -> None:
        """Every message that was sent must be in Redis once the bot has caught up."""
        async with Memory.open(settings) as memory:
            for person in self.people:
                held = {message.id async for message in memory.export(person.id)}
                self.figures.lost += len(self.ids[person.id] - held)


def report(figures: Figures) -> dict[str, float | int]:
    calm = sorted(figures.latency_s)
    quarter = max(1, len(figures.rss_mb) // 4)
    return {
        "channels": CHANNELS,
        "seconds": SECONDS,
        "redis_restarts": RESTARTS,
        "messages": figures.sent,
        "messages_per_s": round(figures.sent / SECONDS, 1),
        "lost": figures.lost,
        "behind_at_the_end_s": round(figures.behind_s, 1),
        "questions": figures.asked,
        "answered": figures.answered,
        "with_the_newest_words": figures.exact,
        "wrong_channel": len(figures.strayed),
        "asked_during_outage": figures.outage_asked,
        "answered_from_history_with_the_newest_words": figures.outage_exact,
        "reply_ms_p50": round(statistics.median(calm) * 1000, 1) if calm else -1,
        "reply_ms_p95": round(calm[int(len(calm) * 0.95)] * 1000, 1) if calm else -1,
        "rss_mb_second_quarter": round(statistics.mean(figures.rss_mb[quarter : 2 * quarter]), 1),
        "rss_mb_last_quarter": round(statistics.mean(figures.rss_mb[-quarter:]), 1),
    }


def write(figures: dict[str, float | int]) -> None:
    if REPORT:
        Path(REPORT).write_text(json.dumps(figures, indent=2) + "\n")


@pytest.mark.timeout(SECONDS * 3 + 300)
async def test_nothing_is_lost_or_strays_through_redis_restarts(own_server: OwnServer, tmp_path: Path) -> None:
    settings = make_settings(own_server.url, tmp_path)
    environment = {
        "REDIS_URL": own_server.url,
        "CHANNELMEM_CACHE_DIR": str(CACHE_DIR),
        "CHANNELMEM_DATA_DIR": str(tmp_path),
        "CHANNELMEM_COOLDOWN_USER_S": "0",
        "CHANNELMEM_COOLDOWN_CHANNEL_S": "0",
        "CHANNELMEM_LOG_LEVEL": "ERROR",
    }
    async with Loopback() as server, BotProcess(server, environment) as process:
        soak = Soak(server, own_server, process)
        await process.start(tmp_path)
        await server.ready()
        await soak.run()
        await soak.catch_up()
        code, log = await process.terminate()
        await soak.count_lost(settings)
    figures = report(soak.figures)
    write(figures)
    assert (code, log) == (0, "")
    assert soak.figures.lost == 0
    assert soak.figures.strayed == []
    assert soak.figures.answered == soak.figures.asked
    assert soak.figures.outage_asked > 0
    assert figures["answered_from_history_with_the_newest_words"] > 0
    assert figures["rss_mb_last_quarter"] < 1.2 * figures["rss_mb_second_quarter"]
