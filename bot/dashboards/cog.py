"""/admin settings, /channel settings and /character settings: each opens a private dashboard."""

from __future__ import annotations

import discord
import structlog
from discord import app_commands
from discord.ext import commands, tasks

from channelmem.errors import ChannelmemError
from channelmem.policy.cascade import Level

from ..commands import server_group
from ..context import BotContext
from ..contexts.form import chosen, offer_characters
from ..errors import report
from ..messages.convert import UNRESOLVED
from .address import Address, opens_channel, opens_character, opens_global, owners_of, read_click
from .clicks import Clicks

OWNERS_REFRESH_MIN = 5

log = structlog.get_logger(__name__)


class Dashboards(commands.Cog):
    # Discord offers a command to those who hold the permission; the check decides, whatever a server's admins changed.
    admin_ = app_commands.Group(
        name="admin",
        description="Settings of the whole bot, for its owners",
        default_permissions=discord.Permissions(administrator=True),
    )
    channel_ = server_group("channel", "Settings of this channel", manage_channels=True)
    character_ = server_group("character", "Settings of a character in this server", manage_guild=True)

    def __init__(self, context: BotContext) -> None:
        self.context, self._clicks = context, Clicks(context)

    async def cog_load(self) -> None:
        if self.context.application is not None:
            self.context.owner_ids = owners_of(self.context.application)
        self.refresh_owners.start()

    async def cog_unload(self) -> None:
        self.refresh_owners.cancel()

    @tasks.loop(minutes=OWNERS_REFRESH_MIN)
    async def refresh_owners(self) -> None:
        """People join and leave a team while the bot runs."""
        if self.refresh_owners.current_loop > 0:  # the login just told
            await self.learn_owners()

    async def learn_owners(self) -> None:
        try:
            self.context.owner_ids = owners_of(await self.context.application_info())
        except UNRESOLVED as error:
            log.warning("could not refresh the owners of the application", problem=str(error))

    @admin_.command(name="settings", description="Show and change the settings that apply everywhere")
    @app_commands.check(opens_global)
    async def admin_settings(self, interaction: discord.Interaction) -> None:
        await self._open(interaction, Level.GLOBAL)

    @channel_.command(name="settings", description="Show and change the settings of this channel")
    @app_commands.check(opens_channel)
    async def channel_settings(self, interaction: discord.Interaction) -> None:
        await self._open(interaction, Level.CHANNEL)

    @character_.command(name="settings", description="Show and change the settings of a character in this server")
    @app_commands.describe(character="Which character; the first one if you leave it out")
    @app_commands.autocomplete(character=offer_characters)
    @app_commands.check(opens_character)
    async def character_settings(self, interaction: discord.Interaction, character: str = "") -> None:
        named = chosen(character, (one.name for one in self.context.characters))
        await self._open(interaction, Level.CHARACTER, named)

    async def _open(self, interaction: discord.Interaction, level: Level, character: str = "") -> None:
        await interaction.response.defer(ephemeral=True, thinking=True)
        await self._clicks.show(interaction, Address.here(interaction, level, character))

    @commands.Cog.listener()
    async def on_interaction(self, interaction: discord.Interaction) -> None:
        """Every click and form arrives here, also those of dashboards that were opened before a restart."""
        click = read_click(interaction)
        if click is None:
            return
        try:
            await self._clicks.handle(interaction, click)
        except (app_commands.CheckFailure, ChannelmemError, discord.HTTPException) as error:
            await report(interaction, error)
