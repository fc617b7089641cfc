"""Cog: /memory, people's say in what is kept, and the notice on joining. In: commands. Out: Memory calls."""

from __future__ import annotations

import gzip
import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import discord
import structlog
from discord import app_commands
from discord.ext import commands

from bot.messages.permissions import remembered
from channelmem.types import ChannelStatus, Message

if TYPE_CHECKING:
    from bot.client import Bot

log = structlog.get_logger(__name__)

FORGOTTEN = (
    "I forgot everything that you wrote, in every server, and remember nothing new of you. "
    "`/memory opt-in` lets me remember you again."
)
OPTED_OUT = (
    "From now on I remember nothing that you write, in any server, and I show nothing that I had. "
    "`/memory forget me` removes that too; `/memory opt-in` undoes this."
)
OPTED_IN = "From now on I remember what you write, as I do for everybody."
PAUSED = "I remember nothing new in this channel until `/memory resume`. What I already know stays."
RESUMED = "I remember this channel again."
NOTHING = "I hold nothing that you wrote."
NOTICE = (
    "Hello! I remember what is said in the channels that I can read, so that you can ask me about it "
    "(mention me, or `/ask`). {kept} Edits and deletions are followed at once.\n"
    "`/memory forget me` removes what you wrote, `/memory opt-out` keeps me from remembering you, "
    "`/memory export me` shows you what I hold; who manages a channel can `/memory pause` or `/memory clear` it."
)


class NotManagerError(app_commands.CheckFailure):
    """The command is for those who manage the channel."""


def manages_channel(interaction: discord.Interaction) -> bool:
    """Discord's default permissions cover whole commands only, and admins can override them: so it is checked here."""
    if interaction.guild_id is None:
        raise app_commands.NoPrivateMessage("This is for server channels; there is no channel here.")
    held = interaction.permissions
    thread = isinstance(interaction.channel, discord.Thread)
    if held.manage_channels or held.administrator or (thread and held.manage_threads):
        return True
    raise NotManagerError("Only people who may manage this channel can do that.")


def kept_for(days: float) -> str:
    return f"Messages are kept for {days:g} day{'s' if days != 1 else ''}."


class Privacy(commands.Cog):
    memory_ = app_commands.Group(name="memory", description="What I remember, and your say in it")
    forget_ = app_commands.Group(name="forget", description="Remove what I hold", parent=memory_)
    export_ = app_commands.Group(name="export", description="Show what I hold", parent=memory_)

    def __init__(self, bot: Bot) -> None:
        self.bot = bot
        self.memory = bot.memory

    # --- for anyone ---

    @forget_.command(name="me", description="Forget everything that I remember of what you wrote")
    async def forget_me(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        self.bot.history.drop_author(interaction.user.id)
        self.bot.traces.drop_person(interaction.user.id)
        await self.memory.forget(interaction.user.id)
        log.info("forgot a person")
        await interaction.followup.send(FORGOTTEN, ephemeral=True)

    @memory_.command(name="opt-out", description="Do not remember what I write")
    async def opt_out(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        self.bot.history.drop_author(interaction.user.id)
        self.bot.traces.drop_person(interaction.user.id)
        await self.memory.opt_out(interaction.user.id)
        await interaction.followup.send(OPTED_OUT, ephemeral=True)

    @memory_.command(name="opt-in", description="Remember what I write again")
    async def opt_in(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        await self.memory.opt_in(interaction.user.id)
        await interaction.followup.send(OPTED_IN, ephemeral=True)

    @export_.command(name="me", description="Everything that I remember of what you wrote, as a file")
    async def export_me(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        lines = [_line(message) async for message in self.memory.export(interaction.user.id)]
        if not lines:
            await interaction.followup.send(NOTHING, ephemeral=True)
            return
        name, data, note = _fit(lines, interaction.filesize_limit)
        file = discord.File(io.BytesIO(data), filename=name)
        await interaction.followup.send(f"{len(lines)} messages of yours.{note}", file=file, ephemeral=True)

    # --- for those who manage the channel ---

    @memory_.command(name="pause", description="Remember nothing new in this channel")
    @app_commands.check(manages_channel)
    async def pause(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        await self.memory.pause(*_here(interaction))
        await interaction.followup.send(PAUSED, ephemeral=True)

    @memory_.command(name="resume", description="Remember this channel again")
    @app_commands.check(manages_channel)
    async def resume(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        await self.memory.resume(*_here(interaction))
        await interaction.followup.send(RESUMED, ephemeral=True)

    @memory_.command(name="clear", description="Forget everything that was said in this channel")
    @app_commands.check(manages_channel)
    async def clear(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        guild_id, channel_id = _here(interaction)
        held = await self.memory.status(guild_id, channel_id)
        await self.memory.clear(guild_id, channel_id)
        log.info("channel cleared", guild_id=guild_id, channel_id=channel_id)
        await interaction.followup.send(f"I forgot this channel ({held.messages} messages).", ephemeral=True)

    @memory_.command(name="status", description="What I remember of this channel")
    @app_commands.check(manages_channel)
    async def status(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        held = await self.memory.status(*_here(interaction))
        listed = remembered(interaction.channel or discord.Object(0), self.bot.settings)
        await interaction.followup.send(describe(held, listed=listed), ephemeral=True)

    # --- the notice ---

    @commands.Cog.listener()
    async def on_guild_join(self, guild: discord.Guild) -> None:
        room = self._notice_room(guild) if self.bot.settings.join_notice else None
        if room is None:
            return
        kept = kept_for(self.bot.settings.lifetime_s / 86_400)
        try:
            await room.send(NOTICE.format(kept=kept), allowed_mentions=discord.AllowedMentions.none())
        except discord.HTTPException as error:
            log.warning("join notice not posted", guild_id=guild.id, status=error.status)

    def _notice_room(self, guild: discord.Guild) -> discord.TextChannel | None:
        """Where the guild shows its own notices, else the first channel where the bot may write."""
        offered = [guild.system_channel, *guild.text_channels]
        return next((room for room in offered if room and _may_write(room)), None)


def _may_write(room: discord.TextChannel) -> bool:
    held = room.permissions_for(room.guild.me)
    return held.view_channel and held.send_messages


def _here(interaction: discord.Interaction) -> tuple[int, int]:
    """Guild and channel; both exist wherever `manages_channel` let the command pass."""
    return interaction.guild_id or 0, interaction.channel_id or 0


def _line(message: Message) -> str:
    when = datetime.fromtimestamp(message.ts, UTC).isoformat()
    return json.dumps(
        {
            "guild_id": str(message.guild_id),
            "channel_id": str(message.channel_id),
            "id": str(message.id),
            "time": when,
            "content": message.content,
        },
        ensure_ascii=False,
    )


def _fit(lines: list[str], limit: int) -> tuple[str, bytes, str]:
    """The export within Discord's upload limit: plain, else packed, else the newest part, and said so."""
    data = "\n".join(lines).encode()
    if len(data) <= limit:
        return "my-messages.jsonl", data, ""
    packed = gzip.compress(data)
    if len(packed) <= limit:
        return "my-messages.jsonl.gz", packed, ""
    part = data[-limit:].split(b"\n", 1)[-1]
    return "my-messages.jsonl", part, " The file holds only the newest of them: more does not fit into an upload."


def describe(held: ChannelStatus, *, listed: bool) -> str:
    if not listed:
        return "This channel is left out by my settings; I remember nothing here."
    state = "paused" if held.paused else "remembered"
    span = ""
    if held.oldest_ts and held.newest_ts:
        span = f", from {_when(held.oldest_ts)} to {_when(held.newest_ts)}"
    waiting = f" {held.pending} wait for their vector." if held.pending else ""
    archive = "with" if held.archive else "without"
    return f"This channel is {state} ({archive} archive): {held.messages} messages{span}.{waiting}"


def _when(ts: float) -> str:
    return discord.utils.format_dt(datetime.fromtimestamp(ts, UTC), "f")
