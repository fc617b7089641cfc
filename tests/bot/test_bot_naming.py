"""The bot tells the memory what servers and channels are called, for people who look into it."""

from __future__ import annotations

from conftest import FakeEmbedder
from loopback.bots import running, unhurried
from loopback.scene import Scene
from waiting import until

from bot.history import DiscordHistory
from channelmem.memory import Memory
from channelmem.settings import Settings

pytest_plugins = ["loopback.fixtures"]


async def test_remembered_channels_are_named_and_others_are_not(
    scene: Scene, settings: Settings, fake_embedder: FakeEmbedder
) -> None:
    secret = scene.server.world.add_channel(scene.guild, "secret-plans")
    blocking = unhurried(settings.model_copy(update={"channels_block": (secret.id,)}))
    history = DiscordHistory(blocking)
    async with (
        Memory.open(blocking, history=history, embedder=fake_embedder) as memory,
        running(scene.server, blocking, memory, history),
    ):
        await scene.server.say(secret, scene.mark, "nobody must know")
        await scene.server.say(scene.general, scene.mark, "hello everybody")

        async def named() -> bool:
            return bool((await memory.overview.channel(scene.guild.id, scene.general.id)).name)

        await until(named)
        told = await memory.overview.channel(scene.guild.id, scene.general.id)
        hidden = await memory.overview.channel(scene.guild.id, secret.id)
    assert (told.guild, told.name) == (scene.guild.name, scene.general.name)
    assert hidden.name == ""
