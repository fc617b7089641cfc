"""Who may change a channel's context. In: a command on its way. Out: True, or a refusal.

Checked here and not by Discord's default permissions alone, because admins can offer a command to anybody, and because
Discord offers or hides a whole command: `/context show` is for everyone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import discord
from discord import app_commands

from ..messages.channels import thread_of

if TYPE_CHECKING:
    from ..context import BotContext

SERVER_ONLY = "This command only works in a server channel."
MODERATORS_ONLY = "Only people who can manage messages here can do that."
OWNER_TOO = "Only people who can manage messages here, or the owner of this thread, can do that."
NO_HISTORY = "You can't read the message history of this channel, so I can't show it to you."


class NotModeratorError(app_commands.CheckFailure):
    """The command is for people who can manage messages."""


def in_server(interaction: discord.Interaction) -> bool:
    if interaction.guild_id is None:
        raise app_commands.NoPrivateMessage(SERVER_ONLY)
    return True


def moderates(interaction: discord.Interaction) -> bool:
    in_server(interaction)
    if _manages_messages(interaction):
        return True
    raise NotModeratorError(MODERATORS_ONLY)


def moderates_and_reads(interaction: discord.Interaction) -> bool:
    """For what shows the channel's past."""
    moderates(interaction)
    if interaction.permissions.read_message_history or interaction.permissions.administrator:
        return True
    raise NotModeratorError(NO_HISTORY)


def starts_anew(interaction: discord.Interaction) -> bool:
    in_server(interaction)
    thread = interaction.channel if isinstance(interaction.channel, discord.Thread) else None
    owns = thread is not None and thread.owner_id == interaction.user.id
    if _manages_messages(interaction) or owns or _is_open_to_all(interaction):
        return True
    raise NotModeratorError(MODERATORS_ONLY if thread is None else OWNER_TOO)


def _is_open_to_all(interaction: discord.Interaction) -> bool:
    policies = cast("BotContext", interaction.client).memory.policies
    where = (interaction.guild_id or 0, interaction.channel_id or 0)
    return policies.of(*where, thread_of=thread_of(interaction.channel)).open_new


def _manages_messages(interaction: discord.Interaction) -> bool:
    return interaction.permissions.manage_messages or interaction.permissions.administrator
