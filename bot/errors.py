"""Errors as one sentence, for the operator or for the person whose command failed."""

from __future__ import annotations

import aiohttp
import discord
import structlog
from discord import app_commands

from channelmem.errors import ChannelmemError, DecisionDelayedError, RedisUnavailableError

log = structlog.get_logger(__name__)

LOGIN_MISSING = (
    "DISCORD_TOKEN is not set. Create a bot at https://discord.com/developers/applications (New Application, then Bot, "
    "then Reset Token), enable its Message Content Intent there, and add DISCORD_TOKEN=... to .env."
)
LOGIN_REJECTED = (
    "Discord rejected DISCORD_TOKEN. Copy the token again from https://discord.com/developers/applications "
    "(your application, then Bot, then Reset Token)."
)
INTENT_DISABLED = (
    "Discord refused the connection because the Message Content Intent is disabled; without it the bot can't read "
    "messages. Enable it at https://discord.com/developers/applications "
    "(your application, then Bot, then Privileged Gateway Intents, then Message Content Intent)."
)
UNREACHABLE = "Can't reach Discord ({problem}). Check the network, and DISCORD_API_BASE if it is set."
CLOSED = (
    "Discord permanently closed the connection (code {code}). See "
    "https://discord.com/developers/docs/topics/opcodes-and-status-codes for what the code means."
)
INVALID_TOKEN_CODE = 4004

FAILED = "Something went wrong on my side (request `{request_id}`)."
MEMORY_UNREACHABLE = "I can't reach my memory right now, so nothing was changed. Please try again in a minute."
FORBIDDEN = "Discord doesn't allow me to do that here."


def startup_sentence(error: Exception) -> str:
    """For failures that keep the bot from starting or continuing."""
    if isinstance(error, discord.LoginFailure):
        return LOGIN_REJECTED
    if isinstance(error, discord.ConnectionClosed):
        return LOGIN_REJECTED if error.code == INVALID_TOKEN_CODE else CLOSED.format(code=error.code)
    if isinstance(error, discord.PrivilegedIntentsRequired):
        return INTENT_DISABLED
    if isinstance(error, ChannelmemError):
        return str(error)
    return UNREACHABLE.format(problem=error or type(error).__name__)


STARTUP_ERRORS = (
    discord.LoginFailure,
    discord.PrivilegedIntentsRequired,
    discord.ConnectionClosed,
    discord.HTTPException,
    discord.GatewayNotFound,
    ChannelmemError,
    aiohttp.ClientError,
    OSError,
)


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
