"""A dashboard: who may open it, which one a click belongs to, and how people see it, as an embed with its controls.

Nothing about an open dashboard is kept in the process, so it still works after a restart of the bot. What a custom id
says is never trusted: `is_at` compares it with where the click came from.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import discord
from discord.ext import commands

from channelmem.llm.prompts import Character
from channelmem.policy.cascade import Change, Level, Place, Setting, current, resolve
from channelmem.policy.policies import Policies
from channelmem.settings import Settings

from .commands import RefusedError, clip, digest, given, holds, shorten
from .messages import thread_of

OWNERS_ONLY = "Only the owners of this application can open the global settings."
CHANNEL_MANAGERS_ONLY = "You need the Manage Channels permission here to open the channel settings."
SERVER_MANAGERS_ONLY = "You need the Manage Server permission to open the character settings."
ELSEWHERE = "This dashboard belongs to another place. Open a new one here."
CHARACTER_GONE = "That character is no longer configured. Open a new dashboard."
SETTING_GONE = "That setting no longer exists. Open a new dashboard."

UNREADABLE = "I can't reach my memory right now, so I can't show the settings. Please try again in a minute."
UNSURE = (
    "I can't reach my memory right now, so I don't know whether that was saved. "
    "Open the dashboard again in a minute to check."
)

UPDATED = "✅ {label} updated: {old} → {new}"
UNCHANGED = "{label} is already {value}."
RESET = "✅ Reset to Auto: {labels}"
NOTHING_TO_RESET = "Everything here is already on Auto."
CONFIRM_LOSS = "⚠️ {label} {value} hides {loss}. {undo} Go on?"
CONFIRM_RESET = "⚠️ Reset every setting here to Auto?"
RESET_HIDES = " That hides {loss}. {undo}"
PICK = "Which setting do you want to change?"
THREAD = "This thread follows the settings of its channel. Changes here apply to the whole channel."

LEVELS: Final = (Level.GLOBAL, Level.CHANNEL, Level.CHARACTER)
"""Those that have a dashboard, from wide to narrow."""


class Action(StrEnum):
    HOME = "home"
    CONFIGURE = "configure"
    CHOOSE = "choose"
    """A setting, from the select."""
    SWITCH = "switch"
    """On, off or auto, from the select of one setting."""
    SAVE = "save"
    """The form of one setting."""
    AGREE = "agree"
    """To a value that takes messages away."""
    RESET = "reset"
    CONFIRM = "confirm"
    CLOSE = "close"


_CUSTOM_ID: Final = re.compile(
    rf"settings:(?P<action>{'|'.join(Action)}):(?P<level>{'|'.join(LEVELS)})"
    r":(?P<guild>\d+):(?P<channel>\d+):(?P<character>[0-9a-f]*):(?P<setting>\w*)(?:=(?P<value>\w*))?"
)


@dataclass(frozen=True, slots=True)
class Address:
    level: Level
    guild_id: int = 0
    channel_id: int = 0
    """Where it was opened; in a thread, the channel it belongs to."""
    character: str = ""
    """A digest of its name: a custom id holds 100 characters, and names may be longer."""

    @classmethod
    def here(cls, interaction: discord.Interaction, level: Level, character: str = "") -> Address:
        if level is Level.GLOBAL:
            return cls(level)
        return cls(level, interaction.guild_id or 0, channel_of(interaction), digest(character) if character else "")

    def is_at(self, interaction: discord.Interaction) -> bool:
        """Whether the click came from the place that it is about."""
        if self.level is Level.GLOBAL:
            return True
        return (self.guild_id, self.channel_id) == (interaction.guild_id, channel_of(interaction))

    def custom_id(self, action: Action, setting: str = "", value: str = "") -> str:
        chosen = f"{setting}={value}" if value else setting
        return f"settings:{action}:{self.level}:{self.guild_id}:{self.channel_id}:{self.character}:{chosen}"

    def name_among(self, characters: Sequence[Character]) -> str | None:
        """The character's name; None if it is no longer configured."""
        return next((one.name for one in characters if digest(one.name) == self.character), None)

    def place(self, character: str) -> Place:
        """Where the settings are stored."""
        if self.level is Level.CHARACTER:
            return Place.of_character(self.guild_id, character)
        return Place.channel(self.guild_id, self.channel_id) if self.level is Level.CHANNEL else Place.everywhere()


@dataclass(frozen=True, slots=True)
class Click:
    """A button pressed, an option chosen or a form sent."""

    address: Address
    action: Action
    setting: str
    given: str
    """What was chosen or typed, or what the button agrees to."""


def read_click(interaction: discord.Interaction) -> Click | None:
    """None if it is not about a dashboard."""
    data = dict(interaction.data or {})
    found = _CUSTOM_ID.fullmatch(str(data.get("custom_id", "")))
    if found is None:
        return None
    address = Address(Level(found["level"]), int(found["guild"]), int(found["channel"]), found["character"])
    return Click(address, Action(found["action"]), current(found["setting"]), current(found["value"] or given(data)))


def channel_of(interaction: discord.Interaction) -> int:
    """Threads have no settings of their own."""
    return thread_of(interaction.channel) or interaction.channel_id or 0


# --- access ---


MAINTAINERS = (discord.TeamMemberRole.admin, discord.TeamMemberRole.developer)


def owners_of(application: discord.AppInfo) -> set[int]:
    """The owner, or of a team those who may change the application."""
    team = application.team
    if team is None:
        return {application.owner.id}
    members = {member.id for member in team.members if member.role in MAINTAINERS}
    return members | ({team.owner_id} if team.owner_id else set())


def is_owner(interaction: discord.Interaction) -> bool:
    client = interaction.client
    return isinstance(client, commands.AutoShardedBot) and interaction.user.id in (client.owner_ids or ())


def opens_global(interaction: discord.Interaction) -> bool:
    if is_owner(interaction):
        return True
    raise RefusedError(OWNERS_ONLY)


def _opens(permission: str, refusal: str) -> Callable[[discord.Interaction], bool]:
    def opens(interaction: discord.Interaction) -> bool:
        if holds(interaction, permission) or is_owner(interaction):
            return True
        raise RefusedError(refusal)

    return opens


opens_channel = _opens("manage_channels", CHANNEL_MANAGERS_ONLY)
opens_character = _opens("manage_guild", SERVER_MANAGERS_ONLY)
OPENS = {Level.GLOBAL: opens_global, Level.CHANNEL: opens_channel, Level.CHARACTER: opens_character}


# --- embed ---


TITLE_MAX, FIELD_MAX = 256, 1024
DESCRIPTION_MAX = 3000
"""Less than Discord's 4096: all of an embed may have 6000."""
CHANGES_SHOWN = 5
FOOTER = "Auto inherits: default ← global ← channel ← character"

IN_FORCE = {
    Level.GLOBAL: "In force unless a channel or character says otherwise",
    Level.CHANNEL: "In force here unless a character says otherwise",
    Level.CHARACTER: "In force here",
}


async def picture(
    policies: Policies, settings: Settings, address: Address, character: str, *, in_thread: bool
) -> discord.Embed:
    """Reads what is set at a level, and what is in force there."""
    level = address.level
    levels = LEVELS[: LEVELS.index(level) + 1]  # its own and those it inherits from
    found = await asyncio.gather(*(policies.read(replace(address, level=one).place(character)) for one in levels))
    said = dict(zip(levels, found, strict=True))
    shown = {one.name: one for one in policies.declared if level in one.levels}
    lines, in_force = [_subject(address), *([THREAD] if in_thread and level is not Level.GLOBAL else []), ""], []
    for setting in shown.values():
        values = {one: of.values[setting.name] for one, of in said.items() if setting.name in of.values}
        effective = resolve(setting, setting.default(settings), values)
        own = f"**{setting.show(values[level])}** ← {level} override" if level in values else ""
        lines.append(f"{setting.label}: {own or f'Auto ({effective.source}: {effective.text})'}")
        why = f", {effective.why}" if effective.why else ""
        in_force.append(f"{setting.label}: {effective.text} ({effective.source}{why})")
    titles = {Level.GLOBAL: "Global settings", Level.CHANNEL: "Channel settings"}
    title = titles.get(level) or shorten(f"Settings of {character}", TITLE_MAX)
    embed = discord.Embed(title=title, description=clip(lines, DESCRIPTION_MAX))
    embed.add_field(name=IN_FORCE[level], value=clip(in_force, FIELD_MAX), inline=False)
    known = [one for one in said[level].changes if one.setting in shown][:CHANGES_SHOWN]
    changes = clip((_change(one, shown[one.setting]) for one in known), FIELD_MAX)
    embed.add_field(name="Last changes", value=changes or "None yet", inline=False)
    return embed.set_footer(text=FOOTER)


def _subject(address: Address) -> str:
    if address.level is Level.GLOBAL:
        return "All servers"
    where = f"<#{address.channel_id}>"
    return where if address.level is Level.CHANNEL else f"In this server, shown for {where}"


def _change(change: Change, setting: Setting) -> str:
    who = f"<@{change.by}>" if change.by else "the operator"
    return f"<t:{int(change.at)}:R> {who}: {setting.label} {setting.show(change.old)} → {setting.show(change.new)}"


# --- controls ---


OPTIONS_MAX, SELECTS_MAX = 25, 4
LABEL_MAX, OPTION_DESCRIPTION_MAX, MODAL_TITLE_MAX = 45, 100, 45
INPUT = "value"

Style = discord.ButtonStyle


def home(address: Address) -> discord.ui.View:
    return _layout(
        _button("Configure", address.custom_id(Action.CONFIGURE), Style.primary),
        _button("Reset to Auto", address.custom_id(Action.RESET), Style.danger),
        _button("Close", address.custom_id(Action.CLOSE)),
    )


def settings_menu(address: Address, settings: Sequence[Setting]) -> discord.ui.View:
    """One select, or several where there are more settings than one can offer."""
    chunks = [settings[at : at + OPTIONS_MAX] for at in range(0, len(settings), OPTIONS_MAX)][:SELECTS_MAX]
    selects = [
        _select(
            "Choose a setting",
            address.custom_id(Action.CHOOSE, str(number)),
            [_option(one.label, one.name, one.help) for one in chunk],
        )
        for number, chunk in enumerate(chunks)
    ]
    return _layout(*selects, *_back(address))


def choice(address: Address, setting: Setting, current: str) -> discord.ui.View:
    """For a setting with a short list of values; the one that is set is marked."""
    options = [_option(one.capitalize(), one, default=one == current.casefold()) for one in setting.choices]
    select = _select(setting.label, address.custom_id(Action.SWITCH, setting.name), options)
    return _layout(select, *_back(address))


def confirm_reset(address: Address) -> discord.ui.View:
    return _layout(_button("Yes, reset", address.custom_id(Action.CONFIRM), Style.danger), *_back(address))


def confirm_loss(address: Address, setting: Setting, value: str) -> discord.ui.View:
    agree = address.custom_id(Action.AGREE, setting.name, value.lower())
    return _layout(_button("Yes, hide them", agree, Style.danger), *_back(address))


def form(address: Address, setting: Setting, current: str) -> discord.ui.Modal:
    """For a value that is typed; the one that is set is filled in."""
    modal = discord.ui.Modal(
        title=shorten(setting.label, MODAL_TITLE_MAX), custom_id=address.custom_id(Action.SAVE, setting.name)
    )
    # Not required: Discord would refuse an empty value without saying what is allowed.
    typed: discord.ui.TextInput[discord.ui.Modal] = discord.ui.TextInput(
        custom_id=INPUT, default=current, required=False, max_length=100
    )
    text = shorten(setting.allowed[:1].upper() + setting.allowed[1:], OPTION_DESCRIPTION_MAX)
    modal.add_item(discord.ui.Label(text=shorten(setting.label, LABEL_MAX), description=text, component=typed))
    modal.stop()
    return modal


def _layout(*items: discord.ui.Item[discord.ui.View]) -> discord.ui.View:
    view = discord.ui.View(timeout=None)
    for item in items:
        view.add_item(item)
    view.stop()
    return view


def _back(address: Address) -> tuple[discord.ui.Button[discord.ui.View], ...]:
    home_, close = address.custom_id(Action.HOME), address.custom_id(Action.CLOSE)
    return _button("Back", home_), _button("Close", close)


def _button(label: str, custom_id: str, style: Style = Style.secondary) -> discord.ui.Button[discord.ui.View]:
    return discord.ui.Button(label=label, custom_id=custom_id, style=style)


def _select(
    placeholder: str, custom_id: str, options: list[discord.SelectOption]
) -> discord.ui.Select[discord.ui.View]:
    return discord.ui.Select(placeholder=shorten(placeholder, 150), custom_id=custom_id, options=options)


def _option(label: str, value: str, help_: str = "", *, default: bool = False) -> discord.SelectOption:
    description = shorten(help_, OPTION_DESCRIPTION_MAX) or None
    return discord.SelectOption(label=shorten(label, 100), value=value, description=description, default=default)
