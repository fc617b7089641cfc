"""Addresses: which dashboard a click belongs to, and who may open it.

Nothing about an open dashboard is kept in the process, so it still works after a restart of the bot. What a custom id
says is never trusted: `is_at` compares it with where the click came from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import discord
from discord.ext import commands

from channelmem.llm.prompts import Character
from channelmem.policy.cascade import Level, Place, current

from ..commands import RefusedError, holds
from ..messages.components import digest, given
from ..messages.convert import thread_of

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
