"""The loopback itself: a plain discord.py client logs in, hears, speaks, pages history and resumes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import discord
import pytest
from discord import app_commands
from loopback import Channel, Loopback, User, point_at


class Plain(discord.AutoShardedClient):
    """The smallest client that a test can talk to."""

    def __init__(self) -> None:
        intents = discord.Intents(guilds=True, guild_messages=True, message_content=True)
        super().__init__(intents=intents, guild_ready_timeout=0.05)
        self.heard: list[str] = []
        self.tree = app_commands.CommandTree(self)

    async def setup_hook(self) -> None:
        @self.tree.command(description="Says it back")
        async def echo(interaction: discord.Interaction, text: str) -> None:
            await interaction.response.send_message(text, ephemeral=True)

        await self.tree.sync()

    async def on_message(self, message: discord.Message) -> None:
        self.heard.append(message.content)
        if message.content == "ping":
            await message.reply("pong")


@pytest.fixture
async def server() -> AsyncIterator[Loopback]:
    async with Loopback() as running:
        yield running
        assert running.rest.violations == []


@pytest.fixture
def mark(server: Loopback) -> User:
    return server.world.add_user("mark", "Mark")


@pytest.fixture
def general(server: Loopback, mark: User) -> Channel:
    return server.world.add_channel(server.world.add_guild("Guild", mark), "general")


@pytest.fixture
async def client(server: Loopback, general: Channel) -> AsyncIterator[Plain]:
    before = point_at(server.api_base, server.gateway_url)
    plain = Plain()
    task = asyncio.create_task(plain.start(server.rest.token))
    await server.ready()
    yield plain
    await plain.close()
    await task
    point_at(before[0], str(before[1]))


async def test_a_plain_client_hears_and_replies(server: Loopback, client: Plain, general: Channel, mark: User) -> None:
    asked = await server.say(general, mark, "ping")
    assert (await server.reply(asked))["content"] == "pong"


async def test_a_slash_command_is_answered_in_private(
    server: Loopback, client: Plain, general: Channel, mark: User
) -> None:
    interaction = await server.slash(general, mark, "echo", text="hello")
    assert await server.answered(interaction) == "hello"
    assert interaction.ephemeral
    assert server.sent(general) == []


async def test_history_after_an_id_gives_the_oldest_page_first(
    server: Loopback, client: Plain, general: Channel, mark: User
) -> None:
    written = [server.wrote(general, mark, f"line {n}", ago_s=300 - n) for n in range(150)]
    room = await client.fetch_channel(general.id)
    assert isinstance(room, discord.TextChannel)
    after = discord.Object(int(written[9]["id"]))
    lines = [m.content async for m in room.history(limit=None, after=after)]
    assert lines == [f"line {n}" for n in range(10, 150)]


async def test_a_cut_connection_resumes_and_replays_what_was_said(
    server: Loopback, client: Plain, general: Channel, mark: User
) -> None:
    await server.gateway.cut(resumable=True)
    await server.say(general, mark, "said while away")
    await server.until(lambda: "said while away" in client.heard)
    assert server.gateway.resumed == 1


async def test_a_rate_limited_post_is_tried_again(
    server: Loopback, client: Plain, general: Channel, mark: User
) -> None:
    server.fail("POST", r"/messages$", 429)
    asked = await server.say(general, mark, "ping")
    assert (await server.reply(asked))["content"] == "pong"
    assert [c.status for c in server.calls("POST", r"/messages$")] == [429, 200]
