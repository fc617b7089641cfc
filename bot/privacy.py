"""/memory and /memory-channel: people control what the bot keeps of them or of a channel; and the join notice.

The second is a command of its own, because Discord offers or hides whole commands: it exists only in servers, and only
for managers. Each command has a cooldown of its own, so that nobody who just asked for an export has to wait before
they can opt out.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime

import aiohttp
import discord
import structlog
from discord import app_commands
from discord.ext import commands
from discord.utils import format_dt

from channelmem.display import counted
from channelmem.durations import DAY_S, HOUR_S, MINUTE_S
from channelmem.errors import RedisUnavailableError
from channelmem.types import ChannelStatus, Message

from .answers import Traces
from .asking import Cooldown
from .commands import NO_PINGS, RefusedError, channel_id_of, holds, server_group, tell
from .context import BotContext
from .messages import is_remembered

log = structlog.get_logger(__name__)

FORGOTTEN = (
    "I forgot everything you wrote, in every server, and I won't remember anything new. "
    "Use `/memory opt-in` if you change your mind."
)
OPTED_OUT = (
    "From now on I won't remember what you write, in any server, and I won't show what I already have. "
    "`/memory forget me` deletes that too; `/memory opt-in` undoes this."
)
OPTED_IN = "From now on I remember what you write, as I do for everyone."
RETURNING = (
    "You're opted in again, but I'm still deleting what you asked me to forget ({left} to go). "
    "Once that's done, I'll remember what you write."
)
COOLING_DOWN = "You just used this command. Try again in {seconds} s."
PAUSED = "I won't remember anything new in this channel until `/memory-channel resume`. I keep what I already know."
RESUMED = "I remember this channel again."
NOTHING_STORED = "I don't have anything you wrote."
MANAGERS_ONLY = "Only people who can manage this channel can do that."
EXCLUDED = "My settings exclude this channel, so I don't remember anything here."
NOTICE = (
    "Hello! I remember what's said in the channels I can read, so you can ask me about it (mention me, or use `/ask`). "
    "{kept} Edits and deletions apply right away.\n"
    "`/memory forget me` deletes what you wrote, `/memory opt-out` stops me from remembering you, and "
    "`/memory export me` shows you what I have. "
    "Channel managers can use `/memory-channel pause` and `/memory-channel clear`. `/help` lists all commands."
)

SENT = (
    " A language model summarises what is said here, so all of it is sent to its provider, "
    "even if nobody asks me about it."
)


def notice(lifetime_s: float, kept_s: float = 0.0, *, sent: bool = False) -> str:
    """`kept_s` is how long people's words are kept at most; summaries may outlive messages. `sent` says that a language
    model writes these."""
    longer = f", summaries of them for {_span(kept_s)}" if kept_s > lifetime_s else ""
    return NOTICE.format(kept=f"Messages are kept for {_span(lifetime_s)}{longer}.{SENT if sent else ''}")


def returning(left: int) -> str:
    return RETURNING.format(left=counted(left, "message"))


def describe(status: ChannelStatus, *, included: bool) -> str:
    if not included:
        return EXCLUDED
    state = "I'm paused in this channel" if status.paused else "I remember this channel"
    archive = "with archive" if status.archive else "without archive"
    span = ""
    if status.oldest_ts and status.newest_ts:
        span = f", from {_time(status.oldest_ts)} to {_time(status.newest_ts)}"
    waiting = f" Still waiting for an embedding: {status.pending}." if status.pending else ""
    return f"{state} ({archive}): {counted(status.messages, 'message')}{span}.{waiting}"


def _span(seconds: float) -> str:
    if seconds < HOUR_S:
        return counted(round(seconds / MINUTE_S), "minute")
    return f"{seconds / DAY_S:g} day{'' if seconds == DAY_S else 's'}"


def _time(ts: float) -> str:
    return format_dt(datetime.fromtimestamp(ts, UTC), "f")


# --- exports, and the progress of an opt-in ---


PLAIN = "my-messages.jsonl"
TRUNCATED = " The file holds only the newest ones; the rest doesn't fit in an upload."


def to_line(message: Message) -> str:
    """One JSON line; ids are strings because JSON readers round large numbers."""
    fields: dict[str, object] = {
        "guild_id": str(message.guild_id),
        "channel_id": str(message.channel_id),
        "id": str(message.id),
        "time": datetime.fromtimestamp(message.ts, UTC).isoformat(),
        "content": message.content,
    }
    if message.attachments:
        fields["attachments"] = [{"name": one.name, "alt": one.alt, "text": one.text} for one in message.attachments]
    return json.dumps(fields, ensure_ascii=False)


def fit(lines: Sequence[str], limit: int, name: str = PLAIN) -> tuple[str, bytes, str]:
    """File name, content and a remark: plain if it fits, else gzipped, else only the newest part."""
    data = "\n".join(lines).encode()
    if len(data) <= limit:
        return name, data, ""
    packed = gzip.compress(data)
    if len(packed) <= limit:
        return f"{name}.gz", packed, ""
    newest = data[-limit:].split(b"\n", 1)[-1]
    return name, newest, TRUNCATED


SHOWN_EVERY_S = 3.0
LONGEST_S = 14 * 60.0
"""Discord lets a reply be edited for 15 minutes. The opt-in itself does not depend on this."""


# --- people ---


EXPORT = "memory export me"


class CooledCog(commands.Cog):
    def __init__(self, context: BotContext) -> None:
        self.context, self.memory = context, context.memory
        self._cooldowns: dict[str, Cooldown] = {}
        """By command."""

    async def interaction_check(self, interaction: discord.Interaction) -> bool:
        """Raises RefusedError, or starts the cooldown."""
        settings = self.context.settings
        name = interaction.command.qualified_name if interaction.command else ""
        user_s = settings.cooldown_export_s if name == EXPORT else settings.cooldown_user_s
        cooldown = self._cooldowns.setdefault(name, Cooldown(user_s, channel_s=0))
        allowed, wait_s = cooldown.take(interaction.user.id, interaction.channel_id or 0)
        if not allowed:
            raise RefusedError(COOLING_DOWN.format(seconds=max(1, round(wait_s))))
        return True


class Privacy(CooledCog):
    memory_ = app_commands.Group(name="memory", description="Control what I remember")
    forget_ = app_commands.Group(name="forget", description="Delete what I remember", parent=memory_)
    export_ = app_commands.Group(name="export", description="Get a copy of what I remember", parent=memory_)

    def __init__(self, context: BotContext, traces: Traces) -> None:
        super().__init__(context)
        self.traces = traces
        self._returning: dict[int, asyncio.Task[None]] = {}
        """Who waits to be back, each with the task that tells how far it is."""

    async def cog_unload(self) -> None:
        for task in self._returning.values():
            task.cancel()
        await asyncio.gather(*self._returning.values(), return_exceptions=True)

    @forget_.command(name="me", description="Make me forget everything you wrote")
    async def forget_me(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        self._forget_cached(interaction.user.id)
        await self.memory.forget(interaction.user.id)
        log.info("user forgotten")
        await tell(interaction, FORGOTTEN)

    @memory_.command(name="opt-out", description="Stop me from remembering what you write")
    async def opt_out(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        self._forget_cached(interaction.user.id)
        await self.memory.opt_out(interaction.user.id)
        await tell(interaction, OPTED_OUT)

    def _forget_cached(self, user_id: int) -> None:
        self.context.history.delete_author(user_id)
        self.traces.drop_person(user_id)
        self._stop_watching(user_id)

    @memory_.command(name="opt-in", description="Let me remember what you write again")
    async def opt_in(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        left = await self.memory.opt_in(interaction.user.id)
        text = OPTED_IN if left is None else returning(left)
        reply = await interaction.followup.send(text, ephemeral=True, wait=True)
        if left is not None:
            self._stop_watching(interaction.user.id)
            watching = asyncio.create_task(self._watch_return(interaction.user.id, reply))
            self._returning[interaction.user.id] = watching

    def _stop_watching(self, user_id: int) -> None:
        """They changed their mind, so the reply must not say that they are back."""
        if task := self._returning.pop(user_id, None):
            task.cancel()

    async def _watch_return(self, user_id: int, reply: discord.WebhookMessage) -> None:
        try:
            async with asyncio.timeout(LONGEST_S):
                while await self._show_return(user_id, reply):  # noqa: ASYNC110  (Redis does not tell)
                    await asyncio.sleep(SHOWN_EVERY_S)
        except (discord.HTTPException, aiohttp.ClientError, OSError) as error:
            log.info("progress of an opt-in no longer shown", problem=type(error).__name__)
        finally:
            if self._returning.get(user_id) is asyncio.current_task():
                del self._returning[user_id]

    async def _show_return(self, user_id: int, reply: discord.WebhookMessage) -> bool:
        """Edits the reply if there is news; returns whether to look again."""
        try:
            left = await self.memory.returning(user_id)
        except RedisUnavailableError:
            return True  # the removal waits as well
        text = OPTED_IN if left is None else returning(left)
        if text != reply.content:
            reply.content = text
            await reply.edit(content=text)
        return left is not None

    @export_.command(name="me", description="Get everything I remember of what you wrote, as a file")
    async def export_me(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        lines = [to_line(message) async for message in self.memory.export(interaction.user.id)]
        if not lines:
            await tell(interaction, NOTHING_STORED)
            return
        name, data, remark = await asyncio.to_thread(fit, lines, interaction.filesize_limit)
        file = discord.File(io.BytesIO(data), filename=name)
        text = f"Here {'is' if len(lines) == 1 else 'are'} {counted(len(lines), 'message')} you wrote."
        await interaction.followup.send(text + remark, file=file, ephemeral=True)

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
        return notice(policy.limits.lifetime_s, policy.kept_s, sent=sent)


def _notice_channel(guild: discord.Guild) -> discord.TextChannel | None:
    """The guild's system channel, or else the first channel the bot can write in."""
    for channel in filter(None, (guild.system_channel, *guild.text_channels)):
        granted = channel.permissions_for(guild.me)
        if granted.view_channel and granted.send_messages:
            return channel
    return None


# --- channels ---


def manages_channel(interaction: discord.Interaction) -> bool:
    thread = isinstance(interaction.channel, discord.Thread)
    if holds(interaction, "manage_channels") or (thread and holds(interaction, "manage_threads")):
        return True
    raise RefusedError(MANAGERS_ONLY)


class ChannelPrivacy(CooledCog):
    channel_ = server_group("memory-channel", "Control what I remember of this channel", manage_channels=True)

    @channel_.command(name="pause", description="Stop remembering new messages in this channel")
    @app_commands.check(manages_channel)
    async def pause(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        await self.memory.pause(*channel_id_of(interaction))
        await tell(interaction, PAUSED)

    @channel_.command(name="resume", description="Remember this channel again")
    @app_commands.check(manages_channel)
    async def resume(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        await self.memory.resume(*channel_id_of(interaction))
        await tell(interaction, RESUMED)

    @channel_.command(name="clear", description="Forget everything said in this channel")
    @app_commands.check(manages_channel)
    async def clear(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        guild_id, channel_id = channel_id_of(interaction)
        status = await self.memory.status(guild_id, channel_id)
        # By Discord's clock, like the messages: this machine's may be wrong.
        await self.memory.clear(guild_id, channel_id, interaction.created_at.timestamp())
        log.info("channel cleared", guild_id=guild_id, channel_id=channel_id)
        await tell(interaction, f"I forgot this channel ({counted(status.messages, 'message')}).")

    @channel_.command(name="status", description="Show what I remember of this channel")
    @app_commands.check(manages_channel)
    async def status(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        status = await self.memory.status(*channel_id_of(interaction))
        channel = interaction.channel or discord.Object(0)
        included = is_remembered(channel, self.context.settings, self.memory.policies)
        await tell(interaction, describe(status, included=included))
