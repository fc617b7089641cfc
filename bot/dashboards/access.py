"""Access: who may open which dashboard. In: an interaction. Out: nothing, or a refusal that says who may.

Discord's own permissions of commands only decide who is offered them, and server admins can change that. So the bot
checks, when a dashboard is opened and again at every click: permissions may have been taken away meanwhile.
"""

from __future__ import annotations

import discord
from discord import app_commands
from discord.ext import commands

from channelmem.cascade.levels import Level

from . import texts

MAINTAINERS = (discord.TeamMemberRole.admin, discord.TeamMemberRole.developer)


class RefusedError(app_commands.CheckFailure):
    """Instead of a dashboard, the person gets this sentence."""


def owners_of(application: discord.AppInfo) -> set[int]:
    """The owner, or of a team those who may change the application."""
    team = application.team
    if team is None:
        return {application.owner.id}
    members = {member.id for member in team.members if member.role in MAINTAINERS}
    return members | ({team.owner_id} if team.owner_id else set())


def is_owner(interaction: discord.Interaction) -> bool:
    client = interaction.client
    return isinstance(client, commands.AutoShardedBot) and interaction.user.id in (client.owner_ids or ())


def opens_global(interaction: discord.Interaction) -> bool:
    if is_owner(interaction):
        return True
    raise RefusedError(texts.OWNERS_ONLY)


def opens_channel(interaction: discord.Interaction) -> bool:
    _in_server(interaction)
    granted = interaction.permissions
    if granted.manage_channels or granted.administrator or is_owner(interaction):
        return True
    raise RefusedError(texts.CHANNEL_MANAGERS_ONLY)


def opens_character(interaction: discord.Interaction) -> bool:
    _in_server(interaction)
    granted = interaction.permissions
    if granted.manage_guild or granted.administrator or is_owner(interaction):
        return True
    raise RefusedError(texts.SERVER_MANAGERS_ONLY)


OPENS = {Level.GLOBAL: opens_global, Level.CHANNEL: opens_channel, Level.CHARACTER: opens_character}


def _in_server(interaction: discord.Interaction) -> None:
    if interaction.guild_id is None:
        raise app_commands.NoPrivateMessage(texts.SERVER_ONLY)
