"""What happens when somebody uses a dashboard: the same message is refreshed, or a refusal says why not.

Everything is acknowledged before Redis is asked, because Discord waits three seconds only. A form can't be
acknowledged and then opened: its current value comes from the process's own copy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import discord

from channelmem.errors import RedisUnavailableError
from channelmem.policy.cascade import UNDO, Auto, Change, Level, Loss, Place, Setting, Value

from ..commands import NO_PINGS, RefusedError
from ..context import BotContext
from . import address as texts
from . import board as controls
from .address import OPENS, Action, Address, Click
from .board import Dashboard, picture, read

T = TypeVar("T")
Handler = Callable[[discord.Interaction, Click], Awaitable[None]]


class Clicks:
    def __init__(self, context: BotContext) -> None:
        self._context, self._policies = context, context.memory.policies
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

    async def handle(self, interaction: discord.Interaction, click: Click) -> None:
        """Raises RefusedError with what the person must be told."""
        if not click.address.is_at(interaction):
            raise RefusedError(texts.ELSEWHERE)
        OPENS[click.address.level](interaction)
        await self._handlers[click.action](interaction, click)

    async def show(
        self, interaction: discord.Interaction, address: Address, status: str = "", view: discord.ui.View | None = None
    ) -> None:
        """Reads everything anew and puts it into the message; the interaction is acknowledged already."""
        try:
            dashboard = await self._read(address)
        except RedisUnavailableError as error:  # what the message shows may no longer be so; defaults would be wrong
            raise RefusedError(f"{status}\n{texts.UNREADABLE}".strip()) from error
        await interaction.edit_original_response(
            content=status or None,
            embed=picture(dashboard, in_thread=isinstance(interaction.channel, discord.Thread)),
            view=view or controls.home(address),
            allowed_mentions=NO_PINGS,
        )

    async def _read(self, address: Address) -> Dashboard:
        return await read(self._policies, self._context.settings, address, self._character(address))

    # --- looking ---

    async def _home(self, interaction: discord.Interaction, click: Click) -> None:
        await interaction.response.defer()
        await self.show(interaction, click.address)

    async def _configure(self, interaction: discord.Interaction, click: Click) -> None:
        await interaction.response.defer()
        offered = [one for one in self._policies.declared if click.address.level in one.levels]
        await self.show(interaction, click.address, texts.PICK, controls.settings_menu(click.address, offered))

    async def _choose(self, interaction: discord.Interaction, click: Click) -> None:
        setting = self._setting(click.given, click.address.level)
        if setting.choices:
            await interaction.response.defer()
        elif not self._policies.known:
            raise RefusedError(texts.UNREADABLE)
        own = self._policies.overrides(self._place(click.address)).get(setting.name)
        if not setting.choices:
            await interaction.response.send_modal(controls.form(click.address, setting, setting.show(own)))
            return
        view = controls.choice(click.address, setting, setting.show(own))
        await self.show(interaction, click.address, f"**{setting.label}**: {setting.help}", view)

    async def _close(self, interaction: discord.Interaction, click: Click) -> None:
        await interaction.response.defer()
        with contextlib.suppress(discord.NotFound):  # clicked twice
            await interaction.delete_original_response()

    # --- changing ---

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
            asked = texts.CONFIRM_LOSS.format(label=setting.label, value=shown, loss=loss, undo=UNDO)
            await self.show(interaction, click.address, asked, controls.confirm_loss(click.address, setting, shown))
        else:
            await self._set(interaction, click, setting, value)

    async def _agree(self, interaction: discord.Interaction, click: Click) -> None:
        setting = self._setting(click.setting, click.address.level)
        await interaction.response.defer()
        await self._set(interaction, click, setting, setting.parse(click.given))

    async def _set(self, interaction: discord.Interaction, click: Click, setting: Setting, value: Value | Auto) -> None:
        place = self._place(click.address)
        change = await _saved(self._policies.set(place, setting.name, value, by=interaction.user.id))
        await self.show(interaction, click.address, _said(setting, change, value))

    async def _reset(self, interaction: discord.Interaction, click: Click) -> None:
        await interaction.response.defer()
        loss = await self._loss(click, None)
        asked = texts.CONFIRM_RESET + (texts.RESET_HIDES.format(loss=loss, undo=UNDO) if loss else "")
        await self.show(interaction, click.address, asked, controls.confirm_reset(click.address))

    async def _loss(self, click: Click, values: Mapping[str, Value | Auto] | None) -> Loss:
        try:
            return await self._policies.preview(self._place(click.address), values)
        except RedisUnavailableError as error:
            raise RefusedError(texts.UNREADABLE) from error

    async def _confirm(self, interaction: discord.Interaction, click: Click) -> None:
        await interaction.response.defer()
        changes = await _saved(self._policies.reset(self._place(click.address), by=interaction.user.id))
        names = [change.setting for change in changes]
        by_name = ", ".join(one.label for one in self._policies.declared if one.name in names)
        status = texts.RESET.format(labels=by_name) if by_name else texts.NOTHING_TO_RESET
        await self.show(interaction, click.address, status)

    # --- what a click is about ---

    def _setting(self, name: str, level: Level) -> Setting:
        for setting in self._policies.declared:
            if setting.name == name and level in setting.levels:
                return setting
        raise RefusedError(texts.SETTING_GONE)

    def _character(self, address: Address) -> str:
        if address.level is not Level.CHARACTER:
            return ""
        name = address.name_among(self._context.characters)
        if name is None:
            raise RefusedError(texts.CHARACTER_GONE)
        return name

    def _place(self, address: Address) -> Place:
        return address.place(self._character(address))


async def _saved(change: Awaitable[T]) -> T:
    try:
        return await change
    except RedisUnavailableError as error:
        raise RefusedError(texts.UNSURE) from error


def _shown(setting: Setting, value: Value | Auto) -> str:
    return setting.show(None if isinstance(value, Auto) else value)


def _said(setting: Setting, change: Change | None, value: Value | Auto) -> str:
    if change is None:
        return texts.UNCHANGED.format(label=setting.label, value=_shown(setting, value))
    return texts.UPDATED.format(label=setting.label, old=setting.show(change.old), new=setting.show(change.new))
