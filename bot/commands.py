"""What slash commands share: where they are allowed, for whom, and how one is refused or fails; and /help, their list.

Permissions are checked here and not by Discord alone, because admins can offer a command to anybody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import discord
import structlog
from discord import app_commands
from discord.ext import commands
from discord.utils import maybe_coroutine

from channelmem.errors import ChannelmemError, DecisionDelayedError, RedisUnavailableError
from channelmem.ids import ChannelId

log = structlog.get_logger(__name__)

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


# --- errors ---


FAILED = "Something went wrong on my side (request `{request_id}`)."
MEMORY_UNREACHABLE = "I can't reach my memory right now, so nothing was changed. Please try again in a minute."
FORBIDDEN = "Discord doesn't allow me to do that here."


def command_sentence(error: Exception, request_id: str) -> str:
    """For the person whose command failed."""
    cause = error.original if isinstance(error, app_commands.CommandInvokeError) else error
    if isinstance(cause, app_commands.CheckFailure):
        return str(cause)
    if isinstance(cause, RedisUnavailableError) and not isinstance(cause, DecisionDelayedError):
        return MEMORY_UNREACHABLE
    if isinstance(cause, ChannelmemError):
        return str(cause)
    if isinstance(cause, discord.Forbidden):
        return FORBIDDEN
    return FAILED.format(request_id=request_id)


class ErrorReportingTree(app_commands.CommandTree[discord.Client]):
    """The command tree, with the one error handler for all slash commands."""

    async def on_error(self, interaction: discord.Interaction, error: app_commands.AppCommandError) -> None:
        await report(interaction, error)


async def tell(interaction: discord.Interaction, text: str) -> None:
    """Answers an acknowledged command, for the one who gave it alone."""
    await interaction.followup.send(text, ephemeral=True, allowed_mentions=NO_PINGS, suppress_embeds=True)


async def report(interaction: discord.Interaction, error: Exception) -> None:
    """Tells the person whose command or click failed."""
    request_id = f"{interaction.id:x}"
    if not isinstance(error, app_commands.CheckFailure):
        log.error("command failed", request_id=request_id, exc_info=error)
    text = command_sentence(error, request_id)
    try:
        if interaction.response.is_done():
            await interaction.followup.send(text, ephemeral=True)
        else:
            await interaction.response.send_message(text, ephemeral=True)
    except discord.HTTPException as refused:
        log.warning("could not report the error", request_id=request_id, status=refused.status)


# --- within Discord's limits ---


MORE = "… and {count} more"


def clip(lines: Iterable[str], limit: int) -> str:
    """As many lines as fit; the last one says how many did not."""
    kept, rest = "", list(lines)
    while rest:
        longer = f"{kept}\n{rest[0]}" if kept else rest[0]
        more = MORE.format(count=len(rest))
        if len(longer) + (len(more) + 1 if len(rest) > 1 else 0) > limit:
            return f"{kept}\n{more}" if kept else more
        kept = longer
        rest.pop(0)
    return kept


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def given(data: dict[str, object]) -> str:
    """The first value, wherever Discord puts it: selects and forms nest it differently."""
    values = data.get("values")
    if isinstance(values, list) and values:
        return str(values[0])
    if "value" in data:
        return str(data["value"])
    within = data.get("components") or [data.get("component")]
    inner = [one for one in within if isinstance(one, dict)] if isinstance(within, list) else []
    return next((text for one in inner if (text := given(one))), "")


def digest(name: str) -> str:
    """Stands for a name in a custom id, which holds 100 characters."""
    return hashlib.sha256(name.casefold().encode()).hexdigest()[:12]


# --- help ---


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
