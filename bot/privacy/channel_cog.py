"""/memory-channel: people who manage a channel control what the bot keeps of it.

A command of its own, because Discord offers or hides whole commands: these only in servers, and only to managers.
"""

from __future__ import annotations

import discord
import structlog
from discord import app_commands
from discord.ext import commands

from ..commands import RefusedError, channel_id_of, holds, server_group
from ..context import BotContext
from ..messages.people import is_remembered
from . import texts
from .cog import CommandCooldowns

log = structlog.get_logger(__name__)


def manages_channel(interaction: discord.Interaction) -> bool:
    thread = isinstance(interaction.channel, discord.Thread)
    if holds(interaction, "manage_channels") or (thread and holds(interaction, "manage_threads")):
        return True
    raise RefusedError(texts.MANAGERS_ONLY)


class ChannelPrivacy(commands.Cog):
    channel_ = server_group("memory-channel", "Control what I remember of this channel", manage_channels=True)

    def __init__(self, context: BotContext) -> None:
        self.context, self.memory = context, context.memory
        self._cooldowns = CommandCooldowns(context.settings)

    async def interaction_check(self, interaction: discord.Interaction) -> bool:
        self._cooldowns.check(interaction)
        return True

    @channel_.command(name="pause", description="Stop remembering new messages in this channel")
    @app_commands.check(manages_channel)
    async def pause(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        await self.memory.pause(*channel_id_of(interaction))
        await interaction.followup.send(texts.PAUSED, ephemeral=True)

    @channel_.command(name="resume", description="Remember this channel again")
    @app_commands.check(manages_channel)
    async def resume(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        await self.memory.resume(*channel_id_of(interaction))
        await interaction.followup.send(texts.RESUMED, ephemeral=True)

    @channel_.command(name="clear", description="Forget everything said in this channel")
    @app_commands.check(manages_channel)
    async def clear(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        guild_id, channel_id = channel_id_of(interaction)
        status = await self.memory.status(guild_id, channel_id)
        # By Discord's clock, like the messages: this machine's may be wrong.
        await self.memory.clear(guild_id, channel_id, interaction.created_at.timestamp())
        log.info("channel cleared", guild_id=guild_id, channel_id=channel_id)
        await interaction.followup.send(texts.cleared(status.messages), ephemeral=True)

    @channel_.command(name="status", description="Show what I remember of this channel")
    @app_commands.check(manages_channel)
    async def status(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        status = await self.memory.status(*channel_id_of(interaction))
        channel = interaction.channel or discord.Object(0)
        included = is_remembered(channel, self.context.settings, self.memory.policies)
        await interaction.followup.send(texts.describe(status, included=included), ephemeral=True)
