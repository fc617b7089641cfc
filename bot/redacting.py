"""Puts "[removed]" in place of the bot's answers that quote what was deleted or forgotten since.

Memory lists such answers until they are dealt with, so a restart or an outage of Discord only delays this.
"""

from __future__ import annotations

import asyncio

import aiohttp
import discord
import structlog
from discord import app_commands
from discord.ext import commands

from channelmem.errors import ChannelmemError

from .commands import NO_PINGS
from .context import BotContext, UntilStored

REMOVED = "[removed]"
EVERY_S = 60.0
"""Between two looks at the list: other processes delete too, and Discord may have refused an edit."""
IMPOSSIBLE = (discord.NotFound, discord.Forbidden)
"""The answer is gone, or the bot may no longer edit it: trying again won't help."""

log = structlog.get_logger(__name__)


class Redacting(commands.Cog):
    def __init__(self, context: BotContext, until_stored: UntilStored) -> None:
        self.context, self.memory, self._until_stored = context, context.memory, until_stored
        self._redacting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def cog_load(self) -> None:
        if self.context.settings.redact_answers:
            self._task = asyncio.create_task(self._look_again_and_again(), name="redacting")

    async def cog_unload(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # --- what makes it look ---

    @commands.Cog.listener()
    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        await self._until_stored(payload.channel_id)
        await self.look()

    @commands.Cog.listener()
    async def on_raw_bulk_message_delete(self, payload: discord.RawBulkMessageDeleteEvent) -> None:
        await self._until_stored(payload.channel_id)
        await self.look()

    @commands.Cog.listener()
    async def on_app_command_completion(
        self,
        interaction: discord.Interaction,
        command: app_commands.Command[commands.Cog, ..., None] | app_commands.ContextMenu,
    ) -> None:
        await self.look()  # it may have been a "forget me"

    # --- the work ---

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await self.look()

    async def look(self) -> None:
        if not self.context.settings.redact_answers:
            return
        async with self._redacting:
            try:
                await self._redact_all()
            except ChannelmemError as error:
                log.warning("redaction postponed", problem=type(error).__name__)

    async def _redact_all(self) -> None:
        for guild_id, channel_id, message_id in await self.memory.to_redact():
            if await self._redact(channel_id, message_id):
                await self.memory.redacted(guild_id, channel_id, message_id)
                log.info("answer redacted", guild_id=guild_id, channel_id=channel_id)

    async def _redact(self, channel_id: int, message_id: int) -> bool:
        """Whether it is dealt with; otherwise it stays on the list."""
        answer = self.context.get_partial_messageable(channel_id).get_partial_message(message_id)
        try:
            await answer.edit(content=REMOVED, allowed_mentions=NO_PINGS)
        except IMPOSSIBLE:
            return True
        except (discord.HTTPException, aiohttp.ClientError, OSError) as error:
            log.warning("answer not redacted yet", problem=type(error).__name__)
            return False
        return True
