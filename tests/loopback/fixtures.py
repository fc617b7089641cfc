"""Fixtures for the bot's tests: a guild on a loopback Discord. For `pytest_plugins = ["loopback.fixtures"]`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bot.client import Bot
from bot.history import DiscordHistory
from channelmem.settings import Settings

from .bots import running
from .recorder import Recorder
from .scene import Scene
from .server import Loopback


@pytest.fixture
async def server() -> AsyncIterator[Loopback]:
    """Fails the test when a body, sent or answered, is not what Discord's document says."""
    async with Loopback() as running_:
        yield running_
        assert running_.rest.violations == []


@pytest.fixture
def scene(server: Loopback) -> Scene:
    mark, ann = server.world.add_user("mark_77", "Mark"), server.world.add_user("ann", "Ann")
    guild = server.world.add_guild("Turtle Club", mark, ann)
    return Scene(server, guild, server.world.add_channel(guild, "general"), mark, ann)


@pytest.fixture
def quick() -> Settings:
    """Settings for tests that need no Redis; nobody has to wait between two questions or commands."""
    return Settings(cooldown_user_s=0, cooldown_channel_s=0, cooldown_export_s=0)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def recording(scene: Scene, quick: Settings, recorder: Recorder) -> AsyncIterator[Bot]:
    """Our bot with a memory that only writes down what it is told."""
    async with running(scene.server, quick, recorder, DiscordHistory(quick)) as bot:
        yield bot
