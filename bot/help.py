"""/help: the commands that are open to whoever asks."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import discord
from discord import app_commands
from discord.ext import commands
from discord.utils import maybe_coroutine

from .commands import NO_PINGS
from .messages.components import clip

INTRODUCTION = "Mention me to ask what was said here, or use a command:"
MESSAGE_MAX = 2000

Command = app_commands.Command[Any, ..., Any]


class Help(commands.Cog):
    def __init__(self, tree: app_commands.CommandTree[Any]) -> None:
        self._tree = tree

    @app_commands.command(name="help", description="Show what I can do for you")
    async def help(self, interaction: discord.Interaction) -> None:
        lines = [INTRODUCTION]
        for command in sorted(self._tree.get_commands(type=discord.AppCommandType.chat_input), key=attrgetter("name")):
            open_ = [leaf for leaf in _leaves(command) if await is_open(leaf, interaction)]
            if open_:
                lines.append(_line(command, open_))
        text = clip(lines, MESSAGE_MAX)
        await interaction.response.send_message(text, ephemeral=True, allowed_mentions=NO_PINGS)


async def is_open(command: Command, interaction: discord.Interaction) -> bool:
    """By the command's own checks. Those of its cog are left out: they start cooldowns."""
    try:
        for check in command.checks:
            if not await maybe_coroutine(check, interaction):
                return False
    except app_commands.CheckFailure:
        return False
    return True


def _leaves(command: Command | app_commands.Group) -> Iterator[Command]:
    if isinstance(command, app_commands.Command):
        yield command
        return
    yield from (found for found in command.walk_commands() if isinstance(found, app_commands.Command))


def _line(command: Command | app_commands.Group, open_: list[Command]) -> str:
    about = f"`/{command.name}` {command.description}"
    if isinstance(command, app_commands.Command):
        return about
    return f"{about}: {', '.join(f'`{leaf.qualified_name.removeprefix(command.name).strip()}`' for leaf in open_)}"
