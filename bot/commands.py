"""What slash commands share: where they are allowed, for whom, and how one is refused.

Permissions are checked here and not by Discord alone, because admins can offer a command to anybody.
"""

from __future__ import annotations

import discord
from discord import app_commands

from channelmem.ids import ChannelId

NO_PINGS = discord.AllowedMentions.none()
SERVER_ONLY = "This command only works in a server channel."


class RefusedError(app_commands.CheckFailure):
    """The person gets this sentence instead of an answer."""


def server_group(name: str, description: str, **permissions: bool) -> app_commands.Group:
    """Commands that exist only in servers; Discord offers them to those who hold the permissions."""
    return app_commands.Group(
        name=name,
        description=description,
        guild_only=True,
        allowed_contexts=app_commands.AppCommandContext(guild=True),
        default_permissions=discord.Permissions(**permissions) if permissions else None,
    )


def in_server(interaction: discord.Interaction) -> bool:
    if interaction.guild_id is None:
        raise app_commands.NoPrivateMessage(SERVER_ONLY)
    return True


def holds(interaction: discord.Interaction, permission: str) -> bool:
    """Whether the person has a permission in this channel of a server."""
    in_server(interaction)
    return getattr(interaction.permissions, permission) or interaction.permissions.administrator


def channel_id_of(interaction: discord.Interaction) -> ChannelId:
    """Both ids exist in a server."""
    return ChannelId(interaction.guild_id or 0, interaction.channel_id or 0)
