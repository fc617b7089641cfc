"""The loopback itself: a plain discord.py client logs in, hears, speaks, pages history and resumes."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator

import discord
import pytest
from discord import app_commands
from loopback import Channel, Loopback, Upload, User, point_at


async def _fruits(_: discord.Interaction, typed: str) -> list[app_commands.Choice[str]]:
    found = [one for one in ("apple", "banana", "cherry") if typed in one]
    return [app_commands.Choice(name=one.title(), value=one) for one in found]


class Form(discord.ui.Modal, title="A name"):
    name: discord.ui.TextInput[Form] = discord.ui.TextInput(label="Name", custom_id="name", default="nobody")

    async def on_submit(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer()
        await interaction.edit_original_response(content=f"Named {self.name.value}")


class Panel(discord.ui.View):
    @discord.ui.button(label="Name")
    async def ask(self, interaction: discord.Interaction, _: discord.ui.Button[Panel]) -> None:
        await interaction.response.send_modal(Form())

    @discord.ui.button(label="Close")
    async def close(self, interaction: discord.Interaction, _: discord.ui.Button[Panel]) -> None:
        await interaction.response.defer()
        await interaction.delete_original_response()

    @discord.ui.select(options=[discord.SelectOption(label="Red"), discord.SelectOption(label="Green")])
    async def colour(self, interaction: discord.Interaction, chosen: discord.ui.Select[Panel]) -> None:
        await interaction.response.edit_message(content=f"Painted {chosen.values[0]}")


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

        @self.tree.command(description="Counts letters")
        async def count(interaction: discord.Interaction, file: discord.Attachment) -> None:
            text = (await file.read()).decode()
            told = discord.File(io.BytesIO(text.upper().encode()), filename="loud.txt")
            await interaction.response.send_message(f"{len(text)} letters in {file.filename}", file=told)

        @self.tree.command(description="Shows a panel")
        @app_commands.autocomplete(fruit=_fruits)
        async def panel(interaction: discord.Interaction, fruit: str = "apple") -> None:
            await interaction.response.send_message(f"A panel for {fruit}", view=Panel(), ephemeral=True)

        @self.tree.command(description="Says who owns this")
        async def owners(interaction: discord.Interaction) -> None:
            about = await self.application_info()
            names = [member.name for member in about.team.members] if about.team else [about.owner.name]
            may = interaction.permissions.manage_guild
            await interaction.response.send_message(f"{', '.join(names)}; manager: {may}", ephemeral=True)

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


async def test_options_are_completed_and_files_travel_both_ways(
    server: Loopback, client: Plain, general: Channel, mark: User
) -> None:
    assert await server.complete(general, mark, "panel", "fruit", "an") == [{"name": "Banana", "value": "banana"}]
    counted = await server.slash(general, mark, "count", file=Upload("quiet.txt", b"hello"))
    assert await server.answered(counted) == "5 letters in quiet.txt"
    assert counted.files == {"loud.txt": b"HELLO"}
    assert server.sent(general)[0]["attachments"][0]["filename"] == "loud.txt"


async def test_buttons_selects_and_forms_change_the_message_they_belong_to(
    server: Loopback, client: Plain, general: Channel, mark: User
) -> None:
    opened = await server.slash(general, mark, "panel", fruit="banana")
    panel = await server.shown(opened)
    assert panel["content"] == "A panel for banana"
    await server.choose(panel, mark, "Green")
    await server.until(lambda: panel["content"] == "Painted Green")
    form = await server.click(panel, mark, "Name")
    await server.until(lambda: form.callbacks)
    assert form.modal["title"] == "A name"
    await server.submit(form)
    await server.until(lambda: panel["content"] == "Named nobody")
    again = await server.click(panel, mark, "Name")
    await server.until(lambda: again.callbacks)
    named = await server.submit(again, name="Tim")
    await server.until(lambda: panel["content"] == "Named Tim")
    assert named.messages == []
    await server.click(panel, mark, "Close")
    await server.until(lambda: panel.get("_deleted"))


async def test_a_team_owns_the_application_and_members_bring_their_permissions(
    server: Loopback, client: Plain, general: Channel, mark: User
) -> None:
    assert general.guild_id is not None
    alone = await server.slash(general, mark, "owners")
    assert await server.answered(alone) == "owner; manager: False"
    server.world.found_team(mark)
    role = server.world.grant(server.world.guilds[general.guild_id], mark, manage_guild=True)
    together = await server.slash(general, mark, "owners")
    assert await server.answered(together) == "owner, mark; manager: True"
    server.world.revoke(server.world.guilds[general.guild_id], mark, role)
    assert (await server.answered(await server.slash(general, mark, "owners"))).endswith("False")
