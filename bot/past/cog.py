"""Cog: /history. In: commands, guilds that become available. Out: loads with their progress, an export as a file."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Awaitable, Callable

import discord
import structlog
from discord import app_commands
from discord.ext import commands

from channelmem.context_window.reach import ReachError
from channelmem.past.export import export
from channelmem.past.spans import between
from channelmem.types import Load

from ..context import BotContext
from ..contexts.options import offer_durations
from ..contexts.permissions import moderates_and_reads
from ..messages.channels import MESSAGE_CHANNELS, MessageChannel, thread_of
from ..messages.permissions import can_read, is_remembered
from ..privacy.export import fit
from . import texts
from .loader import Loader

MOST_DAYS = 30
FILE_NAME = "channel-history.md"
TOLD_EVERY_S = 5.0
"""Between two edits of a progress message."""
TOKEN_S = 14 * 60.0
"""How long an answer to a command can be edited; Discord allows 15 minutes."""

Time = app_commands.Range[str, 1, 100]

log = structlog.get_logger(__name__)


class PastCommands(commands.Cog, name="Past"):
    """`until_stored` waits until what was said in a channel so far is stored."""

    history_ = app_commands.Group(
        name="history",
        description="Load or export this channel's past",
        guild_only=True,
        allowed_contexts=app_commands.AppCommandContext(guild=True),
        default_permissions=discord.Permissions(manage_messages=True),
    )

    def __init__(self, context: BotContext, until_stored: Callable[[int], Awaitable[None]]) -> None:
        self.context, self.memory, self._until_stored = context, context.memory, until_stored
        self.loader = Loader(context)

    @commands.Cog.listener()
    async def on_guild_available(self, guild: discord.Guild) -> None:
        await self.loader.resume(guild)

    @commands.Cog.listener()
    async def on_guild_remove(self, guild: discord.Guild) -> None:
        self.loader.stop(guild)

    async def cog_unload(self) -> None:
        await self.loader.close()

    @history_.command(name="load", description="Load more of this channel's past, up to 30 days")
    @app_commands.describe(days="How many days back")
    @app_commands.check(moderates_and_reads)
    async def load(self, interaction: discord.Interaction, days: app_commands.Range[int, 1, MOST_DAYS] = 7) -> None:
        await interaction.response.defer(ephemeral=True)
        channel = interaction.channel
        refusal = await self._refusal(channel)
        if refusal or not isinstance(channel, MESSAGE_CHANNELS):
            await interaction.followup.send(refusal or texts.NO_CHANNEL, ephemeral=True)
            return
        less = texts.less(days, self.loader.reaches_s(channel))
        begun = await self.loader.begin(channel, days, _Progress(interaction, less))
        await interaction.edit_original_response(content=less + texts.loading(begun))
        log.info("loading", guild_id=interaction.guild_id, channel_id=channel.id, days=days)

    @history_.command(name="export", description="Get this channel's past as a Markdown file")
    @app_commands.rename(first="from", last="to")
    @app_commands.describe(
        first="Where to begin, such as 3 days or 2027-01-12; a week ago by default",
        last="Where to end; now by default",
    )
    @app_commands.autocomplete(first=offer_durations, last=offer_durations)
    @app_commands.check(moderates_and_reads)
    async def export(
        self, interaction: discord.Interaction, first: Time | None = None, last: Time | None = None
    ) -> None:
        await interaction.response.defer(ephemeral=True)
        guild_id, channel_id = interaction.guild_id or 0, interaction.channel_id or 0
        await self._until_stored(channel_id)
        tz = self.memory.policies.of(guild_id, channel_id, thread_of=thread_of(interaction.channel)).tz.key
        try:
            window = between(interaction.created_at.timestamp(), first or "", last or "", tz)
        except ReachError as refused:
            await interaction.followup.send(str(refused), ephemeral=True)
            return
        made = await export(self.memory, guild_id, channel_id, window, _title(interaction))
        if not made.found:
            await interaction.followup.send(texts.NOTHING_THERE, ephemeral=True)
            return
        name, data, remark = await asyncio.to_thread(fit, made.lines, interaction.filesize_limit, FILE_NAME)
        file = discord.File(io.BytesIO(data), filename=name)
        await interaction.followup.send(texts.exported(made) + remark, file=file, ephemeral=True)

    async def _refusal(self, channel: object) -> str:
        """Why nothing can be loaded; empty if it can."""
        if not isinstance(channel, MESSAGE_CHANNELS):
            return texts.NO_CHANNEL
        if not is_remembered(channel, self.context.settings, self.memory.policies):
            return texts.NOT_REMEMBERED
        if not can_read(channel, channel.guild.me):
            return texts.UNREADABLE
        return texts.PAUSED if await self._is_paused(channel) else ""

    async def _is_paused(self, channel: MessageChannel) -> bool:
        return (await self.memory.status(channel.guild.id, channel.id)).paused


def _title(interaction: discord.Interaction) -> str:
    channel, guild = interaction.channel, interaction.guild
    if isinstance(channel, MESSAGE_CHANNELS) and guild is not None:
        return f"#{channel.name} of {guild.name}"
    return "A channel"


class _Progress:
    """Shows how far a load is in the answer to its command, as long as that can be edited."""

    def __init__(self, interaction: discord.Interaction, lead: str) -> None:
        self._interaction, self._lead = interaction, lead
        self._began = self._told = time.monotonic()

    async def __call__(self, load: Load) -> None:
        now, done = time.monotonic(), load.done_id >= load.end_id
        if now - self._began > TOKEN_S or (now - self._told < TOLD_EVERY_S and not done):
            return
        self._told = now
        text = texts.loaded(load) if done else texts.loading(load)
        try:
            await self._interaction.edit_original_response(content=self._lead + text)
        except discord.HTTPException as error:
            log.debug("could not show progress", status=error.status)
