"""Settings in Discord: /admin settings, /channel settings and /character settings each open a private dashboard.

When somebody uses it, the same message is refreshed, or a refusal says why not. Everything is acknowledged before Redis
is asked, because Discord waits three seconds only. A form can't be acknowledged and then opened: its current value
comes from the process's own copy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import discord
import structlog
from discord import app_commands
from discord.ext import commands, tasks

from channelmem.errors import ChannelmemError, RedisUnavailableError
from channelmem.policy.cascade import UNDO, Auto, Change, Level, Loss, Place, Setting, Value

from . import board
from .board import (
    OPENS,
    Action,
    Address,
    Click,
    opens_channel,
    opens_character,
    opens_global,
    owners_of,
    picture,
    read_click,
)
from .commands import NO_PINGS, RefusedError, report, server_group
from .context import BotContext
from .contexts import chosen, offer_characters
from .messages import UNRESOLVED

log = structlog.get_logger(__name__)

T = TypeVar("T")
Handler = Callable[[discord.Interaction, Click], Awaitable[None]]


OWNERS_REFRESH_MIN = 5


class Dashboards(commands.Cog):
    # Discord offers a command to those who hold the permission; the check decides, whatever a server's admins changed.
    admin_ = app_commands.Group(
        name="admin",
        description="Settings of the whole bot, for its owners",
        default_permissions=discord.Permissions(administrator=True),
    )
    channel_ = server_group("channel", "Settings of this channel", manage_channels=True)
    character_ = server_group("character", "Settings of a character in this server", manage_guild=True)

    def __init__(self, context: BotContext) -> None:
        self.context, self._policies = context, context.memory.policies
        self._handlers: dict[Action, Handler] = {
            Action.HOME: self._home,
            Action.CONFIGURE: self._configure,
            Action.CHOOSE: self._choose,
            Action.SWITCH: self._save,
            Action.SAVE: self._save,
            Action.AGREE: self._agree,
            Action.RESET: self._reset,
            Action.CONFIRM: self._confirm,
            Action.CLOSE: self._close,
        }

    async def cog_load(self) -> None:
        if self.context.application is not None:
            self.context.owner_ids = owners_of(self.context.application)
        self.refresh_owners.start()

    async def cog_unload(self) -> None:
        self.refresh_owners.cancel()

    @tasks.loop(minutes=OWNERS_REFRESH_MIN)
    async def refresh_owners(self) -> None:
        """People join and leave a team while the bot runs."""
        if self.refresh_owners.current_loop > 0:  # the login just told
            await self.learn_owners()

    async def learn_owners(self) -> None:
        try:
            self.context.owner_ids = owners_of(await self.context.application_info())
        except UNRESOLVED as error:
            log.warning("could not refresh the owners of the application", problem=str(error))

    @admin_.command(name="settings", description="Show and change the settings that apply everywhere")
    @app_commands.check(opens_global)
    async def admin_settings(self, interaction: discord.Interaction) -> None:
        await self._open(interaction, Level.GLOBAL)

    @channel_.command(name="settings", description="Show and change the settings of this channel")
    @app_commands.check(opens_channel)
    async def channel_settings(self, interaction: discord.Interaction) -> None:
        await self._open(interaction, Level.CHANNEL)

    @character_.command(name="settings", description="Show and change the settings of a character in this server")
    @app_commands.describe(character="Which character; the first one if you leave it out")
    @app_commands.autocomplete(character=offer_characters)
    @app_commands.check(opens_character)
    async def character_settings(self, interaction: discord.Interaction, character: str = "") -> None:
        named = chosen(character, (one.name for one in self.context.characters))
        await self._open(interaction, Level.CHARACTER, named)

    async def _open(self, interaction: discord.Interaction, level: Level, character: str = "") -> None:
        await interaction.response.defer(ephemeral=True, thinking=True)
        await self._show(interaction, Address.here(interaction, level, character))

    @commands.Cog.listener()
    async def on_interaction(self, interaction: discord.Interaction) -> None:
        """Every click and form arrives here, also those of dashboards that were opened before a restart."""
        click = read_click(interaction)
        if click is None:
            return
        try:
            if not click.address.is_at(interaction):
                raise RefusedError(board.ELSEWHERE)
            OPENS[click.address.level](interaction)
            await self._handlers[click.action](interaction, click)
        except (app_commands.CheckFailure, ChannelmemError, discord.HTTPException) as error:
            await report(interaction, error)

    async def _show(
        self, interaction: discord.Interaction, address: Address, status: str = "", view: discord.ui.View | None = None
    ) -> None:
        """Redraws the message from fresh values; the interaction has already been acknowledged."""
        whose, in_thread = self._character(address), isinstance(interaction.channel, discord.Thread)
        try:
            embed = await picture(self._policies, self.context.settings, address, whose, in_thread=in_thread)
        except RedisUnavailableError as error:  # what the message shows may no longer be so; defaults would be wrong
            raise RefusedError(f"{status}\n{board.UNREADABLE}".strip()) from error
        await interaction.edit_original_response(
            content=status or None,
            embed=embed,
            view=view or board.home(address),
            allowed_mentions=NO_PINGS,
        )

    async def _home(self, interaction: discord.Interaction, click: Click) -> None:
        await interaction.response.defer()
        await self._show(interaction, click.address)

    async def _configure(self, interaction: discord.Interaction, click: Click) -> None:
        await interaction.response.defer()
        offered = [one for one in self._policies.declared if click.address.level in one.levels]
        await self._show(interaction, click.address, board.PICK, board.settings_menu(click.address, offered))

    async def _choose(self, interaction: discord.Interaction, click: Click) -> None:
        setting = self._setting(click.given, click.address.level)
        if setting.choices:
            await interaction.response.defer()
        elif not self._policies.known:
            raise RefusedError(board.UNREADABLE)
        own = self._policies.overrides(self._place(click.address)).get(setting.name)
        if not setting.choices:
            await interaction.response.send_modal(board.form(click.address, setting, setting.show(own)))
            return
        view = board.choice(click.address, setting, setting.show(own))
        await self._show(interaction, click.address, f"**{setting.label}**: {setting.help}", view)

    async def _close(self, interaction: discord.Interaction, click: Click) -> None:
        await interaction.response.defer()
        with contextlib.suppress(discord.NotFound):  # clicked twice
            await interaction.delete_original_response()

    async def _save(self, interaction: discord.Interaction, click: Click) -> None:
        setting = self._setting(click.setting, click.address.level)
        try:
            value = setting.parse(click.given)
        except ValueError as error:
            await interaction.response.send_message(str(error), ephemeral=True, allowed_mentions=NO_PINGS)
            return
        await interaction.response.defer()
        if loss := await self._loss(click, {setting.name: value}):
            shown = _shown(setting, value)
            asked = board.CONFIRM_LOSS.format(label=setting.label, value=shown, loss=loss, undo=UNDO)
            await self._show(interaction, click.address, asked, board.confirm_loss(click.address, setting, shown))
        else:
            await self._set(interaction, click, setting, value)

    async def _agree(self, interaction: discord.Interaction, click: Click) -> None:
        setting = self._setting(click.setting, click.address.level)
        await interaction.response.defer()
        await self._set(interaction, click, setting, setting.parse(click.given))

    async def _set(self, interaction: discord.Interaction, click: Click, setting: Setting, value: Value | Auto) -> None:
        place = self._place(click.address)
        change = await _saved(self._policies.set(place, setting.name, value, by=interaction.user.id))
        await self._show(interaction, click.address, _said(setting, change, value))

    async def _reset(self, interaction: discord.Interaction, click: Click) -> None:
        await interaction.response.defer()
        loss = await self._loss(click, None)
        asked = board.CONFIRM_RESET + (board.RESET_HIDES.format(loss=loss, undo=UNDO) if loss else "")
        await self._show(interaction, click.address, asked, board.confirm_reset(click.address))

    async def _loss(self, click: Click, values: Mapping[str, Value | Auto] | None) -> Loss:
        try:
            return await self._policies.preview(self._place(click.address), values)
        except RedisUnavailableError as error:
            raise RefusedError(board.UNREADABLE) from error

    async def _confirm(self, interaction: discord.Interaction, click: Click) -> None:
        await interaction.response.defer()
        changes = await _saved(self._policies.reset(self._place(click.address), by=interaction.user.id))
        names = [change.setting for change in changes]
        by_name = ", ".join(one.label for one in self._policies.declared if one.name in names)
        status = board.RESET.format(labels=by_name) if by_name else board.NOTHING_TO_RESET
        await self._show(interaction, click.address, status)

    def _setting(self, name: str, level: Level) -> Setting:
        for setting in self._policies.declared:
            if setting.name == name and level in setting.levels:
                return setting
        raise RefusedError(board.SETTING_GONE)

    def _character(self, address: Address) -> str:
        if address.level is not Level.CHARACTER:
            return ""
        name = address.name_among(self.context.characters)
        if name is None:
            raise RefusedError(board.CHARACTER_GONE)
        return name

    def _place(self, address: Address) -> Place:
        return address.place(self._character(address))


async def _saved(change: Awaitable[T]) -> T:
    try:
        return await change
    except RedisUnavailableError as error:
        raise RefusedError(board.UNSURE) from error


def _shown(setting: Setting, value: Value | Auto) -> str:
    return setting.show(None if isinstance(value, Auto) else value)


def _said(setting: Setting, change: Change | None, value: Value | Auto) -> str:
    if change is None:
        return board.UNCHANGED.format(label=setting.label, value=_shown(setting, value))
    return board.UPDATED.format(label=setting.label, old=setting.show(change.old), new=setting.show(change.new))
