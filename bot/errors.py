"""One place that turns what went wrong into a sentence. In: an exception. Out: words for people and operators."""

from __future__ import annotations

import aiohttp
import discord
import structlog
from discord import app_commands

from channelmem.errors import ChannelmemError, RedisUnavailableError

log = structlog.get_logger(__name__)

WITHOUT_LOGIN = (
    "There is no DISCORD_TOKEN. Make a bot at https://discord.com/developers/applications (New Application, then Bot, "
    "then Reset Token), switch on its Message Content Intent there, and put DISCORD_TOKEN=... into .env."
)
REFUSED_LOGIN = (
    "Discord refuses the DISCORD_TOKEN. Copy it again from https://discord.com/developers/applications "
    "(your application, then Bot, then Reset Token)."
)
NO_INTENT = (
    "Discord refuses the connection because the Message Content Intent is off, and without it the bot cannot read "
    "what people write. Switch it on at https://discord.com/developers/applications "
    "(your application, then Bot, then Privileged Gateway Intents, then Message Content Intent)."
)
NO_DISCORD = "Discord cannot be reached ({problem}). Check the network, and DISCORD_API_BASE if it is set."

CLOSED = (
    "Discord closed the connection for good (code {code}); what that means stands at "
    "https://discord.com/developers/docs/topics/opcodes-and-status-codes."
)
WRONG_TOKEN_CODE = 4004


def start_up_sentence(error: Exception) -> str:
    """For those failures that keep the bot from starting, or from going on."""
    if isinstance(error, discord.LoginFailure):
        return REFUSED_LOGIN
    if isinstance(error, discord.ConnectionClosed):
        return REFUSED_LOGIN if error.code == WRONG_TOKEN_CODE else CLOSED.format(code=error.code)
    if isinstance(error, discord.PrivilegedIntentsRequired):
        return NO_INTENT
    if isinstance(error, ChannelmemError):
        return str(error)
    return NO_DISCORD.format(problem=error or type(error).__name__)


START_UP = (
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
    if isinstance(cause, RedisUnavailableError):
        return "My memory cannot be reached right now, so nothing was changed. Please try again in a minute."
    if isinstance(cause, ChannelmemError):
        return str(cause)
    if isinstance(cause, discord.Forbidden):
        return "Discord does not allow me to do that here."
    return f"Something went wrong on my side (request `{request_id}`)."


class Tree(app_commands.CommandTree[discord.Client]):
    """The command tree with the one error handler."""

    async def on_error(self, interaction: discord.Interaction, error: app_commands.AppCommandError) -> None:
        request_id = f"{interaction.id:x}"
        expected = isinstance(error, app_commands.CheckFailure)
        if not expected:
            log.error("command failed", request_id=request_id, exc_info=error)
        text = command_sentence(error, request_id)
        try:
            if interaction.response.is_done():
                await interaction.followup.send(text, ephemeral=True)
            else:
                await interaction.response.send_message(text, ephemeral=True)
        except discord.HTTPException as refused:
            log.warning("error not shown", request_id=request_id, status=refused.status)
