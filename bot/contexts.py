"""/context and /new: how far back the bot looks, where it starts fresh, and who may decide that.

The latter is checked here and not by Discord's default permissions alone, because admins can offer a command to
anybody, and because Discord offers or hides a whole command: `/context show` is for everyone.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from functools import partial
from typing import Final, cast

import discord
import structlog
from discord import app_commands
from discord.ext import commands

from channelmem.context_window import Command, ContextWindow, EditError, Step, decode, lines_of, suggestions
from channelmem.display import listed, name
from channelmem.errors import ChannelmemError

from .commands import (
    RefusedError,
    channel_id_of,
    digest,
    given,
    holds,
    in_server,
    report,
    server_group,
    shorten,
    tell,
)
from .context import BotContext
from .messages import thread_of

log = structlog.get_logger(__name__)

OFFERED, LONGEST = 25, 100
"""How many options Discord takes, and how long one may be."""
WHOSE = "Whose context; by default the first character"
NO_CHARACTER = "I have no character here. My operator can check CHANNELMEM_CHARACTER."


def chosen(typed: str | None, names: Iterable[str]) -> str:
    """The character that is meant, by default the first."""
    known = list(names)
    if not known:
        raise RefusedError(NO_CHARACTER)
    wanted = (typed or known[0]).strip().casefold()
    found = next((one for one in known if one.casefold() == wanted), None)
    if found is None:
        raise RefusedError(f"I don't know a character called {name(typed or '')}. I know {listed(known)}.")
    return found


async def offer_durations(_interaction: discord.Interaction, typed: str) -> list[app_commands.Choice[str]]:
    return _choices(suggestions(typed))


async def offer_characters(interaction: discord.Interaction, typed: str) -> list[app_commands.Choice[str]]:
    known = (one.name for one in cast("BotContext", interaction.client).characters)
    return _choices(one for one in known if typed.strip().casefold() in one.casefold())


def _choices(texts: Iterable[str]) -> list[app_commands.Choice[str]]:
    return [app_commands.Choice(name=one, value=one) for one in texts if len(one) <= LONGEST][:OFFERED]


# --- form ---


FORM_MAX: Final = 4000
OUTGROWN: Final = "There is too much for a form by now. Use `/context edit` again, and its file."
LABEL: Final = "Messages to start with"
ABOUT: Final = "Delete the lines you want to leave out. You can't change, add or move lines."


class EditAction(StrEnum):
    OPEN = "open"
    SAVE = "save"


_CUSTOM_ID: Final = re.compile(rf"context:({'|'.join(EditAction)}):([0-9a-f]+)")


def button(character: str) -> discord.ui.View:
    view = discord.ui.View(timeout=None)
    view.add_item(discord.ui.Button(label="Edit here", custom_id=_custom_id(EditAction.OPEN, character)))
    view.stop()  # clicks are read from custom ids, so discord.py need not keep the view
    return view


def form(character: str, lines: str) -> discord.ui.Modal:
    modal = discord.ui.Modal(
        title=shorten(f"What {character} starts with", 45), custom_id=_custom_id(EditAction.SAVE, character)
    )
    text: discord.ui.TextInput[discord.ui.Modal] = discord.ui.TextInput(
        custom_id="lines",
        style=discord.TextStyle.paragraph,
        default=lines,
        required=False,  # an empty one cancels
        max_length=FORM_MAX,
    )
    modal.add_item(discord.ui.Label(text=LABEL, description=ABOUT, component=text))
    modal.stop()
    return modal


def read(interaction: discord.Interaction, characters: Iterable[str]) -> tuple[EditAction, str, str] | None:
    """What is to be done, for which character, and what was typed; None if the click is not about this form."""
    data = dict(interaction.data or {})
    found = _CUSTOM_ID.fullmatch(str(data.get("custom_id", "")))
    if found is None:
        return None
    names = {digest(name): name for name in characters}
    return EditAction(found[1]), names.get(found[2], ""), given(data)


def _custom_id(action: EditAction, character: str) -> str:
    return f"context:{action}:{digest(character)}"


# --- who may use them ---


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


class Contexts(commands.Cog):
    context_ = server_group("context", "How far back I look unasked")

    def __init__(self, context: BotContext) -> None:
        self.context, self._window = context, ContextWindow(context.memory)

    @context_.command(name="show", description="Show how far back I look here unasked")
    @app_commands.describe(character=WHOSE)
    @app_commands.autocomplete(character=offer_characters)
    @app_commands.check(in_server)
    async def show(self, interaction: discord.Interaction, character: str | None = None) -> None:
        await self._answer(interaction, self._whose(character), self._window.show)

    @context_.command(name="set", description="Set how far back I look")
    @app_commands.describe(duration="For example 24h, 2 days or yesterday", character=WHOSE)
    @app_commands.autocomplete(duration=offer_durations, character=offer_characters)
    @app_commands.check(moderates)
    async def set_(self, interaction: discord.Interaction, duration: Duration, character: str | None = None) -> None:
        await self._answer(interaction, self._whose(character), partial(self._window.change, Step.SET, duration))

    @context_.command(name="add", description="Look further back than now")
    @app_commands.describe(duration="For example 8h or 1 day", character=WHOSE)
    @app_commands.autocomplete(duration=offer_durations, character=offer_characters)
    @app_commands.check(moderates)
    async def add(self, interaction: discord.Interaction, duration: Duration, character: str | None = None) -> None:
        await self._answer(interaction, self._whose(character), partial(self._window.change, Step.ADD, duration))

    @context_.command(name="sub", description="Look less far back than now")
    @app_commands.describe(duration="For example 4h or 1 day", character=WHOSE)
    @app_commands.autocomplete(duration=offer_durations, character=offer_characters)
    @app_commands.check(moderates)
    async def sub(self, interaction: discord.Interaction, duration: Duration, character: str | None = None) -> None:
        await self._answer(interaction, self._whose(character), partial(self._window.change, Step.SUB, duration))

    @context_.command(name="reset", description="Look as far back as by default")
    @app_commands.describe(character=WHOSE)
    @app_commands.autocomplete(character=offer_characters)
    @app_commands.check(moderates)
    async def reset(self, interaction: discord.Interaction, character: str | None = None) -> None:
        await self._answer(interaction, self._whose(character), self._window.reset)

    @app_commands.command(name="new", description="Start fresh: I stop using what was said here before, unless asked")
    @app_commands.guild_only()
    @app_commands.allowed_contexts(guilds=True)
    @app_commands.check(starts_anew)
    async def new(self, interaction: discord.Interaction) -> None:
        await self._answer(interaction, "", self._window.begin)
        log.info("fresh start", guild_id=interaction.guild_id, channel_id=interaction.channel_id)

    @context_.command(name="edit", description="Choose which messages of this channel I start with")
    @app_commands.describe(file="The edited file; without it, I send you one", character=WHOSE)
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
        await self.context.until_stored(command.channel_id)
        try:
            text = await self._window.edit_file(command, HAND_BACK)
        except EditError as refused:
            await tell(interaction, str(refused))
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
            moderates_and_reads(interaction)
            action, character, text = click
            character = self._whose(character or None)
            if action is EditAction.SAVE:
                await self._answer(interaction, character, partial(self._window.keep, text))
            else:
                await self._open_form(interaction, character)
        except (app_commands.CheckFailure, ChannelmemError, discord.HTTPException) as error:
            await report(interaction, error)

    async def _open_form(self, interaction: discord.Interaction, character: str) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FORM_WAIT_S):
                await self.context.until_stored(interaction.channel_id or 0)
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

    async def _answer(
        self, interaction: discord.Interaction, character: str, act: Callable[[Command], Awaitable[str]]
    ) -> None:
        await interaction.response.defer(ephemeral=True, thinking=True)
        await tell(interaction, await act(self._command(interaction, character)))

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
