"""Cooldowns of commands. In: a command on its way. Out: nothing, or a refusal that says how long to wait.

Each command has its own, so that nobody who just asked for an export has to wait before they can opt out.
"""

from __future__ import annotations

import discord
from discord import app_commands

from channelmem.settings import Settings

from ..asking.cooldown import Cooldown
from . import texts

EXPORT = "memory export me"


class CoolingDownError(app_commands.CheckFailure):
    """The same person used the same command a moment ago."""


class CommandCooldowns:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_command: dict[str, Cooldown] = {}

    def check(self, interaction: discord.Interaction) -> None:
        """Raises CoolingDownError, or starts the cooldown."""
        name = interaction.command.qualified_name if interaction.command else ""
        cooldown = self._by_command.setdefault(name, Cooldown(self._seconds(name), channel_s=0))
        allowed, wait_s = cooldown.take(interaction.user.id, interaction.channel_id or 0)
        if not allowed:
            raise CoolingDownError(texts.COOLING_DOWN.format(seconds=max(1, round(wait_s))))

    def _seconds(self, name: str) -> float:
        return self._settings.cooldown_export_s if name == EXPORT else self._settings.cooldown_user_s
