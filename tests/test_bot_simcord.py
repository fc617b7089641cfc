"""The main scenarios once more under simcord, a simulation of Discord that nobody here wrote, as a second opinion."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import simcord
from loopback.bots import patient, unhurried

from bot.asking.refusals import DIRECT_MESSAGE
from bot.client import Bot
from bot.history.discord_history import DiscordHistory
from bot.privacy.channel_cog import NotManagerError
from channelmem.memory import Memory
from channelmem.settings import Settings

TURTLES = "It's turtles. All the way down it is recursive spirals of turtles!"
QUESTION = "what did I just say about turtles?"
STARTED = 1_767_225_600.0
"""simcord's time begins with 2026."""


@dataclass
class Stage:
    env: Any
    guild: Any
    general: Any
    mark: Any
    ann: Any
    memory: Memory

    async def ask(self, who: Any, text: str, channel: Any = None) -> str:
        """Mentions the bot and returns its newest message."""
        room = channel or self.general
        await who.send(room, f"<@{self.env.bot.user.id}> {text}")
        last = room.last_message
        assert last.author.id == self.env.bot.user.id
        return str(last.content)


@asynccontextmanager
async def playing(settings: Settings) -> AsyncIterator[Stage]:
    """No fixture: simcord wants to be entered and left in the context of the test itself."""
    eager = unhurried(settings)
    history = DiscordHistory(eager)
    times: list[Any] = []

    def clock() -> float:
        return float(times[0].now().timestamp()) if times else STARTED

    with patient():
        async with (
            Memory.open(eager, history=history, clock=clock) as memory,
            simcord.run(Bot(eager, memory, history, guild_ready_timeout=0.05), shard_count=2) as env,
        ):
            times.append(env)
            guild = env.create_guild("Turtle Club")
            general = guild.create_text_channel("general")
            mark, ann = (guild.add_member(env.create_user(name)) for name in ("Mark", "Ann"))
            yield Stage(env, guild, general, mark, ann, memory)


async def test_the_scenario_of_the_first_page(settings: Settings) -> None:
    async with playing(settings) as stage:
        said = await stage.mark.send(stage.general, TURTLES)
        answer = await stage.ask(stage.mark, QUESTION)
        assert TURTLES in answer
        assert said.jump_url in answer


async def test_reptiles_find_turtles(settings: Settings) -> None:
    async with playing(settings) as stage:
        await stage.mark.send(stage.general, TURTLES)
        assert "spirals of turtles" in await stage.ask(stage.ann, "what did Mark say about reptiles?")


async def test_edits_and_deletes_are_followed(settings: Settings) -> None:
    async with playing(settings) as stage:
        said = await stage.mark.send(stage.general, "the password is swordfish")
        await stage.mark.edit(said, "the password is a secret")
        answer = await stage.ask(stage.ann, "what did Mark say about the password?")
        assert "swordfish" not in answer
        assert "a secret" in answer
        await stage.mark.delete(said)
        assert "a secret" not in await stage.ask(stage.ann, "what did Mark say about the password?")


async def test_slash_ask_in_private(settings: Settings) -> None:
    async with playing(settings) as stage:
        await stage.mark.send(stage.general, TURTLES)
        result = await stage.mark.slash(stage.general, "ask", question=QUESTION, private=True)
        assert result.ephemeral
        assert TURTLES in result.response.content


async def test_opting_out_and_managing_the_channel(settings: Settings) -> None:
    async with playing(settings) as stage:
        with pytest.raises(simcord.SetupError, match="not visible to this user"):
            await stage.mark.slash(stage.general, "memory-channel pause")
        # An admin may offer the command to anybody; the bot still checks who manages the channel.
        commands = {command.name: command for command in await stage.env.bot.tree.fetch_commands()}
        stage.guild.set_command_permissions(commands["memory-channel"], {stage.mark: True})
        refused = await stage.mark.slash(stage.general, "memory-channel pause")
        assert "manage this channel" in (refused.response or refused.followups[0]).content
        simcord.assert_error(stage.env, NotManagerError)  # seen and said; nothing else may go wrong
        out = await stage.mark.slash(stage.general, "memory opt-out")
        assert out.ephemeral
        await stage.mark.send(stage.general, TURTLES)
        held = [message async for message in stage.memory.export(stage.mark.id)]
        assert held == []


async def test_channels_are_kept_apart(settings: Settings) -> None:
    async with playing(settings) as stage:
        side = stage.guild.create_text_channel("side")
        await stage.mark.send(stage.general, TURTLES)
        assert "spirals" not in await stage.ask(stage.mark, QUESTION, side)


async def test_a_direct_message_has_no_channel(settings: Settings) -> None:
    async with playing(settings) as stage:
        await stage.mark.send_dm(QUESTION)
        last = stage.mark.user.dm_channel.last_message
        assert last.content == DIRECT_MESSAGE
