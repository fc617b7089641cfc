"""/context and /new, and who may use them.

That is checked here and not by Discord's default permissions alone, because admins can offer a command to anybody, and
because Discord offers or hides a whole command: `/context show` is for everyone.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

import discord
import structlog
from discord import app_commands
from discord.ext import commands

from channelmem.context_window import Command, ContextWindow, EditError, Step, decode, lines_of
from channelmem.errors import ChannelmemError

from ..commands import NO_PINGS, RefusedError, channel_id_of, holds, in_server, server_group
from ..context import BotContext, UntilStored
from ..errors import report
from ..messages.convert import thread_of
from .form import FORM_MAX, OUTGROWN, EditAction, button, chosen, form, offer_characters, offer_durations, read

MODERATORS_ONLY = "Only people who can manage messages here can do that."
OWNER_TOO = "Only people who can manage messages here, or the owner of this thread, can do that."
NO_HISTORY = "You can't read the message history of this channel, so I can't show it to you."


def moderates(interaction: discord.Interaction) -> bool:
    if holds(interaction, "manage_messages"):
        return True
    raise RefusedError(MODERATORS_ONLY)


def moderates_and_reads(interaction: discord.Interaction) -> bool:
    """For what shows the channel's past."""
    if moderates(interaction) and holds(interaction, "read_message_history"):
        return True
    raise RefusedError(NO_HISTORY)


def starts_anew(interaction: discord.Interaction) -> bool:
    thread = interaction.channel if isinstance(interaction.channel, discord.Thread) else None
    owns = thread is not None and thread.owner_id == interaction.user.id
    if holds(interaction, "manage_messages") or owns or _is_open_to_all(interaction):
        return True
    raise RefusedError(MODERATORS_ONLY if thread is None else OWNER_TOO)


def _is_open_to_all(interaction: discord.Interaction) -> bool:
    policies = cast("BotContext", interaction.client).memory.policies
    return policies.of(*channel_id_of(interaction), thread_of=thread_of(interaction.channel)).open_new


# --- cog ---


FILE_NAME = "context.txt"
FILE_BYTES = 5_000_000
"""More than the largest file that the bot sends."""
FORM_WAIT_S = 1.0
"""A form can't be acknowledged and then opened, and Discord waits three seconds; Redis may need one, too."""
HAND_BACK = "When you hand it back with /context edit file:"
SENT = (
    "Here is what I have of this channel. Delete the lines you want to leave out, "
    "then hand the file back with `/context edit file:`."
)
SENT_TOO = f"{SENT} You can also edit it here."
TOO_LARGE = "That file is too large to be the one I sent."
UNREADABLE = "I can't download that file. Please send it again."

Duration = app_commands.Range[str, 1, 100]

log = structlog.get_logger(__name__)


class Contexts(commands.Cog):
    context_ = server_group("context", "How far back I look unasked")

    def __init__(self, context: BotContext, until_stored: UntilStored) -> None:
        self.context, self._until_stored = context, until_stored
        self._window = ContextWindow(context.memory)

    # --- how far back ---

    @context_.command(name="show", description="Show how far back I look here unasked")
    @app_commands.describe(character="Whose context; by default the first character")
    @app_commands.autocomplete(character=offer_characters)
    @app_commands.check(in_server)
    async def show(self, interaction: discord.Interaction, character: str | None = None) -> None:
        await self._answer(interaction, self._whose(character), self._window.show)

    @context_.command(name="set", description="Set how far back I look")
    @app_commands.describe(
        duration="For example 24h, 2 days or yesterday", character="Whose context; by default the first character"
    )
    @app_commands.autocomplete(duration=offer_durations, character=offer_characters)
    @app_commands.check(moderates)
    async def set_(self, interaction: discord.Interaction, duration: Duration, character: str | None = None) -> None:
        await self._change(interaction, Step.SET, duration, character)

    @context_.command(name="add", description="Look further back than now")
    @app_commands.describe(
        duration="For example 8h or 1 day", character="Whose context; by default the first character"
    )
    @app_commands.autocomplete(duration=offer_durations, character=offer_characters)
    @app_commands.check(moderates)
    async def add(self, interaction: discord.Interaction, duration: Duration, character: str | None = None) -> None:
        await self._change(interaction, Step.ADD, duration, character)

    @context_.command(name="sub", description="Look less far back than now")
    @app_commands.describe(
        duration="For example 4h or 1 day", character="Whose context; by default the first character"
    )
    @app_commands.autocomplete(duration=offer_durations, character=offer_characters)
    @app_commands.check(moderates)
    async def sub(self, interaction: discord.Interaction, duration: Duration, character: str | None = None) -> None:
        await self._change(interaction, Step.SUB, duration, character)

    @context_.command(name="reset", description="Look as far back as by default")
    @app_commands.describe(character="Whose context; by default the first character")
    @app_commands.autocomplete(character=offer_characters)
    @app_commands.check(moderates)
    async def reset(self, interaction: discord.Interaction, character: str | None = None) -> None:
        await self._answer(interaction, self._whose(character), self._window.reset)

    async def _change(self, interaction: discord.Interaction, step: Step, text: str, character: str | None) -> None:
        change = partial(self._window.change, step, text)
        await self._answer(interaction, self._whose(character), change)

    # --- fresh starts ---

    @app_commands.command(name="new", description="Start fresh: I stop using what was said here before, unless asked")
    @app_commands.guild_only()
    @app_commands.allowed_contexts(guilds=True)
    @app_commands.check(starts_anew)
    async def new(self, interaction: discord.Interaction) -> None:
        await self._answer(interaction, "", self._window.begin)
        log.info("fresh start", guild_id=interaction.guild_id, channel_id=interaction.channel_id)

    @context_.command(name="edit", description="Choose which messages of this channel I start with")
    @app_commands.describe(
        file="The edited file; without it, I send you one", character="Whose context; by default the first character"
    )
    @app_commands.autocomplete(character=offer_characters)
    @app_commands.check(moderates_and_reads)
    async def edit(
        self, interaction: discord.Interaction, file: discord.Attachment | None = None, character: str | None = None
    ) -> None:
        if file is None:
            await self._send_file(interaction, self._whose(character))
        else:
            await self._answer(interaction, self._whose(character), partial(self._take_back, file))

    async def _send_file(self, interaction: discord.Interaction, character: str) -> None:
        await interaction.response.defer(ephemeral=True)
        command = self._command(interaction, character)
        await self._until_stored(command.channel_id)
        try:
            text = await self._window.edit_file(command, HAND_BACK)
        except EditError as refused:
            await interaction.followup.send(str(refused), ephemeral=True)
            return
        file = discord.File(io.BytesIO(text.encode()), filename=FILE_NAME)
        fits = len(lines_of(text)) <= FORM_MAX
        view = button(character) if fits else discord.utils.MISSING
        await interaction.followup.send(SENT_TOO if fits else SENT, file=file, view=view, ephemeral=True)

    @commands.Cog.listener()
    async def on_interaction(self, interaction: discord.Interaction) -> None:
        """Clicks on "Edit here", and the forms that they open."""
        click = read(interaction, (one.name for one in self.context.characters))
        if click is None:
            return
        try:
            await self._clicked(interaction, *click)
        except (app_commands.CheckFailure, ChannelmemError, discord.HTTPException) as error:
            await report(interaction, error)

    async def _clicked(self, interaction: discord.Interaction, action: EditAction, character: str, text: str) -> None:
        moderates_and_reads(interaction)
        character = self._whose(character or None)
        if action is EditAction.SAVE:
            await self._answer(interaction, character, partial(self._window.keep, text))
        else:
            await self._open_form(interaction, character)

    async def _open_form(self, interaction: discord.Interaction, character: str) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FORM_WAIT_S):
                await self._until_stored(interaction.channel_id or 0)
        try:
            lines = lines_of(await self._window.edit_file(self._command(interaction, character), HAND_BACK))
        except EditError as refused:
            await interaction.response.send_message(str(refused), ephemeral=True)
            return
        if len(lines) > FORM_MAX:
            await interaction.response.send_message(OUTGROWN, ephemeral=True)
        else:
            await interaction.response.send_modal(form(character, lines))

    async def _take_back(self, file: discord.Attachment, command: Command) -> str:
        if file.size > FILE_BYTES:
            return TOO_LARGE
        try:
            text = decode(await file.read())
        except EditError as refused:
            return str(refused)
        except discord.HTTPException:
            return UNREADABLE
        return await self._window.keep(text, command)

    # --- in common ---

    async def _answer(
        self, interaction: discord.Interaction, character: str, act: Callable[[Command], Awaitable[str]]
    ) -> None:
        await interaction.response.defer(ephemeral=True, thinking=True)
        text = await act(self._command(interaction, character))
        await interaction.followup.send(text, ephemeral=True, allowed_mentions=NO_PINGS, suppress_embeds=True)

    def _whose(self, character: str | None) -> str:
        return chosen(character, (one.name for one in self.context.characters))

    def _command(self, interaction: discord.Interaction, character: str) -> Command:
        return Command(
            *channel_id_of(interaction),
            by=interaction.user.id,
            at=interaction.created_at.timestamp(),
            character=character,
            thread_of=thread_of(interaction.channel),
        )
