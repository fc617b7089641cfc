"""/memory: people control what the bot keeps of them; and the notice where the bot joins.

Each command has a cooldown of its own, so that nobody who just asked for an export has to wait before they can opt out.
"""

from __future__ import annotations

import asyncio
import io

import discord
import structlog
from discord import app_commands
from discord.ext import commands

from channelmem.settings import Settings

from ..asking.cog import Cooldown
from ..asking.traces import Traces
from ..commands import NO_PINGS, RefusedError
from ..context import BotContext
from . import texts
from .returns import Returns, fit, to_line

EXPORT = "memory export me"


class CommandCooldowns:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_command: dict[str, Cooldown] = {}

    def check(self, interaction: discord.Interaction) -> None:
        """Raises RefusedError, or starts the cooldown."""
        name = interaction.command.qualified_name if interaction.command else ""
        cooldown = self._by_command.setdefault(name, Cooldown(self._seconds(name), channel_s=0))
        allowed, wait_s = cooldown.take(interaction.user.id, interaction.channel_id or 0)
        if not allowed:
            raise RefusedError(texts.COOLING_DOWN.format(seconds=max(1, round(wait_s))))

    def _seconds(self, name: str) -> float:
        return self._settings.cooldown_export_s if name == EXPORT else self._settings.cooldown_user_s


# --- cog ---


log = structlog.get_logger(__name__)


class Privacy(commands.Cog):
    memory_ = app_commands.Group(name="memory", description="Control what I remember")
    forget_ = app_commands.Group(name="forget", description="Delete what I remember", parent=memory_)
    export_ = app_commands.Group(name="export", description="Get a copy of what I remember", parent=memory_)

    def __init__(self, context: BotContext, traces: Traces) -> None:
        self.context, self.traces, self.memory = context, traces, context.memory
        self._cooldowns, self._returns = CommandCooldowns(context.settings), Returns(context.memory)

    async def interaction_check(self, interaction: discord.Interaction) -> bool:
        self._cooldowns.check(interaction)
        return True

    async def cog_unload(self) -> None:
        await self._returns.stop_all()

    @forget_.command(name="me", description="Make me forget everything you wrote")
    async def forget_me(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        self._forget_cached(interaction.user.id)
        await self.memory.forget(interaction.user.id)
        log.info("user forgotten")
        await interaction.followup.send(texts.FORGOTTEN, ephemeral=True)

    @memory_.command(name="opt-out", description="Stop me from remembering what you write")
    async def opt_out(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        self._forget_cached(interaction.user.id)
        await self.memory.opt_out(interaction.user.id)
        await interaction.followup.send(texts.OPTED_OUT, ephemeral=True)

    def _forget_cached(self, user_id: int) -> None:
        self.context.history.delete_author(user_id)
        self.traces.drop_person(user_id)
        self._returns.stop(user_id)

    @memory_.command(name="opt-in", description="Let me remember what you write again")
    async def opt_in(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        left = await self.memory.opt_in(interaction.user.id)
        text = texts.OPTED_IN if left is None else texts.returning(left)
        reply = await interaction.followup.send(text, ephemeral=True, wait=True)
        if left is not None:
            self._returns.watch(interaction.user.id, reply)

    @export_.command(name="me", description="Get everything I remember of what you wrote, as a file")
    async def export_me(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        lines = [to_line(message) async for message in self.memory.export(interaction.user.id)]
        if not lines:
            await interaction.followup.send(texts.NOTHING_STORED, ephemeral=True)
            return
        name, data, remark = await asyncio.to_thread(fit, lines, interaction.filesize_limit)
        file = discord.File(io.BytesIO(data), filename=name)
        await interaction.followup.send(texts.exported(len(lines)) + remark, file=file, ephemeral=True)

    # --- the notice ---

    @commands.Cog.listener()
    async def on_guild_join(self, guild: discord.Guild) -> None:
        channel = _notice_channel(guild) if self.context.settings.join_notice else None
        if channel is None:
            return
        try:
            await channel.send(self._notice(guild.id, channel.id), allowed_mentions=NO_PINGS)
        except discord.HTTPException as error:
            log.warning("join notice not posted", guild_id=guild.id, status=error.status)

    def _notice(self, guild_id: int, channel_id: int) -> str:
        policy = self.memory.policy(guild_id, channel_id)
        sent = self.context.settings.summary_model is not None and policy.summaries and policy.limits.archive
        return texts.notice(policy.limits.lifetime_s, policy.kept_s, sent=sent)


def _notice_channel(guild: discord.Guild) -> discord.TextChannel | None:
    """The guild's system channel, or else the first channel the bot can write in."""
    offered = [guild.system_channel, *guild.text_channels]
    return next((channel for channel in offered if channel and _can_write(channel)), None)


def _can_write(channel: discord.TextChannel) -> bool:
    granted = channel.permissions_for(channel.guild.me)
    return granted.view_channel and granted.send_messages
