"""/summary: what was said in a span, how summaries stand, and rebuilding them after one click."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import discord
import structlog
from discord import app_commands
from discord.ext import commands

from channelmem.context.window import ReachError, status_of
from channelmem.display import counted
from channelmem.errors import SummariesBusyError
from channelmem.export import back_from

from .asking import QuestionBuilder
from .commands import channel_id_of, report, server_group, tell
from .context import BotContext, UntilStored
from .contexts import moderates, moderates_and_reads, offer_durations

NOTHING_SAID = "I have nothing from that time in this channel."
ASK = (
    "Rebuild this channel's summaries? Those whose messages I no longer have stay as they are. "
    "With a language model this costs about as much as the first time."
)
CONFIRM, CANCEL = "Rebuild", "Cancel"
CANCELLED = "Nothing was changed."
EXPIRED = "Nothing was changed: nobody confirmed in time."
REBUILDING = "Rebuilding this channel's summaries …"
CONFIRM_S = 60.0

log = structlog.get_logger(__name__)


class SummaryCommands(commands.Cog, name="Summaries"):
    summary_ = server_group("summary", "This channel's past in few words", manage_messages=True)

    def __init__(self, context: BotContext, until_stored: UntilStored) -> None:
        self.context, self.memory, self._until_stored = context, context.memory, until_stored
        self._questions = QuestionBuilder(context)

    @summary_.command(name="now", description="Sum up what was said here")
    @app_commands.describe(span="How far back: for example 24h, 2 days or yesterday")
    @app_commands.autocomplete(span=offer_durations)
    @app_commands.check(moderates_and_reads)
    async def now(self, interaction: discord.Interaction, span: app_commands.Range[str, 1, 100] = "24h") -> None:
        await interaction.response.defer(ephemeral=True)
        await self._until_stored(interaction.channel_id or 0)
        question = await self._questions.from_interaction(interaction, "", private=True)
        policy = self.memory.policies.of_question(question)
        try:
            window = back_from(question.ts, span, policy.tz.key)
        except ReachError as refused:
            await tell(interaction, str(refused))
            return
        told = await self.memory.recaps.of_span(question, window, policy) if policy.enabled else None
        await tell(interaction, told.text if told else NOTHING_SAID)

    @summary_.command(name="status", description="Show what a language model is given of this channel's past")
    @app_commands.check(moderates)
    async def status(self, interaction: discord.Interaction) -> None:
        await interaction.response.defer(ephemeral=True)
        await self._until_stored(interaction.channel_id or 0)
        question = await self._questions.from_interaction(interaction, "", private=True)
        await tell(interaction, await status_of(self.memory, question))

    @summary_.command(name="rebuild", description="Rebuild this channel's summaries")
    @app_commands.check(moderates)
    async def rebuild(self, interaction: discord.Interaction) -> None:
        asked = Confirmation(self._rebuilt, interaction)
        await interaction.response.send_message(ASK, view=asked, ephemeral=True)

    async def _rebuilt(self, interaction: discord.Interaction) -> str:
        moderates(interaction)  # it may have been taken away meanwhile
        channel = channel_id_of(interaction)
        try:
            made = await self.memory.summaries.rebuild(*channel)
        except SummariesBusyError as busy:
            return str(busy)
        log.info("summaries rebuilt", guild_id=channel.guild_id, channel_id=channel.channel_id, made=made)
        return f"I rebuilt {counted(made, 'summary', 'summaries')}."


class Confirmation(discord.ui.View):
    """Asks once, then does it; without an answer it goes away after a minute."""

    def __init__(self, act: Callable[[discord.Interaction], Awaitable[str]], asked: discord.Interaction) -> None:
        super().__init__(timeout=CONFIRM_S)
        self._act, self._asked = act, asked

    @discord.ui.button(label=CONFIRM, style=discord.ButtonStyle.danger)
    async def confirm(self, interaction: discord.Interaction, _button: discord.ui.Button[Confirmation]) -> None:
        self.stop()
        await interaction.response.edit_message(content=REBUILDING, view=None)
        text = await self._act(interaction)
        await interaction.edit_original_response(content=text)

    @discord.ui.button(label=CANCEL, style=discord.ButtonStyle.secondary)
    async def cancel(self, interaction: discord.Interaction, _button: discord.ui.Button[Confirmation]) -> None:
        self.stop()
        await interaction.response.edit_message(content=CANCELLED, view=None)

    async def on_timeout(self) -> None:
        try:
            await self._asked.edit_original_response(content=EXPIRED, view=None)
        except discord.HTTPException as error:
            log.debug("could not take the question back", status=error.status)

    async def on_error(
        self, interaction: discord.Interaction, error: Exception, _item: discord.ui.Item[Confirmation]
    ) -> None:
        await report(interaction, error)
